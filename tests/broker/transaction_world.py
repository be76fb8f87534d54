"""Producers with transactions, a broker for them, and its restarts: by a clock moved by hand."""

from dataclasses import dataclass
from typing import Any, Self

from orbitmq.message import flags
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from orbitmq.message.record_view import RecordView
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.transaction import CheckTransactionState, EndTransaction
from orbitmq.wire.session import Response
from tests.broker.fake_clients import Client
from tests.broker.send_world import SendWorld, header

COMMIT = flags.TRANSACTION_COMMIT
ROLLBACK = flags.TRANSACTION_ROLLBACK
UNKNOWN = flags.TRANSACTION_NONE
GROUP = "payments"


@dataclass(frozen=True)
class Half:
    """Where a half message is."""

    offset: int
    commit_log_offset: int


class Transactions(SendWorld):
    """A broker with producers that send half messages and answer checks."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.handlers_table = {
            **self.handlers.table(),
            **self.transaction_handlers.table(),
        }

    @classmethod
    def started(cls, **settings: Any) -> Self:
        world = cls(**settings)
        world.halves.start()
        return world

    def restarted(self, *, saved: bool = True, **settings: Any) -> "Transactions":
        """Return a broker on the same disk, with the offsets that this one has saved or not."""
        again = Transactions(disk=self.disk, clock=self.clock, **settings)
        if saved:
            again.offsets.load_json(self.offsets.to_json())
        again.halves.start()
        return again

    def stopped_and_started(self, **settings: Any) -> "Transactions":
        """Return a broker on the same disk, after a clean stop of this one."""
        self.transaction_checks.stop()
        self.halves.stop()
        self.take_turns()
        self.flush()
        self.halves.save()
        self.store.close()
        return self.restarted(**settings)

    def crashed_and_started(self, **settings: Any) -> "Transactions":
        """Return a broker on what reached the disk; the last tick has saved the offsets."""
        assert isinstance(self.disk, SimulatedDisk)
        self.disk.crash()
        return self.restarted(**settings)

    # What clients do

    def producer(self, name: str = "p1", group: str = GROUP) -> Client:
        """Return a producer that has joined a group."""
        client = Client(name)
        self.members.join_producers(group, client.member())
        return client

    def answer(self, asked: Header, body: bytes = b"", client: Client | None = None) -> Response:
        """Ask the broker, and return its answer after all turns."""
        client = client or Client("asker")
        before = len(client.answers)
        now = client.ask(self.handlers_table, asked, body)
        self.take_turns()
        return client.answers[before][1] if now is None else now

    def half(
        self, name: str = "U1", *, topic: str = "orders", queue_id: int = 0, **more: str
    ) -> Half:
        """Send a half message whose body is its unique key; its group is in ``more``, if given."""
        found = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": GROUP, **more}
        asked = header(
            topic,
            properties=found,
            queue_id=queue_id,
            sys_flag=flags.TRANSACTION_PREPARED,
            born_timestamp=self.clock.now,
        )
        answer = self.answer(asked, name.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert answer.fields is not None
        assert answer.fields["queueId"] == str(queue_id)
        _, commit_log_offset = parse_offset_id(answer.fields["msgId"])
        return Half(int(answer.fields["queueOffset"]), commit_log_offset)

    def end(self, half: Half, decision: int, client: Client | None = None, **more: Any) -> Response:
        """End a transaction, and return the answer."""
        values: dict[str, Any] = {
            "producer_group": GROUP,
            "tran_state_table_offset": half.offset,
            "commit_log_offset": half.commit_log_offset,
            "commit_or_rollback": decision,
            "msg_id": "U1",
        }
        return self.answer(EndTransaction(**{**values, **more}), client=client)

    def reply(self, client: Client, decision: int) -> Response:
        """Have a producer answer the last check that it received."""
        asked = checks_of(client)[-1]
        half = Half(asked.tran_state_table_offset, asked.commit_log_offset)
        return self.end(half, decision, client, from_transaction_check=True)

    # Time

    def flush(self) -> None:
        self.store.when_durable(self.store.log.end, lambda _: None)
        self.store.flush_soon()

    def tick(self, milliseconds: int = 0) -> None:
        self.clock.now += milliseconds
        self.halves.tick()
        self.transaction_checks.tick(self.clock.now)
        self.take_turns()

    def round(self, after_ms: int = 30_000) -> None:
        """Let time pass, and do a round of checks."""
        self.clock.now += after_ms
        self.transaction_checks.begin_round()
        self.tick()

    # What is there

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.stored(topic, queue_id)]

    def halves_stored(self) -> list[RecordView]:
        queue = self.halves.queue
        assert queue is not None
        found = [self.store.record(entry.commit_log_offset) for _, entry in queue.iterate(0)]
        return [record for record in found if record is not None]

    def op_bodies(self) -> list[bytes]:
        return self.bodies(OP_HALF_TOPIC)

    def saved_offsets(self) -> tuple[int, int]:
        """Return the half and the op offset that a start would begin with."""
        query = self.offsets.query
        return query(TRANSACTION_GROUP, HALF_TOPIC, 0), query(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)


def checks_of(client: Client) -> list[CheckTransactionState]:
    """Return the checks that a producer received."""
    return [header for header, _ in client.received if isinstance(header, CheckTransactionState)]
