"""Rows written as Parquet files, by topic and day of storage; in a task, past Spark's JVM.

::

    batches ──▶ cut where the day changes ──▶ held by (topic, day) ─┬─ group_bytes ──▶ row group
                                                                    │   file_bytes ──▶ next file
                                                                    └─ held_bytes over all,
                                                                       or too many open ──▶ written

Memory: what is held, and one row group that is being written: some 200 MiB with the defaults,
however many rows, topics and days a task has.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.archiving.manifest import ArchivedFile
from orbitmq.spark.locations.location import Location

__all__ = ["COMPRESSIONS", "FileOptions", "PartitionedFiles", "by_day", "folder_of"]

COMPRESSIONS: Final = ("zstd", "snappy", "none")
_LEVELS: Final[Mapping[str, int]] = {"zstd": 1}
"""The first level of zstd costs hardly more than snappy; the others gain little on messages."""
_REPEATING: Final = (
    *("broker", "tags", "queue_id", "flag", "reconsume_times", "sys_flag"),
    "properties.key_value.key",
)
"""Columns with few values. A dictionary of any other would be built in vain."""
_WITHOUT_STATISTICS: Final = frozenset({"value", "properties"})
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and compression of files; raise InvalidInput if one is out of range."""

    compression: str = "zstd"
    file_bytes: int = 256 << 20
    """A file ends with the row group that reaches this size."""
    group_bytes: int = 64 << 20
    """Rows of this size in memory are a row group."""
    held_bytes: int = 128 << 20
    """The most that a task holds for all its files."""
    open_max: int = 32
    """The most files that a task has open."""

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise InvalidInput(
                f"compression is {self.compression[:40]!r}; there are {', '.join(COMPRESSIONS)}",
                field="compression",
            )
        for name in ("file_bytes", "group_bytes", "held_bytes", "open_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1", field=name)


def folder_of(topic: str, date: str) -> str:
    """Return the folder of a topic and a day; names are escaped as Hive, Spark and pyarrow do.

    >>> folder_of("%RETRY%billing", "2026-11-18")
    'topic=%25RETRY%25billing/date=2026-11-18'
    """
    escaped = topic.replace("%", "%25").replace("|", "%7C")
    return f"topic={escaped}/date={date}"


def by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each day (UTC) in their order; a batch of one day as it is."""
    times = batch.column(batch.schema.get_field_index("timestamp")).view(pa.int64())
    days = np.floor_divide(times.to_numpy(), _DAY_US)
    borders = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for start, end in pairwise(borders):
        if start < end:
            date = (_EPOCH + timedelta(days=int(days[start]))).date().isoformat()
            yield date, batch.slice(start, end - start)


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self, location: Location, staging: str, name: str, schema: pa.Schema, options: FileOptions
    ) -> None:
        self.name = name
        self.rows = 0
        self.held_bytes = 0
        self._held: list[pa.RecordBatch] = []
        self._location = location
        self._staged = f"{staging}/{name}"
        location.make_folder(self._staged.rpartition("/")[0])
        self._stream = location.files.open_output_stream(location.path(self._staged))
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=options.compression,
            compression_level=_LEVELS.get(options.compression),
            use_dictionary=[*_REPEATING],
            write_statistics=[one for one in schema.names if one not in _WITHOUT_STATISTICS],
        )

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self.held_bytes += batch.nbytes
        self.rows += batch.num_rows

    def flush(self) -> int:
        """Write what is held as a row group; return the size of the file so far."""
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=self.rows)
            self._held, self.held_bytes = [], 0
        return int(self._stream.tell())

    def close(self) -> int:
        """Finish the file; return its size."""
        self.flush()
        self._writer.close()
        size = int(self._stream.tell())
        self._stream.close()
        self._location.sync(self._staged)
        return size


class PartitionedFiles:
    """The files of one attempt of a task, below ``staging``.

    ``stem`` begins their names, and must differ between attempts. ``schema`` is that of the rows.
    """

    def __init__(
        self,
        location: Location,
        staging: str,
        stem: str,
        schema: pa.Schema,
        options: FileOptions | None = None,
    ) -> None:
        self._location = location
        self._staging = staging
        self._stem = stem
        self._schema = schema
        self._options = options or FileOptions()
        self._open: dict[tuple[str, str], _OpenFile] = {}  # the last one got rows last
        self._finished: list[ArchivedFile] = []
        self._count = 0

    def add(self, topic: str, batch: pa.RecordBatch) -> None:
        """Add rows of a topic, of any days."""
        for date, rows in by_day(batch):
            self._add(topic, date, rows)

    def finish(self) -> list[ArchivedFile]:
        """Close all files and return them; no rows may follow."""
        for key in [*self._open]:
            self._close(key)
        return self._finished

    def _add(self, topic: str, date: str, rows: pa.RecordBatch) -> None:
        key = topic, date
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= self._options.open_max:
                self._close(next(iter(self._open)))
            file = self._new(topic, date)
        self._open[key] = file
        file.add(rows)
        if file.held_bytes >= self._options.group_bytes:
            if file.flush() >= self._options.file_bytes:
                self._close(key)
        elif sum(one.held_bytes for one in self._open.values()) > self._options.held_bytes:
            max(self._open.values(), key=lambda one: one.held_bytes).flush()

    def _new(self, topic: str, date: str) -> _OpenFile:
        self._count += 1
        name = f"{folder_of(topic, date)}/{self._stem}-{self._count:04d}.parquet"
        return _OpenFile(self._location, self._staging, name, self._schema, self._options)

    def _close(self, key: tuple[str, str]) -> None:
        file = self._open.pop(key)
        size = file.close()
        self._finished.append(ArchivedFile(file.name, *key, file.rows, size))
