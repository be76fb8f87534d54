"""Consume queues brought up to the log at a start: by whole runs of entries.

A run is what the log says that a queue holds from some offset on. It is compared with what the
queue has, and written, in one go::

    queue  … 41 42 43 44 ✗              ✗ an entry that is not the record's, as a crash leaves it
    run          43 44 45 46 47
    after  … 41 42 43 44 45 46 47

Laws:

- Of two records with one place in a queue the first has it, as when they were dispatched. But
  record 0 of an ordinary queue begins it anew: its topic was deleted and made again.
- A message that can't be read any more leaves a hole. Its place gets the entry of the next message,
  which a consumer is then given again, and can tell by the offset that the message has itself.
  Nothing else would do: Java's ``DefaultMessageStore.getMessage`` takes an entry that leads nowhere
  for one whose file was removed, and skips all messages up to the next file of the log; and behind
  a record that can't be decoded its client skips the rest of the answer.
- A hole is filled only if what was lost explains it, or the list of where queues ended: an offset
  that is damaged itself could have any number of entries made. By the list alone it is filled when
  a second record goes on behind the first, or none does: one may have a damaged offset. But behind
  entries whose records are all gone with their files, those missing are gone too: the queue begins
  with the first record that the log has.
- A queue never ends before its listed end, whatever was lost: offsets are given out once. The entry
  of the last message stands in the places behind it.
"""

import logging
import struct
from collections.abc import Collection
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from orbitmq.errors import InvalidTopic
from orbitmq.message import flags, properties
from orbitmq.message.names import is_lmq
from orbitmq.message.record import LEAST_SIZE
from orbitmq.message.tags import tags_code
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import SCHEDULE_TOPIC, Dispatched, Dispatcher
from orbitmq.store.layout import CONSUME_QUEUE
from orbitmq.store.log.record_rows import Block, view_of
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues, Ends
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE

__all__ = ["QueueName", "QueueRestore", "fill_places", "plain_code"]

log = logging.getLogger("orbitmq.store")

QueueName: TypeAlias = tuple[bytes, int]
"""A topic, as records have it, and the number of a queue."""

_ENTRIES_BUFFERED: Final = 65_536  # in all runs together
_pack = ENTRY.pack

# Of a record's head, what its queue entry needs.
_FILED: Final = struct.Struct(
    ">12x"
    "i"  # 12: queue id
    "4x"
    "q"  # 20: queue offset
    "q"  # 28: commit log offset
    "i"  # 36: sys flag
)
_WITHOUT_QUEUE: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)
_PAIR_END: Final = properties.VALUE_END.encode()
_TAGS: Final = f"{properties.TAGS}{properties.NAME_END}".encode()
_TAGS_NEXT: Final = _PAIR_END + _TAGS
_MULTI_DISPATCH: Final = properties.INNER_MULTI_DISPATCH.encode()
_REMEMBERED_TAGS: Final = 1024
_REMEMBERED_LENGTH: Final = 64


class _Run(msgspec.Struct, gc=False):
    """Entries that follow each other, to be written from ``begin`` on."""

    queue: ConsumeQueue
    begin: int
    next: int
    """The queue offset that the next record of the run has."""
    entries: bytearray
    is_plain: bool
    """Whether entries of the queue hold the hash of the tags, and not a time."""
    refused: int = 0
    """Records behind a hole that nothing explains."""
    hole: Damage | None = None
    held: tuple[int, bytes] | None = None
    """Queue offset and entry of the last of them, if it lies before the listed end."""
    is_anew: bool = False
    """Whether a record has begun the queue anew."""


class QueueRestore:
    """Takes the records of a walk over the log, in order, and gives them to their queues.

    Every method may raise ``DiskFailed``: a queue can't be read or written.

    Args:
        queues: the queues, recovered.
        dispatcher: says what a record means.
        correct: whether entries that queues have already are compared, and written again; else
            they are taken for right.
        damages: places of the log that the walk could not read, as it finds them; those found here
            are added.
        log_start: the offset of the log's first byte, if the walk begins there; else 0.
        listed: where queues ended when that was last noted.
        only_listed: whether records are left out that name a place at the listed end or behind it.

    """

    def __init__(
        self,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        *,
        correct: bool,
        damages: list[Damage],
        log_start: int = 0,
        listed: Ends | None = None,
        only_listed: bool = False,
    ) -> None:
        self._queues = queues
        self._dispatcher = dispatcher
        self._correct = correct
        self._damages = damages
        self._log_start = log_start
        self._listed = listed or {}
        self._only_listed = only_listed
        self._runs: dict[QueueName, _Run | None] = {}
        self._buffered = 0

    def add_block(self, block: Block, only: Collection[QueueName] | None = None) -> None:
        """Take the records of a block: what they mean to all queues, or to these alone."""
        buffer, rows = block
        unpack, runs = _FILED.unpack_from, self._runs
        added = 0
        for row in rows:
            start, end, _, _, topic_start, topic_end = row
            queue_id, queue_offset, offset, sys_flag = unpack(buffer, start)
            if sys_flag & flags.TRANSACTION_MASK in _WITHOUT_QUEUE:
                continue
            tail = bytes(buffer[topic_start:end])  # topic, length, properties
            topic_length = topic_end - topic_start
            name = (tail[:topic_length], queue_id)
            run = runs.get(name)
            code = plain_code(tail, topic_length + 2)
            if only is not None and code is not None and name not in only:
                continue  # and it names no light queue either
            if run and queue_offset == run.next and code is not None and run.is_plain:
                run.entries += _pack(offset, end - start, code)
                run.next = queue_offset + 1
                added += 1
            else:
                for entry in self._dispatcher.entries(view_of(buffer, row)):
                    if only is None or (entry.topic.encode(), entry.queue_id) in only:
                        self.add(entry)
        self._note_buffered(added)

    def add(self, entry: Dispatched) -> None:
        """Take what one record means to a queue."""
        if self._only_listed and not self._is_listed(entry):
            return
        key = (entry.topic.encode(), entry.queue_id)
        if key not in self._runs:
            self._runs[key] = self._begun(entry)
        run = self._runs[key]
        if run is None:
            return  # no queue can have that name
        if entry.queue_offset < run.next:
            if entry.queue_offset or is_lmq(entry.topic):
                return
            _begin_anew(run)
        packed = _pack(entry.commit_log_offset, entry.size, entry.tags_code)
        if entry.queue_offset > run.next and not self._is_bridged(run, entry, packed):
            return
        run.entries += packed
        run.next += 1
        self._note_buffered(1)

    def finish(self) -> None:
        """Give the queues all that was taken; call it when the walk is over."""
        self._write()
        for run in filter(None, self._runs.values()):
            if run.held is not None and run.held[0] > run.queue.max_offset:
                self._take(run, *run.held)
                _write(run)
            if run.hole is not None:
                self._report(run.hole)

    def keep_ends(self, names: Collection[QueueName]) -> None:
        """Let no queue end before its listed end; call it when all else is done.

        These lack entries. Others may have lost the last ones with an entry before that was wrong.
        Only what nothing explains stays away: a queue of which the log has no message and has lost
        none, or which was begun anew in it, is listed by mistake.
        """
        lost = self._lost_records()
        listed = [(topic.encode(), number) for topic, ids in self._listed.items() for number in ids]
        for name in listed if lost else names:
            topic, queue_id = name[0].decode(), name[1]
            queue, run = self._queues.queue(topic, queue_id), self._runs.get(name)
            has_messages = queue is not None and not queue.is_empty
            if lost or (has_messages and not (run and run.is_anew)):
                self._keep_end(topic, queue_id)

    def _keep_end(self, topic: str, queue_id: int) -> None:
        try:
            queue = self._queues.made(topic, queue_id)
        except InvalidTopic as error:
            self._report(Damage(0, str(error), 0, where=f"{CONSUME_QUEUE}/{topic}/{queue_id}"))
            return
        end, listed_end = queue.max_offset, self._listed_end(topic, queue_id)
        if end >= listed_end:
            return
        last = queue.entries(end - 1, 1)
        if last:
            _repeat(queue, last, listed_end)
        else:
            queue.restore(listed_end, b"")  # it begins there
        reason = f"messages {end} to {listed_end - 1} are lost, the last ones of the queue"
        where = f"{CONSUME_QUEUE}/{topic}/{queue_id}"
        self._report(Damage(end * ENTRY_SIZE, reason, 0, where=where))

    def _listed_end(self, topic: str, queue_id: int) -> int:
        return self._listed.get(topic, {}).get(queue_id, 0)

    def _is_listed(self, entry: Dispatched) -> bool:
        return entry.queue_offset < self._listed_end(entry.topic, entry.queue_id)

    def _lost_records(self) -> int:
        """Return how many records there may have been where the log can't be read."""
        return sum(damage.skipped_bytes for damage in self._damages) // LEAST_SIZE

    def _write(self) -> None:
        for run in self._runs.values():
            if run is not None:
                _write(run)
        self._buffered = 0

    def _note_buffered(self, count: int) -> None:
        self._buffered += count
        if self._buffered >= _ENTRIES_BUFFERED:
            self._write()

    def _begun(self, entry: Dispatched) -> _Run | None:
        """Return the run of a queue whose first record of the walk this is; None if it has none."""
        try:
            queue = self._queues.made(entry.topic, entry.queue_id)
        except InvalidTopic as error:
            self._report(Damage(entry.commit_log_offset, str(error), 0))
            return None
        if 0 <= queue.record_end <= self._log_start and queue.max_offset < entry.queue_offset:
            queue.cut(0)
        begin = queue.max_offset
        if queue.is_empty or (self._correct and entry.queue_offset < begin):
            begin = entry.queue_offset
        return _Run(queue, begin, begin, bytearray(), entry.topic != SCHEDULE_TOPIC)

    def _is_bridged(self, run: _Run, entry: Dispatched, packed: bytes) -> bool:
        """Let a run go on behind a hole; return False if the record behind it is left out."""
        _write(run)
        end, offset = run.queue.max_offset, entry.queue_offset
        missing = offset - end
        if missing <= 0:  # the queue has an entry of the record that is lost, and it stays
            run.begin = run.next = offset
            return True
        if missing > self._lost_records() + run.refused:
            if run.held is not None and run.held[0] + 1 == offset:
                self._take(run, *run.held)
                return True
            run.held = (offset, packed) if self._is_listed(entry) else None
            run.refused += 1
            if run.hole is None:
                where = f"{CONSUME_QUEUE}/{entry.topic}/{entry.queue_id}"
                reason = (
                    f"entries {end} to {offset - 1} are missing, and those behind are left out; "
                    "remove the files of the queue, and the next start makes it from the log"
                )
                run.hole = Damage(end * ENTRY_SIZE, reason, 0, where=where)
            return False
        self._fill(run, offset, packed)
        return True

    def _take(self, run: _Run, offset: int, packed: bytes) -> None:
        """Let a run go on with an entry that was held, and has a hole before it."""
        self._fill(run, offset, packed)
        run.entries += packed
        run.next += 1

    def _fill(self, run: _Run, offset: int, packed: bytes) -> None:
        """Fill the hole between the end of a queue and an offset with the entry of that offset."""
        self._report(fill_places(run.queue, offset, packed))
        run.begin = run.next = offset
        run.hole = run.held = None

    def _report(self, damage: Damage) -> None:
        log.error("%s", damage)
        self._damages.append(damage)


def _write(run: _Run) -> None:
    if run.entries:
        run.queue.restore(run.begin, bytes(run.entries))
        run.entries.clear()
        run.begin = run.next


def fill_places(queue: ConsumeQueue, offset: int, packed: bytes) -> Damage:
    """Give all places from the end of a queue up to an offset its entry; return what they lack.

    Raises:
        DiskFailed: they can't be written.

    """
    end = queue.max_offset
    _repeat(queue, packed, offset)
    reason = f"messages {end} to {offset - 1} are lost; {offset} is in their place"
    where = f"{CONSUME_QUEUE}/{queue.topic}/{queue.queue_id}"
    return Damage(end * ENTRY_SIZE, reason, 0, where=where)


def _repeat(queue: ConsumeQueue, packed: bytes, end: int) -> None:
    """Let a queue go on with an entry up to another end: files full of messages may be lost."""
    while (missing := end - queue.max_offset) > 0:
        queue.restore(queue.max_offset, packed * min(missing, _ENTRIES_BUFFERED))


def _begin_anew(run: _Run) -> None:
    run.entries.clear()
    run.queue.cut(0)
    run.begin = run.next = run.refused = 0
    run.hole = run.held = None
    run.is_anew = True


def plain_code(text: bytes, start: int = 0) -> int | None:
    r"""Return the tags code of an ordinary record; None if only the dispatcher can tell.

    Its properties begin at ``start`` of the text, and end with it. The code is what the dispatcher
    says, for a fraction of the time, and nearly all records are ordinary.

    >>> plain_code(b"KEYS\x01o-42\x02TAGS\x01paid\x02") == tags_code("paid")
    True
    """
    if _MULTI_DISPATCH in text:
        return None
    at = text.rfind(_TAGS_NEXT, start) + 1
    if not at:
        if not text.startswith(_TAGS, start):
            return 0
        at = start
    at += len(_TAGS)
    end = text.find(_PAIR_END, at)
    tags = text[at:end] if end >= 0 else text[at:]
    return _code_of(tags) if 0 < len(tags) <= _REMEMBERED_LENGTH else None


@lru_cache(maxsize=_REMEMBERED_TAGS)
def _code_of(tags: bytes) -> int:
    return tags_code(str(tags, "utf-8", "replace"))
