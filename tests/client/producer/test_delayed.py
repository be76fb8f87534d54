"""Levels that stand for delays, and messages called back."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from orbitmq.client.producer.delayed import DELAYS, delay_level, recall
from orbitmq.client.producer.sending.receipts import OldBrokerWarning
from orbitmq.errors import BrokerError, InvalidInput
from orbitmq.message.ids import RecallHandle, recall_handle
from orbitmq.message.model import Message
from orbitmq.store.settings import StoreSettings, delay_levels
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.send import RecallMessage

HANDLE = recall_handle("orders", "broker-a", 1_700_000_000_000, "7F01")


def test_levels_are_those_of_java() -> None:
    said = StoreSettings().message_delay_level
    assert said == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert [*DELAYS] == [timedelta(milliseconds=waits) for waits in delay_levels(said)]


@pytest.mark.parametrize(
    ("seconds", "level"), [(0, 0), (0.001, 1), (1, 1), (1.001, 2), (600, 14), (601, 15), (7200, 18)]
)
def test_a_level_never_waits_too_short(seconds: float, level: int) -> None:
    assert delay_level(timedelta(seconds=seconds)) == level


@pytest.mark.parametrize("seconds", [-1, 7201])
def test_no_level_stands_for_other_delays(seconds: int) -> None:
    with pytest.raises(InvalidInput, match="no level waits"):
        delay_level(timedelta(seconds=seconds))


def test_of_a_broker_without_timers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told, later = OldBrokerWarning(), datetime(2026, 11, 17, tzinfo=UTC)
    told.check(Message("orders", b"1 pizza", delay_level=3), "10.0.0.7:10911", 407)
    assert caplog.messages == []
    told.check(Message("orders", b"1 pizza", delay=timedelta(hours=1)), "10.0.0.7:10911", 407)
    told.check(Message("orders", b"1 pizza", deliver_at=later), "10.0.0.7:10911", 407)
    told.check(Message("orders", b"1 pizza", deliver_at=later), "10.0.0.8:10911", 407)
    assert [text.partition(",")[0] for text in caplog.messages] == [
        "10.0.0.7:10911 is of release 4.9.7",
        "10.0.0.8:10911 is of release 4.9.7",
    ]


class FakeLink:
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


def call_back(topic: str, handle: str, code: int = ResponseCode.SUCCESS) -> tuple[str, FakeLink]:
    link = FakeLink(code)

    async def connect(read: RecallHandle) -> FakeLink:
        assert read.broker_name == "broker-a"
        return link

    async def main(_clock: VirtualClock) -> str:
        return await recall(topic, handle, group="billing", connect=connect, timeout_ms=3_000)

    return run_virtual(main), link


def test_a_message_is_called_back_at_the_broker_that_holds_it() -> None:
    message_id, link = call_back("orders", HANDLE)
    assert message_id == "7F01"
    assert link.asked == [
        RecallMessage(
            producer_group="billing",
            topic="orders",
            recall_handle=HANDLE,
            target_broker="broker-a",
        )
    ]


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(BrokerError, match="too late") as raised:
        call_back("orders", HANDLE, ResponseCode.ILLEGAL_OPERATION)
    assert raised.value.code == ResponseCode.ILLEGAL_OPERATION


@pytest.mark.parametrize(
    ("topic", "handle", "why"),
    [
        ("orders", "nonsense", "can't be read"),
        ("%RETRY%billing", HANDLE, "retries or dead letters"),
        ("%DLQ%billing", HANDLE, "retries or dead letters"),
    ],
)
def test_what_can_not_be_called_back_is_refused_here(topic: str, handle: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        call_back(topic, handle)
