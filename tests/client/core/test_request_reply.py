"""Requests and their replies: matched by correlation id, within one time, never left waiting."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping

import pytest
from msgspec.structs import replace

from orbitmq.client.core.request_reply import Requests, read_reply, reply_marks, reply_to
from orbitmq.errors import (
    BackPressure,
    ConnectionClosed,
    InvalidInput,
    NoReply,
    SendFailed,
    TooManyRequests,
)
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message import properties
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus, StoredMessage
from orbitmq.randomness import SeededRandomness
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ReplyMessage
from tests.client import frames

CLIENT = "10.0.0.9@4711#1"
Answer = Callable[[Mapping[str, str]], Awaitable[None]]


def receipt() -> SendReceipt:
    return SendReceipt(
        status=SendStatus.SEND_OK,
        message_id="7F01",
        offset_message_id="0" * 32,
        queue=MessageQueue("orders", "broker-a", 0),
        queue_offset=0,
    )


def pushed(correlation_id: str, body: bytes = b"done", **changes: object) -> Frame:
    """Return a reply as a broker pushes it."""
    told = properties.encode(
        {
            properties.CORRELATION_ID: correlation_id,
            properties.MESSAGE_TYPE: "reply",
            properties.REPLY_TO_CLIENT: CLIENT,
        }
    ).decode()
    fields: dict[str, object] = {
        "producer_group": "responders",
        "topic": "DefaultCluster_REPLY_TOPIC",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 7,
        "flag": 3,
        "properties": told,
        "born_host": "10.0.0.8:50000",
        "store_host": "10.0.0.7:10911",
        "store_timestamp": 8,
    }
    header = ReplyMessage(**(fields | changes))  # type: ignore[arg-type]
    return frames.request(header, body)


class Party:
    """A client that requests, on a network where replies take half a second."""

    def __init__(self, clock: VirtualClock, **options: int) -> None:
        self.introduced: list[str] = []
        self.marks: list[Mapping[str, str]] = []
        self.timeouts: list[int] = []
        self.requests = Requests(
            client_id=CLIENT,
            clock=clock,
            randomness=SeededRandomness(1),
            announce=self.introduce,
            **options,
        )
        self.introduction_s = 0.0
        self.send_s = 0.1
        self.reply_s: float | None = 0.5
        self.error: Exception | None = None

    async def introduce(self, topic: str) -> None:
        self.introduced.append(topic)
        await asyncio.sleep(self.introduction_s)

    async def send(self, marks: Mapping[str, str], timeout_ms: int) -> SendReceipt:
        self.marks.append(marks)
        self.timeouts.append(timeout_ms)
        if self.reply_s is not None:
            reply = pushed(marks[properties.CORRELATION_ID])
            asyncio.get_running_loop().call_later(self.reply_s, self.requests.take_reply, reply)
        await asyncio.sleep(self.send_s)
        if self.error is not None:
            raise self.error
        return receipt()

    async def request(self, timeout_ms: int = 3_000) -> StoredMessage:
        return await self.requests.request("orders", self.send, timeout_ms=timeout_ms)


def test_a_reply_comes_back_to_its_request() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        reply = await party.request()
        assert reply.body == b"done"
        assert clock.monotonic_ms() == 500
        assert party.introduced == ["orders"]
        (marks,) = party.marks
        assert marks == {
            "CORRELATION_ID": reply.properties["CORRELATION_ID"],
            "REPLY_TO_CLIENT": CLIENT,
            "TTL": "3000",
        }
        assert party.requests.waiting == 0

    run_virtual(main)


def test_many_requests_get_each_their_own_reply() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        replies = await asyncio.gather(*(party.request() for _ in range(100)))
        ids = [marks["CORRELATION_ID"] for marks in party.marks]
        assert [reply.properties["CORRELATION_ID"] for reply in replies] == ids
        assert len(set(ids)) == 100

    run_virtual(main)


def test_a_reply_before_the_receipt_is_returned_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.send_s, party.reply_s = 2.0, 0.25
        await party.request()
        assert clock.monotonic_ms() == 250

    run_virtual(main)


def test_a_request_that_can_not_be_sent_fails_with_the_reason() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.reply_s, party.error = None, SendFailed("no", topic="orders", send_id="7F01")
        with pytest.raises(SendFailed, match="no"):
            await party.request()
        assert (clock.monotonic_ms(), party.requests.waiting) == (100, 0)

    run_virtual(main)


@pytest.mark.parametrize(("send_s", "sent"), [(0.1, "was stored"), (60.0, "may have been stored")])
def test_no_reply_in_time_is_an_error_that_says_whether_it_was_sent(
    send_s: float, sent: str
) -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.send_s, party.reply_s = send_s, None
        with pytest.raises(NoReply, match=sent) as raised:
            await party.request(2_000)
        assert clock.monotonic_ms() == 2_000
        assert (raised.value.code, raised.value.timeout_ms) == (10006, 2_000)
        assert isinstance(raised.value, TimeoutError)

    run_virtual(main)


def test_the_time_is_for_everything_together() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.introduction_s, party.reply_s = 0.5, None
        with pytest.raises(NoReply):
            await party.request(2_000)
        assert party.timeouts == [1_500]
        assert clock.monotonic_ms() == 2_000

    run_virtual(main)


def test_a_broker_that_does_not_greet_back_takes_half_the_time_at_most() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.introduction_s = 60.0
        await party.request(2_000)
        assert party.timeouts == [1_000]
        assert clock.monotonic_ms() == 1_500

    run_virtual(main)


def test_a_send_without_room_says_that_nothing_was_sent() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.error = BackPressure(
            "no room", topic="orders", send_id="7F01", timeout_ms=1, spent=TimeSpent()
        )
        with pytest.raises(BackPressure) as raised:
            await party.request()
        assert not raised.value.may_be_stored

    run_virtual(main)


def test_a_late_reply_is_counted_and_dropped() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.reply_s = 5.0
        with pytest.raises(NoReply):
            await party.request(2_000)
        await clock.sleep(10)
        assert party.requests.late == 1
        answer = party.requests.take_reply(pushed("nobody"))
        assert (answer.code, party.requests.late) == (ResponseCode.SUCCESS, 2)

    run_virtual(main)


def test_a_request_that_is_cancelled_ends_its_send() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.send_s = 60.0
        asking = asyncio.create_task(party.request(60_000))
        await clock.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert party.requests.waiting == 0
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    run_virtual(main)


def test_waiting_requests_are_limited() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock, waiting_max=2)
        asking = [asyncio.create_task(party.request()) for _ in range(2)]
        await clock.sleep(0.2)
        with pytest.raises(TooManyRequests, match="2 requests are waiting"):
            await party.request()
        await asyncio.gather(*asking)

    run_virtual(main)


def test_a_close_fails_what_waits() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        party.reply_s = None
        asking = asyncio.create_task(party.request())
        await clock.sleep(0.2)
        party.requests.close(ConnectionClosed("the client was closed"))
        with pytest.raises(ConnectionClosed, match="the client was closed"):
            await asking

    run_virtual(main)


# What a broker pushes


def test_a_pushed_reply_is_read_whole() -> None:
    reply = read_reply(pushed("c-1", zlib.compress(b"done"), sys_flag=1), 99)
    assert (reply.body, reply.topic, reply.flag) == (b"done", "DefaultCluster_REPLY_TOPIC", 3)
    assert (str(reply.born_host), str(reply.store_host)) == ("10.0.0.8:50000", "10.0.0.7:10911")
    assert reply.properties["ARRIVE_TIME"] == "99"
    assert (reply.born_timestamp_ms, reply.store_timestamp_ms) == (7, 8)


def test_an_address_that_can_not_be_read_is_no_fault() -> None:
    assert read_reply(pushed("c-1", born_host="broker-a:50000"), 0).born_host.port == 0


def test_a_reply_that_can_not_be_read_is_answered_so() -> None:
    async def main(clock: VirtualClock) -> None:
        party = Party(clock)
        answer = party.requests.take_reply(pushed("c-1", b"not zlib", sys_flag=1))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "process reply message fail"

    run_virtual(main)


# How one is answered


def a_request(**changes: str) -> StoredMessage:
    told = {
        "CORRELATION_ID": "c-1",
        "REPLY_TO_CLIENT": CLIENT,
        "TTL": "3000",
        "CLUSTER": "DefaultCluster",
    }
    told = {name: value for name, value in (told | changes).items() if value}
    return replace(read_reply(pushed("c-1"), 0), properties=told)


def test_a_reply_goes_to_the_topic_of_the_cluster() -> None:
    asked = a_request()
    reply = reply_to(asked, b"done")
    assert (reply.topic, reply.body) == ("DefaultCluster_REPLY_TOPIC", b"done")
    assert reply_marks(asked) == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "c-1",
        "REPLY_TO_CLIENT": CLIENT,
        "TTL": "3000",
    }


@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_what_is_no_request_can_not_be_replied_to(missing: str) -> None:
    with pytest.raises(InvalidInput, match=missing):
        reply_to(a_request(**{missing: ""}), b"done")
