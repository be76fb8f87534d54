"""The timer files of a store as a whole: adding, finding what is due, saving, recovery.

::

    timer topic ── add ──▶ slot of its time ── write time passes it ──▶ due ── delivered ──▶ done
    queue_offset              │    read_ms … write_ms
                              └─ save: commit log flushed ─▶ timer log ─▶ wheel ─▶ checkpoint

Laws:

- Units go into slots from ``write_ms`` on; slots before it are due. So a due slot doesn't change.
- The timer topic in the commit log is the truth. A start takes the units that the log of timers
  has, drops those whose records are lost, and the rest of the topic is added again.
- The checkpoint claims only what is on disk: units, their slots and their records, and of delivered
  slots the copies. The wheel on disk has no unit that the timer log on disk doesn't have.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from orbitmq.message import properties
from orbitmq.message.names import TIMER_TOPIC
from orbitmq.message.record_view import RecordView
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import parent_of, remove_tree
from orbitmq.store.disk.open_files import MakeRoom, Unsynced
from orbitmq.store.layout import path_join
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.settings import StoreSettings
from orbitmq.store.timers.checkpoint import TimerCheckpoint, read_checkpoint, write_checkpoint
from orbitmq.store.timers.timer_log import DELETE, NONE, NORMAL, ROLL, UNIT_SIZE, TimerLog, Unit
from orbitmq.store.timers.wheel import SLOTS, Page, Slot, Wheel

__all__ = ["Save", "TimerFiles", "TimerRecord", "forget_timers"]

log = logging.getLogger("orbitmq.store")

RecordOf: TypeAlias = Callable[[int], RecordView | None]
"""Returns the record of the commit log at an offset; None if none begins there."""

_TOPIC: Final = TIMER_TOPIC.encode()
_out_ms = properties.finder(properties.TIMER_OUT_MS.encode())
_LOG: Final = "timerlog"
_WHEEL: Final = "timerwheel"
_CHECKPOINT: Final = "config/timercheck"
_BLANK_SLOTS: Final = 60
"""Slots of the ring that stay free between the newest and the oldest, as in Java."""


class TimerRecord(NamedTuple):
    """A message of the timer topic, as it is added."""

    commit_log_offset: int
    size: int
    deliver_ms: int
    is_recall: bool
    topic_hash: int


class Save(NamedTuple):
    """What a worker has to bring to disk, in this order."""

    unsynced: Unsynced
    pages: list[Page]
    values: TimerCheckpoint


def forget_timers(disk: Disk, directory: str) -> None:
    """Remove the files of a store whose log is going to be cut: they name records by their places.

    The next start makes them again from the timer topic, and delivers nothing twice.
    """
    for name in (_CHECKPOINT, _WHEEL):
        if disk.exists(path := path_join(directory, name)):
            disk.remove(path)
            disk.sync_directory(parent_of(path))
    if disk.exists(path := path_join(directory, _LOG)):
        remove_tree(disk, path)


class TimerFiles:
    """The timer log, the wheel and the checkpoint below a store directory.

    All files are created with the first message that waits. ``slots`` is for tests.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: StoreSettings,
        *,
        make_room: MakeRoom = lambda: None,
        slots: int = SLOTS,
    ) -> None:
        self._disk = disk
        self._wheel_path = path_join(directory, _WHEEL)
        self._checkpoint_path = path_join(directory, _CHECKPOINT)
        file_bytes = settings.timer_log_file_bytes
        self._log = TimerLog(disk, path_join(directory, _LOG), file_bytes, make_room)
        self._file_bytes = file_bytes
        self.wheel = Wheel(settings.timer_precision_ms, slots)
        self._ring_ms = (slots - _BLANK_SLOTS) * settings.timer_precision_ms
        self.checkpoint = TimerCheckpoint()
        """The values on disk."""
        self.read_ms = 0
        """The oldest slot that is not delivered."""
        self.write_ms = 0
        """Slots before this time are due."""
        self.queue_offset = 0
        """The next message of the timer topic to add."""
        self.waiting = 0
        """How many messages wait."""
        self._is_passed = False  # whether slots with messages were delivered since the last save
        self._too_far_ms = -1  # from where it can't go back to the present; that was logged

    def __repr__(self) -> str:
        return f"<TimerFiles {self.waiting} waiting, {self._log!r}>"

    def floor(self, time_ms: int) -> int:
        """Return the time of the slot that a time is in."""
        return time_ms - time_ms % self.wheel.precision_ms

    def roll_window_ms(self, settings: StoreSettings) -> int:
        """Return how long a record may wait before it is put into the timer topic again.

        It is shorter than Java's if log files are kept for less than three days: a record must
        not expire while its message waits.
        """
        slots = settings.timer_roll_window_slots
        largest = self.wheel.slots // 2 - _BLANK_SLOTS
        window_ms = (slots if 2 <= slots <= largest else largest) * self.wheel.precision_ms
        kept_ms = settings.reserved_hours * 3_600_000
        return self.floor(min(window_ms, max(kept_ms * 2 // 3, 2 * self.wheel.precision_ms)))

    # Adding, and what is due

    def add(self, record: TimerRecord, window_ms: int) -> bool:
        """Put a message into the slot of its time; return False if the ring has no room for it.

        One whose time has passed goes into the next slot. One that is due after the roll window
        goes into a slot on the way (Java's ``TimerMessageStore.doEnqueue``).
        """
        now_ms, time_ms, magic = self.write_ms, record.deliver_ms, NORMAL
        if time_ms - now_ms >= window_ms:
            magic |= ROLL
            rest_ms = time_ms - now_ms - window_ms
            time_ms = now_ms + self.floor(window_ms // 2 if rest_ms < window_ms // 3 else window_ms)
        time_ms = self.floor(max(time_ms, now_ms))
        if time_ms - self.read_ms >= self._ring_ms:
            return False
        if record.is_recall:
            magic |= DELETE
        self._append(time_ms, record, magic)
        return True

    def move_on(self, time_ms: int, unit: Unit) -> None:
        """Add a message once more, to the slot of a later time."""
        offset, size, is_recall = unit.commit_log_offset, unit.size, bool(unit.magic & DELETE)
        record = TimerRecord(offset, size, time_ms, is_recall, unit.topic_hash)
        self._append(time_ms, record, unit.magic)

    def mark_newest(self, offset: int, size: int) -> None:
        """Add a unit of the newest message to the slot before ``read_ms``, which is not read again.

        After ``move_on``: Java takes the last unit for that of the newest message.
        """
        time_ms = self.read_ms - self.wheel.precision_ms
        self._append(time_ms, TimerRecord(offset, size, time_ms, False, 0), NORMAL)
        self.waiting -= 1

    def _append(self, time_ms: int, record: TimerRecord, magic: int) -> None:
        previous = self.wheel.slot(time_ms).last
        # A slot that is due since long would give a delay of more than the 32 bits that it has.
        written_ms = min(self.write_ms, time_ms)
        delay_ms = time_ms - written_ms
        offset, size = record.commit_log_offset, record.size
        unit = Unit(previous, magic, written_ms, delay_ms, offset, size, record.topic_hash)
        self.wheel.add(time_ms, self._log.append(unit), unit.weight)
        self.waiting += unit.weight

    def chain(self, slot: Slot) -> Iterator[tuple[int, Unit]]:
        """Yield the units of a slot with their positions, the last first."""
        position = slot.last
        while position != NONE:
            unit = self._log.unit(position)
            if unit is None or unit.previous >= position:
                log.error("the timer log has no unit at %d, or a wrong one; skipping", position)
                return
            yield position, unit
            position = unit.previous

    def unit(self, position: int) -> Unit | None:
        """Return the unit at a position of the timer log."""
        return self._log.unit(position)

    def pass_slot(self) -> None:
        """Go on to the next slot: the messages of this one are delivered."""
        slot = self.wheel.slot(self.read_ms)
        if slot.last != NONE:
            self.waiting -= slot.messages
            self._is_passed = True
        self.read_ms += self.wheel.precision_ms

    def pass_empty(self) -> None:
        """Go on to the next slot that has messages, or past all that are due: walks the wheel."""
        times = (time_ms for time_ms, _ in self.wheel.since(self.read_ms))
        self.read_ms = min(self.write_ms, min(times, default=self.write_ms))

    def follow_clock(self, now_ms: int) -> bool:
        """Go back to the present if the clock was ahead; return whether it was. Nothing may be due.

        Otherwise nothing is delivered until it gets there, as by Java's broker. Slots of this time
        that were delivered too early are cleared. Save before anything is added: a start that finds
        the earlier checkpoint takes what it finds in these slots for delivered.
        """
        present_ms = self.floor(now_ms)
        if self.read_ms <= present_ms or self.read_ms == self._too_far_ms:
            return False
        newest_ms = max((time_ms for time_ms, _ in self.wheel.since(self.read_ms)), default=0)
        if newest_ms - present_ms >= self._ring_ms:
            self._too_far_ms = self.read_ms
            log.error("messages wait for %d ms, which is too far from the clock", newest_ms)
            return False
        log.warning(
            "the clock was ahead by %d s; timers follow it", (self.read_ms - now_ms) // 1000
        )
        for time_ms, _ in list(self.wheel.since(present_ms)):
            if time_ms < self.read_ms:
                self.wheel.put(time_ms, Slot())
        self.read_ms = self.write_ms = present_ms
        self._is_passed = True
        return True

    def stay_at(self, time_ms: int) -> None:
        """Take back that it went back to the present, since that can't be saved."""
        self.read_ms = self.write_ms = time_ms

    def clean(self, log_start: int) -> None:
        """Remove files of the timer log whose messages are gone from the commit log."""
        if count := self._log.clean(log_start):
            log.info("%d files of the timer log removed, up to byte %d", count, self._log.start)

    def count_by_topic(self) -> dict[int, int]:
        """Return how many messages wait, by the hash of their topic."""
        counts: dict[int, int] = {}
        slots = dict(self.wheel.since(self.read_ms))
        first = min((slot.first for slot in slots.values()), default=self._log.end)
        for position, unit in self._log.units_from(first):
            slot = slots.get(unit.slot_ms)
            if slot is not None and slot.first <= position:  # else it was delivered: follow_clock
                counts[unit.topic_hash] = counts.get(unit.topic_hash, 0) + unit.weight
        return counts

    # Saving

    def take_save(self, now_ms: int, *, last: bool = False) -> Save | None:
        """Return what to save; None if nothing changed but the time, unless it is the ``last``.

        Before it is saved, the commit log must be on disk as far as it goes now.
        """
        self._log.write()
        known = self.checkpoint
        pages = self.wheel.take_dirty()
        is_changed = (known.log_end, known.queue_offset) != (self._log.end, self.queue_offset)
        if not (pages or is_changed or self._is_passed or (last and known.changes)):
            return None
        self._is_passed = False
        values = TimerCheckpoint(
            self.read_ms,
            self._log.end,
            self.queue_offset,
            now_ms,
            known.changes + 1,
            self.wheel.precision_ms,
        )
        return Save(self._log.take_unsynced(), pages, values)

    def save(self, save: Save) -> None:
        """Bring everything to disk, and return then. Runs on a worker."""
        save.unsynced.sync(self._disk)
        if save.pages:
            self._write_wheel(save.pages)
        write_checkpoint(self._disk, self._checkpoint_path, save.values)

    def saved(self, save: Save) -> None:
        """Note that a save is done."""
        self.checkpoint = save.values

    def put_back(self, save: Save) -> None:
        """Take back a save that was not begun, or failed for lack of descriptors."""
        self._log.put_back(save.unsynced)
        self.wheel.put_back(save.pages)
        self._is_passed = True

    def _write_wheel(self, pages: list[Page]) -> None:
        is_new = not self._disk.exists(self._wheel_path)
        file = self._disk.open(self._wheel_path, create=True)
        try:
            file.extend(self.wheel.size)
            for page in pages:
                file.write([page.data], page.offset)
            file.sync()
        finally:
            file.close()
        if is_new:
            self._disk.sync_directory(parent_of(self._wheel_path))

    def close(self) -> None:
        """Close the files."""
        self._log.close()

    # Start

    def open(self, now_ms: int, log_end: int, record: RecordOf, queue: ConsumeQueue | None) -> None:
        """Load the files and bring them into agreement with the commit log.

        ``log_end`` is where the commit log ends, ``record`` returns a record of it, and ``queue``
        is that of the timer topic.
        """
        self.checkpoint = known = read_checkpoint(self._disk, self._checkpoint_path)
        self._log.load()
        wheel_is_whole = self._load_wheel()
        end = self._recover_units(self._first_unsure(wheel_is_whole), record)
        end = self._without_lost(end, log_end)
        self._repair_slots(end)
        self._log.end_at(end, known.log_end)
        queue_end = 0 if queue is None else queue.max_offset
        next_offset = max(known.queue_offset, self._next_offset(end, record))
        self.queue_offset = min(next_offset, queue_end)
        self.read_ms = self.write_ms = known.read_ms or self._oldest_ms(now_ms, record, queue)
        self.follow_clock(now_ms)
        self.waiting = sum(slot.messages for _, slot in self.wheel.since(self.read_ms))
        if self.waiting:
            log.info("%d messages wait for their delivery time", self.waiting)
        # Before anything is added: a crash must not find new units where the checkpoint claims old.
        save = self.take_save(now_ms)
        if save is not None:
            self.save(save)
            self.saved(save)

    def _oldest_ms(self, now_ms: int, record: RecordOf, queue: ConsumeQueue | None) -> int:
        """Return where to begin without a checkpoint: added again, messages go into their slots."""
        times = [time_ms for time_ms, _ in self.wheel.since(0)]
        entry = None if queue is None else queue.entry(max(self.queue_offset, queue.min_offset))
        found = None if entry is None else record(entry.commit_log_offset)
        stored_ms = now_ms if found is None else found.store_timestamp_ms
        return min([*times, self.floor(now_ms), self.floor(stored_ms)])

    def _load_wheel(self) -> bool:
        """Load the wheel; return False if there is none, or a crash left a part of it."""
        if not self._disk.exists(self._wheel_path):
            return False
        file = self._disk.open(self._wheel_path, writable=False)
        try:
            is_whole = file.size == self.wheel.size
            if is_whole:
                self.wheel.load(file)
        finally:
            file.close()
        return is_whole

    def _first_unsure(self, wheel_is_whole: bool) -> int:
        """Return the position from which units have to be added to the wheel again."""
        known, start = self.checkpoint, self._log.start
        is_reached = known.log_end == start or self._log.unit(known.log_end - UNIT_SIZE) is not None
        is_same = known.precision_ms in (0, self.wheel.precision_ms)
        if not (wheel_is_whole and is_reached and is_same):
            return start
        if known.precision_ms:
            return known.log_end
        # Java claims less than it wrote, and itself reads a file more than it claims.
        before = known.log_end - self._file_bytes
        return max(start, before - before % self._file_bytes)

    def _recover_units(self, begin: int, record: RecordOf) -> int:
        """Add the units from ``begin`` on to the wheel; return the position after the last."""
        known, end = self.checkpoint, begin
        for position, unit in self._log.units_from(begin):
            if position >= known.log_end and not self._is_whole(position, unit, record):
                break
            if unit.slot_ms >= known.read_ms:
                self.wheel.add(unit.slot_ms, position, unit.weight)
            end = position + UNIT_SIZE
        return end

    def _is_whole(self, position: int, unit: Unit, record: RecordOf) -> bool:
        """Return whether a unit that was perhaps not synced is what was written."""
        found = record(unit.commit_log_offset)
        if found is None or found.size != unit.size or found.topic != _TOPIC:
            return False
        text = _out_ms(found.properties) or b""
        if not (text.isdigit() and len(text) < 20):
            return False
        due_ms = self.floor(int(text))
        if unit.magic & ROLL:
            is_due = unit.written_ms < unit.slot_ms <= due_ms
        else:
            is_due = due_ms <= unit.slot_ms <= max(due_ms, unit.written_ms)
        last = self.wheel.slot(unit.slot_ms).last
        is_chained = last >= position or unit.previous == last or unit.previous < self._log.start
        return is_due and is_chained

    def _without_lost(self, end: int, log_end: int) -> int:
        """Return where the units end without those whose records the commit log has lost."""
        while end > self._log.start:
            unit = self._log.unit(end - UNIT_SIZE)
            if unit is None or unit.commit_log_offset + unit.size <= log_end:
                break
            end = self._log.end_before(end - UNIT_SIZE)
        return end

    def _repair_slots(self, end: int) -> None:
        """Let no slot have a unit from ``end`` on: the records of these are lost."""
        broken = {time_ms: slot for time_ms, slot in self.wheel.since(0) if slot.last >= end}
        if not broken:
            return
        log.warning(
            "the log lost messages that waited for their delivery time: %d slots", len(broken)
        )
        for time_ms in broken:
            self.wheel.put(time_ms, Slot())
        for position, unit in self._log.units_from(min(slot.first for slot in broken.values())):
            if position >= end:
                break
            if unit.slot_ms in broken:
                self.wheel.add(unit.slot_ms, position, unit.weight)

    def _next_offset(self, end: int, record: RecordOf) -> int:
        """Return the queue offset after the last message that has a unit; 0 if unknown."""
        unit = self._log.unit(end - UNIT_SIZE) if end > self._log.start else None
        found = None if unit is None else record(unit.commit_log_offset)
        return 0 if found is None else found.queue_offset + 1
