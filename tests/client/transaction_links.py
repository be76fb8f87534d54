"""A broker for tests of transactions: stores half messages, and notes the decisions."""

from collections.abc import Mapping

from orbitmq.client.producer.transactions import SendHalf, Transactions, TransactionState
from orbitmq.client.user_code import UserCode
from orbitmq.errors import ConnectFailed, ConnectionClosed
from orbitmq.message.host import Host
from orbitmq.message.ids import offset_id
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from orbitmq.net.connection import Connection, Side
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer
from orbitmq.wire.headers.transaction import EndTransaction

STORE_HOST = Host.parse("10.0.0.7:10911")
QUEUE = MessageQueue("orders", "broker-a", 3)


class FakeConnection(Connection):
    """A connection that only keeps the decisions sent over it."""

    def __init__(self) -> None:
        super().__init__(side=Side.CLIENT)
        self.peer = "10.0.0.7:10911"
        self.ends: list[EndTransaction] = []
        self.remarks: list[str | None] = []
        self.is_broken = False

    def oneway(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
        remark: str | None = None,
    ) -> None:
        if self.is_broken:
            raise ConnectionClosed("the peer closed it", address=self.peer)
        assert isinstance(header, EndTransaction)
        self.ends.append(header)
        self.remarks.append(remark)

    @property
    def decisions(self) -> list[TransactionState]:
        return [
            state
            for end in self.ends
            for state in TransactionState
            if state.wire == end.commit_or_rollback
        ]


class FakeBroker:
    """Stores half messages, perhaps less safely than asked."""

    def __init__(self, status: SendStatus = SendStatus.SEND_OK) -> None:
        self.connection = FakeConnection()
        self.status = status
        self.marks: list[Mapping[str, str]] = []
        self.is_reachable = True

    async def connect(self, queue: MessageQueue) -> FakeConnection:
        assert queue == QUEUE
        if not self.is_reachable:
            raise ConnectFailed("no connection", address=self.connection.peer)
        return self.connection

    def half(self, message_id: str = "7F01") -> SendHalf:
        async def send(marks: Mapping[str, str]) -> SendReceipt:
            self.marks.append(marks)
            return SendReceipt(
                status=self.status,
                message_id=message_id,
                offset_message_id=offset_id(STORE_HOST, 8888),
                queue=QUEUE,
                queue_offset=5,
                transaction_id="T1",
            )

        return send

    def transactions(self, **options: object) -> Transactions:
        return Transactions(
            group="billing",
            connect=self.connect,
            user_code=UserCode(InlineWorkers()),
            **options,  # type: ignore[arg-type]
        )
