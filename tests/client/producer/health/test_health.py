"""What the end of a try tells of its broker, and health that learns nothing."""

import pytest

from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing, keep, outcome_of
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    InvalidInput,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, AttemptOutcome.STORED),
        *((BrokerError.of(code, ""), AttemptOutcome.UNHEALTHY) for code in (1, 2, 14)),
        *((BrokerError.of(code, ""), AttemptOutcome.REFUSED) for code in (13, 16, 17, 204)),
        *((kind("x"), AttemptOutcome.NO_ANSWER) for kind in (ConnectFailed, ConnectionClosed)),
        (RequestTimeout("x"), AttemptOutcome.NO_ANSWER),
        (RemoteProtocolError("x"), AttemptOutcome.NO_ANSWER),
        (TooManyRequests("x"), AttemptOutcome.NO_ANSWER),
        (InvalidInput("x", field="body"), AttemptOutcome.UNKNOWN),
        (KeyboardInterrupt(), AttemptOutcome.UNKNOWN),
    ],
)
def test_the_end_of_a_try_tells_of_its_broker(
    error: BaseException, outcome: AttemptOutcome
) -> None:
    assert outcome_of(error) is outcome


def test_off_learns_nothing() -> None:
    health = Health()
    health.learn("broker-a", AttemptOutcome.NO_ANSWER, 1, 1_000)
    assert health.standing("broker-a", 1_001) is Standing.GOOD
    assert not health.sent("broker-a", 1_001)
    assert not health.active


def test_brokers_that_nobody_hears_of_again_make_room() -> None:
    known: dict[str, int] = {}
    for number in range(5_000):
        assert keep(known, f"broker-{number}", number) == number
    assert len(known) == 4_096
    assert min(known.values()) == 5_000 - 4_096
