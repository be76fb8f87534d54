"""Writes of Spark, batch and streaming: rows of Arrow batches become messages, at least once.

::

    driver    RocketMQWriter(options, schema) ── checks ──▶ pickled ──▶ tasks
    task      Arrow batch ──▶ pieces ──▶ messages of a piece ──▶ frames, on their way while the
                                                                  next piece is made
    driver    commit(Written of each task), or abort(Written of each task that ended)

A task that returns has receipts for all of its rows. One that fails may have stored some, and Spark
runs it again: that is what *at least once* means. The copies have the same ``ORBIT_ID`` (see
``stable_ids``), by which ``drop_duplicates`` takes them out.

Rows of one sharding key within a partition are stored in their order, and so are rows of one
``queue_id``. Brokers take no delayed messages in batches, so those travel alone, many at once.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq.blocking import Producer
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
    Outgoing,
    OutgoingRows,
    letter_of_refused,
    refused_row,
    without_value,
)
from orbitmq.spark.writing.stable_ids import StableIds
from orbitmq.threads import Future, ThreadWorkers

__all__ = ["RocketMQStreamWriter", "RocketMQWriter", "Written"]

log = logging.getLogger("orbitmq.spark")

_PIECE_BYTES: Final = 8 * 1024 * 1024
_PIECE_ROWS: Final = 16_384
"""What is made into messages at once. A task holds two such pieces, as messages and as frames: some
40 MiB, however large the batches are that Spark is set to."""

# Spark's own names of what a streaming query tells its tasks.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
# What Spark's processes that commit run: from a daemon, or by themselves where there is none.
_COMMITTER: Final = "pyspark.sql.worker.python_streaming_sink_runner"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written.

    Attributes:
        partition: the task, as Spark numbers them.
        row_count: the messages that brokers have receipts for.
        rejected_count: the rows that went to the dead-letter topic instead.
        body_bytes: the bytes of all bodies.

    """

    partition: int
    row_count: int = 0
    rejected_count: int = 0
    body_bytes: int = 0


class RocketMQWriter(DataSourceArrowWriter):
    """A batch write; made on the driver, where it refuses what can't be written.

    Args:
        options: what the user said.
        schema: the columns of the data frame.
        overwrite: whether the mode is overwrite, which a topic can't be.

    Raises:
        InvalidInput: the mode is overwrite; or a column is not one that can be written.
        OrbitError: no nameserver answers, or a topic that the options name can't be written to.

    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidInput(
                "a topic can't be overwritten; write with mode('append')", field="mode"
            )
        check_write_schema(schema, topic=options.topic, id_column=options.id_column)
        _check_topics(options)
        self._options = options
        # Tasks that run again must know the write by the same name: hence here, and not there.
        self._write_id = SystemRandomness().uuid4()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send all rows of a task, and return how many they were.

        Raises:
            RowsRejected: rows can't be messages, or brokers refuse them for what they are, and no
                topic is set for them.
            OrbitError: the client's own: brokers could not be reached, or refused.

        """
        return _write(self._options, ("write", self._write_id), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written; all of it is stored already."""
        log.info("write %s: %s", self._write_id, _told(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what may be stored all the same: messages can't be taken back."""
        log.warning("write %s failed: %s", self._write_id, _left(messages))


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """The write of one streaming batch; made on the driver, and anew to commit it.

    Args:
        options: what the user said.
        schema: the columns of the data frame.

    Raises:
        InvalidColumn: a column is not one that can be written.
        OrbitError: no nameserver answers, or a topic that the options name can't be written to.

    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, topic=options.topic, id_column=options.id_column)
        if not _is_committing():
            _check_topics(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send all rows of a task, and return how many they were; as a batch write does."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            # Ids that are too new leave copies; ids that queries share would cost messages.
            log.warning("Spark tells no query and batch: ids of rows change when a task is retried")
            return _write(self._options, ("task", SystemRandomness().uuid4()), iterator)
        return _write(self._options, ("query", query, batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log what was written; all of it is stored already."""
        log.info("streaming batch %d: %s", batchId, _told(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log what may be stored all the same: the batch is replayed, with the same ids."""
        log.warning("streaming batch %d failed: %s", batchId, _left(messages))


def _check_topics(options: WriteOptions) -> None:
    for topic in (options.topic, _dead_letters(options)):
        if topic is not None:
            producer_for(options).queues(topic, must_exist=False)


def _is_committing() -> bool:
    """Return whether this process is one that Spark has commit and abort streaming batches.

    All tasks are over then: a nameserver that is away for a moment must not make Spark replay a
    batch that is stored.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _COMMITTER in sys.modules or (main is not None and main.name == _COMMITTER)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvalidInput("rows are written by Spark's tasks alone", field="iterator")
    return context


def _write(
    options: WriteOptions, origin: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Written:
    partition = _context().partitionId()
    producer = producer_for(options)
    rows = OutgoingRows(
        StableIds(origin, partition),
        partial(producer.queues, must_exist=False),
        topic=options.topic,
        id_column=options.id_column,
        dead_letters=_dead_letters(options),
    )
    sending = _Sending(producer, options, partition)
    # One thread waits for brokers while this one makes messages; and there is one, so that pieces
    # leave in their order.
    with ThreadWorkers(1, name="orbitmq-spark-write") as workers:
        before: Future[None] | None = None
        for batch in batches:
            for piece in _pieces(batch):
                outgoing = rows.of(piece)
                if before is not None:
                    before.result()
                before = workers.submit(sending.send, outgoing)
        if before is not None:
            before.result()
    return sending.written


def _dead_letters(options: WriteOptions) -> str | None:
    """Return the topic that gets the letters of rejected rows; None: they fail the write."""
    return None if options.on_reject == FAIL else options.on_reject


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of the sizes above, as far as its rows are of one size."""
    count = max(-(-batch.nbytes // _PIECE_BYTES), -(-batch.num_rows // _PIECE_ROWS), 1)
    row_count = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, row_count):
        yield batch.slice(start, row_count)


class _Sending:
    """Sends the pieces of one task, one after the other, and counts."""

    def __init__(self, producer: Producer, options: WriteOptions, partition: int) -> None:
        self._producer = producer
        self._options = options
        self._stored = 0  # messages that brokers have receipts for, those of this piece too
        self.written = Written(partition)

    def send(self, outgoing: Outgoing) -> None:
        """Return when brokers have receipts for all messages of a piece.

        Raises:
            RowsRejected, OrbitError: as `RocketMQWriter.write` does.

        """
        before = self.written
        dead_letters = _dead_letters(self._options)
        try:
            if outgoing.rejected and dead_letters is None:
                raise RowsRejected(before.partition, outgoing.rejected)
            refused = self._deliver(outgoing.messages, outgoing.queues)
            rejected = [*outgoing.rejected, *_refused_rows(outgoing, refused)]
            if refused:
                if dead_letters is None:
                    raise RowsRejected(before.partition, rejected)
                self._send_letters(_letters(dead_letters, outgoing, refused))
        except OrbitError as error:
            self._add_note(error, len(outgoing.messages))
            raise
        self.written = Written(
            partition=before.partition,
            row_count=before.row_count + outgoing.row_count - len(rejected),
            rejected_count=before.rejected_count + len(rejected),
            body_bytes=before.body_bytes + sum(len(one.body) for one in outgoing.messages),
        )

    def _deliver(
        self, messages: Sequence[Message], queues: Sequence[MessageQueue | None]
    ) -> dict[int, SendIllegal]:
        """Send messages; return those that brokers refuse for what they are, by their index."""
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
        """Return which messages of the refused frames are refused by themselves; send the others.

        A broker takes a frame or refuses it, and behind a refused one nothing of its queue was
        sent. One after the other, messages of a queue keep their order.
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
                "partition %d: brokers refused frames with %d messages, and %d of these alone; "
                "if that goes on, batchBytes is over their maxMessageSize: %s",
                *(self.written.partition, len(illegal), len(refused), next(iter(illegal.values()))),
            )
        return refused

    def _send_letters(self, letters: Sequence[Message]) -> None:
        """Send dead letters; without the values of rows if these are why brokers refuse them."""
        refused = self._deliver(letters, [None] * len(letters))
        shorter = [without_value(letters[index]) for index in refused]
        if shorter and (refused := self._deliver(shorter, [None] * len(shorter))):
            raise next(iter(refused.values()))

    def _add_note(self, error: OrbitError, tried: int) -> None:
        """Add to an error how far the task had come."""
        uncertain = 0
        if isinstance(error, PartlySent):
            uncertain = sum(_may_be_stored(fault) for fault in error.errors.values())
        elif _may_be_stored(error):
            uncertain = tried
        error.add_note(
            f"partition {self.written.partition}: {self._stored} messages of this task are stored, "
            f"and {uncertain} more may be. When Spark tries it again, copies have the same ids"
        )


def _faults(error: SendIllegal | PartlySent, count: int) -> Mapping[int, OrbitError]:
    """Return what went wrong with each message that has no receipt, by its index."""
    return error.errors if isinstance(error, PartlySent) else dict.fromkeys(range(count), error)


def _refused_rows(outgoing: Outgoing, refused: Mapping[int, SendIllegal]) -> list[RejectedRow]:
    """Return the rows that only a broker found fault with."""
    known = {row.number for row in outgoing.rejected}
    return [
        refused_row(number, outgoing.messages[index], _refusal(error))
        for index, error in refused.items()
        if (number := outgoing.numbers[index]) not in known
    ]


def _letters(topic: str, outgoing: Outgoing, refused: Mapping[int, SendIllegal]) -> list[Message]:
    """Return the letters of refused messages; one that is a letter already loses its value."""
    known = {row.number for row in outgoing.rejected}
    return [
        without_value(outgoing.messages[index])
        if outgoing.numbers[index] in known
        else letter_of_refused(topic, outgoing.messages[index], _refusal(error))
        for index, error in refused.items()
    ]


def _refusal(error: SendIllegal) -> str:
    who = error.queue.broker_name if error.queue else "a broker"
    return f"{who} refuses it: {error.remark or f'code {error.code}, without a word'}"


def _may_be_stored(error: OrbitError) -> bool:
    return isinstance(error, SendFailed) and error.may_be_stored


def _told(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the totals of some tasks, in words."""
    written = [one for one in messages if isinstance(one, Written)]
    rows, rejected = sum(w.row_count for w in written), sum(w.rejected_count for w in written)
    size = sum(w.body_bytes for w in written)
    dead = f", {rejected} rows rejected and in the dead-letter topic" if rejected else ""
    return f"{rows} messages with {size} bytes from {len(written)} tasks{dead}"


def _left(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return what a write that failed may have left behind, in words."""
    failed = sum(one is None for one in messages)
    return (
        f"{_told(messages)} are stored and stay; of {failed} tasks that did not end, some rows may "
        "be stored as well"
    )
