"""A peer is silent if nothing was heard since a request was sent that timed out."""

import pytest

from orbitmq.net.silence import Silence
from orbitmq.wire.session import Pending


def expired(sent: float, timeout: float) -> Pending[None]:
    return Pending(1, 105, sent=sent, deadline=sent + timeout, waiter=None)


def test_nothing_was_ever_heard() -> None:
    assert Silence(3.0).is_long([expired(0.1, 3.0)], now=3.1)


def test_an_answer_in_between_begins_anew() -> None:
    silence = Silence(3.0)
    assert not silence.is_long([expired(0.0, 2.0)], now=2.0)
    silence.heard = 2.5
    assert not silence.is_long([expired(2.0, 2.0)], now=4.0)  # sent before that
    assert not silence.is_long([expired(3.0, 2.0)], now=5.0)
    assert silence.is_long([expired(5.0, 1.0)], now=6.0)


def test_a_request_that_did_not_time_out_proves_nothing() -> None:
    assert not Silence(3.0).is_long([], now=1e9)


@pytest.mark.parametrize("sent", [0.1, 1 / 3, 1e6 + 0.7])
def test_a_timeout_as_long_as_the_least_silence_is_enough(sent: float) -> None:
    one = expired(sent, 3.0)
    assert Silence(3.0).is_long([one], now=one.deadline)
