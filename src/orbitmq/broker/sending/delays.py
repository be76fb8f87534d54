"""Delayed messages: they wait in SCHEDULE_TOPIC_XXXX, a queue for each level, until they are due.

::

    a send with DELAY ──▶ SCHEDULE_TOPIC_XXXX, queue = level - 1 ── due ──▶ REAL_TOPIC, REAL_QID
                                  │
                                  └─ the entry's tags code is when it is due

A level's delay is the same for all its messages, so its queue is in the order they are due, and an
offset says how far it has come (``delayOffset.json``). Laws:

- A level delivers in its order. It waits at a message that can't be stored now, and nothing behind
  that one is stored; other levels go on. The next messages are handed over when those before are
  stored.
- No loss: an offset on the disk is never ahead of the copies on the disk.
- No repeat: that offset may therefore be behind, and after a crash the log may hold copies that it
  knows nothing of. A start looks for them, by their unique keys, before it delivers.
  What has no unique key, or is not in the key index, comes twice then, as with Java's broker.
"""

import logging
from collections import deque
from functools import partial
from typing import Final

import msgspec

from orbitmq.broker.sending.inbox import Inbox, OrderedRun, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.message import properties
from orbitmq.message.names import HALF_TOPIC, SCHEDULE_TOPIC
from orbitmq.message.record_view import RecordView
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import QueueEntry, unpack
from orbitmq.store.settings import delay_levels
from orbitmq.wire.bodies.offsets import DelayOffsetTable
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["Delays"]

log = logging.getLogger("orbitmq.broker")

_AT_ONCE: Final = 256
"""Messages of a level that are on their way into the log at a time."""
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""As many bytes, so that large ones leave room in the inbox for what clients send."""
_COPIES_MAX: Final = 64
"""Records with one unique key that a start looks at; with more of them it would rather repeat."""
_END_OF_TIME: Final = 2**63 - 1
# The store will not take these later either; a level must not stand still for ever because of one.
_NEVER_STORED: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class _Level(msgspec.Struct, kw_only=True):
    """How far one level has come: ``saved`` ≤ ``delivered`` ≤ what is on its way."""

    number: int
    delay_ms: int
    delivered: int = 0
    """Every entry before this one is in the log again."""
    saved: int = 0
    """As far as the disk is sure to know."""
    on_their_way: int = 0
    stored: dict[int, int] = msgspec.field(default_factory=dict)
    """Entries from ``delivered`` on that are in the log again, and where in it they end; some may
    be left out, and end nowhere."""
    waits: bool = False
    """Whether one of those handed over last could not be stored: the next tick tries it again."""
    unflushed: deque[tuple[int, int]] = msgspec.field(default_factory=deque)
    """What ``saved`` becomes once the log is flushed up to there."""
    in_trouble: bool = False
    """Whether the store takes nothing, which is logged once."""


class Delays:
    """Delivers what is due. ``load_json`` and ``start`` it, then ``tick`` every 100 ms.

    Args:
        store: where delayed messages wait, and are looked for at a start.
        inbox: stores what is due, among the sends.
        settings: the levels, and how often the table counts as changed.

    """

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
        self._of_former_levels: dict[int, int] = {}  # for the day that they are there again

    def __repr__(self) -> str:
        return f"<Delays {len(self._levels)} levels>"

    @property
    def levels(self) -> int:
        """The highest level."""
        return len(self._levels)

    # Life

    def start(self, now_ms: int) -> None:
        """Bring the offsets into their queues, and over what the log shows to be delivered."""
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
                    "delay level %d: %d messages were delivered before the last stop",
                    level.number,
                    level.delivered - before,
                )
            level.saved = level.delivered
        self._tell_of_former_levels()

    def _tell_of_former_levels(self) -> None:
        for queue in self._store.queues.queues_of(SCHEDULE_TOPIC):
            number = queue.queue_id + 1
            waiting = queue.max_offset - self._of_former_levels.get(number, queue.min_offset)
            if number not in self._levels and waiting > 0:
                log.warning(
                    "%d messages of delay level %d wait until there is such a level again; "
                    "messageDelayLevel has %d",
                    *(waiting, number, len(self._levels)),
                )

    def tick(self, now_ms: int) -> None:
        """Deliver what is due; call it every 100 ms or so.

        Args:
            now_ms: the time of day, as messages are stamped with.

        """
        self._now_ms = now_ms
        for level in self._levels.values():
            if not level.on_their_way:
                self._deliver(level)

    def stop(self) -> None:
        """Deliver no more. What is on its way is stored by the turn."""
        self._stopped = True

    # Telling, and the file

    def table(self) -> DelayOffsetTable:
        """Return how far each level has come that was ever used: for replicas and tools."""
        offsets = {
            level.number: level.delivered for level in self._levels.values() if level.delivered
        }
        return DelayOffsetTable(data_version=self._data_version, offset_table=offsets)

    def running_info(self) -> dict[str, str]:
        """Return offset and end of each level, as Java's broker tells it at run time."""
        return {
            f"scheduleMessageOffset_{level.number}": f"{level.delivered},{queue.max_offset}"
            for level in self._levels.values()
            if (queue := self._queue(level)) is not None
        }

    @property
    def version(self) -> int:
        """Another number whenever ``to_json`` would say something new."""
        self._note_flushed()
        return self._updates

    def to_json(self) -> str:
        """Return the text of ``delayOffset.json``: as far as the disk has the delivered messages.

        For a clean stop call it once more when the log is flushed.
        """
        self._note_flushed()
        offsets = {level.number: level.saved for level in self._levels.values() if level.saved}
        offsets |= self._of_former_levels
        table = DelayOffsetTable(data_version=self._data_version, offset_table=offsets)
        return table.to_json().decode()

    def load_json(self, text: str) -> None:
        """Take the offsets of an earlier run; those of levels that there are no more are kept.

        Raises:
            InvalidBody: it is not a table of offsets. Nothing was changed.

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

    # Delivering

    def _deliver(self, level: _Level) -> None:
        """Hand the next messages of a level over, as many as are due and may be at a time."""
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
            is_left_out = offset in level.stored  # found so by an earlier try, and logged then
            if not is_left_out and not self._hand_over(level, offset, entry, run):
                break
            offset += 1
        if not level.on_their_way:
            self._advance(level)

    def _hand_over(self, level: _Level, offset: int, entry: QueueEntry, run: OrderedRun) -> bool:
        """Put one message on its way; return False if it has to wait for another time."""
        record = self._store.record(entry.commit_log_offset)
        message = None if record is None else _due_message(record)
        if message is None:
            log.error(
                "delay level %d: the message at offset %d can't be read, or says not where it "
                "goes; it is left out",
                level.number,
                offset,
            )
            level.stored[offset] = 0
            return True
        try:
            self._inbox.put(message, partial(self._told, level, offset), run)
        except Refusal as refusal:
            level.waits = True
            log.debug("delay level %d waits: %s", level.number, refusal)
            return False
        level.on_their_way += 1
        return True

    def _told(self, level: _Level, offset: int, outcome: PutOutcome) -> None:
        level.on_their_way -= 1
        if isinstance(outcome, Refusal):
            level.waits = True
            log.debug("delay level %d waits: %s", level.number, outcome)
        elif outcome.status.is_stored:
            level.stored[offset] = outcome.end
            level.in_trouble = False
        elif outcome.status in _NEVER_STORED:
            log.error(
                "delay level %d: the message at offset %d can't be delivered, and is left out: %s",
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
        if not level.on_their_way and self._advance(level) and not level.waits:
            self._deliver(level)  # there may be more; after a failure the next tick is soon enough

    def _advance(self, level: _Level) -> bool:
        """Move past what is stored, up to the first that is not; return whether it did."""
        end, before = 0, level.delivered
        while (ends_at := level.stored.pop(level.delivered, None)) is not None:
            level.delivered += 1
            end = max(end, ends_at)
        if level.delivered == before:
            return False
        level.unflushed.append((level.delivered, end))
        return True

    def _is_due(self, level: _Level, entry: QueueEntry) -> bool:
        # Later than the level allows means that the clock was set back: it has waited enough.
        return not 0 < self._due_ms(level, entry) - self._now_ms <= level.delay_ms

    def _due_ms(self, level: _Level, entry: QueueEntry) -> int:
        if entry.tags_code >= 0:
            return entry.tags_code
        # Java's broker can be set to keep tags codes elsewhere; then this is an address.
        record = self._store.record(entry.commit_log_offset)
        return 0 if record is None else record.store_timestamp_ms + level.delay_ms

    def _queue(self, level: _Level) -> ConsumeQueue | None:
        return self._store.queues.queue(SCHEDULE_TOPIC, level.number - 1)

    def _correct(self, level: _Level, queue: ConsumeQueue) -> None:
        """Bring a level into its queue: old files go, and a log may have lost its end."""
        inside = min(max(level.delivered, queue.min_offset), queue.max_offset)
        if inside != level.delivered:
            log.error(
                "delay level %d was at offset %d, and its queue is from %d to %d",
                level.number,
                level.delivered,
                queue.min_offset,
                queue.max_offset,
            )
            level.stored.clear()
            level.unflushed.clear()
            level.delivered = level.saved = inside

    def _note_flushed(self) -> None:
        """Let the offsets that are saved follow the log to the disk."""
        flushed = self._store.flushed
        for level in self._levels.values():
            while level.unflushed and level.unflushed[0][1] <= flushed:
                level.saved = level.unflushed.popleft()[0]
                self._updates += 1
                if self._updates % self._settings.broker.delay_offset_update_version_step == 0:
                    self._data_version = self._data_version.next(self._now_ms)

    # What an earlier run delivered

    def _is_delivered(self, level: _Level, queue: ConsumeQueue, now_ms: int) -> bool:
        """Return whether the log holds the copy that delivery makes of a level's next message."""
        entry = queue.entry(level.delivered)
        if entry is None or self._due_ms(level, entry) > now_ms:
            return False
        waiting = self._store.record(entry.commit_log_offset)
        copy = None if waiting is None else _due_message(waiting)
        if waiting is None or copy is None:
            return False
        # The same message may have been sent twice: the second counts as delivered if there are
        # two copies.
        delivered = self._alike(waiting, copy.topic, copy.queue_id)
        sent = self._alike(waiting, SCHEDULE_TOPIC, waiting.queue_id)
        return len(delivered) >= sum(offset <= entry.commit_log_offset for offset in sent) > 0

    def _alike(self, record: RecordView, topic: str, queue_id: int) -> list[int]:
        """Return where in the log a queue's records are that hold the same message."""
        key = properties.get(record.properties, properties.UNIQUE_KEY.encode())
        if key is None or not self._store.settings.index_enabled:
            return []
        found = self._store.index.query(
            topic, key.decode(errors="replace"), _COPIES_MAX, 0, _END_OF_TIME
        )
        if len(found) >= _COPIES_MAX:
            return []
        raw_topic, wanted = topic.encode(), _identity(record)
        views = {offset: self._store.record(offset) for offset in found}
        return [
            offset
            for offset, view in views.items()
            if view is not None
            and view.queue_id == queue_id
            and view.topic == raw_topic
            and _identity(view) == wanted
        ]


def _identity(record: RecordView) -> tuple[object, ...]:
    """Return what a delayed message and its copy have in common, and no other message has."""
    found = properties.decode(record.properties)
    found.pop(properties.CRC32, None)  # over all of the record, its place included
    return (
        record.born_timestamp_ms,
        record.born_host,
        record.reconsume_times,
        record.body_crc,
        found,
    )


def _due_message(record: RecordView) -> Incoming | None:
    """Return the message that a record of the schedule topic becomes; None if it doesn't say where.

    DELAY, REAL_TOPIC and REAL_QID stay in its properties, as Java's broker leaves them.
    """
    text = record.properties
    topic = properties.get(text, properties.REAL_TOPIC.encode())
    queue_id = properties.get(text, properties.REAL_QUEUE_ID.encode())
    if topic is None or queue_id is None or not (queue_id.isdigit() and len(queue_id) < 10):
        return None
    if topic == HALF_TOPIC.encode():
        return None  # half messages don't wait for a time; Java's broker drops such a one too
    return Incoming(
        topic=topic.decode(errors="replace"),
        queue_id=int(queue_id),
        body=record.body,
        properties=text,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        wait=False,
    )
