"""Transactional writes: the rows of a batch become visible together, and once.

::

    task      rows ──▶ half messages ──▶ a list in the ledger ──▶ its name ──▶ driver
    driver    commit(names) ──▶ DECISION ──▶ each half is committed ──▶ COMMITTED
              abort(names)  ──▶ aborted, unless there is a decision

``ledger`` has the files, their states and laws; ``finishing`` what happens after a decision;
``check_answers`` the answers to checks meanwhile. Spark commits in a process of its own, which may
die at any line of this; so may tasks. What they leave is finished by the next one: by a replay of
the batch, which finds the decision and sends nothing, or by ``settle``.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq.clock import SystemClock
from orbitmq.errors import CommitTooLate, InvalidColumn, InvalidInput, OrbitError
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.options.options import WriteOptions
from orbitmq.spark.schema import check_write_schema
from orbitmq.spark.writing.ends import TransactionEnds
from orbitmq.spark.writing.finishing import clean_up, finish, give_up
from orbitmq.spark.writing.half_list import HalfListHead, HalfListWriter
from orbitmq.spark.writing.half_sender import HalfSender
from orbitmq.spark.writing.ledger import (
    Ledger,
    LedgerWrite,
    State,
    attempt_file,
    batch_write_name,
    stream_write_name,
)
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.producers import producer_for
from orbitmq.spark.writing.writer import (
    check_append,
    check_topics,
    is_committing,
    streamed_batch,
    task_context,
    write_rows,
)

__all__ = ["TaskHalves", "TransactionalStreamWriter", "TransactionalWriter"]

log = logging.getLogger("orbitmq.spark")

_DELAYS: Final = ("delay_level", "deliver_at")
_FORGET_EACH: Final = 50
"""Batches between two looks for writes to forget, each of which lists the ledger."""


@dataclass(frozen=True)
class TaskHalves(WriterCommitMessage):
    """Where the half messages of a task are listed; None: it sent none."""

    write: str
    file: str | None


class TransactionalWriter(DataSourceArrowWriter):
    """A transactional batch write; created on the driver, where it is checked.

    Raise as ``RocketMQWriter`` does, and InvalidColumn for a column that delays rows.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        check_append(overwrite=overwrite)
        _check_schema(schema, options)
        _ledger(options)
        check_topics(options)
        self._options = options
        self._name = batch_write_name(SystemRandomness().uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskHalves:
        """Send all rows of a task as half messages; raise RowsRejected as other writes do."""
        return _write(self._options, self._name, ("write", self._name), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make all rows visible.

        Raise CommitTooLate if none is, because the write took too long, and CommitIncomplete if
        they all will be, but not all are.
        """
        _commit(self._options, messages)
        _forget(self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Roll back all rows, unless they are committed."""
        write = _ledger(self._options).write(self._name)
        decision = write.abort(SystemClock().now_ms())
        if decision.state is not State.ABORTED:
            log.error("%s is committed in the ledger; it is not rolled back", self._name)
            return
        with _ends(self._options, try_ms=0) as ends:
            clean_up(write, decision, ends)
        log.warning("%s is rolled back", self._name)


class TransactionalStreamWriter(DataSourceStreamArrowWriter):
    """The transactional write of one streaming batch; created on the driver, and again to commit.

    Raise as ``TransactionalWriter`` does.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_schema(schema, options)
        if not is_committing():
            _ledger(options)
            check_topics(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskHalves:
        """Send all rows of a task as half messages, unless the ledger knows the batch."""
        streamed = streamed_batch()
        if streamed is None:
            raise InvalidInput(
                "Spark sets no query and batch id, without which a batch can't be written once; "
                "use delivery=at-least-once",
                field="delivery",
            )
        return _write(self._options, stream_write_name(*streamed), ("query", *streamed), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make all rows of the batch visible; raise as ``TransactionalWriter.commit`` does."""
        _commit(self._options, messages)
        if batchId % _FORGET_EACH == 0:
            _forget(self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Roll back the rows of finished tasks, unless the batch is committed.

        Those of others are rolled back with the decision on the batch, which Spark replays.
        """
        with _ends(self._options, try_ms=0) as ends:
            for task in _tasks(messages):
                if task.file is not None:
                    give_up(_ledger(self._options).write(task.write), [task.file], ends)
        log.warning("streaming batch %d failed; what is not committed is rolled back", batchId)


def _check_schema(schema: StructType, options: WriteOptions) -> None:
    check_write_schema(schema, topic=options.topic, id_column=options.id_column)
    for name in _DELAYS:
        if name in schema.fieldNames():
            raise InvalidColumn(
                f"column {name} can't be in a transactional write: RocketMQ delays no messages in "
                "transactions. Drop it, or write with delivery=at-least-once",
                field=name,
            )


def _ledger(options: WriteOptions) -> Ledger:
    assert options.ledger is not None  # else the write is not transactional
    return Ledger(LedgerFiles(options.ledger))


def _ends(options: WriteOptions, *, try_ms: int) -> TransactionEnds:
    return TransactionEnds(options.access, try_ms=try_ms)


def _write(
    options: WriteOptions,
    name: str,
    origin: tuple[str, ...],
    iterator: Iterator[pa.RecordBatch],
) -> TaskHalves:
    write = _ledger(options).write(name)
    decision = write.decision()
    if decision is not None:
        if decision.state is State.ABORTED:
            raise CommitTooLate(name, "was aborted while a task was running")
        for _ in iterator:  # sent before; Spark expects a task to read its rows
            pass
        return TaskHalves(name, None)
    batches = (batch for batch in iterator if batch.num_rows)
    first = next(batches, None)
    if first is None:
        return TaskHalves(name, None)
    file = attempt_file(task_context().partitionId(), SystemRandomness().uuid4())
    try:
        _send(options, write, file, origin, chain([first], batches))
    except BaseException:
        _give_up_own(options, write, file)
        raise
    return TaskHalves(name, file)


def _send(
    options: WriteOptions,
    write: LedgerWrite,
    file: str,
    origin: tuple[str, ...],
    batches: Iterator[pa.RecordBatch],
) -> None:
    """Send rows as half messages, and list them in a file, which is on the disk afterwards."""
    head = HalfListHead(options.group, SystemClock().now_ms(), options.transaction_timeout_ms)
    with write.files.written(write.path(file)) as target:
        listed = HalfListWriter(target, head)
        sender = HalfSender(producer_for(options), options, write.path(file), listed)
        totals = write_rows(options, origin, batches, sender)
        listed.end()
    log.info("%s: %d rows, %d rejected", write.path(file), totals.row_count, totals.rejected_count)


def _give_up_own(options: WriteOptions, write: LedgerWrite, file: str) -> None:
    """Roll back what a failing task has sent; its own error is more important than one of this."""
    try:
        with _ends(options, try_ms=0) as ends:
            give_up(write, [file], ends)
    except (OrbitError, OSError) as error:
        log.warning("%s is not rolled back now: %s", write.path(file), error)


def _tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskHalves]:
    return [one for one in messages if isinstance(one, TaskHalves)]


def _commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    tasks = _tasks(messages)
    if not tasks:
        return
    write = _ledger(options).write(tasks[0].write)
    files = [task.file for task in tasks if task.file is not None]
    if not files and write.decision() is None:
        return  # there were no rows
    if write.decide(files, SystemClock().now_ms()).state is State.ABORTED:
        raise CommitTooLate(write.name, "is aborted in the ledger, as 'settle' does after its time")
    with _ends(options, try_ms=options.send_timeout_ms) as ends:
        count = finish(write, ends)
    log.info("%s: %d messages are committed", write.name, count)


def _forget(options: WriteOptions) -> None:
    """Delete old writes from the ledger; a failure is not one of this write."""
    try:
        _ledger(options).forget(SystemClock().now_ms())
    except (OrbitError, OSError) as error:
        log.warning("old writes stay in the ledger %s: %s", options.ledger, error)
