"""Loads of messages that a broker delivers later: delay levels, timers and transactions.

::

    delayed, timed   send ──▶ waits ── due ──▶ delivered copy ──▶ pulled
    committed        half message ──▶ END_TRANSACTION ──▶ delivered copy ──▶ pulled

The broker's CPU time covers everything from the first send to the last pull. How late a copy is
follows from its record: when it was stored, and when it was due.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import quantiles
from typing import Final, NamedTuple

import msgspec

from bench.load import Passed, Pulls, Sends, Target, tail
from orbitmq.message import flags
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.record import reader
from orbitmq.net.connection import Connection
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from orbitmq.wire.headers.transaction import EndTransaction

LEVEL_MS: Final = 1_000  # level 1
TIMER_MS: Final = 2_000
GROUP: Final = "bench"

_PREPARED: Final = flags.TRANSACTION_PREPARED
_TIMES: Final = reader("size", "born_timestamp_ms", "store_timestamp_ms")


class Late(NamedTuple):
    """How much later than due the copies were stored, in ms; negative is early."""

    least: float
    p50: float
    p99: float


class Deferred(NamedTuple):
    """The cost of a load to the broker, and how late it delivered."""

    passed: Passed
    late: Late | None


def delayed(target: Target, *, window: int, count: int) -> Deferred:
    """Send messages with a delay level, and pull them when they are delivered."""
    return _timed_run(target, window, count, lambda _now_ms: "DELAY\x011\x02", LEVEL_MS)


def timed(target: Target, *, window: int, count: int) -> Deferred:
    """Send messages with a delivery time, and pull them when they are delivered."""

    def added(now_ms: int) -> str:
        return f"TIMER_DELIVER_MS\x01{now_ms + TIMER_MS}\x02"

    return _timed_run(target, window, count, added, TIMER_MS)


def committed(target: Target, *, window: int, count: int) -> Deferred:
    """Send half messages, commit each when it is stored, and pull the committed ones."""
    return Deferred(tail(target, window=window, count=count, sends=Halves), None)


def _timed_run(
    target: Target, window: int, count: int, added: Callable[[int], str], delay_ms: int
) -> Deferred:
    late: list[int] = []
    pulls = partial(_TimedPulls, late=late, delay_ms=delay_ms)
    sends = partial(_WaitingSends, added=added)
    passed = tail(target, window=window, count=count, sends=sends, pulls=pulls)
    return Deferred(passed, lateness(late))


def lateness(late: Sequence[int]) -> Late:
    """Return the least, the median and the 99th percentile.

    >>> lateness(range(101))
    Late(least=0, p50=50.0, p99=99.0)
    """
    cuts = quantiles(late, n=100, method="inclusive")
    return Late(min(late), cuts[49], cuts[98])


class _WaitingSends(Sends):
    """Sends messages with another property, made for the time of each send."""

    def __init__(self, topic: str, count: int, added: Callable[[int], str]) -> None:
        super().__init__(topic, count)
        self._added = added

    def _header(self, number: int) -> SendMessageV2:
        now_ms = time.time_ns() // 1_000_000
        header = super()._header(number)
        text = (header.properties or "") + self._added(now_ms)
        return msgspec.structs.replace(header, born_timestamp=now_ms, properties=text)


class _TimedPulls(Pulls):
    """Notes how late each message is."""

    def __init__(
        self, topic: str, begins: Sequence[int], count: int, late: list[int], delay_ms: int
    ) -> None:
        super().__init__(topic, begins, count)
        self._late = late
        self._delay_ms = delay_ms

    def _arrived(self, body: bytes | memoryview) -> None:
        at = 0
        while at < len(body):
            size, born_ms, stored_ms = _TIMES.unpack_from(body, at)
            self._late.append(stored_ms - born_ms - self._delay_ms)
            at += size


class Halves(Sends):
    """Sends half messages, and commits each when its answer arrives."""

    def _header(self, number: int) -> SendMessageV2:
        header = super()._header(number)
        text = f"{header.properties}TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
        return msgspec.structs.replace(header, sys_flag=_PREPARED, properties=text)

    def _stored(self, connection: Connection, answer: Frame) -> None:
        stored = answer.read(SendMessageAnswer)
        _, offset = parse_offset_id(stored.msg_id)
        end = EndTransaction(
            topic=self._topic,
            producer_group=GROUP,
            tran_state_table_offset=stored.queue_offset,
            commit_log_offset=offset,
            commit_or_rollback=flags.TRANSACTION_COMMIT,
            msg_id=stored.transaction_id or "",
            transaction_id=stored.transaction_id,
        )
        connection.oneway(end)
