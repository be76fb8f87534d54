"""What follows a try of a send: its end, or another one, where and when. Pure: time is an argument.

::

    try ─▶ receipt, good enough ───────────────────────────────▶ Done
     ▲  ├▶ receipt, other status, asked to try elsewhere ──┐
     │  ├▶ no answer, or an answer in retry_codes ─────────┤ tries and time left?
     │  └▶ any other error ─────▶ GiveUp                   │
     └──────── Again ◀── yes ──────────────────────────────┴ no ─▶ GiveUp, or Done with an
                                                                   earlier receipt

All tries and waits share one budget of time. The rules are those of Java's DefaultMQProducerImpl,
with two differences. A send to a queue of the caller's choice may be tried again on that queue, if
``retry_same_queue`` asks for it. And there is a short wait where the next try would meet the same
fate at once: after a busy answer, or with no broker left that has not just failed.
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

_WAIT_MS: Final = 20
_WAIT_MAX_MS: Final = 200
"""A wait is at most so long: the time after which a broker turns waiting sends away by default."""
_PROBE_SHARE: Final = 3
"""A probe gets this part of the time that is left, so that another try can still succeed."""


class Done(msgspec.Struct, frozen=True):
    """The send is over, and this is its receipt."""

    receipt: SendReceipt


class Again(msgspec.Struct, frozen=True):
    """Make another try.

    Attributes:
        avoid: the broker not to choose, if there is another; None: the queue must stay the same.
        refresh_route: whether to ask for the route again first.

    """

    avoid: str | None
    refresh_route: bool


class GiveUp(msgspec.Struct, frozen=True):
    """The send has failed.

    Attributes:
        cause: what ended it.
        timed_out: whether it was for want of time alone; else tries, or the error, ended it.

    """

    cause: OrbitError
    timed_out: bool


Step = Done | Again | GiveUp


class RetryPlan:
    """One send's tries. It may be made when the first of them has failed.

    Args:
        settings: how often to try, and after what.
        randomness: for the waits.
        began_ms: when the call began, of a monotonic clock, like all times here.
        timeout_ms: the budget of the call; None: that of the settings.
        fixed: whether the caller chose the queue, itself or by a selector or sharding key.

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
        self._receipt: SendReceipt | None = None
        self.attempts: list[Attempt] = []

    @property
    def may_be_stored(self) -> bool:
        """Whether a broker may have the message, although no try succeeded."""
        return any(attempt.may_be_stored for attempt in self.attempts)

    def left_ms(self, now_ms: int) -> int:
        """Return how much of the budget is left; 0 or less: none."""
        return self._began_ms + self._timeout_ms - now_ms

    def try_timeout_ms(self, now_ms: int, *, probe: bool = False) -> int:
        """Return how long a try that leaves now may take; 0 or less: there is no time for it.

        Args:
            now_ms: the time.
            probe: whether the broker is likely to fail it (:meth:`Health.sent` says so).

        """
        left_ms = self.left_ms(now_ms)
        if len(self.attempts) + 1 >= self._tries:
            return left_ms
        if probe:
            left_ms = -(-left_ms // _PROBE_SHARE)
        limit_ms = self._settings.per_try_timeout_ms
        return left_ms if limit_ms is None else min(left_ms, limit_ms)

    def connect_timeout_ms(self, now_ms: int) -> int:
        """Return how long the next try may wait for its connection: its share of what is left.

        Java lets one address that answers nothing take three seconds, which is all of the time by
        default, so that no other broker is asked. A dial that outlives its share goes on, and
        serves a later try to the same broker.
        """
        tries_left = max(1, self._tries - len(self.attempts))
        return self.left_ms(now_ms) // tries_left

    def stored(self, receipt: SendReceipt, began_ms: int, now_ms: int) -> Step:
        """Return what follows a receipt; never GiveUp, since the message is stored.

        Args:
            receipt: what the broker says.
            began_ms: when the try left.
            now_ms: the time.

        """
        elsewhere = self._settings.retry_another_broker_when_not_stored and not self._fixed
        if receipt.status is SendStatus.SEND_OK or not elsewhere:
            return Done(receipt)
        # The last receipt is the one that Java returns when no try is good enough.
        self._receipt = receipt
        self._record(receipt.queue, began_ms, now_ms, receipt.status)
        if self._exhausted or self.left_ms(now_ms) <= 0:
            return Done(receipt)
        return self._again(receipt.queue, refresh_route=False)

    def failed(self, error: OrbitError, queue: MessageQueue, began_ms: int, now_ms: int) -> Step:
        """Return what follows an error.

        Args:
            error: what went wrong.
            queue: where the try went.
            began_ms: when the try left.
            now_ms: the time.

        """
        self._record(queue, began_ms, now_ms, error)
        timed_out = self.left_ms(now_ms) <= 0
        if self._exhausted or timed_out or not self._is_retried(error):
            if self._receipt is not None:
                return Done(self._receipt)
            return GiveUp(error, timed_out=timed_out and self._is_retried(error))
        return self._again(queue, refresh_route=error.refresh_route)

    def wait_ms(self, broker: str, now_ms: int) -> int:
        """Return how long to wait before the next try, which goes to that broker.

        It is never more than half of the time that is left.
        """
        last = self.attempts[-1]
        crowded = isinstance(last.cause, BrokerBusy | TooManyRequests)
        if not crowded and broker != last.queue.broker_name and not self._goes_round(broker):
            return 0
        most_ms = min(_WAIT_MS << len(self.attempts), _WAIT_MAX_MS)
        wait_ms = round(self._randomness.uniform(most_ms / 2, most_ms))
        return max(0, min(wait_ms, self.left_ms(now_ms) // 2))

    def _goes_round(self, broker: str) -> bool:
        """Return whether brokers fail in turn, at once: all may be away for a moment."""
        is_fast = self.attempts[-1].took_ms < _WAIT_MAX_MS
        return is_fast and any(one.queue.broker_name == broker for one in self.attempts)

    @property
    def _exhausted(self) -> bool:
        return len(self.attempts) >= self._tries

    def _is_retried(self, error: OrbitError) -> bool:
        if isinstance(error, BrokerError):
            return error.code in self._settings.retry_codes
        return error.retriable or isinstance(error, RemoteProtocolError)

    def _again(self, queue: MessageQueue, *, refresh_route: bool) -> Again:
        return Again(None if self._fixed else queue.broker_name, refresh_route)

    def _record(
        self, queue: MessageQueue, began_ms: int, now_ms: int, cause: OrbitError | SendStatus
    ) -> None:
        since_call_ms, took_ms = began_ms - self._began_ms, now_ms - began_ms
        self.attempts.append(Attempt(queue, since_call_ms, took_ms, cause))


def java_code(cause: OrbitError) -> int:
    """Return the response code that Java's client gives an error with this cause.

    >>> java_code(BrokerBusy(2, "busy")), java_code(ConnectFailed("nobody listens"))
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
