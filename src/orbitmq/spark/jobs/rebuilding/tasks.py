"""The tasks of a rebuild: they read log files, and write queues and index files.

Rows between them, and back to the driver, have a kind and bytes; an attempt of a task writes into a
directory of its own, and the driver takes those of the attempts that succeeded.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from orbitmq.store.reader.reader import Damage, StoreReader
from orbitmq.store.rebuild.index_files import IndexPlan, make_index_file
from orbitmq.store.rebuild.log_parts import KeyPart, Part, QueuePart, keys_of, parts
from orbitmq.store.rebuild.queue_files import make_queues
from orbitmq.store.settings import StoreSettings

__all__ = [
    "DAMAGE",
    "FILE",
    "INDEX",
    "KEYS",
    "MADE",
    "PLACES",
    "QUEUE",
    "SCANNED",
    "Log",
    "index_made",
    "queues_made",
    "scan",
]

SCANNED: Final = (
    "kind int, base bigint, topic string, queue_id int, number bigint, count bigint, data binary"
)
"""A part of a log file, which begins at ``base``; ``number`` orders parts or counts keys."""
FILE, PLACES, KEYS = range(3)
MADE: Final = "kind int, data binary"
QUEUE, DAMAGE, INDEX = range(3)

_SCANNED: Final = pa.schema(
    [
        ("kind", pa.int32()),
        ("base", pa.int64()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("number", pa.int64()),
        ("count", pa.int64()),
        ("data", pa.binary()),
    ]
)
_MADE: Final = pa.schema([("kind", pa.int32()), ("data", pa.binary())])
_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 4 << 20


class Log(msgspec.Struct, frozen=True):
    """Which log is read, and how."""

    directory: str
    settings: StoreSettings
    tag_keys: bool = True

    def reader(self) -> StoreReader:
        """Return a reader of the store."""
        root = self.directory.rstrip("/") or "/"
        return StoreReader(root, commit_log=self.settings.log_directory(root))


def scan(
    log: Log, bases: Sequence[int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the log files whose numbers come in, and yield their parts."""
    reader = log.reader()
    numbers = (number for batch in batches for number in batch.column(0).to_pylist())
    found = (
        _scanned_row(bases[number], part)
        for number in numbers
        for part in parts(reader, bases[number], log.settings, tag_keys=log.tag_keys)
    )
    yield from _batched(found, _SCANNED)


def queues_made(
    log: Log,
    work: str,
    batched: frozenset[str],
    damages: Sequence[Damage],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the queues whose parts come in, in order; yield them, and what they lack."""
    ordered = (
        QueuePart(*row) for row in _rows(batches, "topic", "queue_id", "number", "count", "data")
    )
    known = list(damages)
    made = make_queues(
        log.reader().disk,
        _own_directory(work),
        ordered,
        log.settings,
        has_batches=batched.__contains__,
        damages=known,
    )
    rows = [(QUEUE, msgspec.msgpack.encode(queue)) for queue in made]
    rows += [(DAMAGE, msgspec.msgpack.encode(damage)) for damage in known[len(damages) :]]
    yield from _batched(rows, _MADE)


def index_made(
    log: Log, work: str, plan: IndexPlan, reach: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the index files whose keys come in, in order, and yield them."""
    disk, directory = log.reader().disk, f"{_own_directory(work)}/index"
    for number, rows in groupby(_rows(batches, "file", "first", "data"), key=itemgetter(0)):
        made = make_index_file(
            *(disk, directory, plan, number),
            ((first, keys_of(data)) for _, first, data in rows),
            reach=reach if number == plan.files - 1 else None,
        )
        yield from _batched([(INDEX, msgspec.msgpack.encode(made))], _MADE)


def _scanned_row(base: int, part: Part) -> tuple[Any, ...]:
    match part:
        case QueuePart(topic, queue_id, number, count, data):
            return PLACES, base, topic, queue_id, number, count, data
        case KeyPart(first, count, data):
            return KEYS, base, None, None, first, count, data
    return FILE, base, None, None, None, None, msgspec.msgpack.encode(part)


def _own_directory(work: str) -> str:
    context = TaskContext.get()
    assert context is not None  # this runs in tasks only
    return f"{work}/{context.taskAttemptId()}"


def _rows(batches: Iterable[pa.RecordBatch], *columns: str) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _batched(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows, whose last value is bytes, as batches of some megabytes."""
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[-1])
        if len(held) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _batch(held, schema)
            held, size = [], 0
    if held:
        yield _batch(held, schema)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
