"""The inbox of a broker: the sends that arrive in one turn of the loop are stored by one append.

::

    put ──▶ pending ──── next turn, a limited part ────▶ append ──▶ acknowledged (async flush)
               │                                            │
               └── waited too long, or the last             └──▶ flushed, replicated, or timed out
                   write was too slow: refused                     (sync) ──▶ acknowledged

Laws:

- Messages are stored in the order they were put. In a run, none is stored behind one that failed.
- The callback of a message is called exactly once, and never inside ``put``.
- A send to a held topic is not acknowledged until the topic is released: it is not on disk yet, and
  after a crash a message could not be read without its topic. Other sends do not wait.
- A turn stores a limited part; pulls and heartbeats are served before the next one.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from orbitmq.broker.durability import Durability, with_status
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.sending import fast_fail
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.message import properties
from orbitmq.message.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import (
    NOT_TRIED,
    Incoming,
    NewRecord,
    Part,
    PutRecords,
    PutResult,
    PutStatus,
    result_of,
)
from orbitmq.store.message_store import MessageStore

__all__ = ["Inbox", "OnStored", "OrderedRun", "PutOutcome", "Together"]

log = logging.getLogger("orbitmq.broker")

PutOutcome: TypeAlias = PutResult | Refusal
"""The result of the store, or why a message never got there."""
OnStored: TypeAlias = Callable[[PutOutcome], None]

_real_topic = properties.finder(properties.REAL_TOPIC.encode())
_TURN_MESSAGES: Final = 256
"""At ten microseconds each, other requests wait a few milliseconds at most."""
_TURN_BYTES: Final = 1024 * 1024
"""About as long, at a gigabyte per second. A larger message is appended alone."""


class OrderedRun:
    """Messages that must be stored in order: after one that fails, the rest get ``NOT_TRIED``."""

    __slots__ = ("is_broken",)

    def __init__(self) -> None:
        self.is_broken = False


class _Pending(msgspec.Struct, gc=False):
    message: Incoming
    on_stored: OnStored
    since_ms: int
    run: OrderedRun | None = None


class Together(Protocol):
    """Records that are stored in one piece, and whose sends are answered in one piece."""

    @property
    def records(self) -> Sequence[NewRecord]:
        """The records, in the order of the sends."""

    @property
    def body_bytes(self) -> int:
        """The size of all bodies."""

    def answer(
        self, stored: int, failure: PutOutcome | None, status: PutStatus = PutStatus.PUT_OK
    ) -> None:
        """Answer all: the first ``stored`` ones are stored, the others failed.

        The stored ones may be late: ``status`` says whether disk or replicas are not known to have
        them.
        """


class _Batch(msgspec.Struct, gc=False):
    together: Together
    since_ms: int


class _BatchRun:
    """Batches that follow each other, and what became of their records."""

    __slots__ = ("batches", "records", "result")

    def __init__(self) -> None:
        self.batches: list[_Batch] = []
        self.records: list[NewRecord] = []
        self.result = PutRecords(0, None)


class Inbox:
    """Stores messages in the next turn of the loop and reports the results to callbacks.

    ``call_soon`` is ``loop.call_soon``.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        settings: LiveSettings,
        stats: BrokerStats,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        durability: Durability,
    ) -> None:
        self._store = store
        self._durability = durability
        self._settings = settings
        self._stats = stats
        self._clock = clock
        self._call_soon = call_soon
        self._pending: deque[_Pending | _Batch] = deque()
        self._in_batches = 0  # pending records in batches, beyond one for each batch
        self._for_disk = 0  # messages that are stored and not acknowledged yet
        self._waiting_bytes = 0  # bodies of pending messages and of these
        self._scheduled = False
        self._held: dict[str, list[tuple[_Pending, PutResult, int]]] = {}  # by topic
        self._in_runs = 0  # pending messages that are in a run
        # The time of the last turn, or of the first message after an empty one.
        self._now_ms = 0

    def __repr__(self) -> str:
        return f"<Inbox {len(self._pending)} waiting, {self._for_disk} for the disk>"

    @property
    def waiting(self) -> int:
        """Messages without a result yet."""
        return len(self._pending) + self._in_batches + self._for_disk

    @property
    def room(self) -> int:
        """How many more messages may be put now."""
        if self._waiting_bytes >= fast_fail.WAITING_BYTES_MAX:
            return 0
        return max(self._settings.broker.send_thread_pool_queue_capacity - self.waiting, 0)

    def is_held(self, topic: str) -> bool:
        """Return whether sends to a topic are held; only ``put`` may be used for them."""
        return topic in self._held

    @property
    def head_wait_ms(self) -> int:
        """How long the oldest pending message has waited; 0 if there is none."""
        if not self._pending:
            return 0
        return max(self._clock.monotonic_ms() - self._pending[0].since_ms, 0)

    def put(
        self,
        message: Incoming,
        on_stored: OnStored,
        run: OrderedRun | None = None,
        more_wait_ms: int = 0,
    ) -> None:
        """Store a message in a later turn; ``on_stored`` is called once with the result.

        That is when the message is refused or stored, and flushed if settings and message require
        it. Its body may be a view; it is copied when it is stored. All messages of a ``run`` are
        put without a pause. It may wait ``more_wait_ms`` longer than a send before it is refused.
        If the inbox is full, raise Refusal; ``on_stored`` is not called then.
        """
        waiting = self.waiting
        if (
            waiting >= self._settings.broker.send_thread_pool_queue_capacity
            or self._waiting_bytes >= fast_fail.WAITING_BYTES_MAX
        ):
            self._refuse(waiting)
        self._schedule()
        since_ms = self._now_ms + more_wait_ms
        self._pending.append(_Pending(message, on_stored, since_ms, run))
        if run is not None:
            self._in_runs += 1
        self._waiting_bytes += len(message.body)

    def put_together(self, together: Together) -> None:
        """Store records in a later turn, in one piece; there is ``room`` for them.

        ``answer`` is called once, when ``on_stored`` of single messages would be.
        """
        self._schedule()
        self._pending.append(_Batch(together, self._now_ms))
        self._in_batches += len(together.records) - 1
        self._waiting_bytes += together.body_bytes

    def flush(self) -> None:
        """Store all pending messages now: for a stop, or before a topic is deleted."""
        while self._pending:
            self._store_some(self._clock.monotonic_ms())

    def hold(self, topics: Iterable[str]) -> None:
        """Acknowledge no send to these topics until they are released."""
        for topic in topics:
            self._held.setdefault(topic, [])

    def release(self, topics: Iterable[str], *, saved: bool = True) -> None:
        """Acknowledge the held sends to these topics; what is not ``saved`` is not on disk yet."""
        for topic in topics:
            for one, result, elapsed_ms in self._held.pop(topic, ()):
                self._for_disk -= 1
                if not saved and result.status is PutStatus.PUT_OK:
                    result = with_status(result, PutStatus.FLUSH_DISK_TIMEOUT)
                self._settle([one], [result], elapsed_ms)

    # Inside

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._now_ms = self._clock.monotonic_ms()
            self._call_soon(self._run)

    def _refuse(self, waiting: int) -> None:
        settings = self._settings.broker
        refusal = fast_fail.queue_full(
            waiting,
            self._waiting_bytes,
            capacity=settings.send_thread_pool_queue_capacity,
            oldest_ms=self.head_wait_ms,
            stored=self._for_disk,
        )
        if refusal is not None:
            raise refusal

    def _run(self) -> None:
        """Do one turn, and schedule another if messages are left."""
        self._scheduled = False
        now_ms = self._clock.monotonic_ms()
        try:
            if self._settings.broker.broker_fast_failure_enable:
                self._refuse_late(now_ms)
            self._store_some(now_ms)
        finally:
            if self._pending and not self._scheduled:  # a callback may have put another
                self._scheduled = True
                self._call_soon(self._run)

    def _refuse_late(self, now_ms: int) -> None:
        limit_ms = self._settings.broker.wait_time_mills_in_send_queue
        while self._pending:
            waited_ms = now_ms - self._pending[0].since_ms
            refusal = fast_fail.waited_too_long(waited_ms, self._unstored, limit_ms=limit_ms)
            if refusal is None:
                return  # the rest came later
            self._refuse_first(refusal)

    def _refuse_behind(self, write_ms: int, now_ms: int) -> None:
        """Refuse what waited behind a write that took too long."""
        limit_ms = self._settings.broker.os_page_cache_busy_time_out_mills
        while self._pending:
            refusal = fast_fail.disk_busy(
                now_ms - self._pending[0].since_ms,
                self._unstored,
                write_ms=write_ms,
                limit_ms=limit_ms,
            )
            if refusal is None:
                return
            self._refuse_first(refusal)

    def _refuse_first(self, refusal: Refusal) -> None:
        one = self._pending.popleft()
        if isinstance(one, _Batch):
            self._leave(one)
            self._waiting_bytes -= one.together.body_bytes
            _report_batch(one, 0, refusal)
            return
        self._waiting_bytes -= len(one.message.body)
        if one.run is not None:
            self._in_runs -= 1
            one.run.is_broken = True
        _report(one, refusal)

    @property
    def _unstored(self) -> int:
        return len(self._pending) + self._in_batches

    def _leave(self, batch: _Batch) -> None:
        self._in_batches -= len(batch.together.records) - 1

    def _take_some(self) -> list[_Pending | _Batch]:
        pending, size, count = self._pending, 0, 0
        taken: list[_Pending | _Batch] = []
        while pending and count < _TURN_MESSAGES and size < _TURN_BYTES:
            one = pending.popleft()
            if isinstance(one, _Batch):
                self._leave(one)
                size += one.together.body_bytes
                count += len(one.together.records)
            else:
                size += len(one.message.body)
                count += 1
            taken.append(one)
        return taken

    def _store_some(self, now_ms: int) -> None:
        taken = self._take_some()
        if not self._in_runs:
            self._store_together(taken, now_ms)
        else:
            for run, group in groupby(taken, key=_run_of):
                if run is None:
                    self._store_together(list(group), now_ms)
                else:
                    self._store_run(run, cast(list[_Pending], list(group)), now_ms)
        if self._settings.broker.broker_fast_failure_enable:
            self._refuse_behind(self._now_ms - now_ms, self._now_ms)

    def _store_together(self, taken: Sequence[_Pending | _Batch], now_ms: int) -> None:
        """Store messages and batches by one append; batches that follow each other are one part."""
        parts: list[Part] = []
        singles: list[_Pending] = []
        runs: list[_BatchRun] = []
        for one in taken:
            if isinstance(one, _Pending):
                singles.append(one)
                parts.append(one.message)
                continue
            if not runs or parts[-1] is not runs[-1].records:
                runs.append(_BatchRun())
                parts.append(runs[-1].records)
            runs[-1].batches.append(one)
            runs[-1].records += one.together.records
        results = self._append(parts)
        self._now_ms = self._clock.monotonic_ms()
        of_singles = [one for one in results if isinstance(one, PutResult)]
        of_runs = [one for one in results if isinstance(one, PutRecords)]
        for run, result in zip(runs, of_runs, strict=True):
            run.result = result
        if self._durability.waits:
            self._wait_for_disk(singles, of_singles, now_ms)
            self._batches_wait_for_disk(runs, now_ms)
        else:
            self._settle(singles, of_singles, self._now_ms - now_ms)
            self._settle_batches(runs, self._now_ms - now_ms)

    def _append(self, parts: Sequence[Part]) -> Sequence[PutResult | PutRecords]:
        try:
            return self._store.append(parts)
        except Exception as error:  # our own fault: the answers are due all the same
            count = sum([len(one) if isinstance(one, list) else 1 for one in parts])
            log.exception("%d messages could not be stored", count)
            fault = PutResult(status=PutStatus.UNKNOWN_ERROR, remark=str(error))
            return [result_of(one, fault) for one in parts]

    # Batches

    def _batches_wait_for_disk(self, runs: Sequence[_BatchRun], began_ms: int) -> None:
        """Answer what is stored when disk and replicas have it, and the rest now."""
        held = [run for run in runs if run.result.stored]
        self._settle_batches(
            [run for run in runs if not run.result.stored], self._now_ms - began_ms
        )
        if held:
            self._for_disk += sum([len(run.records) for run in held])
            last = held[-1].records[held[-1].result.stored - 1]
            settled = partial(self._batches_waited, held, began_ms)
            self._durability.wait_for(last.commit_log_offset + last.size, settled)

    def _batches_waited(self, runs: Sequence[_BatchRun], began_ms: int, status: PutStatus) -> None:
        self._for_disk -= sum([len(run.records) for run in runs])
        self._settle_batches(runs, self._clock.monotonic_ms() - began_ms, status)

    def _settle_batches(
        self,
        runs: Sequence[_BatchRun],
        elapsed_ms: int,
        status: PutStatus = PutStatus.PUT_OK,
    ) -> None:
        self._count([one for run in runs for one in run.records[: run.result.stored]], elapsed_ms)
        for run in runs:
            stored, failure = run.result.stored, run.result.failure
            if stored < len(run.records):
                self._stats.not_stored(len(run.records) - stored)
            for batch in run.batches:
                count = len(batch.together.records)
                self._waiting_bytes -= batch.together.body_bytes
                _report_batch(batch, min(stored, count), failure, status)
                stored = max(stored - count, 0)

    def _count(self, records: Sequence[NewRecord], elapsed_ms: int) -> None:
        """Count stored records once per queue."""
        sums: dict[tuple[str, int], list[int]] = {}
        for one in records:
            key = (one.topic, one.queue_id)
            total = sums.get(key)
            if total is None:
                sums[key] = [1, one.size]
            else:
                total[0] += 1
                total[1] += one.size
        for (topic, queue_id), (count, size) in sums.items():
            self._stats.stored(topic, queue_id, count, size, elapsed_ms, count)

    # Single messages

    def _store_run(self, run: OrderedRun, taken: list[_Pending], now_ms: int) -> None:
        """Store the next messages of a run that may have begun in an earlier turn."""
        self._in_runs -= len(taken)
        if run.is_broken:
            results = [NOT_TRIED] * len(taken)
        else:
            results = self._forward([one.message for one in taken])
            run.is_broken = not results[-1].status.is_stored
        self._now_ms = self._clock.monotonic_ms()
        if self._durability.waits:
            self._wait_for_disk(taken, results, now_ms)
        else:
            self._settle(taken, results, self._now_ms - now_ms)

    def _forward(self, messages: Sequence[Incoming]) -> list[PutResult]:
        try:
            return self._store.forward(messages)
        except Exception as error:  # our own fault: the callbacks are due all the same
            log.exception("%d messages could not be stored", len(messages))
            fault = PutResult(status=PutStatus.UNKNOWN_ERROR, remark=str(error))
            return [fault] * len(messages)

    def _wait_for_disk(
        self, taken: Sequence[_Pending], results: Sequence[PutResult], began_ms: int
    ) -> None:
        """Acknowledge what need not wait now, and the rest when disk and replicas have it."""
        held, held_results = [], []
        others, other_results = [], []
        for one, result in zip(taken, results, strict=True):
            if one.message.wait and result.status is PutStatus.PUT_OK:
                held.append(one)
                held_results.append(result)
            else:
                others.append(one)
                other_results.append(result)
        self._settle(others, other_results, self._now_ms - began_ms)
        if held:
            self._for_disk += len(held)
            settled = partial(self._waited, held, held_results, began_ms)
            self._durability.wait_for(held_results[-1].end, settled)

    def _waited(
        self, held: list[_Pending], results: list[PutResult], began_ms: int, status: PutStatus
    ) -> None:
        self._for_disk -= len(held)
        results = [with_status(result, status) for result in results]
        self._settle(held, results, self._clock.monotonic_ms() - began_ms)

    def _keep_held(
        self, taken: Sequence[_Pending], results: Sequence[PutResult], elapsed_ms: int
    ) -> tuple[list[_Pending], list[PutResult]]:
        """Keep the sends to held topics; return the others with their results."""
        others, other_results = [], []
        for one, result in zip(taken, results, strict=True):
            held = self._held.get(_final_topic(one.message))
            if held is None:
                others.append(one)
                other_results.append(result)
            else:
                self._for_disk += 1
                held.append((one, result, elapsed_ms))
        return others, other_results

    def _settle(
        self, taken: Sequence[_Pending], results: Sequence[PutResult], elapsed_ms: int
    ) -> None:
        """Call the callbacks, and count once per queue, not per message."""
        if self._held:
            taken, results = self._keep_held(taken, results, elapsed_ms)
        # By queue: messages, bytes and sends.
        sums: dict[tuple[str, int], list[int]] = {}
        failed = 0
        for one, result in zip(taken, results, strict=True):
            message, offsets = one.message, result.offsets
            self._waiting_bytes -= len(message.body)
            if offsets:
                key = (message.topic, message.queue_id)
                total = sums.get(key)
                if total is None:
                    sums[key] = [len(offsets), result.end - offsets[0], 1]
                else:
                    total[0] += len(offsets)
                    total[1] += result.end - offsets[0]
                    total[2] += 1
            elif result is not NOT_TRIED:
                failed += 1
            _report(one, result)
        for (topic, queue_id), (count, size, times) in sums.items():
            self._stats.stored(topic, queue_id, count, size, elapsed_ms, times)
        if failed:
            self._stats.not_stored(failed)


def _run_of(one: _Pending | _Batch) -> OrderedRun | None:
    return one.run if isinstance(one, _Pending) else None


def _report_batch(
    batch: _Batch,
    stored: int,
    failure: PutOutcome | None,
    status: PutStatus = PutStatus.PUT_OK,
) -> None:
    try:
        batch.together.answer(stored, failure, status)
    except Exception:  # the other answers are due all the same
        log.exception("%r could not be answered", batch.together)


def _report(one: _Pending, outcome: PutOutcome) -> None:
    try:
        one.on_stored(outcome)
    except Exception:  # the other callbacks are due all the same
        log.exception("the callback of a message of %s failed", one.message.topic)


def _final_topic(message: Incoming) -> str:
    """Return the topic that consumers read a message from: others are stored elsewhere first."""
    if message.topic not in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC):
        return message.topic
    real = _real_topic(message.properties)
    return message.topic if real is None else real.decode(errors="replace")
