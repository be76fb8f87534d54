"""Batch reads from two brokers of ours: a few in Spark, which takes seconds, the rest without."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, InputPartition, LessThan

from orbitmq.blocking import Producer
from orbitmq.embedded import RunningCluster
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.spark.options.options import read_options
from orbitmq.spark.reading.batch_reader import BatchReader, FilteringBatchReader, SlicePartition
from tests.spark.shown import last_line
from tests.spark.stored import stored
from tests.spark.traffic import create_topic, taken

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

COUNT = 60
LARGE = 8 * 1024
"""Bytes of a body that a producer compresses."""


def message(number: int) -> Message:
    size = LARGE if number % 10 == 0 else 0
    return Message(
        "orders",
        str(number).encode().ljust(size),
        tags=("new", "paid", "late")[number % 3],
        keys=[f"o-{number}"],
        properties={"colour": "blue"} if number % 2 else {},
    )


@pytest.fixture(scope="module")
def receipts(shared_cluster: RunningCluster) -> list[SendReceipt]:
    """The topic orders: two brokers with two queues each."""
    create_topic(shared_cluster.nameserver, "orders", queues=2)
    with Producer("shop", nameserver=shared_cluster.nameserver) as producer:
        return [producer.send(message(number)) for number in range(COUNT)]


@pytest.fixture
def orders(shared_cluster: RunningCluster, receipts: list[SendReceipt]) -> "Orders":
    return Orders(shared_cluster.nameserver, receipts)


class Orders:
    """The topic orders: what is in it, and reads of it without Spark."""

    def __init__(self, nameserver: str, receipts: list[SendReceipt]) -> None:
        self.options = {"nameserver": nameserver, "subscribe": "orders"}
        self.receipts = receipts

    def reader(self, *filters: Filter, **options: str) -> BatchReader:
        told = self.options | options
        if options.keys() & {"subscribePattern", "assign"}:
            del told["subscribe"]
        if not filters:
            return BatchReader(read_options(told, streaming=False))
        reader = FilteringBatchReader(read_options(told, streaming=False))
        reader.pushFilters(list(filters))
        return reader

    def numbers(self, *filters: Filter, **options: str) -> list[int]:
        """Return the numbers of the messages that a read reads."""
        rows = taken(self.reader(*filters, columns="value", **options))
        return sorted(int(row["value"]) for row in rows)

    def partitions(self, *filters: Filter, **options: str) -> int:
        return len(self.reader(*filters, **options).partitions())

    def at(self, queue: MessageQueue) -> list[int]:
        """Return the numbers of the messages in a queue, in their order."""
        return [number for number, one in enumerate(self.receipts) if one.queue == queue]


ORDERS_A0, ORDERS_A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
EVERY = list(range(COUNT))


def test_large_bodies_are_opened(orders: Orders) -> None:
    sizes = [len(row["value"]) for row in taken(orders.reader(columns="value"))]

    assert sizes.count(LARGE) == COUNT / 10


def test_tags_are_selected(orders: Orders) -> None:
    assert orders.numbers(tags="paid || late") == [number for number in EVERY if number % 3]


def test_only_the_columns_that_are_picked_are_built(orders: Orders) -> None:
    rows = taken(orders.reader(columns="tags, queue_id"))

    assert {tuple(row) for row in rows} == {("tags", "queue_id")}


def test_a_pattern_and_assigned_queues_select_what_is_read(orders: Orders) -> None:
    assert orders.numbers(subscribePattern="ord.*") == EVERY
    assert orders.numbers(assign='{"orders": ["broker-a:1"]}') == orders.at(ORDERS_A1)


def test_offsets_set_start_and_end(orders: Orders) -> None:
    start = '{"orders": {"broker-a:0": 3, "broker-a:1": -2, "broker-b:0": 2, "broker-b:1": -2}}'
    end = '{"orders": {"broker-a:0": 5, "broker-a:1": -1, "broker-b:0": 2, "broker-b:1": 0}}'

    found = orders.numbers(startingOffsets=start, endingOffsets=end)

    assert found == sorted(orders.at(ORDERS_A0)[3:5] + orders.at(ORDERS_A1))


def test_times_set_start_and_end(orders: Orders, shared_cluster: RunningCluster) -> None:
    kept = stored(shared_cluster, "orders")
    begin, *_, end = sorted(one.store_timestamp_ms for one in kept)[COUNT // 2 :]
    expected = sorted(int(one.body) for one in kept if begin <= one.store_timestamp_ms < end)

    assert orders.numbers(startingTimestamp=str(begin), endingTimestamp=str(end)) == expected


def test_queues_are_cut_into_partitions(orders: Orders) -> None:
    assert orders.partitions() == 4
    assert orders.partitions(minPartitions="10") == 10
    assert orders.partitions(maxRecordsPerPartition="4") >= COUNT / 4
    assert orders.numbers(maxRecordsPerPartition="4", minPartitions="20") == EVERY


def test_a_key_is_found_by_the_index(orders: Orders) -> None:
    asked = EqualTo(("key",), "o-7")

    assert orders.numbers(asked) == [7]
    assert orders.partitions(asked) == 1


def test_a_time_before_all_messages_leaves_none(orders: Orders) -> None:
    assert orders.partitions(LessThan(("timestamp",), datetime(2020, 1, 1, tzinfo=UTC))) == 0


def test_tags_of_a_filter_meet_those_of_the_option(orders: Orders) -> None:
    late = EqualTo(("tags",), "late")

    assert orders.numbers(late, tags="paid || late") == [n for n in EVERY if n % 3 == 2]
    assert orders.partitions(late, tags="paid") == 0


def test_all_filters_are_returned_to_spark_and_a_warning_is_logged(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    reader = orders.reader(pushFilters="true", columns="value")
    asked: list[Filter] = [EqualTo(("tags",), "late"), LessThan(("queue_offset",), 5)]
    pushed = FilteringBatchReader(reader._options)

    assert pushed.pushFilters([EqualTo(("flag",), 0)]) == [EqualTo(("flag",), 0)]
    assert caplog.records == []
    assert pushed.pushFilters(asked) == asked
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert "reads only what these filters select" in told.message
    assert "'late'" in told.message


def test_a_topic_without_messages_gives_no_partition(
    orders: Orders, shared_cluster: RunningCluster
) -> None:
    create_topic(shared_cluster.nameserver, "silence", queues=1)

    assert orders.partitions(subscribePattern="silence") == 0


def test_the_partition_that_spark_adds_has_no_rows(orders: Orders) -> None:
    assert list(orders.reader().read(InputPartition(None))) == []


def test_a_reader_and_its_partitions_pickle(orders: Orders) -> None:
    planned = orders.reader(columns="key")
    reader, partitions = pickle.loads(pickle.dumps((planned, planned.partitions())))

    rows = [row for one in partitions for batch in reader.read(one) for row in batch["key"]]

    assert sorted(map(str, rows)) == sorted(f"o-{number}" for number in EVERY)


def test_a_partition_shows_what_it_is(orders: Orders) -> None:
    (partition,) = orders.reader(assign='{"orders": ["broker-a:0"]}').partitions()

    assert isinstance(partition, SlicePartition)
    assert "broker-a" in repr(partition)


# In Spark


def test_all_columns_are_those_of_the_messages(
    spark: SparkSession, orders: Orders, shared_cluster: RunningCluster
) -> None:
    reader = spark.read.format("rocketmq").options(**orders.options, includeProperties=True)
    frame = reader.load()
    expected: list[dict[str, object]] = [
        {
            "key": " ".join(one.keys),
            "value": bytearray(one.body),
            "topic": "orders",
            "broker": one.broker_name,
            "queue_id": one.queue_id,
            "queue_offset": one.queue_offset,
            "timestamp": local_time(one.store_timestamp_ms),
            "born_timestamp": local_time(one.born_timestamp_ms),
            "tags": one.tags,
            "message_id": one.message_id,
            "offset_message_id": one.offset_message_id,
            "properties": dict(one.properties),
            "flag": one.flag,
            "reconsume_times": one.reconsume_times,
            "body_crc": one.body_crc,
        }
        for one in stored(shared_cluster, "orders")
    ]

    found: list[dict[str, object]] = [row.asDict() for row in frame.collect()]

    assert len(found) == COUNT
    assert sorted(found, key=message_id) == sorted(expected, key=message_id)


def message_id(row: dict[str, object]) -> str:
    return str(row["message_id"])


def local_time(at_ms: int) -> datetime:
    """Return a time as Spark passes it to Python: local time without a zone."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().replace(tzinfo=None)


def test_a_view_of_a_topic_works_and_a_table_is_refused(
    spark: SparkSession, orders: Orders
) -> None:
    said = ", ".join(f"{name} '{value}'" for name, value in orders.options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW all_orders USING rocketmq OPTIONS ({said})")
    assert spark.sql("SELECT count(*) FROM all_orders").collect() == [(COUNT,)]
    spark.catalog.dropTempView("all_orders")

    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"CREATE TABLE all_orders USING rocketmq OPTIONS ({said})")
    assert "a topic can't be a table" in last_line(caught.value)


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get(PUSHDOWN)
    yield PUSHDOWN
    spark.conf.set(PUSHDOWN, before or "true")


def test_pushed_filters_give_the_same_rows(
    spark: SparkSession, orders: Orders, pushdown: str
) -> None:
    spark.conf.set(pushdown, "true")
    frame = spark.read.format("rocketmq").options(**orders.options, pushFilters="true").load()
    condition = "tags in ('paid', 'late') and tags <> 'late' and flag = 0 and queue_offset < 9"
    narrow = frame.where(condition).select("value", "queue_offset", "tags").collect()

    assert {row.tags for row in narrow} == {"paid"}
    assert sorted(int(row.value) for row in narrow) == [
        number
        for number, receipt in enumerate(orders.receipts)
        if number % 3 == 1 and receipt.queue_offset < 9
    ]


def test_two_filters_in_one_plan_give_no_rows_that_either_excludes(
    spark: SparkSession, orders: Orders, pushdown: str
) -> None:
    spark.conf.set(pushdown, "true")
    frame = spark.read.format("rocketmq").options(**orders.options, pushFilters="true").load()
    both = (
        frame.where("tags = 'paid'")
        .selectExpr("'paid' asked", "tags")
        .union(frame.where("tags = 'late'").selectExpr("'late' asked", "tags"))
    )

    found = [(row.asked, row.tags) for row in both.collect()]

    # Rows may be missing: Spark reads what the last filter leaves for both (see the reader).
    assert found
    assert [one for one in found if one[0] != one[1]] == []


def test_without_sparks_setting_the_error_names_it(
    spark: SparkSession, orders: Orders, pushdown: str
) -> None:
    spark.conf.set(pushdown, "false")
    frame = spark.read.format("rocketmq").options(**orders.options, pushFilters="true").load()

    with pytest.raises(AnalysisException, match=pushdown):
        frame.where("tags = 'x'").collect()
