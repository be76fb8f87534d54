"""Messages with a delivery time: from the timer topic into the wheel, and out when they are due.

::

    rmq_sys_wheel_timer ── taken in, in order ──▶ wheel ── slot due ──▶ REAL_TOPIC, REAL_QID
            ▲                                       │
            └──────── due later: put back ◀─────────┘

    a due slot:  COLLECTING its units, and recalls ──▶ DELIVERING, in order ──▶ passed

Laws:

- Slots are delivered one after the other, the messages of a slot in the order they were stored. If
  one can't be stored now, all wait for it.
- A slot is due when all messages stored before its end are taken in: a recall that came in time is
  in the wheel before the message is delivered.
- No loss: the checkpoint on disk is never ahead of the copies on disk.
- A clock that is set back is followed, or messages would wait until it has caught up.
- No duplicates: a start may find that a slot was delivered, in part, after the last checkpoint. It
  looks for the copies by their unique keys, as ``delays`` does.
"""

import logging
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from orbitmq.broker.sending.delivered_copies import (
    NEVER_STORED,
    due_message,
    find_alike,
    real_topic_of,
)
from orbitmq.broker.sending.inbox import Inbox, OrderedRun, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.timer_counts import TimerCounts
from orbitmq.errors import StoreError
from orbitmq.message import properties
from orbitmq.message.names import PROPERTIES_SIZE_LIMIT, TIMER_TOPIC
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.message.tags import java_hash
from orbitmq.net.refusal import Refusal
from orbitmq.store.disk.open_files import is_full, is_shortage
from orbitmq.store.log.append import Incoming, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import unpack
from orbitmq.store.timers.timer_files import Save, TimerFiles, TimerRecord
from orbitmq.store.timers.timer_log import ROLL, Unit
from orbitmq.threads import Future, Workers

__all__ = ["Timers"]

log = logging.getLogger("orbitmq.broker")

_TAKEN_AT_ONCE: Final = 256
"""Messages that are taken in per turn of the loop."""
_UNITS_AT_ONCE: Final = 1024
"""Units of a due slot that are collected per turn."""
_PASSED_AT_ONCE: Final = 10_000
"""Empty slots that are passed one by one: nearly three hours, a few milliseconds of work."""
_AT_ONCE: Final = 256
"""Messages of a slot that are in flight to the log at a time."""
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Their bytes at most, which leaves room in the inbox for sends of clients."""
_STEPS_BACK: Final = 2
"""Slots that a clock may be set back by without effect: then timers are late by these."""
_CLEAN_MS: Final = 30_000
_RATE_MS: Final = 1_000

_TOPIC: Final = TIMER_TOPIC.encode()
_ENQUEUED: Final = properties.TIMER_ENQUEUE_MS.encode()
_VALUE_END: Final = properties.VALUE_END.encode()
_TIMES: Final = properties.join(
    {properties.TIMER_ENQUEUE_MS: "%d", properties.TIMER_DEQUEUE_MS: "%d"}
)
_out_ms = properties.finder(properties.TIMER_OUT_MS.encode())
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_recalled_key = properties.finder(properties.TIMER_DELETE_UNIQUE_KEY.encode())
_roll_times = properties.finder(properties.TIMER_ROLL_TIMES.encode())


class _DueSlot(msgspec.Struct, kw_only=True):
    """A slot that is being delivered; its messages are numbered from the oldest, which is 0."""

    time_ms: int
    chain: Iterator[tuple[int, Unit]] | None
    """The units that are not collected yet, the newest first."""
    positions: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    """The positions of collected units, the newest first."""
    recalls: dict[str, str] = msgspec.field(default_factory=dict)
    """Keys of recalled messages → their topics; those that are found are removed."""
    recalled: set[str] = msgspec.field(default_factory=set)
    delivered: int = 0
    """Every message before this one is delivered."""
    stored: set[int] = msgspec.field(default_factory=set)
    """Messages from ``delivered`` on that are delivered."""
    in_flight: int = 0
    waits: bool = False
    """Whether one of the last messages could not be stored; the next tick retries."""
    has_moved: bool = False
    """Whether units of it were added to later slots."""

    def position(self, number: int) -> int:
        return self.positions[-1 - number]


class _Rate:
    """How often something happened, per second, in the last whole second."""

    def __init__(self) -> None:
        self.count = 0
        self.per_second = 0.0
        self._since: tuple[int, int] | None = None

    def sample(self, now_ms: int) -> None:
        since_ms, count = self._since or (now_ms, self.count)
        if now_ms - since_ms >= _RATE_MS:
            self.per_second = round((self.count - count) * 1000 / (now_ms - since_ms), 1)
        if self._since is None or now_ms - since_ms >= _RATE_MS:
            self._since = (now_ms, self.count)


class Timers:
    """Takes messages in and delivers them. Call ``open``, ``start``, then ``tick`` every 100 ms.

    ``call_soon`` is ``loop.call_soon``, and ``post`` schedules a call on the loop's thread.
    """

    def __init__(
        self,
        *,
        files: TimerFiles,
        store: MessageStore,
        inbox: Inbox,
        settings: LiveSettings,
        counts: TimerCounts,
        workers: Workers,
        call_soon: Callable[[Callable[[], None]], object],
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._files = files
        self._store = store
        self._inbox = inbox
        self._settings = settings
        self.counts = counts
        """How many messages wait, by topic."""
        self._workers = workers
        self._call_soon = call_soon
        self._post = post
        self._now_ms = 0
        self._is_scheduled = False
        self._stopped = not settings.store.timer_wheel_enabled
        self._slot: _DueSlot | None = None
        self._unsure_to_ms = 0  # slots up to this time may have been delivered before the start
        self._saving: Save | None = None
        self._save_work: Future[None] | None = None
        self._saved_at_ms = 0
        self._cleaned_at_ms = 0
        self._has_failed = False  # a save failed for good
        self._ahead_ms = 0  # where they were when they followed a clock back, until that is saved
        self._in_trouble = False  # whether the store refuses messages, which is logged once
        self._taken_in, self._delivered = _Rate(), _Rate()

    def __repr__(self) -> str:
        return f"<Timers {self._files!r}>"

    @property
    def is_settled(self) -> bool:
        """Whether everything due at the last tick is delivered, but for what the store refuses."""
        if self._stopped or (self._slot is not None and self._slot.waits):
            return True
        return not self._is_scheduled and (self._slot is None or not self._slot.in_flight)

    # Life

    def open(self, now_ms: int) -> None:
        """Load and recover the files; a worker may call this, after the store is open."""
        if self._stopped:
            return
        store = self._store
        self._files.open(now_ms, store.log.end, store.record, self._queue())
        # Nothing was delivered after the last record was stored. But the files of a master that was
        # replaced are of a later time, and what the next one delivered goes into the slot of then.
        unsure_ms = max(store.log.last_store_ms, now_ms)
        self._unsure_to_ms = unsure_ms + 2 * self._files.wheel.precision_ms

    def start(self, now_ms: int, topics: Collection[str]) -> None:
        """Check the numbers by topic, which a crash may leave behind; ``topics`` are all names.

        Like ``open``, it may run on a worker.
        """
        if not self._stopped and self.counts.total != self._files.waiting:
            self.counts.recount(self._files.count_by_topic(), topics, now_ms)

    def tick(self, now_ms: int) -> None:
        """Take in, deliver and save; ``now_ms`` is the time of day. Call it every 100 ms or so."""
        self._now_ms = now_ms
        if self._stopped:
            return
        self._taken_in.sample(now_ms)
        self._delivered.sample(now_ms)
        if self._slot is not None:
            self._slot.waits = False
        self._schedule()
        try:
            save_every_ms = self._settings.store.timer_flush_interval_ms
            if self._ahead_ms or abs(now_ms - self._saved_at_ms) >= save_every_ms:
                self._saved_at_ms = now_ms
                self._save_soon()
            if abs(now_ms - self._cleaned_at_ms) >= _CLEAN_MS:
                self._cleaned_at_ms = now_ms
                self._files.clean(self._store.log.first_offset)
        except StoreError as error:
            self._note_trouble(f"the timer log can't be written: {error}")

    def stop(self) -> None:
        """Take in and deliver no more; the inbox stores what is in flight."""
        self._stopped = True

    def close(self, *, durable: bool) -> None:
        """Save everything after a stop; ``durable`` is whether all of the log is on disk.

        The rest of a slot of which a part is delivered goes into a later slot, so that no broker
        delivers the part again.
        """
        if not self._settings.store.timer_wheel_enabled:
            return
        try:
            self._finish_save()
            if self._slot is not None and self._slot.delivered and not self._slot.in_flight:
                self._move_rest(self._slot)
            if durable and not self._has_failed:
                save = self._files.take_save(self._now_ms, last=True)
                if save is not None:
                    self._files.save(save)
        except StoreError as error:
            log.error("the timer files could not be saved, the next start recovers them: %s", error)
        finally:
            self._files.close()

    # Reports

    def in_slot(self, time_ms: int) -> int:
        """Return how many messages wait in the slot of a time."""
        return self._files.wheel.slot(time_ms).messages

    def checkpoint(self) -> bytes:
        """Return the checkpoint in Java's layout, for replicas."""
        return self._files.checkpoint.to_bytes()

    def running_info(self) -> Mapping[str, str]:
        """Return the entries of Java's runtime info."""
        is_on = self._settings.store.timer_wheel_enabled and self._now_ms
        queue = self._queue()
        ahead = 0 if queue is None else queue.max_offset - self._files.queue_offset
        behind_ms = self._now_ms - self._files.read_ms
        return {
            "timerReadBehind": str(behind_ms // 1000 if is_on else 0),
            "timerOffsetBehind": str(ahead if is_on else 0),
            "timerCongestNum": str(self._files.waiting if is_on else 0),
            "timerEnqueueTps": str(self._taken_in.per_second),
            "timerDequeueTps": str(self._delivered.per_second),
        }

    # Turns

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Do a limited part of the work, and schedule another turn if there is more."""
        self._is_scheduled = False
        if self._stopped:
            return
        has_more = not self._follows_clock() and self._take_in()
        if self._deliver() or has_more:
            self._schedule()

    def _follows_clock(self) -> bool:
        """Follow a clock that was set back; return whether that is under way.

        What was due by it is delivered first. Then nothing is taken in until the checkpoint on disk
        says so: a start would take new messages for delivered ones.
        """
        files = self._files
        behind_ms = files.write_ms - files.floor(self._now_ms)
        if self._ahead_ms:
            return True
        if behind_ms <= _STEPS_BACK * files.wheel.precision_ms or self._has_failed:
            return False
        if files.read_ms < files.write_ms or self._saving is not None:
            return True
        ahead_ms = files.read_ms
        if files.follow_clock(self._now_ms):
            self._ahead_ms = ahead_ms
        return bool(self._ahead_ms)

    # Taking in

    def _take_in(self) -> bool:
        """Add the next messages of the timer topic; return whether there are more."""
        files, queue, settings = self._files, self._queue(), self._settings.store
        now_ms = files.floor(self._now_ms)
        if queue is not None:
            self._correct(queue)
        if queue is None or files.queue_offset == queue.max_offset or settings.timer_stop_enqueue:
            files.write_ms = max(files.write_ms, now_ms)
            return False
        window_ms, before = files.roll_window_ms(settings), files.queue_offset
        for entry in unpack(queue.entries(before, _TAKEN_AT_ONCE)):
            if not self._take_one(entry.commit_log_offset, window_ms):
                files.write_ms = max(files.write_ms, now_ms)  # slots have to be delivered first
                return False
            files.queue_offset += 1
            self._taken_in.count += 1
        return files.queue_offset > before

    def _take_one(self, offset: int, window_ms: int) -> bool:
        """Add one message; return False if the ring has no room for it now."""
        view = self._store.record(offset)
        record = None if view is None else view.filed()
        timer = None if record is None else _timer_record(record)
        topic = None if record is None else real_topic_of(record)
        if record is None or timer is None or topic is None:
            log.error(
                "skipping the message at log offset %d: it can't be read, or has no TIMER_OUT_MS "
                "and REAL_TOPIC",
                offset,
            )
            return True
        files = self._files
        if record.queue_offset > files.queue_offset:
            return True  # the entry of a lost message is that of the next one
        # What is stored before it is in the wheel. The clock may have been ahead then.
        stored_ms = min(record.store_timestamp_ms, self._now_ms)
        files.write_ms = max(files.write_ms, files.floor(stored_ms))
        if not files.add(timer, window_ms):
            return False
        self.counts.add(topic, -1 if timer.is_recall else 1, self._now_ms)
        return True

    def _correct(self, queue: ConsumeQueue) -> None:
        """Bring the offset into the queue: files expire, and a log may have lost its end."""
        files = self._files
        inside = min(max(files.queue_offset, queue.min_offset), queue.max_offset)
        if inside != files.queue_offset:
            log.error(
                "timers were at offset %d, their queue is from %d to %d; they are moved there",
                *(files.queue_offset, queue.min_offset, queue.max_offset),
            )
            files.queue_offset = inside

    def _queue(self) -> ConsumeQueue | None:
        return self._store.queues.consume_queue(TIMER_TOPIC, 0)

    # Delivering

    def _deliver(self) -> bool:
        """Deliver due messages, up to the limits; return whether more can be done now."""
        files = self._files
        if self._settings.store.timer_stop_dequeue:
            return False
        for _ in range(_PASSED_AT_ONCE):
            if files.read_ms >= files.write_ms:
                return False
            slot = files.wheel.slot(files.read_ms)
            if slot.last >= 0:
                break
            files.pass_slot()
        else:  # the clock was set forward, or the broker did not run for long
            files.pass_empty()
            return True
        if self._slot is None:
            self._slot = _DueSlot(time_ms=files.read_ms, chain=files.chain(slot))
        return self._deliver_slot(self._slot)

    def _deliver_slot(self, due: _DueSlot) -> bool:
        """Do the next part of a slot; return whether more can be done now."""
        if due.in_flight or due.waits:
            return False
        if due.chain is not None:
            self._collect(due, due.chain)
            return True
        if self._hand_over(due):
            return False
        self._advance(due)
        return True

    def _collect(self, due: _DueSlot, chain: Iterator[tuple[int, Unit]]) -> None:
        count = 0
        for position, unit in islice(chain, _UNITS_AT_ONCE):
            count += 1
            if not unit.is_delete:
                due.positions.append(position)
                continue
            record = self._record(unit)
            key = None if record is None else _recalled_key(record.properties)
            if record is not None and key is not None:
                due.recalls[key.decode(errors="replace")] = real_topic_of(record) or ""
        if count < _UNITS_AT_ONCE:
            due.chain = None

    def _hand_over(self, due: _DueSlot) -> bool:
        """Put the next messages of a slot into the inbox; return whether to wait for any."""
        number, size, run = due.delivered, 0, OrderedRun()
        end = min(len(due.positions), number + _AT_ONCE)
        while number < end and size < _BYTES_AT_ONCE:
            if number not in due.stored:
                unit = self._files.unit(due.position(number))
                message = None if unit is None else self._message(due, unit)
                if unit is None or message is None:
                    due.stored.add(number)
                elif self._put(due, number, unit, message, run):
                    size += unit.size
                else:
                    break
            number += 1
        return bool(due.in_flight or due.waits)

    def _put(
        self, due: _DueSlot, number: int, unit: Unit, message: Incoming, run: OrderedRun
    ) -> bool:
        """Put one message; return False if the inbox is full."""
        try:
            self._inbox.put(message, partial(self._on_stored, due, number, unit, message), run)
        except Refusal as refusal:
            due.waits = True
            log.debug("timers wait: %s", refusal)
            return False
        due.in_flight += 1
        return True

    def _on_stored(
        self, due: _DueSlot, number: int, unit: Unit, message: Incoming, outcome: PutOutcome
    ) -> None:
        due.in_flight -= 1
        if isinstance(outcome, Refusal):
            due.waits = True
            log.debug("timers wait: %s", outcome)
        elif outcome.status.is_stored:
            self._note_done(due, number, unit, message)
            self._in_trouble = False
        elif outcome.status in NEVER_STORED:
            log.error(
                "skipping the message at log offset %d, which can't be delivered: %s",
                *(unit.commit_log_offset, outcome.remark),
            )
            self._note_done(due, number, unit, message)
        elif outcome.status is not PutStatus.NOT_TRIED:
            due.waits = True
            self._note_trouble(f"timers wait: {outcome.remark}")
        if not due.in_flight:
            self._advance(due)
            if not due.waits and not self._stopped:
                self._schedule()

    def _note_trouble(self, why: str) -> None:
        """Log a failure that the next ticks retry, once until something is delivered."""
        if not self._in_trouble:
            self._in_trouble = True
            log.warning("%s", why)

    def _note_done(self, due: _DueSlot, number: int, unit: Unit, message: Incoming) -> None:
        """Note that a message is delivered, or can't be."""
        due.stored.add(number)
        self._delivered.count += 1
        topic = message.topic
        if topic is TIMER_TOPIC:
            topic = real_topic_of(message) or ""
        self.counts.add(topic, -unit.weight, self._now_ms)

    def _advance(self, due: _DueSlot) -> None:
        """Move past delivered messages; after the last one of the slot, go on to the next slot."""
        while due.delivered in due.stored:
            due.stored.remove(due.delivered)
            due.delivered += 1
        if due.delivered == len(due.positions) and due.chain is None:
            self._pass(due)

    def _pass(self, due: _DueSlot) -> None:
        for topic in due.recalls.values():  # recalls of messages that were not there
            self.counts.add(topic, 1, self._now_ms)
        self._slot = None
        self._files.pass_slot()
        queue = self._queue() if due.has_moved else None
        newest = None if queue is None else queue.entry(self._files.queue_offset - 1)
        if newest is not None:
            self._files.mark_newest(newest.commit_log_offset, newest.size)

    def _move_rest(self, due: _DueSlot) -> None:
        for number in range(due.delivered, len(due.positions)):
            unit = self._files.unit(due.position(number))
            if unit is not None and not self._is_recalled(due, unit):
                self._files.move_on(self._files.write_ms, unit)
                due.has_moved = True
        self._pass(due)

    # Messages

    def _record(self, unit: Unit) -> RecordView | None:
        """Return the record of a unit; None if it is gone."""
        record = self._store.record(unit.commit_log_offset)
        return record if record is not None and record.topic == _TOPIC else None

    def _message(self, due: _DueSlot, unit: Unit) -> Incoming | None:
        """Return the message to store for a unit; None if there is nothing to store."""
        record = self._record(unit)
        message = None if record is None else due_message(record)
        if record is None or message is None:
            log.error(
                "skipping the message at log offset %d: its record is gone, or has no REAL_TOPIC "
                "and REAL_QID",
                unit.commit_log_offset,
            )
            return None
        if self._is_recalled(due, unit):
            return None
        rolls = bool(unit.magic & ROLL)
        if due.time_ms <= self._unsure_to_ms and self._is_done(record, message, rolls):
            self.counts.add(message.topic, -unit.weight, self._now_ms)
            return None
        if rolls and self._is_late(due, record, unit):
            return None
        text = _with_times(message.properties, unit.written_ms, self._now_ms, rolls=rolls)
        if rolls:
            return msgspec.structs.replace(message, topic=TIMER_TOPIC, queue_id=0, properties=text)
        return msgspec.structs.replace(message, properties=text)

    def _is_late(self, due: _DueSlot, record: RecordView, unit: Unit) -> bool:
        """Move a message that would be put back to its own slot if that is due, too.

        After a long pause a recall and its message must still meet in one slot.
        """
        timer = _timer_record(record.filed())
        if timer is None or timer.deliver_ms >= self._files.write_ms:
            return False
        later_ms = max(timer.deliver_ms, due.time_ms + self._files.wheel.precision_ms)
        self._files.move_on(later_ms, unit._replace(magic=unit.magic & ~ROLL))
        due.has_moved = True
        return True

    def _is_recalled(self, due: _DueSlot, unit: Unit) -> bool:
        """Return whether a message of a slot is recalled by another one of the slot."""
        if not (due.recalls or due.recalled) or unit.magic & ROLL:
            return False
        record = self._record(unit)
        key = None if record is None else _unique_key(record.properties)
        if record is None or key is None:
            return False
        name = key.decode(errors="replace")
        for wanted in (name, f"{real_topic_of(record)}+{name}"):  # Java 5.4, and before
            if due.recalls.pop(wanted, None) is not None:
                due.recalled.add(wanted)
            if wanted in due.recalled:
                return True
        return False

    def _is_done(self, record: RecordView, message: Incoming, rolls: bool) -> bool:
        """Return whether the log has the copy of a message that a start found waiting.

        The same message may have been sent twice; the second counts as delivered if there are two
        copies.
        """
        times = _times_rolled(record)
        waiting = find_alike(self._store, record, TIMER_TOPIC, 0)
        copies = waiting if rolls else find_alike(
            self._store, record, message.topic, message.queue_id
        )  # fmt: skip
        done = sum(_times_rolled(copy) == times + rolls for copy in copies.values())
        sent = sum(
            _times_rolled(one) == times and offset <= record.commit_log_offset
            for offset, one in waiting.items()
        )
        return done >= sent > 0

    # Saving

    def _save_soon(self) -> None:
        """Let a worker save the files when the log is flushed, unless a save is in flight."""
        if self._saving is not None or self._has_failed:
            return
        save = self._files.take_save(self._now_ms)
        if save is not None:
            self._saving = save
            self._store.when_durable(self._store.log.end, partial(self._save, save))
            self._store.flush_soon()

    def _save(self, save: Save, durable: bool) -> None:
        if self._saving is not save:
            return  # a stop took it back
        if not durable:
            self._saving = None
            self._files.put_back(save)
            return
        work = self._workers.submit(self._files.save, save)
        self._save_work = work
        work.add_done_callback(
            lambda done: self._post(
                lambda: None if done.cancelled() else self._saved(save, done.exception())
            )
        )

    def _saved(self, save: Save, error: BaseException | None) -> None:
        if self._saving is not save:
            return  # a stop has waited for it
        self._saving = self._save_work = None
        if error is None:
            self._files.saved(save)
            self._ahead_ms = 0
        elif is_shortage(error) or is_full(error):
            self._files.put_back(save)
            self._note_trouble(f"the timer files can't be saved now: {error}")
        elif isinstance(error, StoreError):
            # What is on disk is unknown. The next start recovers from the last checkpoint.
            self._has_failed = True
            if self._ahead_ms:
                self._files.stay_at(self._ahead_ms)
                self._ahead_ms = 0
            log.critical("the timer files can't be saved any more: %s", error)
        else:
            raise error

    def _finish_save(self) -> None:
        """Wait for a save in flight, or take back one that waits for the log."""
        if self._saving is None:
            return
        if self._save_work is not None:
            self._saved(self._saving, self._save_work.exception())
        else:
            self._files.put_back(self._saving)
            self._saving = None


def _timer_record(record: Filed) -> TimerRecord | None:
    """Return what the wheel needs of a message; None if it has no delivery time."""
    text = record.properties
    out_ms, topic = _out_ms(text), real_topic_of(record)
    if out_ms is None or topic is None or not (out_ms.isdigit() and len(out_ms) < 19):
        return None
    return TimerRecord(
        record.commit_log_offset,
        record.size,
        int(out_ms),
        _recalled_key(text) is not None,
        java_hash(topic),
    )


def _times_rolled(record: RecordView) -> int:
    text = _roll_times(record.properties)
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else 0


def _with_times(text: bytes, enqueued_ms: int, now_ms: int, *, rolls: bool) -> bytes:
    """Return the properties of a copy: with the times at which it was taken in and out."""
    if not rolls and _ENQUEUED not in text and text.endswith(_VALUE_END):
        longer = text + _TIMES % (enqueued_ms, now_ms)
        return longer if len(longer) <= PROPERTIES_SIZE_LIMIT else text
    found = properties.decode(text)
    found[properties.TIMER_ENQUEUE_MS] = str(enqueued_ms)
    found[properties.TIMER_DEQUEUE_MS] = str(now_ms)
    if rolls:
        times = found.get(properties.TIMER_ROLL_TIMES, "0")
        known = int(times) if times.isdecimal() and len(times) < 10 else 0
        found[properties.TIMER_ROLL_TIMES] = str(known + 1)
    longer = properties.join(found)
    # The message was accepted, so it is delivered, with the properties that fit.
    return longer if len(longer) <= PROPERTIES_SIZE_LIMIT else text
