import pytest

from orbitmq.client.producer.sending.back_pressure import Shortage, ShortageKind
from orbitmq.client.producer.sending.failures import (
    back_pressure,
    failure,
    no_route,
    route_timeout,
    timeout,
)
from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    LocalProtocolError,
    NameserversFailed,
    NoRoute,
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

PREPARED = PreparedSend(
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
    error = failure(PREPARED, cause, attempts(cause), SPENT, took_ms=140)
    assert type(error) is kind
    assert (error.code, error.may_be_stored) == (code, may_be_stored)
    assert (error.topic, error.send_id) == ("orders", "7F01")
    assert ("may have stored it" in str(error)) == may_be_stored


def test_the_text_lists_different_attempts_and_no_body() -> None:
    causes = [BrokerError.of(2, "[OVERLOAD]", address="b:1"), ConnectFailed("connection refused")]
    text = str(failure(PREPARED, causes[1], attempts(*causes), SPENT, took_ms=140))
    assert text == (
        "send 7F01 to orders failed after 140 ms; "
        "broker-a queue 2 after 0 ms, for 40 ms: BrokerBusy: b:1 answered 2: [OVERLOAD]; "
        "broker-a queue 2 after 100 ms, for 40 ms: ConnectFailed: connection refused"
    )


def test_equal_attempts_are_listed_once_with_their_number() -> None:
    cause = ConnectFailed("connection refused")
    text = str(failure(PREPARED, cause, attempts(*[cause] * 13), SPENT, took_ms=1_240))
    assert text == (
        "send 7F01 to orders failed after 1240 ms; broker-a 13 times, from 0 to 1240 ms: "
        "ConnectFailed: connection refused"
    )


def test_request_numbers_and_times_make_no_difference() -> None:
    causes = [
        RequestTimeout(f"h:1 did not answer SEND (request {-n}) within {n} ms", timeout_ms=n)
        for n in (7, 5, 9)
    ]
    text = str(timeout(PREPARED, attempts(*causes), SPENT, timeout_ms=3_000))
    assert "broker-a 3 times, from 0 to 240 ms: RequestTimeout: h:1 did not answer SEND" in text
    assert len(text) < 250


def test_of_many_kinds_of_failures_the_first_and_the_last_are_listed() -> None:
    causes = [ConnectFailed(f"fault {letter}") for letter in "abcdefgh"]
    text = str(failure(PREPARED, causes[-1], attempts(*causes), SPENT, took_ms=140))
    shown = [letter for letter in "abcdefgh" if f"fault {letter}" in text]
    assert shown == ["a", "b", "c", "h"]


def test_a_timeout_says_where_the_time_went() -> None:
    error = timeout(PREPARED, (), TimeSpent(route_ms=2_990, loop_stall_ms=900), timeout_ms=3_000)
    assert str(error) == (
        "send 7F01 to orders timed out after 3000 ms (2990 ms looking up the route; the event loop "
        "was blocked for up to 900 ms)"
    )
    assert error.spent.route_ms == 2_990


def test_a_timeout_of_the_route_names_the_silent_nameservers() -> None:
    silent = {"h:9876": "no answer yet", "i:9876": "i:9876 did not answer within 1000 ms"}
    error = route_timeout("orders", 3_000, silent)
    assert str(error) == (
        "the route of orders was not found within 3000 ms; nameservers: h:9876: no answer yet; "
        "i:9876 did not answer within 1000 ms. Check that they run, and can be reached from here"
    )
    assert (error.topic, error.timeout_ms, error.may_be_stored) == ("orders", 3_000, False)


def test_a_send_without_a_route_is_a_failed_send_too() -> None:
    missing = NoRoute("topic orders is missing", topic="%ns%orders", is_missing=True, answers={})
    error = no_route(missing, "orders", PREPARED)
    assert isinstance(error, NoRoute)
    assert isinstance(error, SendFailed)
    assert str(error) == "send 7F01 to orders failed: topic orders is missing"
    assert (error.topic, error.send_id, error.code) == ("orders", "7F01", 10_005)
    assert (error.attempts, error.may_be_stored, error.is_missing) == ((), False, True)
    assert error.retriable
    assert error.refresh_route
    silent = no_route(NameserversFailed("no answer", answers={"h:9876": "late"}), "orders")
    assert isinstance(silent, NameserversFailed)
    assert isinstance(silent, SendFailed)
    assert (silent.answers, silent.address, silent.send_id) == ({"h:9876": "late"}, "h:9876", "")
    lost = no_route(missing, "orders", PREPARED, attempts(ConnectionClosed("gone")))
    assert lost.may_be_stored


def test_back_pressure_says_what_to_do() -> None:
    shortage = Shortage(ShortageKind.COUNT, in_flight=10, in_flight_bytes=80, waiting=3)
    error = back_pressure(PREPARED, shortage, TimeSpent(permit_ms=300), timeout_ms=300)
    assert "10 sends with 80 bytes in flight, 3 waiting" in str(error)
    assert "raise in_flight_max" in str(error)
    assert error.code == -1
