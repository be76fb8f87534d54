import pytest

from orbitmq.errors import (
    BrokerBusy,
    ConnectFailed,
    ConnectionClosed,
    OrbitError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt, TimeSpent
from orbitmq.message.model import MessageQueue, SendStatus

A0, B0 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)
LOST = ConnectionClosed("lost")


def test_time_is_told_by_what_it_was_spent_on() -> None:
    assert str(TimeSpent()) == "no time spent"
    assert str(TimeSpent(permit_ms=1, connection_ms=2, pause_ms=3)) == (
        "1 ms waiting to start, 2 ms connecting, 3 ms pausing between attempts"
    )


@pytest.mark.parametrize(
    ("cause", "may_be"),
    [
        (ConnectFailed("x"), False),
        (LOST, True),
        (ConnectionClosed("x", was_sent=False), False),
        (RequestTimeout("x", timeout_ms=9), True),
        (RequestTimeout("no time was left to ask"), False),
        (RemoteProtocolError("x"), True),
        (SendStatus.FLUSH_DISK_TIMEOUT, True),
        (BrokerBusy(2, ""), False),
        (TooManyRequests("x"), False),
    ],
    ids=repr,
)
def test_an_attempt_tells_whether_the_message_may_be_stored(
    cause: OrbitError | SendStatus, may_be: bool
) -> None:
    assert Attempt(A0, 0, 1, cause).may_be_stored is may_be


@pytest.mark.parametrize(
    ("cause", "may_have"),
    [
        (ConnectFailed("x"), False),
        (TooManyRequests("x"), False),
        (ConnectionClosed("x", was_sent=False), False),
        (RequestTimeout("no time was left to ask"), False),
        (LOST, True),
        (RequestTimeout("x", timeout_ms=9), True),
        (BrokerBusy(2, ""), True),
        (SendStatus.FLUSH_DISK_TIMEOUT, True),
    ],
    ids=repr,
)
def test_an_attempt_knows_whether_its_request_may_have_left(
    cause: OrbitError | SendStatus, may_have: bool
) -> None:
    assert Attempt(A0, 0, 1, cause).may_have_left is may_have


def test_attempts_are_equal_if_broker_and_text_are() -> None:
    first = Attempt(A0, 0, 1, ConnectFailed("refused"))
    assert first.equals(
        Attempt(MessageQueue("orders", "broker-a", 3), 9, 2, ConnectFailed("refused"))
    )
    assert not first.equals(Attempt(B0, 0, 1, ConnectFailed("refused")))
    assert not first.equals(Attempt(A0, 0, 1, ConnectFailed("no answer")))


def test_an_attempt_reads_well() -> None:
    assert str(Attempt(A0, 12, 3, BrokerBusy(2, "[OVERLOAD]", address="10.0.0.7:10911"))) == (
        "broker-a queue 0 after 12 ms, for 3 ms: BrokerBusy: 10.0.0.7:10911 answered 2: [OVERLOAD]"
    )
    assert str(Attempt(B0, 0, 9, SendStatus.FLUSH_DISK_TIMEOUT)).endswith(": FLUSH_DISK_TIMEOUT")
