"""The figures of a profile equal those that are counted in plain Python."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.cli.pipeline.profile import profile_lines
from orbitmq.spark.jobs.profile import profile, slot_ms
from orbitmq.spark.jobs.profiling.page import profile_page
from orbitmq.spark.jobs.sources import Span, Topics

SENT = [
    Message(
        "orders" if number % 3 else "refunds",
        bytes(100 + number),
        tags="paid" if number % 2 else "open",
        keys=["hot"] if number % 4 == 0 else [f"o-{number}"],
    )
    for number in range(120)
]


def test_it_equals_a_count_in_python(spark: SparkSession) -> None:
    with embedded.start() as cluster:
        with Admin(nameserver=cluster.nameserver) as admin:
            for name in ("orders", "refunds"):
                admin.create_topic(name, queues=2)
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            receipts = [producer.send(message) for message in SENT]
        source = Topics(cluster.nameserver, ("orders", "refunds"))
        found = profile(spark, source)
        nothing = profile(spark, source, Span(end_ms=1_000))
    assert nothing.messages == 0
    assert [*profile_lines(nothing)] == ["There are no messages."]
    assert (found.messages, found.bytes) == (120, sum(len(one.body) for one in SENT))
    assert sum(slot.messages for slot in found.slots) == 120
    in_queues = Counter((one.queue.topic, one.queue.queue_id) for one in receipts)
    for topic in found.topics:
        sent = [one for one in SENT if one.topic == topic.topic]
        sizes = sorted(len(one.body) for one in sent)
        keys = Counter(key for one in sent for key in one.keys)
        assert topic.messages == len(sent)
        assert topic.size_max == sizes[-1]
        assert topic.size_p50 in sizes[len(sizes) // 2 - 1 : len(sizes) // 2 + 1]
        assert topic.hot_keys[0].messages == keys["hot"] == max(keys.values())
        assert topic.keys == pytest.approx(len(keys), rel=0.1)
        assert {one.key: one.messages for one in topic.tags} == Counter(one.tags for one in sent)
        assert {(topic.topic, queue.queue_id): queue.messages for queue in topic.queues} == {
            place: count for place, count in in_queues.items() if place[0] == topic.topic
        }
    (disk,) = found.growth
    assert disk.broker == "broker-a"
    assert disk.retention_ms == 72 * 3_600_000
    assert disk.disk_total > disk.disk_used > 0
    page = profile_page(found, "orders, refunds")
    assert "Topic refunds" in page
    assert all(len(line) <= 80 for line in profile_lines(found))


@pytest.mark.parametrize("took_ms", [0, 1, 119_999, 10**9, 10**12])
def test_a_chart_has_at_most_120_slots(took_ms: int) -> None:
    assert took_ms // slot_ms(0, took_ms) <= 120
