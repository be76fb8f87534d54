"""What the end of a try tells of its broker, and health that learns nothing."""

import pytest

from orbitmq.client.producer.health.health import Health, Outcome, Standing, keep, outcome_of
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
        (None, Outcome.STORED),
        *((BrokerError.of(code, ""), Outcome.UNWELL) for code in (1, 2, 14)),
        *((BrokerError.of(code, ""), Outcome.REFUSED) for code in (13, 16, 17, 204)),
        *((kind("x"), Outcome.UNREACHED) for kind in (ConnectFailed, ConnectionClosed)),
        (RequestTimeout("x"), Outcome.UNREACHED),
        (RemoteProtocolError("x"), Outcome.UNREACHED),
        (TooManyRequests("x"), Outcome.UNREACHED),
        (InvalidInput("x", field="body"), Outcome.UNTOLD),
        (KeyboardInterrupt(), Outcome.UNTOLD),
    ],
)
def test_the_end_of_a_try_tells_of_its_broker(error: BaseException, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_off_learns_nothing() -> None:
    health = Health()
    health.learn("broker-a", Outcome.UNREACHED, 1, 1_000)
    assert health.standing("broker-a", 1_001) is Standing.GOOD
    assert not health.sent("broker-a", 1_001)
    assert not health.active


def test_brokers_that_nobody_hears_of_again_make_room() -> None:
    known: dict[str, int] = {}
    for number in range(5_000):
        assert keep(known, f"broker-{number}", number) == number
    assert len(known) == 4_096
    assert min(known.values()) == 5_000 - 4_096
