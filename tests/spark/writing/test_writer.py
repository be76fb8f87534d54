"""The writer in one process: tasks are played here. In Spark: ``test_spark_writes.py``."""

import importlib.util
import logging
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from orbitmq import embedded
from orbitmq.embedded import RunningCluster
from orbitmq.errors import (
    InvalidColumn,
    InvalidInput,
    NoRoute,
    OrbitError,
    PartlySent,
    RowsRejected,
    SendIllegal,
    SendRefusedBusy,
    SendTimeout,
    SendUnreachable,
)
from orbitmq.message.model import Message
from orbitmq.spark.options.options import write_options
from orbitmq.spark.writing import writer as writer_module
from orbitmq.spark.writing.producers import close_producers
from orbitmq.spark.writing.rows_to_messages import (
    REJECT_BODY,
    REJECT_COLUMN,
    REJECT_REASON,
    REJECT_TOPIC,
    MessageBatch,
)
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from orbitmq.spark.writing.writer import RocketMQStreamWriter, RocketMQWriter, TaskTotals
from orbitmq.store.reader.reader import StoreReader
from tests.interop.our_servers import a_small_cluster
from tests.spark.stored import stored

VALUES = StructType([StructField("value", BinaryType())])
STREAMED = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "7"}


@dataclass
class PlayedTask:
    """A task as Spark's Python worker knows it."""

    partition: int = 0
    properties: Mapping[str, str] = ()  # type: ignore[assignment]

    def partitionId(self) -> int:  # noqa: N802
        return self.partition

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return dict(self.properties).get(name)


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with embedded.start(brokers=2) as running:
        yield running
        close_producers()


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> PlayedTask:
    played = PlayedTask(properties=STREAMED)
    monkeypatch.setattr(TaskContext, "get", lambda: played)
    return played


def batch_writer(cluster: RunningCluster, **options: str) -> RocketMQWriter:
    given = {"nameserver": cluster.nameserver, "topic": "orders", **options}
    made = RocketMQWriter(write_options(given), VALUES, overwrite=False)
    again: RocketMQWriter = pickle.loads(pickle.dumps(made))  # as it goes to tasks
    return again


def values(*bodies: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(bodies, pa.binary())], names=["value"])


def test_all_rows_are_stored_when_a_task_returns(cluster: RunningCluster) -> None:
    bodies = [b"%d" % number for number in range(1_000)]
    batches = [values(*bodies[start : start + 300]) for start in range(0, 1_000, 300)]
    written = batch_writer(cluster, batchBytes="20000").write(iter(batches))
    assert written == TaskTotals(0, row_count=1_000, body_bytes=2_890)
    assert pickle.loads(pickle.dumps(written)) == written
    found = stored(cluster, "orders")
    assert sorted(one.body for one in found) == sorted(bodies)
    assert len({one.properties[ORBIT_ID] for one in found}) == 1_000
    assert len({(one.broker_name, one.queue_id) for one in found}) > 4


def test_rows_of_a_key_or_a_queue_keep_their_order(cluster: RunningCluster) -> None:
    numbers = range(600)
    given = pa.record_batch(
        {
            "value": [b"%03d" % number for number in numbers],
            "sharding_key": [None if n % 4 == 3 else f"customer-{n % 4}" for n in numbers],
            "queue_id": pa.array([2 if n % 4 == 3 else None for n in numbers], pa.int32()),
        }
    )
    batches = [given.slice(start, 100) for start in range(0, 600, 100)]
    batch_writer(cluster, batchBytes="4000").write(iter(batches))
    found = stored(cluster, "orders")
    for shard in range(4):
        mine = [one for one in found if int(one.body) % 4 == shard]
        assert [int(one.body) for one in mine] == list(range(shard, 600, 4))
        assert len({(one.broker_name, one.queue_id) for one in mine}) == 1


def test_a_large_batch_is_sent_in_pieces(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_PIECE_BYTES", 10_000)
    given = values(*[b"%03d" % number * 100 for number in range(200)])
    assert [piece.num_rows for piece in writer_module._pieces(given)] == [29] * 6 + [26]
    assert batch_writer(cluster).write(iter([given])).row_count == 200
    assert len(stored(cluster, "orders")) == 200


def test_pieces_are_bounded_in_bytes_and_rows() -> None:
    def sizes(given: pa.RecordBatch) -> list[int]:
        return [piece.num_rows for piece in writer_module._pieces(given)]

    assert sizes(values(*[b"x" * 1_000_000] * 20)) == [7, 7, 6]
    assert sizes(values(*[b"x"] * 40_000)) == [13_334, 13_334, 13_332]
    assert sizes(values(b"x")) == [1]


def test_nothing_is_written_for_nothing(cluster: RunningCluster) -> None:
    assert batch_writer(cluster).write(iter([values()])) == TaskTotals(0)


def test_a_retried_task_sends_the_same_ids(cluster: RunningCluster) -> None:
    writer = batch_writer(cluster)
    writer.write(iter([values(b"a", b"b", b"a")]))
    writer.write(iter([values(b"b"), values(b"a", b"a")]))
    found = stored(cluster, "orders")
    assert len(found) == 6
    assert len({one.properties[ORBIT_ID] for one in found}) == 3
    assert len({one.message_id for one in found}) == 6
    batch_writer(cluster).write(iter([values(b"a")]))
    assert len({one.properties[ORBIT_ID] for one in stored(cluster, "orders")}) == 4


def test_ids_of_a_stream_are_of_query_batch_and_partition(
    cluster: RunningCluster, task: PlayedTask
) -> None:
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})

    def ids_after(partition: int, batch: str) -> list[str]:
        task.partition, task.properties = partition, {**STREAMED, "streaming.sql.batchId": batch}
        RocketMQStreamWriter(options, VALUES).write(iter([values(b"paid")]))
        return [one.properties[ORBIT_ID] for one in stored(cluster, "orders")]

    for partition, batch in ((0, "7"), (1, "7"), (0, "8")):
        found = ids_after(partition, batch)
        assert len(set(found)) == len(found)
    again = ids_after(0, "7")
    assert (len(again), len(set(again))) == (4, 3)


def test_without_a_query_id_no_two_tasks_share_ids(
    cluster: RunningCluster, task: PlayedTask, caplog: pytest.LogCaptureFixture
) -> None:
    task.properties = {}
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})
    for _ in range(2):
        RocketMQStreamWriter(options, VALUES).write(iter([values(b"paid")]))
    assert len({one.properties[ORBIT_ID] for one in stored(cluster, "orders")}) == 2
    assert "Spark sets no query and batch id" in caplog.text


def test_delayed_rows_wait_with_the_broker(cluster: RunningCluster) -> None:
    given = pa.record_batch(
        {
            "value": [b"now", b"in a second", b"in five"],
            "delay_level": pa.array([None, 1, 2], pa.int32()),
        }
    )
    assert batch_writer(cluster).write(iter([given])).row_count == 3
    waiting = stored(cluster, "SCHEDULE_TOPIC_XXXX")
    assert sorted(one.body for one in waiting) == [b"in a second", b"in five"]
    assert {one.properties["REAL_TOPIC"] for one in waiting} == {"orders"}


def test_a_rejected_row_fails_its_batch_and_names_itself(cluster: RunningCluster) -> None:
    with pytest.raises(RowsRejected) as caught:
        batch_writer(cluster).write(iter([values(b"fine"), values(b"secret", None, b"")]))
    error = caught.value
    assert (error.partition, [row.number for row in error.rows]) == (0, [2, 3])
    assert "partition 0: 2 rows can't be messages: row 2" in str(error)
    assert "onReject" in str(error)
    assert "secret" not in str(error)
    assert "1 messages of this task are stored, and 0 more may be" in error.__notes__[0]
    assert [one.body for one in stored(cluster, "orders")] == [b"fine"]


def test_rejected_rows_may_go_to_a_topic_of_their_own(cluster: RunningCluster) -> None:
    written = batch_writer(cluster, onReject="rejects").write(iter([values(b"fine", None)]))
    assert (written.row_count, written.rejected_count) == (1, 1)
    (letter,) = stored(cluster, "rejects")
    assert letter.properties[REJECT_REASON].startswith("value is null")


@pytest.fixture
def strict_cluster() -> Iterator[RunningCluster]:
    """Brokers that refuse bodies over 1,000 bytes."""
    with embedded.start(brokers=2, settings={"maxMessageSize": "1000"}) as running:
        yield running
        close_producers()


def keyed(bodies: Sequence[bytes], **columns: pa.Array) -> pa.RecordBatch:
    keys = [f"o-{number}" for number in range(len(bodies))]
    return pa.record_batch({"value": pa.array(bodies, pa.binary()), "key": keys, **columns})


def test_a_row_that_a_broker_refuses_fails_its_batch_and_names_itself(
    strict_cluster: RunningCluster,
) -> None:
    given = keyed([b"fine", b"secret" * 200, b"too", b"secret" * 300])
    with pytest.raises(RowsRejected) as caught:
        batch_writer(strict_cluster).write(iter([given]))
    error = caught.value
    assert (error.partition, [row.number for row in error.rows]) == (0, [1, 3])
    assert [row.key for row in error.rows] == ["o-1", "o-3"]
    assert "partition 0: 2 rows can't be messages: row 1 with key 'o-1' (" in str(error)
    assert ": broker-" in str(error)
    assert "refused it: the message is illegal" in str(error)
    assert "secret" not in str(error)
    assert "2 messages of this task are stored, and 0 more may be" in error.__notes__[0]
    found = stored(strict_cluster, "orders")
    assert sorted(one.body for one in found) == [b"fine", b"too"]
    assert not {row.row_id for row in error.rows} & {one.properties[ORBIT_ID] for one in found}
    assert all(row.row_id for row in error.rows)


def test_rows_that_brokers_refuse_may_go_to_a_topic_of_their_own(
    strict_cluster: RunningCluster,
) -> None:
    given = keyed([b"fine", b"x" * 2_000, b""])
    written = batch_writer(strict_cluster, onReject="rejects").write(iter([given]))
    assert (written.row_count, written.rejected_count) == (1, 2)
    assert [one.body for one in stored(strict_cluster, "orders")] == [b"fine"]
    letters = {one.keys: one for one in stored(strict_cluster, "rejects")}
    too_large = letters["o-1",]
    assert "refused it: the message is illegal" in too_large.properties[REJECT_REASON]
    assert too_large.body.decode() == too_large.properties[REJECT_REASON]
    assert too_large.properties[REJECT_BODY] == "reason"
    assert {one.properties[REJECT_TOPIC] for one in letters.values()} == {"orders"}
    assert len({one.properties[ORBIT_ID] for one in letters.values()}) == 2


def partly_sent(errors: Mapping[int, OrbitError], count: int) -> PartlySent:
    receipts = [None] * count
    return PartlySent("some failed", topic="t", send_id="s", receipts=receipts, errors=errors)


class TimerlessProducer:
    """Refuses messages with a time of delivery, as Java's brokers do beyond their timer's end."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send_many(self, messages: Sequence[Message], **_how: object) -> None:
        errors = {
            index: SendIllegal("refused", topic="t", send_id="s", code=13, remark="timer too long")
            for index, message in enumerate(messages)
            if message.deliver_at is not None
        }
        self.sent += [one for index, one in enumerate(messages) if index not in errors]
        if errors:
            raise partly_sent(errors, len(messages)) if len(messages) > 1 else errors[0]


def test_a_letter_keeps_the_value_if_that_was_not_what_a_broker_refused() -> None:
    producer = TimerlessProducer()
    options = write_options({"nameserver": "127.0.0.1:1", "topic": "orders", "onReject": "rejects"})
    sending = writer_module._TaskSender(producer, options, 3)
    at = datetime(2099, 1, 1, tzinfo=UTC)
    rows = [Message("orders", b"fine"), Message("orders", b"late", tags="x", deliver_at=at)]
    sending.send(MessageBatch(rows, [None, None], [10, 11], row_count=2))
    fine, letter = producer.sent
    assert fine is rows[0]
    assert (letter.topic, letter.body, letter.tags) == ("rejects", b"late", "x")
    assert letter.deliver_at is None
    assert letter.properties[REJECT_REASON] == "a broker refused it: timer too long"
    assert sending.written == TaskTotals(3, row_count=1, rejected_count=1, body_bytes=8)


def test_other_answers_of_a_broker_are_no_reason_to_reject() -> None:
    class BusyProducer(TimerlessProducer):
        def send_many(self, messages: Sequence[Message], **_how: object) -> None:
            errors = {
                n: kind("refused", topic="t", send_id="s", code=2, remark="no")
                for n, kind in enumerate((SendIllegal, SendRefusedBusy))
            }
            raise partly_sent(errors, len(messages))

    options = write_options({"nameserver": "127.0.0.1:1", "topic": "orders", "onReject": "rejects"})
    sending = writer_module._TaskSender(BusyProducer(), options, 3)
    with pytest.raises(PartlySent):
        sending.send(MessageBatch([Message("orders", b"x")] * 2, [None] * 2, [0, 1], row_count=2))


def test_a_letter_that_a_broker_refuses_loses_its_value(strict_cluster: RunningCluster) -> None:
    given = keyed([b"x" * 2_000], queue_id=pa.array([99], pa.int32()))
    written = batch_writer(strict_cluster, onReject="rejects").write(iter([given]))
    assert (written.row_count, written.rejected_count) == (0, 1)
    (letter,) = stored(strict_cluster, "rejects")
    assert letter.body.startswith(b"topic orders has no writable queue 99")
    assert (letter.properties[REJECT_COLUMN], letter.properties[REJECT_BODY]) == (
        "queue_id",
        "reason",
    )


def test_rows_after_a_refused_one_are_stored_in_order(
    strict_cluster: RunningCluster, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [b"%02d" % number for number in range(40)]
    bodies[7] = bodies[21] = b"x" * 2_000
    given = keyed(bodies, sharding_key=pa.array(["alice"] * 40))
    writer = batch_writer(strict_cluster, onReject="rejects", batchBytes="900")
    assert writer.write(iter([given])).rejected_count == 2
    found = [one.body for one in stored(strict_cluster, "orders")]
    assert found == [body for body in bodies if len(body) == 2]
    assert "if this repeats, batchBytes is over their maxMessageSize" in caplog.text


def test_frames_that_are_too_large_for_a_broker_are_sent_in_parts(
    strict_cluster: RunningCluster,
) -> None:
    given = values(*[b"x" * 300] * 10)
    assert batch_writer(strict_cluster).write(iter([given])).row_count == 10
    assert len(stored(strict_cluster, "orders")) == 10


def test_invalid_columns_are_refused_on_the_driver(cluster: RunningCluster) -> None:
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})
    wrong = StructType([StructField("value", IntegerType())])
    with pytest.raises(InvalidInput, match=r"mode\('append'\)"):
        RocketMQWriter(options, VALUES, overwrite=True)
    with pytest.raises(InvalidColumn, match="column value is int"):
        RocketMQWriter(options, wrong, overwrite=False)
    with pytest.raises(InvalidColumn, match="column value is int"):
        RocketMQStreamWriter(options, wrong)
    missing = write_options({"nameserver": cluster.nameserver, "topic": "orders", "idColumn": "id"})
    with pytest.raises(InvalidColumn, match="idColumn is 'id'"):
        RocketMQStreamWriter(missing, VALUES)
    with_id = StructType([*VALUES.fields, StructField("id", StringType())])
    RocketMQStreamWriter(missing, with_id)


def test_missing_topics_are_reported_on_the_driver() -> None:
    with embedded.start(settings={"autoCreateTopicEnable": "false"}) as cluster:
        with pytest.raises(NoRoute, match="orders"):
            batch_writer(cluster)
        named = StructType([*VALUES.fields, StructField("topic", StringType())])
        options = write_options({"nameserver": cluster.nameserver, "onReject": "rejects"})
        with pytest.raises(NoRoute, match="rejects"):
            RocketMQWriter(options, named, overwrite=False)
        with pytest.raises(NoRoute, match="rejects"):
            RocketMQStreamWriter(options, named)
        close_producers()


def test_a_nameserver_that_is_down_is_reported_on_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = write_options({"nameserver": "127.0.0.1:1", "topic": "orders"})
    with pytest.raises(OrbitError, match="127.0.0.1:1"):
        RocketMQWriter(options, VALUES, overwrite=False)
    with pytest.raises(OrbitError, match="127.0.0.1:1"):
        RocketMQStreamWriter(options, VALUES)
    close_producers()
    committer = "pyspark.sql.worker.python_streaming_sink_runner"
    assert importlib.util.find_spec(committer) is not None
    monkeypatch.setitem(sys.modules, committer, ModuleType(committer))
    RocketMQStreamWriter(options, VALUES)  # all is stored by then
    monkeypatch.delitem(sys.modules, committer)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(committer, None))
    RocketMQStreamWriter(options, VALUES)


def test_a_broker_that_is_down_fails_the_task_with_the_client_s_error() -> None:
    with embedded.start() as cluster:
        writer = batch_writer(cluster, retries="1", sendTimeoutMs="500")
        writer.write(iter([values(b"first")]))
    with pytest.raises(OrbitError) as caught:
        writer.write(iter([values(b"second")]))
    assert isinstance(caught.value, SendUnreachable | SendTimeout), repr(caught.value)
    assert (
        "partition 0: 0 messages of this task are stored, and 0 more may be"
        in caught.value.__notes__[0]
    )
    close_producers()


def test_a_task_outlasts_the_restart_of_a_broker(tmp_path: Path) -> None:
    broker, nameserver = a_small_cluster(tmp_path)

    def batches() -> Iterator[pa.RecordBatch]:
        broker.kill()
        yield values(b"while it is down")  # retried while the next batch is awaited
        broker.start()
        yield values(b"after")

    with broker:
        given = {"nameserver": str(nameserver), "topic": "orders"}
        writer = RocketMQWriter(write_options(given), VALUES, overwrite=False)
        writer.write(iter([values(b"before")]))
        assert writer.write(batches()).row_count == 2
        close_producers()
    (directory,) = tmp_path.rglob("commitlog")
    views = StoreReader(str(directory.parent)).records()
    assert {bytes(view.body) for view in views} == {b"before", b"while it is down", b"after"}


def test_totals_are_logged(cluster: RunningCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orbitmq.spark")
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})
    tasks = [TaskTotals(0, 10, 1, 500), TaskTotals(1, 5, 0, 100)]
    streaming = RocketMQStreamWriter(options, VALUES)
    streaming.commit(tasks, 7)
    streaming.abort([*tasks, None], 8)
    batch_writer(cluster).commit(tasks)
    batch_writer(cluster).abort([None])
    told = [record.getMessage() for record in caplog.records if record.name == "orbitmq.spark"]
    assert told[0] == (
        "streaming batch 7: 15 messages with 600 bytes from 2 tasks, 1 rows rejected and in the "
        "dead-letter topic"
    )
    assert told[1].startswith("streaming batch 8 failed: 15 messages")
    assert "1 tasks did not finish and may have stored some rows" in told[1]
    assert "15 messages" in told[2]
    assert "0 messages" in told[3]
