"""Verifies a store: all checksums, and every queue and index entry against its record.

Nothing is changed. Log, queues and index are read independently and then compared. A live store can
be verified: what its broker has in the log, and files a moment later, is harmless.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from orbitmq.errors import StoreError
from orbitmq.message import batch, flags, properties
from orbitmq.message.names import LMQ_PREFIX, SCHEDULE_TOPIC
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import tags_code
from orbitmq.store.damage import Damage
from orbitmq.store.index.record_keys import hashes_of, is_keyed
from orbitmq.store.layout import (
    CONSUME_QUEUE_EXT,
    EXT_ADDRESS_LIMIT,
    INDEX_ENTRY,
)
from orbitmq.store.log.record_rows import Block
from orbitmq.store.queues.batch_entry import BatchEntry
from orbitmq.store.queues.entry import PREFILL_SIZE
from orbitmq.store.reader.columns import numbers
from orbitmq.store.reader.index_reader import IndexFile, IndexHeader, index_files
from orbitmq.store.reader.inspect import DamageList, Progress, is_queued, late_queue, messages_in
from orbitmq.store.reader.queue_reader import AnyEntry, BatchQueueReader, QueueReader
from orbitmq.store.reader.reader import QueueName, StoreReader
from orbitmq.store.reader.topics_file import TOPICS_PATH, stored_topics

__all__ = ["Verdict", "verify"]

_tags = properties.finder(properties.TAGS.encode())
_ENTRIES_PER_STEP: Final = 4096
_NOT_CHECKED: Final = (CONSUME_QUEUE_EXT,)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`verify`: what was checked, and the damage found."""

    directory: str
    messages: int
    queues: int
    queue_entries: int
    index_files: int
    index_entries: int
    not_checked: tuple[str, ...] = ()
    """Parts of the store that orbitmq can't check."""
    damage_count: int
    damages: list[Damage]
    """The first damages, harmless ones included, at most ``inspect.MOST_DAMAGES``."""

    @property
    def is_damaged(self) -> bool:
        """Whether any damage is not harmless."""
        return self.damage_count > 0


def verify(reader: StoreReader, progress: Progress | None = None) -> Verdict:
    """Read a whole store and return what is wrong with it.

    A queue that lacks entries for its first or last messages in the log is reported: consumers
    can't get those messages. A broker that starts after a crash rebuilds them. An index file after
    a missing one is reported too; a broker that starts rebuilds the index.
    """
    work = _Verification(reader, progress)
    work.read_log()
    entries = sum(work.check_queue(reader.queue(*name)) for name in reader.queues())
    work.compare_log_with_queues()
    indexes = work.check_index_files()
    work.check_index_gaps()
    if progress is not None:
        progress(work.total, work.total)
    return Verdict(
        directory=reader.directory,
        messages=work.messages,
        queues=len(work.bounds),
        queue_entries=entries,
        index_files=len(indexes),
        index_entries=sum(indexes),
        not_checked=tuple(name for name in _NOT_CHECKED if reader.has(name)),
        damage_count=work.damages.count,
        damages=work.damages.kept,
    )


class _Verification:
    """The state of one run of :func:`verify`."""

    def __init__(self, reader: StoreReader, progress: Progress | None) -> None:
        self.damages = DamageList()
        self.messages = 0
        self.bounds: dict[QueueName, tuple[int, int]] = {}
        self._reader = reader
        self._progress = progress
        self._in_log: dict[tuple[bytes, int], tuple[int, int]] = {}
        self._index_headers: list[tuple[str, IndexHeader | None]] = []  # None: can't be read
        self._end_before = reader.written_end
        segments = reader.segments
        self._log_start = segments[0].base if segments else 0
        self._log_bytes = sum(file.size for file in segments)
        self._queue_bytes_done = 0
        self._queue_bytes = sum(reader.queue(*name).stored_bytes for name in reader.queues())
        index_bytes = sum(file.count for file in self._index_files()) * INDEX_ENTRY.size
        self.total = self._log_bytes + self._queue_bytes + index_bytes

    @property
    def is_live(self) -> bool:
        """Whether a broker wrote to the log meanwhile; queues and the newest index file follow.

        So what they lack at their ends is harmless: the broker files it a moment later.
        """
        return self._reader.has_abort_file and self._reader.written_end > self._end_before

    def read_log(self) -> None:
        """Read every record, and note the range of offsets of each queue."""
        for block in self._reader.blocks(
            verify=True,
            on_damage=self.damages.add,
            progress=lambda done: self._report_progress(min(done, self._log_bytes)),
        ):
            self.messages += len(block.rows)
            self._note_offsets(block)
        self._report_progress(self._log_bytes)

    def check_queue(self, queue: QueueReader) -> int:
        """Check all written entries of a queue; return how many there are."""
        checked = 0
        for gap in queue.gaps():
            self.damages.add(gap)
        for number, entry in queue.written():
            if entry.size == PREFILL_SIZE or 0 <= entry.commit_log_offset < self._log_start:
                continue
            checked += 1
            found = queue.record_of(number, entry)
            if isinstance(found, Damage):
                self.damages.add(found)
            elif reason := _mismatch(queue, number, entry, found):
                position = number * queue.entry_size
                self.damages.add(Damage(position, reason, 0, where=queue.where))
            if not checked % _ENTRIES_PER_STEP:
                done = self._queue_bytes_done + checked * queue.entry_size
                self._report_progress(self._log_bytes + done)
        self._queue_bytes_done += queue.stored_bytes
        self.bounds[queue.name] = queue.min_offset, queue.max_offset
        return checked

    def compare_log_with_queues(self) -> None:
        """Report queues without entries for messages in the log.

        A topic that was deleted has no queue files; its messages stay in the log until their file
        is old.
        """
        kept, is_live = self._topics(), self.is_live
        for (topic, queue_id), (least, most) in sorted(self._in_log.items()):
            name = QueueName(str(topic, "utf-8", "replace"), queue_id)
            low, high = self.bounds.get(name, (0, 0))
            queue = self._reader.queue(*name)
            if name not in self.bounds:
                if (
                    kept is not None
                    and name.topic not in kept
                    and not name.topic.startswith(LMQ_PREFIX)
                ):
                    continue
                reason = (
                    f"the log has messages {least} to {most - 1}, but the queue has no files (as "
                    "of a topic deleted and made again that got no message since)"
                )
            elif most > high:
                reason = f"the log has messages up to {most - 1}, but the queue ends at {high - 1}"
            elif least < low:
                self.damages.add(late_queue(queue, least))
                continue
            else:
                continue
            is_batch = isinstance(queue, BatchQueueReader)
            end = queue.written_end if is_batch else min(most, high)
            at = end * queue.entry_size
            self.damages.add(Damage(at, reason, 0, where=queue.where, harmless=is_live))

    def _topics(self) -> Collection[str] | None:
        """Return the topics that were not deleted; None if the store does not tell."""
        try:
            return stored_topics(self._reader.disk, self._reader.directory)
        except StoreError as error:
            self.damages.add(Damage(0, str(error), 0, where=TOPICS_PATH))
            return None

    def check_index_files(self) -> list[int]:
        """Check the entries of each index file; return how many each one has."""
        counts: list[int] = []
        for file in self._index_files():
            # Our broker writes the slots at a stop, and a start after a crash rebuilds them.
            is_growing = file.is_growing and not counts and self._reader.has_abort_file
            if (damage := None if is_growing else file.fault) is not None:
                # Header, slots and entries of the growing file may be of several moments.
                harmless = not counts and self.is_live
                self.damages.add(msgspec.structs.replace(damage, harmless=harmless))
            else:
                self._check_index_entries(file, sum(counts))
            counts.append(file.count)
            self._index_headers.append((file.where, None if damage else file.header))
        return counts

    def check_index_gaps(self) -> None:
        """Report index files after a missing one: the log has keys that no file covers.

        The log is read after the files were listed, because retention removes log files first.
        """
        last: int | None = -1
        for where, header in reversed(self._index_headers):
            if header is None:
                last = None  # reported already; its range is unknown
                continue
            lost = None if last is None else self._first_keyed(last, header.begin_offset)
            if lost is not None:
                reason = (
                    f"it begins at byte {header.begin_offset} of the log, but no file before it "
                    f"has the keys of the record at byte {lost}"
                )
                self.damages.add(Damage(0, reason, 0, where=where))
            last = header.end_offset if last is None else max(last, header.end_offset)

    def _first_keyed(self, after: int, before: int) -> int | None:
        """Return the offset of the first record with keys between two indexed records."""
        view = self._reader.message(after)
        begin = after + (1 if view is None else view.size)
        if begin >= before:
            return None
        # read_log has reported the damage already.
        for record in self._reader.records(begin, before, on_damage=lambda _damage: None):
            if is_keyed(record):
                return record.commit_log_offset
        return None

    def _check_index_entries(self, file: IndexFile, before: int) -> None:
        last_offset = -1
        hashes: frozenset[int] | None = None
        for number, hash_, offset in file.entries():
            if not number % _ENTRIES_PER_STEP:
                done = (before + number) * INDEX_ENTRY.size
                self._report_progress(self._log_bytes + self._queue_bytes + done)
            if 0 <= offset < self._log_start:
                continue  # retention has removed the record, and will remove the index file
            reason = ""
            if offset != last_offset:  # the keys of a record follow each other
                view = self._reader.message(offset)
                last_offset, hashes = offset, None if view is None else hashes_of(view)
                if hashes is None:
                    reason = "where no record can be read"
            if hashes is not None and hash_ not in hashes:
                reason = "whose record has no such key"
            if reason:
                text = f"entry {number} points to byte {offset} of the log, {reason}"
                at = file.position_of(number)
                self.damages.add(Damage(at, text, INDEX_ENTRY.size, where=file.where))

    def _index_files(self) -> Iterator[IndexFile]:
        return index_files(self._reader.disk, self._reader.directory)

    def _note_offsets(self, block: Block) -> None:
        buffer, in_log = block.buffer, self._in_log
        for row, queue_id, offset, sys_flag in zip(
            block.rows,
            numbers(block, "queue_id"),
            numbers(block, "queue_offset"),
            numbers(block, "sys_flag"),
            strict=True,
        ):
            if not is_queued(sys_flag):
                continue
            name = bytes(buffer[row[4] : row[5]]), queue_id
            least, end = in_log.get(name, (offset, offset))
            if offset < end:
                self._forget(name[0])
                least = offset
            in_log[name] = least, offset + messages_in(block, row, sys_flag)

    def _forget(self, topic: bytes) -> None:
        """Forget the messages of a topic so far: a queue begins anew, so it was made again."""
        for name in [one for one in self._in_log if one[0] == topic]:
            del self._in_log[name]

    def _report_progress(self, done: int) -> None:
        if self._progress is not None:
            self._progress(min(done, self.total), self.total)  # a live store may have grown


def _mismatch(queue: QueueReader, number: int, entry: AnyEntry, view: RecordView) -> str:
    """Return how an entry contradicts its record; empty if they agree."""
    name, queue_offset = queue.name, queue.offset_of(number, entry)
    if name.topic.startswith(LMQ_PREFIX):
        return ""  # a light queue lists records of other queues
    topic, queue_id, offset = view.topic, view.queue_id, view.queue_offset
    if offset != queue_offset or queue_id != name.queue_id or topic != name.topic.encode():
        shown = str(topic, "utf-8", "replace")
        return f"offset {queue_offset} points to message {offset} of {shown}/{queue_id}"
    if not _tags_agree(view, entry.tags_code):
        return f"the tags code of offset {queue_offset} differs from that of its record"
    if isinstance(entry, BatchEntry) and entry.messages != _messages_of(view):
        return f"the number of messages at offset {queue_offset} differs from that of its record"
    return ""


def _messages_of(view: RecordView) -> int:
    is_inner = view.sys_flag & flags.INNER_BATCH
    return batch.inner_count(bytes(view.properties)) if is_inner else 1


def _tags_agree(view: RecordView, code: int) -> bool:
    if view.topic == SCHEDULE_TOPIC.encode() or code < EXT_ADDRESS_LIMIT:
        return True  # a delivery time, or an address
    tags = _tags(view.properties)
    return code == tags_code(None if tags is None else str(tags, "utf-8", "replace"))
