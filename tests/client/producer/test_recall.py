"""Recalls of delayed messages."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from orbitmq import Message, Producer, embedded
from orbitmq.client.producer.recall import recall
from orbitmq.errors import BrokerError, InvalidInput, SendFailed
from orbitmq.message.ids import RecallHandle, recall_handle
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.connection import Connection
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.send import RecallMessage
from tests.broker.exchanges import pulled
from tests.interop.java_server import PATIENT
from tests.interop.waiting import until

FIRST = MessageQueue("orders", "broker-a", 0)
HANDLE = recall_handle("orders", "broker-a", 1_700_000_000_000, "7F01")


class FakeConnection:
    peer = "10.0.0.7:10911"

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[Header] = []

    def start_request(self, header: Header, *, timeout_ms: int) -> asyncio.Future[Frame]:
        self.asked.append(header)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        fields: dict[str, str | None] = {"msgId": "7F01"}
        answer.set_result(
            Frame(self.code, 1, 1, 0, "JAVA", "too late", fields, b"", HeaderEncoding.JSON)
        )
        return answer


def recalled(
    topic: str, handle: str, code: int = ResponseCode.SUCCESS
) -> tuple[str, FakeConnection]:
    connection = FakeConnection(code)

    async def connect(read: RecallHandle) -> Connection:
        assert read.broker_name == "broker-a"
        return cast("Connection", connection)

    async def main(_clock: VirtualClock) -> str:
        return await recall(topic, handle, group="billing", connect=connect, timeout_ms=3_000)

    return run_virtual(main), connection


def test_a_message_is_recalled_at_the_broker_that_has_it() -> None:
    message_id, connection = recalled("orders", HANDLE)
    assert message_id == "7F01"
    assert connection.asked == [
        RecallMessage(
            producer_group="billing",
            topic="orders",
            recall_handle=HANDLE,
            target_broker="broker-a",
        )
    ]


def test_a_refused_recall_is_an_error() -> None:
    with pytest.raises(BrokerError, match="too late") as raised:
        recalled("orders", HANDLE, ResponseCode.ILLEGAL_OPERATION)
    assert raised.value.code == ResponseCode.ILLEGAL_OPERATION


@pytest.mark.parametrize(
    ("topic", "handle", "why"),
    [
        ("orders", "nonsense", "can't be read"),
        ("%RETRY%billing", HANDLE, "retry or dead letter topic"),
        ("%DLQ%billing", HANDLE, "retry or dead letter topic"),
    ],
)
def test_what_can_not_be_recalled_is_refused_without_a_request(
    topic: str, handle: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        recalled(topic, handle)


def test_our_broker_delivers_at_the_time_and_not_what_was_recalled() -> None:
    async def main() -> tuple[list[bytes], str, list[str | None]]:
        settings = {"timerPrecisionMs": "100"}
        async with (
            embedded.EmbeddedCluster(settings=settings) as cluster,
            Producer("senders", nameserver=cluster.nameserver) as producer,
        ):
            soon = timedelta(milliseconds=1_500)
            at = datetime.now(UTC) + 2 * soon
            receipts = [
                await producer.send(Message("orders", b"recalled", delay=soon), queue=FIRST),
                await producer.send(Message("orders", b"delayed", delay=soon), queue=FIRST),
                await producer.send(Message("orders", b"timed", deliver_at=at), queue=FIRST),
                await producer.send(
                    Message("orders", b"past", deliver_at=at - 9 * soon), queue=FIRST
                ),
            ]
            handles = [receipt.recall_handle for receipt in receipts]
            assert handles[0] is not None
            recalled_id = await producer.recall("orders", handles[0])
            assert recalled_id == receipts[0].message_id
            found = await asyncio.to_thread(_read_three, cluster.brokers[0])
            with pytest.raises(BrokerError, match="timestamp invalid"):
                await producer.recall("orders", handles[0])
            with pytest.raises(SendFailed, match="timer message illegal"):
                await producer.send(Message("orders", b"never", delay=timedelta(days=4)))
            return found, recalled_id, handles

    found, _, handles = asyncio.run(main())
    assert found == [b"past", b"delayed", b"timed"]
    assert [handle is None for handle in handles] == [False, False, False, True]


def _read_three(broker: str) -> list[bytes]:
    with BlockingConnection(Address.parse(broker), settings=PATIENT) as connection:
        return until(
            lambda: (
                bodies
                if len(bodies := [one.body for one in pulled(connection, "orders")]) >= 3
                else None
            ),
            what="three messages",
        )
