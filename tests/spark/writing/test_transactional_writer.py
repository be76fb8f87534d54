"""Transactional writes in one process: tasks are played here, brokers are real."""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from orbitmq import embedded
from orbitmq.clock import SystemClock
from orbitmq.embedded import RunningCluster
from orbitmq.errors import CommitTooLate, InvalidColumn, InvalidInput, RowsRejected
from orbitmq.message import flags
from orbitmq.spark.options.options import write_options
from orbitmq.spark.writing import transactional_writer
from orbitmq.spark.writing.check_answers import ORBIT_WRITE
from orbitmq.spark.writing.ends import TransactionEnds
from orbitmq.spark.writing.half_list import Half, HalfListHead
from orbitmq.spark.writing.ledger import Ledger, State
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.producers import close_producers
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from orbitmq.spark.writing.transactional_writer import (
    TaskHalves,
    TransactionalStreamWriter,
    TransactionalWriter,
)
from tests.spark.stored import stored
from tests.spark.writing.test_writer import PlayedTask

VALUES = StructType([StructField("value", BinaryType())])
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with embedded.start(brokers=2) as running:
        yield running
        close_producers()


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> PlayedTask:
    played = PlayedTask(properties={"sql.streaming.queryId": "q", "streaming.sql.batchId": "7"})
    monkeypatch.setattr(TaskContext, "get", lambda: played)
    return played


class Write:
    """The options of a write to a topic of a test, its writers, and its ledger."""

    def __init__(self, cluster: RunningCluster, topic: str, directory: Path, **more: str) -> None:
        self.topic = topic
        self._cluster = cluster
        given = {"nameserver": cluster.nameserver, "topic": topic, "delivery": "transactional"}
        given["checkpointLocation"] = str(directory)
        self.options = write_options({**given, **more})
        self.ledger = Ledger(LedgerFiles(str(directory / "orbitmq-ledger")))

    def batch(self, schema: StructType = VALUES) -> TransactionalWriter:
        made = TransactionalWriter(self.options, schema, overwrite=False)
        again: TransactionalWriter = pickle.loads(pickle.dumps(made))  # as it goes to tasks
        return again

    def stream(self) -> TransactionalStreamWriter:
        return TransactionalStreamWriter(self.options, VALUES)

    def visible(self) -> list[bytes]:
        """Return the bodies that the topic has."""
        return sorted(one.body for one in stored(self._cluster, self.topic))


def values(*bodies: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(bodies, pa.binary())], names=["value"])


def many(count: int, start: int = 0) -> list[bytes]:
    return [b"%04d" % number for number in range(start, start + count)]


def test_rows_are_visible_after_the_commit_and_once(
    cluster: RunningCluster, tmp_path: Path, task: PlayedTask
) -> None:
    write = Write(cluster, "batch", tmp_path)
    writer = write.batch()
    tasks: list[TaskHalves] = []
    for partition in range(3):
        task.partition = partition
        bodies = many(700, 700 * partition)
        batches = [values(*bodies[:300]), values(*bodies[300:])]
        tasks.append(writer.write(iter(batches)))
    assert write.visible() == []
    (found,) = write.ledger.writes()
    assert {found.state_of(one.file or "") for one in tasks} == {State.OPEN}
    writer.commit(tasks)
    assert write.visible() == many(2_100)
    assert found.is_committed()
    assert write.ledger.files.names(found.name) == ["COMMITTED", "DECISION"]
    writer.commit(tasks)
    writer.abort(tasks)
    assert write.visible() == many(2_100)


def test_a_half_message_is_as_the_java_client_makes_it(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    write = Write(cluster, "halves", tmp_path, transactionTimeout="90s", groupId="etl")
    (place,) = {write.batch().write(iter([values(b"paid")])).file}
    (half,) = [one for one in stored(cluster, HALVES) if one.properties["REAL_TOPIC"] == "halves"]
    assert half.properties["TRAN_MSG"] == "true"
    assert half.properties["PGROUP"] == "etl"
    assert half.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "90"
    assert len(half.properties["UNIQ_KEY"]) == 32
    assert half.properties[ORBIT_WRITE].endswith(f"/{place}")
    assert len(half.properties[ORBIT_ID]) == 32
    assert flags.transaction_state(half.sys_flag) in (flags.TRANSACTION_PREPARED, 0)


def test_rows_of_a_key_keep_their_order(cluster: RunningCluster, tmp_path: Path) -> None:
    write = Write(cluster, "ordered", tmp_path)
    schema = StructType([*VALUES.fields, StructField("sharding_key", StringType())])
    rows = {"value": many(900), "sharding_key": [f"customer-{n % 3}" for n in range(900)]}
    writer = write.batch(schema)
    writer.commit([writer.write(iter([pa.record_batch(rows)]))])
    found = stored(cluster, "ordered")
    for shard in range(3):
        mine = [int(one.body) for one in found if int(one.body) % 3 == shard]
        assert mine == list(range(shard, 900, 3))


def test_nothing_of_an_aborted_write_is_visible(cluster: RunningCluster, tmp_path: Path) -> None:
    write = Write(cluster, "aborted", tmp_path)
    writer = write.batch()
    tasks: Sequence[TaskHalves | None] = [writer.write(iter([values(b"a", b"b")])), None]
    writer.abort(tasks)
    (found,) = write.ledger.writes()
    decision = found.decision()
    assert decision is not None
    assert decision.state is State.ABORTED
    with pytest.raises(CommitTooLate, match="aborted"):
        writer.commit(tasks)
    with pytest.raises(CommitTooLate, match="aborted while a task was running"):
        writer.write(iter([values(b"c")]))
    assert write.visible() == []
    end_all(cluster, "aborted")
    assert write.visible() == []


def test_a_replayed_batch_is_not_sent_again(
    cluster: RunningCluster, tmp_path: Path, task: PlayedTask
) -> None:
    write = Write(cluster, "replayed", tmp_path)
    writer = write.stream()
    tasks = [writer.write(iter([values(b"a", b"b")]))]
    lost = writer.write(iter([values(b"a", b"b")]))  # another attempt, such as a speculative one
    writer.commit(tasks, 7)
    assert write.visible() == [b"a", b"b"]
    batches = iter([values(b"a", b"b")])
    replayed = [writer.write(batches)]
    assert replayed == [TaskHalves("query-q-7", None)]
    assert next(batches, None) is None  # read all the same
    writer.commit(replayed, 7)
    writer.commit([lost], 7)
    assert write.visible() == [b"a", b"b"]
    task.properties = {**task.properties, "streaming.sql.batchId": "8"}
    writer.commit([writer.write(iter([values(b"c")]))], 8)
    assert write.visible() == [b"a", b"b", b"c"]
    end_all(cluster, "replayed")
    assert write.visible() == [b"a", b"b", b"c"]


def test_a_commit_that_died_after_its_decision_is_finished_by_a_replay(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(cluster, "finished", tmp_path)
    writer = write.stream()
    tasks = [writer.write(iter([values(*many(50))]))]
    with monkeypatch.context() as patched:
        patched.setattr(transactional_writer, "finish", died)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(tasks, 7)
    assert write.visible() == []
    writer.abort(tasks, 7)  # as Spark does after a failed commit
    writer.commit([writer.write(iter([values(*many(50))]))], 7)
    assert write.visible() == many(50)


def died(*_arguments: Any, **_more: Any) -> None:
    raise KeyboardInterrupt


def test_an_aborted_batch_of_a_stream_may_be_written_again(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    write = Write(cluster, "again", tmp_path)
    writer = write.stream()
    tasks: list[TaskHalves | None] = [writer.write(iter([values(b"a")])), None]
    writer.abort(tasks, 7)
    end_all(cluster, "again")
    assert write.visible() == []
    with pytest.raises(CommitTooLate, match="given up"):  # by a driver that was thought dead
        _lists_again(write, tasks)
    writer.commit([writer.write(iter([values(b"a")]))], 7)
    assert write.visible() == [b"a"]


def _lists_again(write: Write, tasks: Sequence[TaskHalves | None]) -> None:
    """Decide on an attempt that is given up, as if its list were still there."""
    first = tasks[0]
    assert first is not None
    assert first.file is not None
    found = write.ledger.write(first.write)
    head = b'{"group": "g", "began_ms": 0, "timeout_ms": 99}\n'
    with write.ledger.files.written(found.path(first.file)) as target:
        target.write(head)
    try:
        found.decide([first.file], 5)
    finally:
        write.ledger.files.delete(found.path(first.file))


def test_a_commit_after_its_time_is_refused_and_nothing_is_visible(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(cluster, "late", tmp_path, transactionTimeout="10s")
    writer = write.batch()
    tasks = [writer.write(iter([values(b"a")]))]
    now_ms = SystemClock().now_ms()
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now_ms + 11_000)
    with pytest.raises(CommitTooLate, match="transactionTimeout is 10 s.*Raise transactionTimeout"):
        writer.commit(tasks)
    writer.abort(tasks)
    assert write.visible() == []


def test_a_decision_is_delivered_even_after_its_time(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(cluster, "decided", tmp_path, transactionTimeout="10s")
    writer = write.batch()
    task = writer.write(iter([values(b"a")]))
    found = write.ledger.write(task.write)
    assert task.file is not None
    now_ms = SystemClock().now_ms()
    found.decide([task.file], now_ms)
    with monkeypatch.context() as patched:
        patched.setattr(SystemClock, "now_ms", lambda _: now_ms + 99_000)
        writer.commit([task])
    assert write.visible() == [b"a"]


def test_a_failed_task_leaves_nothing(cluster: RunningCluster, tmp_path: Path) -> None:
    write = Write(cluster, "failed", tmp_path)
    with pytest.raises(RowsRejected):
        write.stream().write(iter([values(b"a"), values(b"b", None)]))
    (found,) = write.ledger.writes()
    assert found.attempts() == []
    end_all(cluster, "failed")
    assert write.visible() == []


def test_dead_letters_are_part_of_the_transaction(cluster: RunningCluster, tmp_path: Path) -> None:
    write = Write(cluster, "lettered", tmp_path / "a", onReject="rejects")
    writer = write.batch()
    tasks = [writer.write(iter([values(b"fine", None)]))]
    assert stored(cluster, "rejects") == []
    writer.commit(tasks)
    assert write.visible() == [b"fine"]
    assert len(stored(cluster, "rejects")) == 1


def test_a_write_without_rows_leaves_no_trace(cluster: RunningCluster, tmp_path: Path) -> None:
    write = Write(cluster, "empty", tmp_path)
    writer = write.batch()
    writer.commit([writer.write(iter([])), writer.write(iter([values()]))])
    assert write.ledger.writes() == []


def test_delays_are_refused_on_the_driver(cluster: RunningCluster, tmp_path: Path) -> None:
    schema = StructType([*VALUES.fields, StructField("delay_level", IntegerType())])
    with pytest.raises(InvalidColumn, match="delay_level can't be in a transactional write"):
        Write(cluster, "delayed", tmp_path).batch(schema)


def test_a_stream_without_a_batch_id_is_refused(
    cluster: RunningCluster, tmp_path: Path, task: PlayedTask
) -> None:
    task.properties = {}
    with pytest.raises(InvalidInput, match="no query and batch id"):
        Write(cluster, "nameless", tmp_path).stream().write(iter([values(b"a")]))


def end_all(cluster: RunningCluster, topic: str) -> None:
    """Commit all half messages of a topic by force: those that have ended stay as they are."""
    halves = [one for one in stored(cluster, HALVES) if one.properties["REAL_TOPIC"] == topic]
    assert halves
    access = write_options({"nameserver": cluster.nameserver, "topic": topic}).access
    with TransactionEnds(access, try_ms=0) as ends:
        for one in halves:
            place = (one.broker_name, one.queue_offset, one.commit_log_offset, one.message_id)
            head = HalfListHead(one.properties["PGROUP"], one.born_timestamp_ms, 3_600_000)
            ends.commit([Half(topic, *place)], head)
