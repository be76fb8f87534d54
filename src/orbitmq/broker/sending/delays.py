"""Delayed messages wait in SCHEDULE_TOPIC_XXXX, one queue per delay level, until they are due.

::

    a send with DELAY ──▶ SCHEDULE_TOPIC_XXXX, queue = level - 1 ── due ──▶ REAL_TOPIC, REAL_QID
                                  │
                                  └─ the entry's tags code is when it is due

All messages of a level have the same delay, so its queue is in the order of delivery and one
offset is its progress (``delayOffset.json``). Laws:

- A level delivers in order. If a message can't be stored now, the level waits for it; other levels
  go on. The next messages are put when those before are stored.
- No loss: the offset on disk is never ahead of the delivered copies on disk.
- No duplicates: the offset may therefore be behind after a crash, so a start looks for delivered
  copies by their unique keys. A message without one, or not in the key index, is delivered twice
  then, as by Java's broker.
"""

import logging
from collections import deque
from functools import partial
from typing import Final

import msgspec

from orbitmq.broker.sending.delivered_copies import NEVER_STORED, due_message, find_alike
from orbitmq.broker.sending.inbox import Inbox, OrderedRun, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import QueueEntry, unpack
from orbitmq.store.settings import delay_levels
from orbitmq.wire.bodies.offsets import DelayOffsetTable
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["Delays"]

log = logging.getLogger("orbitmq.broker")

_AT_ONCE: Final = 256
"""Messages of a level that are in flight to the log at a time."""
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Their bytes at most, which leaves room in the inbox for sends of clients."""


class _Level(msgspec.Struct, kw_only=True):
    """Progress of one level: ``saved`` ≤ ``delivered`` ≤ what is in flight."""

    number: int
    delay_ms: int
    delivered: int = 0
    """Every entry before this one is delivered."""
    saved: int = 0
    """Every entry before this one is delivered and flushed."""
    in_flight: int = 0
    stored: dict[int, int] = msgspec.field(default_factory=dict)
    """Entries from ``delivered`` on that are delivered → where the copy ends in the log; 0 if the
    message was skipped."""
    waits: bool = False
    """Whether one of the last messages could not be stored; the next tick retries."""
    unflushed: deque[tuple[int, int]] = msgspec.field(default_factory=deque)
    """The next values of ``saved``, each with the log offset that has to be flushed first."""
    in_trouble: bool = False
    """Whether the store refuses messages, which is logged once."""


class Delays:
    """Delivers due messages. Call ``load_json`` and ``start``, then ``tick`` every 100 ms."""

    def __init__(self, *, store: MessageStore, inbox: Inbox, settings: LiveSettings) -> None:
        self._store = store
        self._inbox = inbox
        self._settings = settings
        delays_ms = delay_levels(settings.store.message_delay_level)
        self._levels = {
            number: _Level(number=number, delay_ms=delay_ms)
            for number, delay_ms in enumerate(delays_ms, start=1)
        }
        self._updates = 0
        self._now_ms = 0
        self._stopped = False
        self._data_version = DataVersion()
        self._of_former_levels: dict[int, int] = {}  # kept in case the levels come back

    def __repr__(self) -> str:
        return f"<Delays {len(self._levels)} levels>"

    @property
    def levels(self) -> int:
        """The highest level."""
        return len(self._levels)

    @property
    def is_settled(self) -> bool:
        """Whether everything due at the last tick is delivered, but for what the store refuses."""
        return not any(level.in_flight for level in self._levels.values())

    # Life

    def start(self, now_ms: int) -> None:
        """Correct the offsets by their queues, and skip what the log shows to be delivered."""
        self._now_ms = now_ms
        for level in self._levels.values():
            queue = self._queue(level)
            if queue is None:
                continue
            self._correct(level, queue)
            before = level.delivered
            while self._is_delivered(level, queue, now_ms):
                level.delivered += 1
            if level.delivered > before:
                log.info(
                    "delay level %d: %d messages were already delivered before the last stop",
                    level.number,
                    level.delivered - before,
                )
            level.saved = level.delivered
        self._warn_of_former_levels()

    def _warn_of_former_levels(self) -> None:
        for queue in self._store.queues.queues_of(SCHEDULE_TOPIC):
            number = queue.queue_id + 1
            waiting = queue.max_offset - self._of_former_levels.get(number, queue.min_offset)
            if number not in self._levels and waiting > 0:
                log.warning(
                    "%d messages wait in delay level %d, which does not exist any more; "
                    "messageDelayLevel has %d levels",
                    *(waiting, number, len(self._levels)),
                )

    def tick(self, now_ms: int) -> None:
        """Deliver due messages; ``now_ms`` is the time of day. Call it every 100 ms or so."""
        self._now_ms = now_ms
        for level in self._levels.values():
            if not level.in_flight:
                self._deliver(level)

    def stop(self) -> None:
        """Deliver no more; the inbox stores what is in flight."""
        self._stopped = True

    # Reports, and the file

    def running_info(self) -> dict[str, str]:
        """Return offset and end of each level, as in Java's runtime info."""
        return {
            f"scheduleMessageOffset_{level.number}": f"{level.delivered},{queue.max_offset}"
            for level in self._levels.values()
            if (queue := self._queue(level)) is not None
        }

    @property
    def version(self) -> int:
        """A number that changes whenever ``to_json`` does."""
        self._note_flushed()
        return self._updates

    def to_json(self) -> str:
        """Return the text of ``delayOffset.json``: offsets of messages whose copies will stay.

        Replicas get the same, so that they are never ahead of their logs. For a clean stop call it
        once more after the log is flushed.
        """
        self._note_flushed()
        offsets = {level.number: level.saved for level in self._levels.values() if level.saved}
        offsets |= self._of_former_levels
        table = DelayOffsetTable(data_version=self._data_version, offset_table=offsets)
        return table.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load the offsets of an earlier run; those of levels that no longer exist are kept.

        Raise InvalidBody, and change nothing, if the text is not a table of offsets.
        """
        table = DelayOffsetTable.from_json(text.encode())
        if table.data_version is not None:
            self._data_version = table.data_version
        for number, offset in table.offset_table.items():
            level = self._levels.get(number)
            if level is None:
                self._of_former_levels[number] = offset
            else:
                level.delivered = level.saved = offset

    def take(self, table: DelayOffsetTable) -> None:
        """Take over the progress of the master; for a slave, which delivers nothing."""
        before = self.to_json()
        self.load_json(table.to_json().decode())
        if self.to_json() != before:
            self._updates += 1

    # Delivering

    def _deliver(self, level: _Level) -> None:
        """Put the next due messages of a level, up to the limits."""
        queue = self._queue(level)
        if queue is None or self._stopped:
            return
        self._correct(level, queue)
        offset, size, run = level.delivered, 0, OrderedRun()
        level.waits = False
        for entry in unpack(queue.entries(offset, _AT_ONCE)):
            if size >= _BYTES_AT_ONCE or not self._is_due(level, entry):
                break
            size += entry.size
            is_skipped = offset in level.stored  # an earlier try skipped and logged it
            if not is_skipped and not self._hand_over(level, offset, entry, run):
                break
            offset += 1
        if not level.in_flight:
            self._advance(level)

    def _hand_over(self, level: _Level, offset: int, entry: QueueEntry, run: OrderedRun) -> bool:
        """Put one message; return False if the inbox is full."""
        record = self._store.record(entry.commit_log_offset)
        message = None if record is None else due_message(record)
        if message is None:
            log.error(
                "delay level %d: skipping the message at offset %d: it can't be read, or has no "
                "REAL_TOPIC and REAL_QID",
                level.number,
                offset,
            )
            level.stored[offset] = 0
            return True
        try:
            self._inbox.put(message, partial(self._on_stored, level, offset), run)
        except Refusal as refusal:
            level.waits = True
            log.debug("delay level %d waits: %s", level.number, refusal)
            return False
        level.in_flight += 1
        return True

    def _on_stored(self, level: _Level, offset: int, outcome: PutOutcome) -> None:
        level.in_flight -= 1
        if isinstance(outcome, Refusal):
            level.waits = True
            log.debug("delay level %d waits: %s", level.number, outcome)
        elif outcome.status.is_stored:
            level.stored[offset] = outcome.end
            level.in_trouble = False
        elif outcome.status in NEVER_STORED:
            log.error(
                "delay level %d: skipping the message at offset %d, which can't be delivered: %s",
                level.number,
                offset,
                outcome.remark,
            )
            level.stored[offset] = 0
        elif outcome.status is not PutStatus.NOT_TRIED:
            level.waits = True
            if not level.in_trouble:
                level.in_trouble = True
                log.warning("delay level %d waits: %s", level.number, outcome.remark)
        if not level.in_flight and self._advance(level) and not level.waits:
            self._deliver(level)  # there may be more; after a failure the next tick retries

    def _advance(self, level: _Level) -> bool:
        """Move past stored messages, up to the first that is not; return whether it moved."""
        end, before = 0, level.delivered
        while (ends_at := level.stored.pop(level.delivered, None)) is not None:
            level.delivered += 1
            end = max(end, ends_at)
        if level.delivered == before:
            return False
        level.unflushed.append((level.delivered, end))
        return True

    def _is_due(self, level: _Level, entry: QueueEntry) -> bool:
        # Due later than the delay of the level means that the clock was set back: deliver it.
        return not 0 < self._due_ms(level, entry) - self._now_ms <= level.delay_ms

    def _due_ms(self, level: _Level, entry: QueueEntry) -> int:
        if entry.tags_code >= 0:
            return entry.tags_code
        # A negative tags code is an address in a queue extension, which Java's broker can write.
        record = self._store.record(entry.commit_log_offset)
        return 0 if record is None else record.store_timestamp_ms + level.delay_ms

    def _queue(self, level: _Level) -> ConsumeQueue | None:
        return self._store.queues.consume_queue(SCHEDULE_TOPIC, level.number - 1)

    def _correct(self, level: _Level, queue: ConsumeQueue) -> None:
        """Bring a level's offset into its queue: files expire, and a log may have lost its end."""
        inside = min(max(level.delivered, queue.min_offset), queue.max_offset)
        if inside != level.delivered:
            log.error(
                "delay level %d was at offset %d, its queue is from %d to %d; it is moved there",
                level.number,
                level.delivered,
                queue.min_offset,
                queue.max_offset,
            )
            level.stored.clear()
            level.unflushed.clear()
            level.delivered = level.saved = inside

    def _note_flushed(self) -> None:
        """Advance the saved offsets to what is flushed, and confirmed by replicas in sync."""
        lasting = self._store.lasting_end
        for level in self._levels.values():
            while level.unflushed and level.unflushed[0][1] <= lasting:
                level.saved = level.unflushed.popleft()[0]
                self._updates += 1
                if self._updates % self._settings.broker.delay_offset_update_version_step == 0:
                    self._data_version = self._data_version.next(self._now_ms)

    # What an earlier run delivered

    def _is_delivered(self, level: _Level, queue: ConsumeQueue, now_ms: int) -> bool:
        """Return whether the log has the delivered copy of a level's next message."""
        entry = queue.entry(level.delivered)
        if entry is None or self._due_ms(level, entry) > now_ms:
            return False
        waiting = self._store.record(entry.commit_log_offset)
        copy = None if waiting is None else due_message(waiting)
        if waiting is None or copy is None:
            return False
        # The same message may have been sent twice; the second counts as delivered if there are
        # two copies.
        delivered = find_alike(self._store, waiting, copy.topic, copy.queue_id)
        sent = find_alike(self._store, waiting, SCHEDULE_TOPIC, waiting.queue_id)
        return len(delivered) >= sum(offset <= entry.commit_log_offset for offset in sent) > 0
