"""Which requests a fault strikes, and how often."""

import pytest

from orbitmq.errors import InvalidInput
from orbitmq.testing.broker.faults import (
    CutOff,
    DiskFull,
    Fault,
    Faults,
    Lost,
    Requests,
    Unreachable,
    codes_of,
)
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import GetMaxOffset
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Session


def request(header: Header) -> Frame:
    _, head = Session[None]().request(header, b"", waiter=None, now=0, timeout=3)
    (frame,) = Session[None]().receive(head)
    return frame


def a_send(topic: str) -> Frame:
    return request(
        SendMessageV2(
            producer_group="shop",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
        )
    )


def a_fault(codes: frozenset[int], topic: str | None = None, times: int | None = None) -> Fault:
    return Fault(Lost(), codes, topic=topic, times=times, on_end=lambda _fault: None)


@pytest.mark.parametrize(
    ("requests", "codes"),
    [
        ("send", {10, 310, 320}),
        ("end_transaction", {37}),
        (RequestCode.PULL_MESSAGE, {11}),
        ([RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT], {11, 34}),
        ("any", set(RequestCode)),
    ],
)
def test_requests_go_by_name_or_code(requests: Requests, codes: set[int]) -> None:
    assert codes_of(requests) == codes


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="requests is 'sends'; give one of send, send_back, "):
        codes_of("sends")


def test_a_fault_that_would_never_strike_is_refused() -> None:
    with pytest.raises(InvalidInput, match="times is 0; it must be at least 1"):
        a_fault(codes_of("send"), times=0)


def test_it_strikes_its_requests_alone() -> None:
    fault = a_fault(codes_of("send"))
    assert fault.strikes(a_send("orders"))
    assert not fault.strikes(request(GetMaxOffset(topic="orders", queue_id=0)))


def test_it_strikes_its_topic_alone_whatever_the_topic_is_called_in_the_header() -> None:
    faults = Faults()
    faults.all += [a_fault(codes_of("any"), topic="orders")]
    assert faults.strike(a_send("orders")) == Lost()
    assert faults.strike(request(GetMaxOffset(topic="orders", queue_id=0))) == Lost()
    assert faults.strike(a_send("payments")) is None
    assert faults.all[0].hits == 2


def test_the_first_one_strikes_until_its_times_are_over() -> None:
    faults = Faults()
    first, second = a_fault(codes_of("send"), times=2), a_fault(codes_of("any"))
    faults.all += [first, second]
    for _ in range(3):
        assert faults.strike(a_send("orders")) == Lost()
    assert (first.hits, second.hits) == (2, 1)
    assert faults.all == [second]
    assert not first.strikes(a_send("orders"))


def test_a_fault_of_the_whole_broker_strikes_no_request() -> None:
    faults = Faults()
    for effect in (Unreachable(), DiskFull()):
        faults.all += [Fault(effect, codes_of("any"), on_end=faults.remove)]
    assert faults.strike(a_send("orders")) is None
    assert faults.is_unreachable
    assert faults.is_disk_full
    for fault in list(faults.all):
        fault.end()
        fault.end()
    assert not faults.is_unreachable
    assert not faults.is_disk_full


def test_the_end_of_with_is_its_end() -> None:
    ended: list[Fault] = []
    with Fault(CutOff(), codes_of("pull"), on_end=ended.append) as fault:
        assert ended == []
    assert ended == [fault]
    assert repr(fault) == "<Fault CutOff(), 0 hits>"
