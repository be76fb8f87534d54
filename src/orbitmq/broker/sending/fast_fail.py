"""When sends are turned away rather than left to wait, and in which words. Pure decisions.

::

    a send comes ──▶ waits in the inbox ──▶ is stored
        │                  │
        │                  ├─ waited longer than it may           [TIMEOUT_CLEAN_QUEUE]
        │                  └─ a write took longer than it may     [PCBUSY_CLEAN_QUEUE]
        ├─ as many wait as may                                    [OVERLOAD]
        └─ what waits is as large as it may be                    [REJECTREQUEST]

Every one of them is SYSTEM_BUSY, which clients take for a reason to try another broker. The words
in brackets are Java's (``NettyRemotingAbstract``, ``BrokerFastFailure``); people and their tools
look for them, and for the wait and the size behind them.
"""

from typing import Final

from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode

__all__ = ["WAITING_BYTES_MAX", "disk_busy", "queue_full", "waited_too_long"]

WAITING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bodies that may wait. Ten thousand of the largest would be forty gigabytes."""


def queue_full(
    waiting: int, waiting_bytes: int, *, capacity: int, oldest_ms: int
) -> Refusal | None:
    """Return why one more send may not wait; None if it may.

    Args:
        waiting: the sends that wait already.
        waiting_bytes: the bytes of their bodies.
        capacity: how many sends may wait.
        oldest_ms: how long the first of them has.

    >>> queue_full(10_000, 9_000, capacity=10_000, oldest_ms=12).remark
    '[OVERLOAD]system busy, start flow control for a while, period in queue: 12ms, \
size of queue: 10000'

    """
    if waiting >= capacity:
        return _busy("[OVERLOAD]system", oldest_ms, waiting)
    if waiting_bytes >= WAITING_BYTES_MAX:
        return _busy("[REJECTREQUEST]system", oldest_ms, waiting, f", {waiting_bytes} bytes")
    return None


def waited_too_long(waited_ms: int, waiting: int, *, limit_ms: int) -> Refusal | None:
    """Return why a send must not wait any longer; None if it may.

    >>> waited_too_long(200, 17, limit_ms=200).remark
    '[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 200ms, \
size of queue: 17'
    """
    if waited_ms < limit_ms:
        return None
    return _busy("[TIMEOUT_CLEAN_QUEUE]broker", waited_ms, waiting)


def disk_busy(waited_ms: int, waiting: int, *, write_ms: int, limit_ms: int) -> Refusal | None:
    """Return why a send must not wait behind a write that took ``write_ms``; None if it may.

    Java asks while the write goes on (``isOSPageCacheBusy``). Here nobody can ask before it has
    ended, since the loop itself writes; what came meanwhile is turned away then.

    >>> disk_busy(1_500, 17, write_ms=1_500, limit_ms=1_000).remark
    '[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 1500ms, \
size of queue: 17, the last write took 1500ms'
    """
    if write_ms <= limit_ms:
        return None
    return _busy(
        "[PCBUSY_CLEAN_QUEUE]broker", waited_ms, waiting, f", the last write took {write_ms}ms"
    )


def _busy(who: str, waited_ms: int, waiting: int, more: str = "") -> Refusal:
    return Refusal(
        ResponseCode.SYSTEM_BUSY,
        f"{who} busy, start flow control for a while, period in queue: {waited_ms}ms, "
        f"size of queue: {waiting}{more}",
    )
