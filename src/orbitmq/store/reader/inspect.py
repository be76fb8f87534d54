"""Summarises a store: totals per queue, times, disk use, and damage.

The whole log is read, so missing first files of queues are found too.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from orbitmq.message import batch, flags
from orbitmq.message.record import Row
from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.stream_files import size_unless_gone
from orbitmq.store.layout import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    path_join,
)
from orbitmq.store.log.record_rows import Block, view_of
from orbitmq.store.progress import Progress
from orbitmq.store.reader.columns import numbers
from orbitmq.store.reader.queue_reader import BatchQueueReader, QueueReader
from orbitmq.store.reader.reader import QueueName, StoreReader

__all__ = [
    "MOST_DAMAGES",
    "DamageList",
    "DiskUse",
    "Progress",
    "QueueTotals",
    "Summary",
    "inspect",
    "is_queued",
    "late_queue",
    "messages_in",
]

# A completely unreadable store could have damage in every page.
MOST_DAMAGES = 1000
_NOT_QUEUED: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)


class DamageList:
    """The first reported damages, and the number of all that are not harmless."""

    def __init__(self) -> None:
        self.kept: list[Damage] = []
        self.count = 0

    def add(self, damage: Damage) -> None:
        """Count a damage, and keep it unless there are too many; for use as ``on_damage``."""
        self.count += not damage.harmless
        if len(self.kept) < MOST_DAMAGES:
            self.kept.append(damage)


class QueueTotals(msgspec.Struct, kw_only=True):
    """The messages of one queue in the log, and the offsets of its consume queue."""

    topic: str
    queue_id: int
    messages: int = 0
    bytes: int = 0
    first_stored_ms: int | None = None
    last_stored_ms: int | None = None
    first_offset: int | None = None
    """The first queue offset in the log."""
    min_offset: int = 0
    max_offset: int = 0


class DiskUse(msgspec.Struct, frozen=True):
    """The number of files below a part of the store, and their total length."""

    files: int
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`inspect`."""

    directory: str
    stopped_cleanly: bool
    """False while a broker has the store open, and after a crash."""
    log_start: int
    log_end: int
    messages: int
    bytes: int
    first_stored_ms: int | None
    last_stored_ms: int | None
    queues: list[QueueTotals]
    disk: dict[str, DiskUse]
    damage_count: int
    damages: list[Damage]
    """The first damages, harmless ones included, at most :data:`MOST_DAMAGES`."""

    @property
    def is_damaged(self) -> bool:
        """Whether any damage is not harmless."""
        return self.damage_count > 0


def inspect(reader: StoreReader, progress: Progress | None = None) -> Summary:
    """Return a summary of a store; checksums, queue entries and index entries are not checked."""
    segments = reader.segments
    log_start = segments[0].base if segments else 0
    total = segments[-1].end - log_start if segments else 0
    damages = DamageList()
    totals: dict[tuple[bytes, int], QueueTotals] = {}
    log_end = log_start
    for block in reader.blocks(
        on_damage=damages.add, progress=progress and (lambda done: progress(done, total))
    ):
        _add(totals, block)
        last = view_of(block.buffer, block.rows[-1])
        log_end = last.commit_log_offset + last.size
    queues = _with_offsets(reader, totals, damages)
    # On a live store retention may have removed files since, those of the log before the queues'.
    if [file.base for file in reader.segments[:1]] == [file.base for file in segments[:1]]:
        _report_late_queues(reader, queues, damages)
    if progress is not None:
        progress(total, total)
    return Summary(
        directory=reader.directory,
        stopped_cleanly=not reader.has_abort_file,
        log_start=log_start,
        log_end=log_end,
        messages=sum(queue.messages for queue in queues),
        bytes=sum(queue.bytes for queue in queues),
        first_stored_ms=min((q.first_stored_ms for q in queues if q.first_stored_ms), default=None),
        last_stored_ms=max((q.last_stored_ms for q in queues if q.last_stored_ms), default=None),
        queues=queues,
        disk=_disk_use(reader),
        damage_count=damages.count,
        damages=damages.kept,
    )


def is_queued(sys_flag: int) -> bool:
    """Return whether a record is in a queue: prepared and rolled-back records are in none."""
    return sys_flag & flags.TRANSACTION_MASK not in _NOT_QUEUED


def messages_in(block: Block, row: Row, sys_flag: int) -> int:
    """Return how many messages, and queue offsets, a record holds: an inner batch has several."""
    if not sys_flag & flags.INNER_BATCH:
        return 1
    return batch.inner_count(bytes(view_of(block.buffer, row).properties))


def late_queue(queue: QueueReader, least: int) -> Damage:
    """Return the damage of a queue that begins after its first message in the log."""
    reason = f"the log has messages from {least} on, but the queue begins at {queue.min_offset}"
    position = 0 if isinstance(queue, BatchQueueReader) else least * queue.entry_size
    return Damage(position, reason, 0, where=queue.where)


def _add(totals: dict[tuple[bytes, int], QueueTotals], block: Block) -> None:
    buffer = block.buffer
    for row, queue_id, offset, sys_flag, stored_ms in zip(
        block.rows,
        numbers(block, "queue_id"),
        numbers(block, "queue_offset"),
        numbers(block, "sys_flag"),
        numbers(block, "store_timestamp_ms"),
        strict=True,
    ):
        name = bytes(buffer[row[4] : row[5]]), queue_id
        queue = totals.get(name)
        if queue is None:
            queue = totals[name] = QueueTotals(
                topic=str(name[0], "utf-8", "replace"), queue_id=name[1], first_stored_ms=stored_ms
            )
        if queue.first_offset is None and is_queued(sys_flag):
            queue.first_offset = offset
        queue.messages += messages_in(block, row, sys_flag)
        queue.bytes += row[1] - row[0]
        queue.last_stored_ms = stored_ms  # store times never decrease along the log


def _with_offsets(
    reader: StoreReader, totals: dict[tuple[bytes, int], QueueTotals], damages: DamageList
) -> list[QueueTotals]:
    """Return the totals of all queues with their offsets, sorted; report gaps between files."""
    queues = {QueueName(queue.topic, queue.queue_id): queue for queue in totals.values()}
    for name in reader.queues():
        queue = queues.setdefault(name, QueueTotals(topic=name.topic, queue_id=name.queue_id))
        found = reader.queue(*name)
        queue.min_offset, queue.max_offset = found.min_offset, found.max_offset
        for gap in found.gaps():
            damages.add(gap)
    return [queues[name] for name in sorted(queues)]


def _report_late_queues(
    reader: StoreReader, queues: list[QueueTotals], damages: DamageList
) -> None:
    for queue in queues:
        least, low = queue.first_offset, queue.min_offset
        if least is not None and least < low:
            damages.add(late_queue(reader.queue(queue.topic, queue.queue_id), least))


def _disk_use(reader: StoreReader) -> dict[str, DiskUse]:
    batch_queues = (BATCH_CONSUME_QUEUE,) if reader.has(BATCH_CONSUME_QUEUE) else ()
    named = (CONSUME_QUEUE, *batch_queues, INDEX)
    parts = {name: path_join(reader.directory, name) for name in named}
    parts = {COMMIT_LOG: reader.log_directory, **parts}
    use = {name: _below(reader.disk, path) for name, path in parts.items()}
    # Counted, not subtracted from a total: files of a live store may disappear in between.
    use["other"] = _below(reader.disk, reader.directory, but=parts.values())
    return use


def _below(disk: Disk, folder: str, *, but: Collection[str] = ()) -> DiskUse:
    files = size = 0
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        for path in (path_join(folder, child) for child in disk.list(folder)):
            if path in but:
                continue
            if disk.is_directory(path):
                waiting.append(path)
            elif disk.exists(path):
                files += 1
                size += size_unless_gone(disk, path)
    return DiskUse(files, size)
