import pytest

from orbitmq.client.producer.sending.back_pressure import Shortage, ShortageKind
from orbitmq.client.producer.sending.failures import back_pressure, failure, timeout
from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    LocalProtocolError,
    OrbitError,
    RemoteProtocolError,
    RequestTimeout,
    SendFailed,
    SendIllegal,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnauthorised,
    SendUnreachable,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt, TimeSpent
from orbitmq.message.model import Message, MessageQueue

PARCEL = PreparedSend(
    send_id="7F01",
    topic="orders",
    body=b"secret",
    properties="",
    messages=(Message("orders", b"secret"),),
    message_ids=("7F01",),
)
SPENT = TimeSpent(answer_ms=40)


def attempts(*causes: OrbitError) -> list[Attempt]:
    queue = MessageQueue("orders", "broker-a", 2)
    return [Attempt(queue, 100 * number, 40, cause) for number, cause in enumerate(causes)]


@pytest.mark.parametrize(
    ("cause", "kind", "code", "may_be_stored"),
    [
        (BrokerError.of(2, "busy"), SendRefusedBusy, 2, False),
        (BrokerError.of(16, "no"), SendUnauthorised, 16, False),
        (BrokerError.of(13, "large"), SendIllegal, 13, False),
        (BrokerError.of(1, "failed"), SendRefused, 1, False),
        (BrokerError.of(999, None), SendRefused, 999, False),
        (ConnectFailed("nobody"), SendUnreachable, 10_001, False),
        (ConnectionClosed("gone"), SendUnreachable, -1, True),
        (TooManyRequests("full"), SendUnreachable, -1, False),
        (RequestTimeout("late", timeout_ms=9), SendTimeout, 10_002, True),
        (RemoteProtocolError("odd"), SendFailed, -1, True),
        (LocalProtocolError("large"), SendFailed, 10_003, False),
    ],
    ids=lambda value: repr(value) if isinstance(value, OrbitError) else "",
)
def test_the_cause_decides_about_the_type(
    cause: OrbitError, kind: type[SendFailed], code: int, may_be_stored: bool
) -> None:
    error = failure(PARCEL, cause, attempts(cause), SPENT, took_ms=140)
    assert type(error) is kind
    assert (error.code, error.may_be_stored) == (code, may_be_stored)
    assert (error.topic, error.send_id) == ("orders", "7F01")
    assert ("may be stored" in str(error)) == may_be_stored


def test_the_text_tells_every_attempt_and_no_body() -> None:
    causes = [BrokerError.of(2, "[OVERLOAD]"), ConnectFailed("nobody listens")]
    text = str(failure(PARCEL, causes[1], attempts(*causes), SPENT, took_ms=140))
    assert text == (
        "send 7F01 to orders failed after 140 ms; "
        "1. broker-a queue 2 after 0 ms, for 40 ms: BrokerBusy: the server answered 2: [OVERLOAD]; "
        "2. broker-a queue 2 after 100 ms, for 40 ms: ConnectFailed: nobody listens"
    )


def test_of_many_attempts_the_first_and_the_last_are_told() -> None:
    cause = ConnectFailed("nobody")
    text = str(failure(PARCEL, cause, attempts(*[cause] * 50), SPENT, took_ms=140))
    assert "; 4. " in text
    assert "; 5. " not in text
    assert "; 50. " in text


def test_a_timeout_says_where_the_time_went() -> None:
    error = timeout(PARCEL, (), TimeSpent(route_ms=2_990, loop_stall_ms=900), timeout_ms=3_000)
    assert str(error) == (
        "send 7F01 to orders had 3000 ms, and they are over: 2990 ms for the route; our own loop "
        "stood still for 900 ms at a time"
    )
    assert error.spent.route_ms == 2_990


def test_back_pressure_says_what_to_do() -> None:
    shortage = Shortage(ShortageKind.COUNT, in_flight=10, in_flight_bytes=80, waiting=3)
    error = back_pressure(PARCEL, shortage, TimeSpent(permit_ms=300), timeout_ms=300)
    assert "10 sends with 80 bytes; 3 wait" in str(error)
    assert "raise in_flight_max" in str(error)
    assert error.code == -1
