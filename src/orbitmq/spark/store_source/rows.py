"""Reads a part of a store as Arrow batches, in a task.

::

    chunks of the log ──▶ rows selected by topic, state and time ──▶ bodies opened where needed
                                                                         │
                 batch ◀── columns ◀── rows selected by queue offset ◀───┘
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from orbitmq.errors import CorruptRecord
from orbitmq.message import flags
from orbitmq.message.record_view import RecordView
from orbitmq.spark.columns.arrow_schema import as_arrow
from orbitmq.spark.columns.record_columns import MARGIN, RecordBlock
from orbitmq.spark.offsets import EARLIEST, LATEST
from orbitmq.spark.pulling.opened_records import NOT_PLAIN, plain_records
from orbitmq.spark.store_source.columns import BatchRows, columns_of
from orbitmq.spark.store_source.corrupt_places import CorruptPlaces
from orbitmq.spark.store_source.heads import Bools, Bytes, Heads, Places
from orbitmq.spark.store_source.log_records import CHUNK_BYTES, Chunk, chunks
from orbitmq.spark.store_source.options import (
    ALL_TIME_MS,
    QueueKey,
    StoreOptions,
    limit_of,
    offsets_by_queue,
)
from orbitmq.spark.store_source.partitions import StorePartition, open_store
from orbitmq.spark.store_source.schema import store_schema
from orbitmq.spark.store_source.tag_codes import TagCodes, Topics, queues_of
from orbitmq.spark.store_source.topics import rule_of
from orbitmq.store.reader.reader import Damage, StoreReader

__all__ = ["read_part"]

_NOT_QUEUED: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)


def read_part(part: StorePartition, options: StoreOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, in the order of the log.

    Memory is bounded: a chunk of 16 MiB is mapped, and its columns are built; a body that is
    decompressed comes on top.

    Raises:
        StoreDamaged: a place can't be read, and ``onCorrupt`` is ``fail``; or the log was changed
            since the read was planned.
        DiskFailed: a file can't be opened.
        MissingExtra: a body needs a package that is not installed.
    """
    reader = open_store(options)
    places = CorruptPlaces(reader, options)
    for damage in part.damages:
        places.note(damage)
    builder = _Builder(part, options, reader, places)
    for chunk in chunks(reader, part.start, part.end, places.note, part.queues):
        yield from builder.batches(chunk)
        yield from places.reports()
    yield from places.reports()


class _Group(NamedTuple):
    """Plain records in one array; ``rows`` are the rows of the chunk that they come from."""

    data: Bytes
    starts: Places
    rows: Places


class _Builder:
    """Makes batches of the chunks of a part."""

    def __init__(
        self,
        part: StorePartition,
        options: StoreOptions,
        reader: StoreReader,
        places: CorruptPlaces,
    ) -> None:
        self._options = options
        self._places = places
        self._rule = rule_of(options)
        self._schema = as_arrow(store_schema(options.columns))
        self._tag_codes = TagCodes(reader, part.start, part.end)
        self._wanted: dict[str, bool] = {}
        self._first = _bounds(options, "starting")
        self._last = _bounds(options, "ending")

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk; several batches if decompressed bodies make it large."""
        topics = _topics(chunk)
        for group in self._groups(chunk, self._selected(chunk.heads, topics)):
            rows = self._rows(chunk, group, topics)
            if self._first or self._last:
                keep = self._within_offsets(rows)
                kept = _Group(group.data, group.starts[keep], group.rows[keep])
                rows = self._rows(chunk, kept, topics)
            if len(rows):
                arrays = columns_of(rows, self._options.columns)
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rows(self, chunk: Chunk, group: _Group, topics: Topics) -> BatchRows:
        return BatchRows(
            RecordBlock(group.data, group.starts),
            chunk.heads,
            group.rows,
            topics,
            broker=self._options.broker,
            tag_codes=self._tag_codes,
        )

    def _selected(self, heads: Heads, topics: Topics) -> Places:
        """Return the rows that topics, states and times select."""
        for name in topics.names:
            if name not in self._wanted:
                self._wanted[name] = self._rule.wants(name)
        wanted: Bools = np.array([self._wanted[name] for name in topics.names])[topics.codes]
        if not self._rule.wants_halves:
            wanted &= ~np.isin(heads.sys_flags & flags.TRANSACTION_MASK, _NOT_QUEUED)
        begin_ms, end_ms = self._options.times_ms
        if begin_ms > 0:
            wanted &= heads.stored_ms >= begin_ms
        if end_ms < ALL_TIME_MS:
            wanted &= heads.stored_ms < end_ms
        return np.flatnonzero(wanted)

    def _groups(self, chunk: Chunk, picked: Places) -> Iterator[_Group]:
        """Yield the picked rows as plain records."""
        if not len(picked):
            return
        special = chunk.heads.sys_flags[picked] & NOT_PLAIN != 0
        if not special.any():
            yield _Group(chunk.data, chunk.heads.starts[picked], picked)
            return
        view = chunk.data.data
        parts: list[memoryview | bytes] = []
        rows: list[int] = []
        size = 0
        for row, start, end, is_special in zip(
            picked.tolist(),
            chunk.heads.starts[picked].tolist(),
            chunk.heads.ends[picked].tolist(),
            special.tolist(),
            strict=True,
        ):
            opened = self._opened(chunk, start, end) if is_special else iter([view[start:end]])
            for record in opened:
                parts.append(record)
                rows.append(row)
                size += len(record)
                if size >= CHUNK_BYTES:
                    yield _joined(parts, rows)
                    parts, rows, size = [], [], 0
        if parts:
            yield _joined(parts, rows)

    def _opened(self, chunk: Chunk, start: int, end: int) -> Iterator[bytes]:
        view = RecordView(chunk.data.data, start, end - start)
        try:
            for _, record in plain_records(view):
                yield record
        except CorruptRecord as error:
            reason = f"the body can't be read: {error}"
            self._places.note(Damage(chunk.base + start, reason, end - start))

    def _within_offsets(self, rows: BatchRows) -> Bools:
        """Return which rows the offsets of the options select."""
        keys, of_row = queues_of(rows.topics, rows.number("queue_id"))
        first = np.array([limit_of(self._first.get(key, EARLIEST)) for key in keys])
        end = np.array([limit_of(self._last.get(key, LATEST)) for key in keys])
        offsets = rows.block.queue_offsets()
        return (offsets >= first[of_row]) & (offsets < end[of_row])


def _bounds(options: StoreOptions, side: str) -> Mapping[QueueKey, int]:
    bound = options.start if side == "starting" else options.end
    return offsets_by_queue(bound, f"{side}Offsets") if bound.kind == "offsets" else {}


def _topics(chunk: Chunk) -> Topics:
    """Return the topic of each record: every second piece of the bytes between all bounds."""
    heads = chunk.heads
    count = 2 * len(heads)
    offsets = np.empty(count + 1, np.int32)
    offsets[0:count:2] = heads.topic_starts
    offsets[1::2] = heads.topic_ends
    offsets[count] = heads.ends[-1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chunk.data)]
    pieces = pa.Array.from_buffers(pa.binary(), count, buffers)
    encoded = pieces.take(pa.array(np.arange(0, count, 2))).dictionary_encode()
    names = [str(name, "utf-8", "replace") for name in encoded.dictionary.to_pylist()]
    return Topics(encoded.indices.to_numpy().astype(np.int64), names)


def _joined(parts: list[memoryview | bytes], rows: list[int]) -> _Group:
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    ends = np.cumsum(sizes)
    data = np.frombuffer(bytearray(b"".join((*parts, bytes(MARGIN)))), np.uint8)
    return _Group(data, ends - sizes, np.array(rows, np.int64))
