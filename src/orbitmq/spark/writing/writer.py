"""Spark writes, batch and streaming: rows become messages, at least once.

::

    driver    RocketMQWriter(options, schema) ── checks ──▶ pickled ──▶ tasks
    task      Arrow batch ──▶ pieces ──▶ messages of a piece ──▶ frames, in flight while the next
                                                                  piece is converted
    driver    commit(TaskTotals of each task), or abort(TaskTotals of each finished task)

A task that returns has receipts for all of its rows. One that fails may have stored some, and Spark
retries it: at least once. The copies have the same ``ORBIT_ID`` (see ``stable_ids``), by which
``drop_duplicates`` removes them.

Rows of one sharding key or one ``queue_id`` within a partition are stored in order. Brokers accept
no delayed messages in batches, so these are sent one by one, many in flight.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq.errors import (
    InvalidInput,
    OrbitError,
    PartlySent,
    RowsRejected,
    SendFailed,
    SendIllegal,
)
from orbitmq.errors.spark import RejectedRow
from orbitmq.message.model import Message, MessageQueue
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.options.options import FAIL, WriteOptions
from orbitmq.spark.schema import check_write_schema
from orbitmq.spark.writing.producers import producer_for
from orbitmq.spark.writing.rows_to_messages import (
    MessageBatch,
    RowConverter,
    dead_letter_of,
    refused_row,
    without_value,
)
from orbitmq.spark.writing.stable_ids import StableIds
from orbitmq.spark.writing.topics import ensure_topic
from orbitmq.threads import Future, ThreadWorkers

__all__ = [
    "RocketMQStreamWriter",
    "RocketMQWriter",
    "Sends",
    "TaskTotals",
    "check_append",
    "check_topics",
    "is_committing",
    "streamed_batch",
    "task_context",
    "write_rows",
]

log = logging.getLogger("orbitmq.spark")

_PIECE_BYTES: Final = 8 * 1024 * 1024
_PIECE_ROWS: Final = 16_384
"""Limits of a piece. A task holds two pieces, as messages and as frames: some 40 MiB, however large
Spark's batches are."""

# Spark's local properties in the tasks of a streaming query.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
# The main module of Spark's processes that commit, or a module of their daemon.
_COMMITTER: Final = "pyspark.sql.worker.python_streaming_sink_runner"


@dataclass(frozen=True)
class TaskTotals(WriterCommitMessage):
    """What one task has written; rejected rows went to the dead-letter topic instead."""

    partition: int
    row_count: int = 0
    rejected_count: int = 0
    body_bytes: int = 0


class RocketMQWriter(DataSourceArrowWriter):
    """A batch write; created on the driver, where it is checked.

    Raise InvalidInput if the mode is overwrite or a column can't be written, and another OrbitError
    if no nameserver answers or a topic in the options can't be written to.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        check_append(overwrite=overwrite)
        check_write_schema(schema, topic=options.topic, id_column=options.id_column)
        check_topics(options)
        self._options = options
        # Made on the driver, so that a retried task has the same id.
        self._write_id = SystemRandomness().uuid4()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskTotals:
        """Send all rows of a task, and count them.

        Raise RowsRejected if rows can't be messages, or brokers refuse their content, and
        ``onReject`` names no topic.
        """
        return write_rows(self._options, ("write", self._write_id), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written; all of it is stored already."""
        log.info("write %s: %s", self._write_id, _totals(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what may be stored: messages can't be taken back."""
        log.warning("write %s failed: %s", self._write_id, _failed_totals(messages))


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """The write of one streaming batch; created on the driver, and again to commit it.

    Raise as ``RocketMQWriter`` does.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, topic=options.topic, id_column=options.id_column)
        if not is_committing():
            check_topics(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskTotals:
        """Send all rows of a task, and count them, as a batch write does."""
        streamed = streamed_batch()
        if streamed is None:
            # New ids may leave copies; ids shared by queries would lose messages.
            log.warning("Spark sets no query and batch id: a retried task gives its rows new ids")
            return write_rows(self._options, ("task", SystemRandomness().uuid4()), iterator)
        return write_rows(self._options, ("query", *streamed), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log what was written; all of it is stored already."""
        log.info("streaming batch %d: %s", batchId, _totals(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log what may be stored; Spark replays the batch with the same ids."""
        log.warning("streaming batch %d failed: %s", batchId, _failed_totals(messages))


class Sends(Protocol):
    """Sends the messages of a task, as a producer does."""

    def send_many(
        self,
        messages: Sequence[Message],
        *,
        queues: Sequence[MessageQueue | None] | None = None,
        frame_bytes: int | None = None,
    ) -> object:
        """Send messages; raise SendIllegal or PartlySent as ``Producer.send_many`` does."""
        ...


def check_append(*, overwrite: bool) -> None:
    """Raise InvalidInput if a write is to replace what a topic has."""
    if overwrite:
        raise InvalidInput("a topic can't be overwritten; write with mode('append')", field="mode")


def check_topics(options: WriteOptions) -> None:
    """Check the topics of the options, and create missing ones; raise as ``ensure_topic`` does."""
    for topic in (options.topic, _dead_letters(options)):
        if topic is not None:
            ensure_topic(options, topic)


def is_committing() -> bool:
    """Return whether Spark runs this process to commit and abort streaming batches.

    All tasks have ended then, and a nameserver that is down for a moment must not make Spark replay
    a stored batch.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _COMMITTER in sys.modules or (main is not None and main.name == _COMMITTER)


def task_context() -> TaskContext:
    """Return the context of this task; raise InvalidInput outside of a task."""
    context = TaskContext.get()
    if context is None:
        raise InvalidInput("rows can be written in Spark tasks only", field="iterator")
    return context


def streamed_batch() -> tuple[str, str] | None:
    """Return the ids of query and batch in a task of a stream; None if Spark doesn't say."""
    context = task_context()
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    return None if query is None or batch is None else (query, batch)


def write_rows(
    options: WriteOptions,
    origin: tuple[str, ...],
    batches: Iterable[pa.RecordBatch],
    sends: Sends | None = None,
) -> TaskTotals:
    """Send all rows of a task by ``sends``, or by this process's producer; return the totals.

    ``origin`` identifies the write, for the ids of its rows. Raise RowsRejected if rows can't be
    messages, or brokers refuse their content, and ``onReject`` names no topic.
    """
    partition = task_context().partitionId()
    producer = producer_for(options)
    converter = RowConverter(
        StableIds(origin, partition),
        partial(producer.queues, must_exist=False),
        topic=options.topic,
        id_column=options.id_column,
        dead_letters=_dead_letters(options),
    )
    sender = _TaskSender(sends or producer, options, partition)
    # One thread waits for brokers while this one converts rows. Only one, to keep pieces in order.
    with ThreadWorkers(1, name="orbitmq-spark-write") as workers:
        before: Future[None] | None = None
        for batch in batches:
            for piece in _pieces(batch):
                piece = converter.convert(piece)
                if before is not None:
                    before.result()
                before = workers.submit(sender.send, piece)
        if before is not None:
            before.result()
    return sender.written


def _dead_letters(options: WriteOptions) -> str | None:
    """Return the topic of dead letters; None: rejected rows fail the write."""
    return None if options.on_reject == FAIL else options.on_reject


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices within the limits above, if its rows have similar sizes."""
    count = max(-(-batch.nbytes // _PIECE_BYTES), -(-batch.num_rows // _PIECE_ROWS), 1)
    row_count = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, row_count):
        yield batch.slice(start, row_count)


class _TaskSender:
    """Sends the pieces of one task one by one, and counts."""

    def __init__(self, producer: Sends, options: WriteOptions, partition: int) -> None:
        self._producer = producer
        self._options = options
        self._stored = 0  # acknowledged messages, including those of the current piece
        self.written = TaskTotals(partition)

    def send(self, piece: MessageBatch) -> None:
        """Send all messages of a piece, and wait for their receipts."""
        before = self.written
        dead_letters = _dead_letters(self._options)
        try:
            if piece.rejected and dead_letters is None:
                raise RowsRejected(before.partition, piece.rejected)
            refused = self._deliver(piece.messages, piece.queues)
            rejected = [*piece.rejected, *_refused_rows(piece, refused)]
            if refused:
                if dead_letters is None:
                    raise RowsRejected(before.partition, rejected)
                self._send_letters(_letters(dead_letters, piece, refused))
        except OrbitError as error:
            self._add_note(error, len(piece.messages))
            raise
        self.written = TaskTotals(
            partition=before.partition,
            row_count=before.row_count + piece.row_count - len(rejected),
            rejected_count=before.rejected_count + len(rejected),
            body_bytes=before.body_bytes + sum(len(one.body) for one in piece.messages),
        )

    def _deliver(
        self, messages: Sequence[Message], queues: Sequence[MessageQueue | None]
    ) -> dict[int, SendIllegal]:
        """Send messages; return the errors of those with refused content, by index."""
        try:
            self._producer.send_many(messages, queues=queues, frame_bytes=self._options.batch_bytes)
        except (SendIllegal, PartlySent) as error:
            faults = _faults(error, len(messages))
            self._stored += len(messages) - len(faults)
            illegal = {n: fault for n, fault in faults.items() if isinstance(fault, SendIllegal)}
            if len(illegal) < len(faults):
                raise
        else:
            self._stored += len(messages)
            return {}
        return self._refused_alone(messages, queues, illegal)

    def _refused_alone(
        self,
        messages: Sequence[Message],
        queues: Sequence[MessageQueue | None],
        illegal: Mapping[int, SendIllegal],
    ) -> dict[int, SendIllegal]:
        """Send the messages of refused frames one by one; return those that are refused again.

        A broker accepts or refuses a whole frame, and after a refused frame nothing more was sent
        to its queue. One by one, the messages of a queue keep their order.
        """
        of_frame = Counter(map(id, illegal.values()))
        refused: dict[int, SendIllegal] = {}
        for index, fault in sorted(illegal.items()):
            was_sent = not isinstance(fault.__cause__, SendIllegal)
            if was_sent and of_frame[id(fault)] == 1:
                refused[index] = fault
                continue
            try:
                self._producer.send_many([messages[index]], queues=[queues[index]])
            except SendIllegal as error:
                refused[index] = error
            else:
                self._stored += 1
        if len(refused) < len(illegal):
            log.warning(
                "partition %d: brokers refused frames with %d messages, but only %d of these one "
                "by one; if this repeats, batchBytes is over their maxMessageSize: %s",
                *(self.written.partition, len(illegal), len(refused), next(iter(illegal.values()))),
            )
        return refused

    def _send_letters(self, letters: Sequence[Message]) -> None:
        """Send dead letters; if brokers refuse them, send them without the values of rows."""
        refused = self._deliver(letters, [None] * len(letters))
        shorter = [without_value(letters[index]) for index in refused]
        if shorter and (refused := self._deliver(shorter, [None] * len(shorter))):
            raise next(iter(refused.values()))

    def _add_note(self, error: OrbitError, tried: int) -> None:
        """Add to an error how much of the task is stored."""
        uncertain = 0
        if isinstance(error, PartlySent):
            uncertain = sum(_may_be_stored(fault) for fault in error.errors.values())
        elif _may_be_stored(error):
            uncertain = tried
        error.add_note(
            f"partition {self.written.partition}: {self._stored} messages of this task are stored, "
            f"and {uncertain} more may be. If Spark retries it, copies have the same ids"
        )


def _faults(error: SendIllegal | PartlySent, count: int) -> Mapping[int, OrbitError]:
    """Return the error of each message without a receipt, by index."""
    return error.errors if isinstance(error, PartlySent) else dict.fromkeys(range(count), error)


def _refused_rows(piece: MessageBatch, refused: Mapping[int, SendIllegal]) -> list[RejectedRow]:
    """Return the rows that only a broker rejected."""
    known = {row.number for row in piece.rejected}
    return [
        refused_row(number, piece.messages[index], _refusal(error))
        for index, error in refused.items()
        if (number := piece.numbers[index]) not in known
    ]


def _letters(topic: str, piece: MessageBatch, refused: Mapping[int, SendIllegal]) -> list[Message]:
    """Return the dead letters of refused messages; a refused dead letter loses its value."""
    known = {row.number for row in piece.rejected}
    return [
        without_value(piece.messages[index])
        if piece.numbers[index] in known
        else dead_letter_of(topic, piece.messages[index], _refusal(error))
        for index, error in refused.items()
    ]


def _refusal(error: SendIllegal) -> str:
    who = error.queue.broker_name if error.queue else "a broker"
    return f"{who} refused it: {error.remark or f'code {error.code}, no remark'}"


def _may_be_stored(error: OrbitError) -> bool:
    return isinstance(error, SendFailed) and error.may_be_stored


def _totals(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the totals of some tasks as text."""
    written = [one for one in messages if isinstance(one, TaskTotals)]
    rows, rejected = sum(w.row_count for w in written), sum(w.rejected_count for w in written)
    size = sum(w.body_bytes for w in written)
    dead = f", {rejected} rows rejected and in the dead-letter topic" if rejected else ""
    return f"{rows} messages with {size} bytes from {len(written)} tasks{dead}"


def _failed_totals(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return what a failed write may have stored, as text."""
    failed = sum(one is None for one in messages)
    return (
        f"{_totals(messages)} are stored and stay; {failed} tasks did not finish and may have "
        "stored some rows"
    )
