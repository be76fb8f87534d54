"""A store directory opened read-only: live or copied, Java's or ours.

Nothing is locked, written or repaired, and no settings are needed: what a file is follows from its
name and its length. A broker may go on writing; a reader sees what was there when it looked. It
holds no more than some rows and maps of a few files, which are page cache, whatever the store's
size.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from orbitmq.errors import StoreError
from orbitmq.message.record_view import RecordView
from orbitmq.store.damage import Damage, OnDamage, raise_damage
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.store.disk.stream_files import StreamFile, StreamMaps, map_file
from orbitmq.store.index.record_keys import has_key
from orbitmq.store.layout import ABORT, CHECKPOINT, COMMIT_LOG, CONSUME_QUEUE, index_key, path_join
from orbitmq.store.log.record_rows import Block, Row, sound_row, view_of
from orbitmq.store.reader import columns as column_builder
from orbitmq.store.reader.columns import ColumnBatch
from orbitmq.store.reader.index_reader import index_files, index_names
from orbitmq.store.reader.log_walk import LogWalk
from orbitmq.store.reader.queue_reader import QueueName, QueueReader, QueueRecord

__all__ = [
    "ColumnBatch",
    "Damage",
    "OnDamage",
    "QueueName",
    "QueueReader",
    "QueueRecord",
    "StoreReader",
]

_FOREVER: Final = (1 << 63) - 1
# Offsets of a column have 32 bits, and a batch should be small beside a Spark task's memory.
_BATCH_BYTES: Final = 32 << 20


class StoreReader:
    """A store directory, read-only; ``commit_log`` is where its log is, if it is elsewhere.

    Where a method takes ``on_damage``, it is called with each place that can't be read, and the
    reading goes on behind it. Without it the first such place raises; what is harmless is logged.

    Raises:
        StoreError: there is no store in the directory.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     Path(directory, "checkpoint").touch()  # a store before its first message
    ...     reader = StoreReader(directory)
    ...     [(view.topic, view.queue_offset) for view in reader.records()], reader.topics()
    ([], [])

    """

    def __init__(
        self, directory: str, disk: Disk | None = None, *, commit_log: str | None = None
    ) -> None:
        self.directory = directory.rstrip("/") or "/"
        self.log_directory = commit_log or self._path(COMMIT_LOG)
        self.disk: Disk = RealDisk() if disk is None else disk
        if not any(map(self.disk.exists, (self.log_directory, self._path(CHECKPOINT)))):
            raise StoreError(
                f"{directory} is not a store directory: it has neither {COMMIT_LOG}/ nor "
                f"{CHECKPOINT}; give the directory that storePathRootDir names",
                path=directory,
            )
        self._log = StreamMaps(self.disk, self.log_directory)

    def __repr__(self) -> str:
        return f"<StoreReader {self.directory}>"

    @property
    def segments(self) -> list[StreamFile]:
        """The files of the commit log, as they are now."""
        return self._log.files

    @property
    def has_abort_file(self) -> bool:
        """Whether a broker has the store open, or ended without closing it."""
        return self.has(ABORT)

    def has(self, part: str) -> bool:
        """Return whether the store has a file or directory of that name."""
        return self.disk.exists(self._path(part))

    @property
    def has_index(self) -> bool:
        """Whether there are files of a key index."""
        return bool(index_names(self.disk, self.directory))

    # The log.

    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        verify: bool = False,
        on_damage: OnDamage | None = None,
    ) -> Iterator[RecordView]:
        """Yield the records that begin from ``start`` on and before ``end``, in order.

        They lie in a map of their file, which lives as long as one of them. With ``verify``
        records that a checksum shows to be damaged are reported and left out.

        Raises:
            StoreDamaged: a place can't be read, and there is no ``on_damage``.
            DiskFailed: a file can't be opened.

        """
        for buffer, rows in self.blocks(start, end, verify=verify, on_damage=on_damage):
            for row in rows:
                yield view_of(buffer, row)

    def by_time(
        self, begin_ms: int, end_ms: int, *, on_damage: OnDamage | None = None
    ) -> Iterator[RecordView]:
        """Yield the records stored from ``begin_ms`` on and before ``end_ms``, in order.

        Times run along the log, so segments whose first record tells that nothing of it can be
        within are not read.

        Raises:
            StoreDamaged: a place can't be read, and there is no ``on_damage``.
            DiskFailed: a file can't be opened.

        """
        start, end = self._range_of(begin_ms, end_ms)
        for block in self.blocks(start, end, on_damage=on_damage):
            for row in _narrowed(block, None, begin_ms, end_ms).rows:
                yield view_of(block.buffer, row)

    def message(self, commit_log_offset: int) -> RecordView | None:
        """Return the record that begins at an offset of the log, None if no sound one does.

        Raises:
            DiskFailed: the file can't be opened.

        """
        found = self._log.at(commit_log_offset)
        if found is None:
            return None
        file, buffer = found
        row = sound_row(buffer, file.base, commit_log_offset - file.base)
        return None if row is None else view_of(buffer, row)

    def blocks(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        verify: bool = False,
        on_damage: OnDamage | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Block]:
        """Yield what :meth:`records` yields, as rows: many at a time, and for a fraction.

        ``progress`` is called with the bytes read so far, holes included.
        """
        files = self.segments
        first = files[0].base if files else 0
        walk = LogWalk(
            files,
            open_file=lambda file: map_file(self.disk, file),
            claimed=self._is_claimed,
            on_damage=on_damage or raise_damage,
            verify=verify,
        )
        for block in walk.blocks(
            first if start is None else max(start, first), _FOREVER if end is None else end
        ):
            yield block
            if progress is not None:
                last = view_of(block.buffer, block.rows[-1])
                progress(last.commit_log_offset + last.size - first)

    def batches(
        self,
        columns: Iterable[str],
        start: int | None = None,
        end: int | None = None,
        *,
        topics: Collection[str] | None = None,
        begin_ms: int = 0,
        end_ms: int = _FOREVER,
        on_damage: OnDamage | None = None,
    ) -> Iterator[ColumnBatch]:
        """Yield records as columns, some thousand rows at a time; only ``columns`` are built.

        Rows may be narrowed to some topics and to a time of storing, as in :meth:`by_time`. The
        names of all columns are :data:`orbitmq.store.reader.columns.COLUMNS`.

        Raises:
            InvalidInput: there is no such column.
            StoreDamaged: a place can't be read, and there is no ``on_damage``.
            DiskFailed: a file can't be opened.

        """
        picked = column_builder.check_columns(columns)
        low, high = self._range_of(begin_ms, end_ms)
        wanted = None if topics is None else frozenset(topic.encode() for topic in topics)
        narrow = wanted is not None or begin_ms > 0 or end_ms < _FOREVER
        for block in self.blocks(
            low if start is None else max(start, low),
            high if end is None else min(end, high),
            on_damage=on_damage,
        ):
            kept = _narrowed(block, wanted, begin_ms, end_ms) if narrow else block
            for part in _parts(kept):
                yield column_builder.build(part, picked)

    # Queues and keys.

    def topics(self) -> list[str]:
        """Return the topics that have consume queues, sorted; system topics among them."""
        return sorted({name.topic for name in self.queues()})

    def queues(self) -> list[QueueName]:
        """Return the consume queues, by topic and number; what is no directory is none."""
        folder = self._path(CONSUME_QUEUE)
        return sorted(
            QueueName(topic, int(queue_id))
            for topic in self._directories(folder)
            for queue_id in self._directories(path_join(folder, topic))
            if queue_id.isascii() and queue_id.isdecimal() and str(int(queue_id)) == queue_id
        )

    def _directories(self, folder: str) -> list[str]:
        names = self.disk.list(folder)
        return [name for name in names if self.disk.is_directory(path_join(folder, name))]

    def queue(self, topic: str, queue_id: int) -> QueueReader:
        """Return a consume queue; one that doesn't exist has no messages."""
        files = self.segments
        return QueueReader(
            self.directory,
            QueueName(topic, queue_id),
            disk=self.disk,
            find=self.message,
            log_start=files[0].base if files else 0,
        )

    def find_key(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = _FOREVER
    ) -> list[RecordView]:
        """Return the records of a topic with a key or a unique key, in the order of the log.

        Without an index, which brokers may be told to do without, the log is read: all of the time
        asked for. With one, only what is in it is found; after a crash its last file is missing
        until a broker has started again.

        Raises:
            StoreDamaged: there is no index, and a place of the log can't be read.
            DiskFailed: a file can't be opened.

        """
        views: Iterable[RecordView | None]
        if self.has_index:
            text = index_key(topic, key)
            offsets = {
                offset
                for file in index_files(self.disk, self.directory)
                if file.covers(begin_ms, end_ms)
                for offset in file.find(text)
            }
            views = (self.message(offset) for offset in sorted(offsets))
        else:
            views = self.by_time(begin_ms, end_ms)
        return [
            view
            for view in views
            if view is not None
            and has_key(view, topic, key)
            and begin_ms <= view.store_timestamp_ms < end_ms
        ]

    def _path(self, *parts: str) -> str:
        return path_join(self.directory, *parts)

    def _is_claimed(self, commit_log_offset: int) -> bool:
        return any(self.queue(*name).claims(commit_log_offset) for name in self.queues())

    def _range_of(self, begin_ms: int, end_ms: int) -> tuple[int, int]:
        """Return the part of the log outside of which nothing was stored within a time."""
        files = self.segments
        low, high = files[0].base if files else 0, _FOREVER
        if begin_ms <= 0 and end_ms >= _FOREVER:
            return low, high
        for file in files:
            first = self.message(file.base)
            if first is None:
                continue  # damaged or not written: read it, and hear of it
            if first.store_timestamp_ms < begin_ms:
                low = file.base
            elif first.store_timestamp_ms >= end_ms:
                return low, min(high, file.base)
        return low, high


def _narrowed(block: Block, topics: frozenset[bytes] | None, begin_ms: int, end_ms: int) -> Block:
    times = column_builder.numbers(block, "store_timestamp_ms")
    rows = [row for row, at in zip(block.rows, times, strict=True) if begin_ms <= at < end_ms]
    if topics is not None:
        rows = [row for row in rows if bytes(block.buffer[row[4] : row[5]]) in topics]
    return Block(block.buffer, rows)


def _parts(block: Block) -> Iterator[Block]:
    """Yield a block in parts that are not too large for a batch."""
    if block.rows and block.rows[-1][1] - block.rows[0][0] <= _BATCH_BYTES:
        yield block  # as nearly all are
        return
    rows: list[Row] = []
    size = 0
    for row in block.rows:
        if rows and size + row[1] - row[0] > _BATCH_BYTES:
            yield Block(block.buffer, rows)
            rows, size = [], 0
        rows.append(row)
        size += row[1] - row[0]
    if rows:
        yield Block(block.buffer, rows)
