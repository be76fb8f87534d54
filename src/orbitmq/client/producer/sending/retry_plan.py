"""What follows an attempt of a send: its end, or another one, where and when. Pure.

::

    attempt ─▶ receipt, good enough ─────────────────────────────▶ Done
      ▲     ├▶ request never left: no connection, no room ─────┐ time left?
      │     ├▶ no answer, or an answer in retry_codes ─────────┤ tries and time left?
      │     ├▶ receipt, other status, asked to try elsewhere ──┤ tries and time left?
      │     └▶ any other error ─────▶ GiveUp                   │
      └──────── Again ◀── yes ─────────────────────────────────┴ no ─▶ GiveUp, or Done with an
                                                                       earlier receipt

All attempts and pauses share one time budget. The rules are those of Java's DefaultMQProducerImpl,
with three differences:

- An attempt whose request never left counts as no try. It is repeated until the budget ends, with
  growing pauses, on the same queue if the caller chose it.
- A send to a chosen queue is tried again on that queue if ``retry_same_queue`` asks for it.
- There is a short pause where the next attempt would fail at once for the same reason: after a busy
  answer, or if each broker has just failed.
"""

from typing import Final

import msgspec

from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    NetworkError,
    OrbitError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from orbitmq.randomness import Randomness

__all__ = ["Again", "Done", "GiveUp", "RetryPlan", "Step", "java_code"]

_PAUSE_MS: Final = 20
_PAUSE_MAX_MS: Final = 200
"""A broker rejects sends that have waited this long, by default."""
_UNSENT_PAUSE_MAX_MS: Final = 500
"""A broker that restarts takes seconds, and each attempt costs a dial."""
_DOUBLINGS_MAX: Final = 10
_PROBE_SHARE: Final = 3
"""A probe gets this part of the time that is left, so that another attempt can still succeed."""
_ATTEMPTS_KEPT: Final = 100
"""Of more, the middle ones that never left are dropped."""


class Done(msgspec.Struct, frozen=True):
    """The send ends with this receipt."""

    receipt: SendReceipt


class Again(msgspec.Struct, frozen=True):
    """Make another attempt.

    ``avoid`` is the broker to avoid, if there is another; None: the queue must stay the same.
    """

    avoid: str | None
    refresh_route: bool


class GiveUp(msgspec.Struct, frozen=True):
    """The send has failed.

    ``timed_out``: another attempt was possible, but no time was left.
    """

    cause: OrbitError
    timed_out: bool


Step = Done | Again | GiveUp


class RetryPlan:
    """The attempts of one send. It may be made after the first of them.

    All times are of a monotonic clock. ``fixed``: the caller chose the queue, itself or by a
    selector or sharding key.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        randomness: Randomness,
        *,
        began_ms: int,
        timeout_ms: int | None = None,
        fixed: bool = False,
    ) -> None:
        self._settings = settings
        self._randomness = randomness
        self._began_ms = began_ms
        self._timeout_ms = settings.send_timeout_ms if timeout_ms is None else timeout_ms
        self._fixed = fixed
        self._tries = 1 if fixed and not settings.retry_same_queue else 1 + settings.retries
        self._tries_used = 0
        self._is_stopped = False
        self._receipt: SendReceipt | None = None
        self.attempts: list[Attempt] = []

    def left_ms(self, now_ms: int) -> int:
        """Return how much of the budget is left; 0 or less: none."""
        return self._began_ms + self._timeout_ms - now_ms

    def try_timeout_ms(self, now_ms: int, *, probe: bool = False) -> int:
        """Return how long an attempt that leaves now may take; 0 or less: there is no time for it.

        ``probe``: the broker is likely to fail it (see ``Health.sent``).
        """
        left_ms = self.left_ms(now_ms)
        if self._tries_used + 1 >= self._tries:
            return left_ms
        if probe:
            left_ms = -(-left_ms // _PROBE_SHARE)
        limit_ms = self._settings.per_try_timeout_ms
        return left_ms if limit_ms is None else min(left_ms, limit_ms)

    def connect_timeout_ms(self, now_ms: int) -> int:
        """Return how long the next attempt may wait for its connection: its share of what is left.

        In Java one address that does not answer takes three seconds, the whole default budget, so
        that no other broker is asked. A dial that takes longer than its share goes on, and serves a
        later attempt to the same broker.
        """
        left_ms = self.left_ms(now_ms)
        tries_left = max(1, self._tries - self._tries_used)
        return max(left_ms // tries_left, min(left_ms, _PAUSE_MAX_MS))

    def stop(self) -> None:
        """Make no further attempt: the client is closed."""
        self._is_stopped = True

    def stored(self, receipt: SendReceipt, began_ms: int, now_ms: int) -> Step:
        """Return what follows a receipt: never GiveUp, since the message is stored."""
        elsewhere = self._settings.retry_another_broker_when_not_stored and not self._fixed
        if receipt.status is SendStatus.SEND_OK or not elsewhere:
            return Done(receipt)
        # If no attempt is good enough, Java returns the last receipt.
        self._receipt = receipt
        self._record(receipt.queue, began_ms, now_ms, receipt.status)
        if self._tries_used >= self._tries or self.left_ms(now_ms) <= 0:
            return Done(receipt)
        return self._again(receipt.queue, refresh_route=False)

    def failed(self, error: OrbitError, queue: MessageQueue, began_ms: int, now_ms: int) -> Step:
        """Return what follows the error of an attempt that began at ``began_ms``."""
        attempt = self._record(queue, began_ms, now_ms, error)
        left_ms = self.left_ms(now_ms)
        is_retried = self._is_retried(error)
        if attempt.may_have_left:
            is_last = self._tries_used >= self._tries or left_ms <= 0
        else:
            is_last = self._is_stopped or left_ms < _PAUSE_MS
        if is_retried and not is_last:
            return self._again(queue, refresh_route=error.refresh_route)
        if self._receipt is not None:
            return Done(self._receipt)
        return GiveUp(error, timed_out=is_retried and left_ms <= 0)

    def wait_ms(self, broker: str, now_ms: int) -> int:
        """Return how long to wait before the next attempt, which goes to that broker.

        Time for the attempt is left: half of the budget's rest, or a quarter if nothing was sent.
        """
        last = self.attempts[-1]
        crowded = isinstance(last.cause, BrokerBusy | TooManyRequests)
        if not crowded and broker != last.queue.broker_name and not self._goes_round(broker):
            return 0
        limit_ms = _PAUSE_MAX_MS if last.may_have_left else _UNSENT_PAUSE_MAX_MS
        most_ms = min(_PAUSE_MS << min(len(self.attempts), _DOUBLINGS_MAX), limit_ms)
        wait_ms = round(self._randomness.uniform(most_ms / 2, most_ms))
        left_ms = max(0, self.left_ms(now_ms))
        return min(wait_ms, left_ms // 2 if last.may_have_left else left_ms - left_ms // 4)

    def _goes_round(self, broker: str) -> bool:
        """Return whether brokers fail fast, one after the other: all may be away for a moment."""
        is_fast = self.attempts[-1].took_ms < _PAUSE_MAX_MS
        return is_fast and any(one.queue.broker_name == broker for one in self.attempts)

    def _is_retried(self, error: OrbitError) -> bool:
        if isinstance(error, BrokerError):
            return error.code in self._settings.retry_codes
        return error.retriable or isinstance(error, RemoteProtocolError)

    def _again(self, queue: MessageQueue, *, refresh_route: bool) -> Again:
        return Again(None if self._fixed else queue.broker_name, refresh_route)

    def _record(
        self, queue: MessageQueue, began_ms: int, now_ms: int, cause: OrbitError | SendStatus
    ) -> Attempt:
        attempt = Attempt(queue, began_ms - self._began_ms, now_ms - began_ms, cause)
        self._tries_used += attempt.may_have_left
        self.attempts.append(attempt)
        if len(self.attempts) > _ATTEMPTS_KEPT:
            half = _ATTEMPTS_KEPT // 2
            unsent = [n for n, one in enumerate(self.attempts) if n and not one.may_have_left]
            del self.attempts[min(unsent, key=lambda number: abs(number - half))]
        return attempt


def java_code(cause: OrbitError) -> int:
    """Return the response code that Java's client gives an error with this cause.

    >>> java_code(BrokerBusy(2, "busy")), java_code(ConnectFailed("connection refused"))
    (2, 10001)
    """
    match cause:
        case BrokerError():
            return cause.code
        case ConnectFailed():
            return _CONNECT_BROKER_EXCEPTION
        case RequestTimeout():
            return _ACCESS_BROKER_TIMEOUT
        case NetworkError() | TooManyRequests() | RemoteProtocolError():
            return _NO_CODE
        case _:
            return _BROKER_NOT_EXIST_EXCEPTION


# Java's ClientErrorCode.
_CONNECT_BROKER_EXCEPTION: Final = 10_001
_ACCESS_BROKER_TIMEOUT: Final = 10_002
_BROKER_NOT_EXIST_EXCEPTION: Final = 10_003
_NO_CODE: Final = -1
