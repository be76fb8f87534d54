"""Rebuilds consume queue entries from the log at a start.

The entries of many records are collected per queue, then compared with the queue and written in one
call::

    queue    … 41 42 43 44 ✗            ✗ a wrong entry, as a crash leaves it
    pending          43 44 45 46 47
    after    … 41 42 43 44 45 46 47

Laws:

- Of two records with the same queue offset the first one keeps it, as when they were dispatched.
  But record 0 of an ordinary queue begins the queue again: its topic was deleted and recreated.
- A message that can't be read leaves a hole. Its offset gets the entry of the next message, so a
  consumer receives that message twice and can see it by the message's own offset. Anything else is
  worse: Java's ``DefaultMessageStore.getMessage`` treats an entry that points nowhere as one whose
  file was removed and skips all messages up to the next file of the log, and its client skips the
  rest of a response after a record that it can't decode.
- A hole is filled only if it is explained by lost records or by the list of queue ends: a damaged
  queue offset could ask for any number of entries. By the list alone it is filled when a second
  record follows the first, or when none does, since one offset may be damaged. If the records of
  all earlier entries were removed with their files, the missing ones were too: the queue begins
  with its first record in the log.
- In a batch queue a hole stays: its entries say which offsets they have. A record after a hole
  that lost records don't explain counts when the next record follows it.
- A queue never ends before its listed end, whatever was lost: offsets are given out once. The
  entry of the last message fills the offsets after it.
"""

import logging
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeAlias

import msgspec

from orbitmq.errors import InvalidTopic
from orbitmq.message import flags, properties
from orbitmq.message.names import is_lmq
from orbitmq.message.record import LEAST_SIZE, PROPERTIES_LENGTH_SIZE, reader
from orbitmq.message.tags import tags_code_utf8
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import SCHEDULE_TOPIC, Dispatched, Dispatcher
from orbitmq.store.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from orbitmq.store.log.record_rows import Block, view_of
from orbitmq.store.queues.batch_queue import BatchQueue, batch_entry_of
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import AnyQueue, ConsumeQueues, Ends
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE

__all__ = ["QueueName", "QueueRestore", "fill_places", "plain_code"]

log = logging.getLogger("orbitmq.store")

QueueName: TypeAlias = tuple[bytes, int]
"""A topic in UTF-8, as in records, and a queue id."""

_ENTRIES_BUFFERED: Final = 65_536  # of all queues together
_pack = ENTRY.pack

# The fields of a record's head that its queue entry needs.
_FILED: Final = reader("queue_id", "queue_offset", "commit_log_offset", "sys_flag")
_WITHOUT_QUEUE: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)
_tags = properties.finder(properties.TAGS.encode())
_MULTI_DISPATCH: Final = properties.INNER_MULTI_DISPATCH.encode()


class _PendingEntries(msgspec.Struct, gc=False):
    """Consecutive entries of one queue, to be written from offset ``begin`` on."""

    queue: AnyQueue
    begin: int
    """The number of the first entry; in a consume queue that is its queue offset."""
    next: int
    """The queue offset after the last entry."""
    entries: bytearray
    is_plain: bool
    """Whether entries of the queue hold the hash of the tags, not a delivery time."""
    refused: int = 0
    """Records after a hole that nothing explains."""
    hole: Damage | None = None
    held: tuple[int, bytes] | None = None
    """Queue offset and entry of the last refused record, if it is before the listed end; in a batch
    queue of any, with the offset after it."""
    begun_again: bool = False
    """Whether a record 0 has begun the queue again."""


@dataclass(eq=False)
class QueueRestore:
    """Adds the records of a walk over the log, in order, to their queues.

    With ``correct`` existing entries are compared and written again; else they are trusted. Both
    the walk and this class add to ``damages``. ``log_start`` is the offset of the log's first byte
    if the walk begins there, else 0. ``listed`` is where queues ended, by the list of queue ends;
    with ``only_listed``, records at or after the listed end of their queue are left out.
    """

    queues: ConsumeQueues
    dispatcher: Dispatcher
    _: KW_ONLY
    correct: bool
    damages: list[Damage]
    log_start: int = 0
    listed: Ends = field(default_factory=dict)
    only_listed: bool = False
    _pending_of: dict[QueueName, _PendingEntries | None] = field(init=False, default_factory=dict)
    _buffered: int = field(init=False, default=0)

    def add_block(self, block: Block, only: Collection[QueueName] | None = None) -> None:
        """Add the records of a block to their queues, or to the queues ``only``."""
        buffer, rows = block
        unpack, pending_of = _FILED.unpack_from, self._pending_of
        added = 0
        for row in rows:
            start, end, _, _, topic_start, topic_end = row
            queue_id, queue_offset, offset, sys_flag = unpack(buffer, start)
            if sys_flag & flags.TRANSACTION_MASK in _WITHOUT_QUEUE:
                continue
            name = (bytes(buffer[topic_start:topic_end]), queue_id)
            pending = pending_of.get(name)
            code = plain_code(bytes(buffer[topic_end + PROPERTIES_LENGTH_SIZE : end]))
            if only is not None and code is not None and name not in only:
                continue  # nor does it name a light queue
            if sys_flag & flags.INNER_BATCH:
                code = None
            if pending and queue_offset == pending.next and code is not None and pending.is_plain:
                pending.entries += _pack(offset, end - start, code)
                pending.next = queue_offset + 1
                added += 1
            else:
                for entry in self.dispatcher.entries(view_of(buffer, row)):
                    if only is None or (entry.topic.encode(), entry.queue_id) in only:
                        self.add(entry)
        self._note_buffered(added)

    def add(self, entry: Dispatched) -> None:
        """Add one entry to its queue."""
        if (self.only_listed and not self._is_listed(entry)) or not self.queues.is_queued(entry):
            return
        key = (entry.topic.encode(), entry.queue_id)
        if key not in self._pending_of:
            self._pending_of[key] = self._begun(entry)
        pending = self._pending_of[key]
        if pending is None:
            return  # the topic is not a valid directory name
        if entry.queue_offset < pending.next:
            if entry.queue_offset or is_lmq(entry.topic):
                return
            _begin_again(pending)
        if isinstance(pending.queue, BatchQueue):
            self._add_batch(pending, entry)
            return
        packed = _pack(entry.commit_log_offset, entry.size, entry.tags_code)
        if entry.queue_offset > pending.next and not self._is_bridged(pending, entry, packed):
            return
        pending.entries += packed
        pending.next += 1
        self._note_buffered(1)

    def _add_batch(self, pending: _PendingEntries, entry: Dispatched) -> None:
        packed = batch_entry_of(entry).pack()
        is_first = pending.begin == pending.queue.first_number and not pending.entries
        if not is_first and entry.queue_offset > pending.next and not self._lost_records():
            held, pending.held = pending.held, (entry.queue_offset + entry.messages, packed)
            if held is None or held[0] != entry.queue_offset:
                self._report_held(pending.queue, held)
                return
            pending.entries += held[1]
        else:
            self._report_held(pending.queue, pending.held)
        pending.held = None
        pending.entries += packed
        pending.next = entry.queue_offset + entry.messages
        self._note_buffered(1)

    def finish(self) -> None:
        """Write all pending entries; call it after the walk."""
        self._write()
        for pending in filter(None, self._pending_of.values()):
            if isinstance(pending.queue, BatchQueue):
                self._report_held(pending.queue, pending.held)
            elif pending.held is not None and pending.held[0] > pending.queue.max_offset:
                self._take(pending, *pending.held)
                _write(pending)
            if pending.hole is not None:
                self._report(pending.hole)

    def _report_held(self, queue: AnyQueue, held: tuple[int, bytes] | None) -> None:
        if held is not None:
            reason = f"the record before offset {held[0]} follows no other, so it is left out"
            position = queue.end_number * queue.entry_size
            self._report(Damage(position, reason, 0, where=_where(queue)))

    def keep_ends(self, names: Collection[QueueName]) -> None:
        """Extend queues to their listed ends; call it last.

        The queues ``names`` lack entries. If the log has lost records, other queues may have lost
        their last entries together with a wrong entry before them. A queue is listed by mistake,
        and stays as it is, if no record was lost and it has no messages or was begun again.
        """
        lost = self._lost_records()
        listed = [(topic.encode(), number) for topic, ids in self.listed.items() for number in ids]
        for name in listed if lost else names:
            topic, queue_id = name[0].decode(), name[1]
            queue, pending = self.queues.queue(topic, queue_id), self._pending_of.get(name)
            has_messages = queue is not None and not queue.is_empty
            if lost or (has_messages and not (pending and pending.begun_again)):
                self._keep_end(topic, queue_id)

    def _keep_end(self, topic: str, queue_id: int) -> None:
        try:
            queue = self.queues.made(topic, queue_id)
        except InvalidTopic as error:
            self._report(Damage(0, str(error), 0, where=f"{CONSUME_QUEUE}/{topic}/{queue_id}"))
            return
        end, listed_end = queue.max_offset, self._listed_end(topic, queue_id)
        if end >= listed_end:
            return
        position = queue.end_number * queue.entry_size
        if isinstance(queue, BatchQueue):
            queue.keep_end(listed_end)
        elif last := queue.entries(end - 1, 1):
            _repeat(queue, last, listed_end)
        else:
            queue.restore(listed_end, b"")  # the queue begins there
        reason = f"messages {end} to {listed_end - 1}, the last of the queue, are lost"
        self._report(Damage(position, reason, 0, where=_where(queue)))

    def _listed_end(self, topic: str, queue_id: int) -> int:
        return self.listed.get(topic, {}).get(queue_id, 0)

    def _is_listed(self, entry: Dispatched) -> bool:
        return entry.queue_offset < self._listed_end(entry.topic, entry.queue_id)

    def _lost_records(self) -> int:
        """Return the most records that the damaged places of the log may have held."""
        return sum(damage.skipped_bytes for damage in self.damages) // LEAST_SIZE

    def _write(self) -> None:
        for pending in self._pending_of.values():
            if pending is not None:
                _write(pending)
        self._buffered = 0

    def _note_buffered(self, count: int) -> None:
        self._buffered += count
        if self._buffered >= _ENTRIES_BUFFERED:
            self._write()

    def _begun(self, entry: Dispatched) -> _PendingEntries | None:
        """Return the pending entries of a queue at its first record; None if it can't exist."""
        try:
            queue = self.queues.made(entry.topic, entry.queue_id)
        except InvalidTopic as error:
            self._report(Damage(entry.commit_log_offset, str(error), 0))
            return None
        if 0 <= queue.record_end <= self.log_start and queue.max_offset < entry.queue_offset:
            queue.cut(0)
        if isinstance(queue, BatchQueue):
            begin = queue.end_number
            if self.correct:
                begin = queue.number_from(entry.commit_log_offset)
            return _PendingEntries(queue, begin, queue.end_before(begin), bytearray(), False)
        begin = queue.max_offset
        if queue.is_empty or (self.correct and entry.queue_offset < begin):
            begin = entry.queue_offset
        return _PendingEntries(queue, begin, begin, bytearray(), entry.topic != SCHEDULE_TOPIC)

    def _is_bridged(self, pending: _PendingEntries, entry: Dispatched, packed: bytes) -> bool:
        """Continue a queue after a hole; return False if the record after it is left out."""
        assert isinstance(pending.queue, ConsumeQueue)
        _write(pending)
        end, offset = pending.queue.max_offset, entry.queue_offset
        missing = offset - end
        if missing <= 0:  # the queue still has the entry of the lost record, which stays
            before = pending.queue.entry(offset - 1)
            if before is not None and before.commit_log_offset > entry.commit_log_offset:
                return False  # sent alone to a deleted topic of this name, which had batch queues
            pending.begin = pending.next = offset
            return True
        if missing > self._lost_records() + pending.refused:
            if pending.held is not None and pending.held[0] + 1 == offset:
                self._take(pending, *pending.held)
                return True
            pending.held = (offset, packed) if self._is_listed(entry) else None
            pending.refused += 1
            if pending.hole is None:
                where = f"{CONSUME_QUEUE}/{entry.topic}/{entry.queue_id}"
                reason = (
                    f"entries {end} to {offset - 1} are missing, so later entries are left out; "
                    "remove the files of the queue to have the next start rebuild it from the log"
                )
                pending.hole = Damage(end * ENTRY_SIZE, reason, 0, where=where)
            return False
        self._fill(pending, offset, packed)
        return True

    def _take(self, pending: _PendingEntries, offset: int, packed: bytes) -> None:
        """Continue a queue with an entry that was held, filling the hole before it."""
        self._fill(pending, offset, packed)
        pending.entries += packed
        pending.next += 1

    def _fill(self, pending: _PendingEntries, offset: int, packed: bytes) -> None:
        """Fill the hole between the end of a queue and an offset with that offset's entry."""
        assert isinstance(pending.queue, ConsumeQueue)
        self._report(fill_places(pending.queue, offset, packed))
        pending.begin = pending.next = offset
        pending.hole = pending.held = None

    def _report(self, damage: Damage) -> None:
        log.error("%s", damage)
        self.damages.append(damage)


def _where(queue: AnyQueue) -> str:
    part = BATCH_CONSUME_QUEUE if isinstance(queue, BatchQueue) else CONSUME_QUEUE
    return f"{part}/{queue.topic}/{queue.queue_id}"


def _write(pending: _PendingEntries) -> None:
    if pending.entries:
        pending.queue.restore(pending.begin, bytes(pending.entries))
        pending.begin += len(pending.entries) // pending.queue.entry_size
        pending.entries.clear()


def fill_places(queue: ConsumeQueue, offset: int, packed: bytes) -> Damage:
    """Fill a queue up to an offset with the entry of that offset; return the damage."""
    end = queue.max_offset
    _repeat(queue, packed, offset)
    reason = f"messages {end} to {offset - 1} are lost; message {offset} takes their place"
    where = f"{CONSUME_QUEUE}/{queue.topic}/{queue.queue_id}"
    return Damage(end * ENTRY_SIZE, reason, 0, where=where)


def _repeat(queue: ConsumeQueue, packed: bytes, end: int) -> None:
    """Append an entry to a queue until it has an end; whole files of messages may be lost."""
    while (missing := end - queue.max_offset) > 0:
        queue.restore(queue.max_offset, packed * min(missing, _ENTRIES_BUFFERED))


def _begin_again(pending: _PendingEntries) -> None:
    pending.entries.clear()
    pending.queue.cut(0)
    pending.begin = pending.next = pending.refused = 0
    pending.hole = pending.held = None
    pending.begun_again = True


def plain_code(text: bytes) -> int | None:
    r"""Return the tags code of a record with these properties; None if it names light queues.

    It is the code that the dispatcher returns, for a fraction of the time.

    >>> plain_code(b"KEYS\x01o-42\x02TAGS\x01TagA\x02")
    2598919
    """
    if _MULTI_DISPATCH in text:
        return None
    tags = _tags(text)
    return tags_code_utf8(tags) if tags else 0
