"""Recalls of delayed messages."""

import asyncio
from typing import cast

import pytest

from orbitmq.client.producer.recall import recall
from orbitmq.errors import BrokerError, InvalidInput
from orbitmq.message.ids import RecallHandle, recall_handle
from orbitmq.net.connection import Connection
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.send import RecallMessage

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
