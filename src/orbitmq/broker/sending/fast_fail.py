"""When a waiting send is refused, and with which remark. Pure decisions.

::

    a send comes ──▶ waits in the inbox ──▶ is stored
        │                  │
        │                  ├─ waited too long                     [TIMEOUT_CLEAN_QUEUE]
        │                  └─ the last write was too slow         [PCBUSY_CLEAN_QUEUE]
        ├─ too many sends wait                                    [OVERLOAD]
        ├─ too many bytes wait                                    [REJECTREQUEST]
        └─ the broker is a slave                                  [REJECTREQUEST]

All are SYSTEM_BUSY, on which clients try another broker. The words in brackets are Java's
(``NettyRemotingAbstract``, ``BrokerFastFailure``): tools search logs for them, and for the wait and
the queue size after them.
"""

from typing import Final

from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode

__all__ = ["WAITING_BYTES_MAX", "disk_busy", "queue_full", "slave", "waited_too_long"]

WAITING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of bodies that may wait. Ten thousand of the largest bodies would be forty gigabytes."""


def queue_full(
    waiting: int, waiting_bytes: int, *, capacity: int, oldest_ms: int, stored: int = 0
) -> Refusal | None:
    """Return the refusal of one more send if the queue is full; None otherwise.

    ``stored`` of those that wait are in the log already, and the disk or the slaves are slow.

    >>> queue_full(10_000, 9_000, capacity=10_000, oldest_ms=12).remark
    '[OVERLOAD]system busy, start flow control for a while, period in queue: 12ms, \
size of queue: 10000'
    """
    cause = f", {stored} of them wait for the disk or for slaves" if stored else ""
    if waiting >= capacity:
        return _busy("[OVERLOAD]system", oldest_ms, waiting, cause)
    if waiting_bytes >= WAITING_BYTES_MAX:
        more = f", {waiting_bytes} bytes{cause}"
        return _busy("[REJECTREQUEST]system", oldest_ms, waiting, more)
    return None


def slave() -> Refusal:
    """Return the refusal of a send to a slave, in Java's words and ours.

    >>> slave().remark[:66]
    '[REJECTREQUEST]system busy, start flow control for a while. This b'
    """
    return Refusal(
        ResponseCode.SYSTEM_BUSY,
        "[REJECTREQUEST]system busy, start flow control for a while. This broker is a slave; send "
        "to its master",
    )


def waited_too_long(waited_ms: int, waiting: int, *, limit_ms: int) -> Refusal | None:
    """Return the refusal of a send that waited too long; None if it may go on waiting.

    >>> waited_too_long(200, 17, limit_ms=200).remark
    '[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 200ms, \
size of queue: 17'
    """
    if waited_ms < limit_ms:
        return None
    return _busy("[TIMEOUT_CLEAN_QUEUE]broker", waited_ms, waiting)


def disk_busy(waited_ms: int, waiting: int, *, write_ms: int, limit_ms: int) -> Refusal | None:
    """Return the refusal of a send that waited behind a slow write; None if the write was fast.

    Java checks during the write (``isOSPageCacheBusy``). Here the loop itself writes, so sends that
    came meanwhile are refused after it.

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
