"""Reads a store directory, live or copied, written by Java or by orbitmq.

Nothing is locked, written or repaired, and no settings are needed: names and lengths of files tell
their structure. A broker may keep writing; a reader sees the state at the time of each read. Memory
use does not grow with the store: some rows, and maps of a few files, which are page cache.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from orbitmq.errors import StoreError
from orbitmq.message.record import Row
from orbitmq.message.record_view import RecordView
from orbitmq.store.damage import Damage, OnDamage, raise_damage
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.store.disk.stream_files import StreamFile, StreamMaps, map_file
from orbitmq.store.index.record_keys import has_key
from orbitmq.store.layout import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    index_key,
    path_join,
)
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    is_blank,
    next_sound,
    sound_row,
    view_of,
    written_end,
)
from orbitmq.store.reader import columns as column_builder
from orbitmq.store.reader.columns import ColumnBatch
from orbitmq.store.reader.index_reader import index_files, index_names
from orbitmq.store.reader.queue_reader import (
    BatchQueueReader,
    QueueName,
    QueueReader,
    QueueRecord,
)
from orbitmq.store.reader.reader_walk import ReaderWalk

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

    Methods with ``on_damage`` call it with each place that can't be read, and go on after it.
    Without it the first such place raises, unless it is harmless; harmless ones are logged.

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
        """The current files of the commit log."""
        return self._log.files

    @property
    def has_abort_file(self) -> bool:
        """Whether a broker has the store open or ended without closing it."""
        return self.has(ABORT)

    def has(self, part: str) -> bool:
        """Return whether the store has a file or directory named ``part``."""
        return self.disk.exists(self._path(part))

    @property
    def has_index(self) -> bool:
        """Whether there are key index files."""
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

        They are views of a map of their file, which stays open as long as one of them exists. With
        ``verify`` records with a wrong checksum are reported and left out.

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

        Store times never decrease along the log, so files outside the range are not read.

        Raises:
            StoreDamaged: a place can't be read, and there is no ``on_damage``.
            DiskFailed: a file can't be opened.
        """
        start, end = self.range_of(begin_ms, end_ms)
        for block in self.blocks(start, end, on_damage=on_damage):
            for row in _narrowed(block, None, begin_ms, end_ms).rows:
                yield view_of(block.buffer, row)

    def message(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if no sound record begins there.

        Raises:
            DiskFailed: the file can't be opened.
        """
        found = self._log.at(commit_log_offset)
        if found is None:
            return None
        file, buffer = found
        row = sound_row(buffer, file.base, commit_log_offset - file.base)
        return None if row is None else view_of(buffer, row)

    @property
    def written_end(self) -> int:
        """The log offset after the last byte that is not zero."""
        files = self.segments
        for file in reversed(files):
            # Most of the last file may be a hole, and reading its zeros would take long.
            view = map_file(self.disk, file, with_last_hole=False)
            if view is not None and (written := written_end(view, 0)):
                return file.base + written
        return files[0].base if files else 0

    def next_record(self, start: int, end: int) -> int | None:
        """Return where the first sound record of a file begins, from ``start`` on, before ``end``.

        It is found by its bytes, and may begin inside the body of another one that imitates it.
        """
        found = self._log.at(start)
        if found is None:
            return None
        file, buffer = found
        stop = min(end - file.base, len(buffer))
        at = next_sound(buffer, file.base, start - file.base, stop)
        return None if at is None or at >= stop or is_blank(buffer, at) else file.base + at

    def blocks(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        verify: bool = False,
        on_damage: OnDamage | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Block]:
        """Yield the records of :meth:`records` as blocks of rows, in a fraction of the time.

        ``progress`` is called with the bytes walked so far.
        """
        files = self.segments
        first = files[0].base if files else 0
        walk = ReaderWalk(
            files,
            open_file=lambda file: map_file(self.disk, file),
            claimed=self.is_claimed,
            on_damage=on_damage or raise_damage,
            checked=Checked.BODY_AND_SEAL if verify else Checked.NONE,
        )
        for block in walk.records(
            first if start is None else max(start, first), _FOREVER if end is None else end
        ):
            yield block
            if progress is not None:
                progress(walk.end - first)

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

        ``topics`` and a range of store times restrict the rows. All column names are in
        :data:`orbitmq.store.reader.columns.COLUMNS`.

        Raises:
            InvalidInput: there is no such column.
            StoreDamaged: a place can't be read, and there is no ``on_damage``.
            DiskFailed: a file can't be opened.
        """
        picked = column_builder.check_columns(columns)
        low, high = self.range_of(begin_ms, end_ms)
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
        """Return the topics with queues, system topics included, sorted."""
        return sorted({name.topic for name in self.queues()})

    def queues(self) -> list[QueueName]:
        """Return the queues, batch queues among them, sorted by topic and queue id."""
        return sorted(
            {
                QueueName(topic, int(queue_id))
                for folder in map(self._path, (CONSUME_QUEUE, BATCH_CONSUME_QUEUE))
                for topic in self._directories(folder)
                for queue_id in self._directories(path_join(folder, topic))
                if queue_id.isascii() and queue_id.isdecimal() and str(int(queue_id)) == queue_id
            }
        )

    def _directories(self, folder: str) -> list[str]:
        names = self.disk.list(folder)
        return [name for name in names if self.disk.is_directory(path_join(folder, name))]

    def queue(self, topic: str, queue_id: int) -> QueueReader:
        """Return a queue; a queue that does not exist has no messages."""
        files = self.segments
        is_batch = self.has(path_join(BATCH_CONSUME_QUEUE, topic, str(queue_id)))
        return (BatchQueueReader if is_batch else QueueReader)(
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

        A store without an index (brokers can disable it) is searched by reading the log. With one,
        only indexed records are found; after a crash the last index file is missing until a broker
        has started again.

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

    def is_claimed(self, commit_log_offset: int) -> bool:
        """Return whether some queue has an entry for a log offset."""
        return any(self.queue(*name).claims(commit_log_offset) for name in self.queues())

    def range_of(self, begin_ms: int, end_ms: int) -> tuple[int, int]:
        """Return the range of log offsets that covers a range of store times, by whole files."""
        files = self.segments
        low, high = files[0].base if files else 0, _FOREVER
        if begin_ms <= 0 and end_ms >= _FOREVER:
            return low, high
        for file in files:
            first = self.message(file.base)
            if first is None:
                continue  # damaged or unwritten: reading it will report that
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
    """Yield a block in parts that fit in a batch."""
    if block.rows and block.rows[-1][1] - block.rows[0][0] <= _BATCH_BYTES:
        yield block  # nearly always
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
