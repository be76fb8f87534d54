"""Builds Arrow record batches from pull answers; builds only the selected columns.

::

    answers ──▶ AnswerBatch: received into one array; plain records, none missing ─────┐
       │ others                                                                       │
       └──▶ RowBuilder.feed: records are copied into another, opened if necessary ─────┤
                                                                 16,384 rows or 16 MB │
                                                                                      ▼
          batch ◀── rows of other tags removed ◀── columns ◀── RecordBlock, PropertyPairs
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orbitmq.errors import CorruptRecord
from orbitmq.message import properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.model import MessageQueue
from orbitmq.message.record import LEAST_SIZE, reader
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import TagFilter
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.columns.property_columns import PropertyPairs
from orbitmq.spark.columns.record_columns import MARGIN, RecordBlock
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Slice
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.pulling.answer_batch import AnswerBatch
from orbitmq.spark.pulling.opened_records import NOT_PLAIN, plain_records
from orbitmq.spark.pulling.puller import PullOptions, pull
from orbitmq.spark.pulling.record_run import Records

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "RowBuilder", "read_slice"]

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 16 * 1024 * 1024
"""A batch ends with the answer or opened record that reaches one of the two limits. Each batch
has a cost in Spark: a count takes half as long again with batches of a quarter of this size."""

_FIRST_BYTES: Final = BATCH_BYTES + 1024 * 1024  # for all but the largest answers

_TIME_MIN_MS: Final = -62_135_424_000_000  # 0001-01-03
_TIME_MAX_MS: Final = 253_402_214_400_000  # 9999-12-31
"""Within a day of Python's calendar, so that ``collect`` can convert them to local time."""

_SIZE_AND_FLAG: Final = reader("size", "sys_flag")


def read_slice(cluster: Cluster, piece: Slice, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice, in the order of its queue.

    Memory is bounded for any slice: ``puller.WINDOW`` answers (twice as many with tags) of 256 KiB
    each, unless a record is larger or the broker is configured otherwise, and a batch twice, as
    records and as columns. A batch has `BATCH_BYTES` plus the answer or opened record that exceeds
    them. Raise DataLost if offsets of the slice are gone and ``fail_on_data_loss`` is set, and
    CorruptRecord if a record can't be read or decompressed.
    """
    builder = RowBuilder(piece, options.columns, tags=options.tags)
    pull_options = PullOptions(
        group=options.pull_group,
        tags=options.tags,
        pull_count=options.pull_count,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    answers = AnswerBatch(BATCH_ROWS, BATCH_BYTES, MARGIN)
    for records in pull(cluster, piece, pull_options, batch=answers):
        yield from builder.feed(records)
    yield from builder.finish()


class RowBuilder:
    """Builds batches from the records of one slice.

    Messages of an inner batch outside the slice are dropped, and so are rows that don't match the
    subscription ``tags``. A broker compares hashes only, so tags are compared again here, as in
    Java's ``PullAPIWrapper``.

    >>> from orbitmq.message.host import Host
    >>> from orbitmq.message.record import Record, encode
    >>> here = Host.parse("127.0.0.1:10911")
    >>> answer = encode(Record(topic=b"orders", body=b"1 pizza", queue_id=0, queue_offset=41,
    ...                        born_timestamp_ms=0, born_host=here, store_host=here))
    >>> piece = Slice(MessageQueue("orders", "broker-a", 0), 40, 50)
    >>> builder = RowBuilder(piece, ("queue_offset", "value"))
    >>> [*builder.feed(Records(answer)), *builder.finish()][0].to_pylist()
    [{'queue_offset': 41, 'value': b'1 pizza'}]
    """

    def __init__(self, piece: Slice, columns: tuple[str, ...], *, tags: str = "*") -> None:
        self._piece = piece
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._tags = TagFilter.parse(tags)
        self._data = np.empty(0, np.uint8)  # grows with the first records that are copied
        self._used = 0
        self._starts: list[int] = []
        self._reached = piece.start  # by messages of inner batches

    def feed(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Add records; yield full batches. The caller must exhaust the iterator."""
        if records.is_batch:
            assert records.starts is not None
            yield from self.finish()
            yield self._built(RecordBlock(np.frombuffer(records.data, np.uint8), records.starts))
            return
        if records.starts is None:
            yield from self._feed_any(memoryview(records.data))
        else:
            base = self._used
            self._starts += [base + start for start in records.starts]
            self._append(records.data)
        if len(self._starts) >= BATCH_ROWS or self._used >= BATCH_BYTES:
            yield self._batch()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows, if there are any."""
        if self._starts:
            yield self._batch()

    def _feed_any(self, view: memoryview) -> Iterator[pa.RecordBatch]:
        """Add records of any kind, whose positions are not known."""
        position = copied = 0
        base = self._used  # the position of the first byte in the array
        starts, unpack, end = self._starts, _SIZE_AND_FLAG.unpack_from, len(view)
        last = end - LEAST_SIZE  # no record begins after it
        while position <= last:
            size, sys_flag = unpack(view, position)
            if sys_flag & NOT_PLAIN or size < LEAST_SIZE:
                self._check_size(size, end - position)
                self._append(view[copied:position])
                yield from self._feed_opened(RecordView(view, position, size))
                starts, copied = self._starts, position + size
                base = self._used - copied
            else:
                starts.append(base + position)
            position += size
        if position != end:
            raise self._cut_off(end)
        self._append(view[copied:])

    def _feed_opened(self, view: RecordView) -> Iterator[pa.RecordBatch]:
        """Add a compressed record or an inner batch, which may fill batches by itself."""
        for offset, record in self._opened(view):
            # A pull that begins inside an inner batch returns all of it, maybe again.
            if self._reached <= offset < self._piece.end:
                self._starts.append(self._used)
                self._append(record)
                self._reached = offset + 1
            if self._used >= BATCH_BYTES:
                yield self._batch()

    def _opened(self, view: RecordView) -> Iterator[tuple[int, bytes]]:
        try:
            yield from plain_records(view)
        except CorruptRecord as error:
            raise self._unreadable(view.queue_offset, error) from error

    def _append(self, part: Buffer) -> None:
        end = self._used + len(part)
        if end + MARGIN > len(self._data):
            grown = np.empty(max(end + MARGIN, 2 * len(self._data), _FIRST_BYTES), np.uint8)
            grown[: self._used] = self._data[: self._used]
            self._data = grown
        self._data.data[self._used : end] = part
        self._used = end

    def _batch(self) -> pa.RecordBatch:
        """Return the records so far as a batch, and start the next one."""
        self._data[self._used : self._used + MARGIN] = 0
        batch = self._built(RecordBlock(self._data[: self._used + MARGIN], self._starts))
        self._starts, self._used = [], 0
        return batch

    def _built(self, block: RecordBlock) -> pa.RecordBatch:
        """Return the columns of a block."""
        if block.faulty is not None:
            offset = int(block.queue_offsets()[block.faulty])
            raise self._unreadable(offset, "the lengths in the record don't add up")
        rows = _Rows(block, self._piece.queue)
        arrays = [_BUILDERS[name](rows) for name in self._columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not self._tags.selects_all:
            selected = pc.is_in(rows.tags, value_set=pa.array(sorted(self._tags.tags)))
            if not pc.all(selected).as_py():
                batch = batch.filter(selected)
        return batch

    def _check_size(self, size: int, left: int) -> None:
        if not LEAST_SIZE <= size <= left:
            raise CorruptRecord(
                f"{self._where()}: a record has size {size}, with {left} bytes left of the answer"
            )

    def _cut_off(self, size: int) -> CorruptRecord:
        return CorruptRecord(
            f"{self._where()}: an answer of {size} bytes ends in the middle of a record"
        )

    def _unreadable(self, offset: int, why: object) -> CorruptRecord:
        return CorruptRecord(f"{self._where()}, offset {offset} can't be read: {why}")

    def _where(self) -> str:
        return f"topic {self._piece.queue.topic}, queue {queue_name(self._piece.queue)}"


class _Rows:
    """Input of the columns; what several columns need is computed once."""

    def __init__(self, block: RecordBlock, queue: MessageQueue) -> None:
        self.block = block
        self.queue = queue

    @cached_property
    def pairs(self) -> PropertyPairs:
        return PropertyPairs(self.block.texts())

    @cached_property
    def tags(self) -> pa.Array:
        return self.pairs.values_of(properties.TAGS)

    @cached_property
    def offset_ids(self) -> pa.Array:
        return self.block.offset_ids()

    def message_ids(self) -> pa.Array:
        """Return the producer's id, else that of the position in the log, as in Java."""
        given = self.pairs.values_of(properties.UNIQUE_KEY)
        return pc.coalesce(given, self.offset_ids) if given.null_count else given

    def constant(self, value: str | int, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self.block))


def _int32(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _times(values_ms: NDArray[np.int64]) -> pa.Array:
    # Clients may send any time, and an extreme one must not fail a query.
    within = np.clip(values_ms, _TIME_MIN_MS, _TIME_MAX_MS)
    return pa.array(within * 1000).view(pa.timestamp("us", tz="UTC"))


_BUILDERS: Final[dict[str, Callable[[_Rows], pa.Array]]] = {
    "key": lambda rows: rows.pairs.values_of(properties.KEYS),
    "value": lambda rows: rows.block.bodies(),
    "topic": lambda rows: rows.constant(rows.queue.topic, pa.string()),
    "broker": lambda rows: rows.constant(rows.queue.broker_name, pa.string()),
    "queue_id": lambda rows: rows.constant(rows.queue.queue_id, pa.int32()),
    "queue_offset": lambda rows: pa.array(rows.block.queue_offsets()),
    "timestamp": lambda rows: _times(rows.block.stored_ms()),
    "born_timestamp": lambda rows: _times(rows.block.born_ms()),
    "tags": lambda rows: rows.tags,
    "message_id": lambda rows: rows.message_ids(),
    "offset_message_id": lambda rows: rows.offset_ids,
    "properties": lambda rows: rows.pairs.maps(),
    "flag": lambda rows: _int32(rows.block.user_flags()),
    "reconsume_times": lambda rows: _int32(rows.block.reconsume_times()),
    "body_crc": lambda rows: _int32(rows.block.body_crcs()),
}
