"""Reads of topics with batch queues: their messages, not their records."""

import json
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import EqualTo

from orbitmq.blocking import Admin, Producer
from orbitmq.embedded import RunningCluster, start
from orbitmq.message.model import Message, SendReceipt
from orbitmq.spark.options.options import read_options
from orbitmq.spark.reading.batch_reader import BatchReader, FilteringBatchReader
from tests.spark.traffic import taken

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

TOPIC = "batched"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with start() as running:
        yield running


@pytest.fixture(scope="module")
def receipts(cluster: RunningCluster) -> list[SendReceipt]:
    """One queue of messages 0, 1, 2 and so on, in batches of five and alone."""
    with Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic(TOPIC, queues=1, attributes={"queue.type": "BatchCQ"})
    sent: list[SendReceipt] = []

    def batch(size: int) -> list[Message]:
        numbers = range(len(sent), len(sent) + size)
        return [
            Message(TOPIC, b"%d" % number, tags=["even", "odd"][number % 2], keys=[f"k{number}"])
            for number in numbers
        ]

    with Producer("shop", nameserver=cluster.nameserver) as producer:
        # Until a heartbeat was answered: then the broker's release is known, and batches have ids.
        while len(sent) < 5 or sent[-1].offset_message_id != sent[-2].offset_message_id:
            sent += producer.send_many(batch(5))
        for _ in range(3):
            sent += producer.send_many(batch(5))
            sent += [producer.send(one) for one in batch(1)]
    return sent


def numbers(cluster: RunningCluster, *filters: EqualTo, **options: str) -> list[tuple[int, int]]:
    """Return offsets and numbers of the messages that a read reads."""
    told = {"nameserver": cluster.nameserver, "subscribe": TOPIC, **options}
    reader = FilteringBatchReader if filters else BatchReader
    made = reader(read_options(told, streaming=False))
    if isinstance(made, FilteringBatchReader):
        made.pushFilters(list(filters))
    return sorted((row["queue_offset"], int(row["value"])) for row in taken(made))


def places(receipts: list[SendReceipt]) -> list[tuple[int, int]]:
    assert [receipt.queue_offset for receipt in receipts] == list(range(len(receipts)))
    return [(number, number) for number in range(len(receipts))]


def test_each_message_is_a_row_with_its_own_offset(
    cluster: RunningCluster, receipts: list[SendReceipt]
) -> None:
    assert numbers(cluster) == places(receipts)
    assert numbers(cluster, minPartitions="7") == places(receipts)


def test_a_range_may_begin_and_end_inside_a_batch(
    cluster: RunningCluster, receipts: list[SendReceipt]
) -> None:
    last = len(receipts) - 4
    begin, end = (json.dumps({TOPIC: {"broker-a:0": offset}}) for offset in (2, last))
    found = numbers(cluster, startingOffsets=begin, endingOffsets=end)
    assert found == places(receipts)[2:last]


def test_tags_are_those_of_the_messages(
    cluster: RunningCluster, receipts: list[SendReceipt]
) -> None:
    assert numbers(cluster, tags="odd") == places(receipts)[1::2]


def test_a_key_in_a_batch_is_found(cluster: RunningCluster, receipts: list[SendReceipt]) -> None:
    assert (7, 7) in numbers(cluster, EqualTo(("key",), "k7"))
