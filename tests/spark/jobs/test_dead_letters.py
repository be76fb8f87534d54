"""Dead letters by cause, topic and age, as plain Python counts them."""

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.client.admin.dead_letters import DeadLetter
from orbitmq.errors import InvalidInput
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.spark.jobs.dead_letters import dead_letters, read_letters, selected
from orbitmq.spark.jobs.sources import Span, Topics
from tests.spark.jobs.dead_letter_story import SENT, die

Died = tuple[str, list[DeadLetter]]


@pytest.fixture(scope="module")
def died() -> Iterator[Died]:
    with embedded.start() as cluster:
        yield cluster.nameserver, die(cluster.nameserver, "billing")


def test_the_figures_are_those_of_the_messages(spark: SparkSession, died: Died) -> None:
    nameserver, letters = died
    now_ms = max(one.message.store_timestamp_ms for one in letters) + 2 * 3_600_000
    source = Topics(nameserver, ("%DLQ%billing",))
    found = dead_letters(spark, source, cause_properties=["x-cause"], now_ms=now_ms)
    assert found.letters == len(SENT)
    assert found.bytes == sum(len(one.body) for one in SENT)
    assert found.ages == {"1 to 24 hours": len(SENT)}
    assert sum(slot.letters for slot in found.slots) == len(SENT)
    wanted = Counter(
        (one.topic, "no such account" if number % 3 == 2 else "timeout after N ms")
        for number, one in enumerate(SENT)
    )
    assert {(one.topic, one.cause): one.letters for one in found.causes} == wanted
    times = [one.message.store_timestamp_ms for one in letters]
    (group,) = found.groups
    assert (group.group, group.letters, group.died_again) == ("billing", len(SENT), 0)
    assert (group.oldest_ms, group.newest_ms) == (min(times), max(times))
    by_id = {one.id: one for one in letters}
    for cause in found.causes:
        assert len(cause.samples) == min(3, cause.letters)
        for sample in cause.samples:
            letter = by_id[sample.id]
            assert sample.died_ms == letter.message.store_timestamp_ms
            assert sample.body == letter.message.body.decode()
            assert sample.key == letter.message.keys[0]
            assert sample.reason == letter.message.properties["x-cause"]
            assert sample.deliveries == letter.reconsume_times == 1


def test_causes_without_a_property(spark: SparkSession, died: Died) -> None:
    nameserver, letters = died
    source = Topics(nameserver, ("%DLQ%billing",))
    plain = dead_letters(spark, source, where="topic = 'refunds'")
    assert [(one.topic, one.cause) for one in plain.causes] == [
        ("refunds", "given up at the first delivery")
    ]
    assert plain.letters == sum(one.topic == "refunds" for one in SENT)
    traced = dead_letters(spark, source, traces=Topics(nameserver, (TRACE_TOPIC,)))
    assert {one.cause for one in traced.causes} == {"listener: exception"}
    assert traced.letters == len(letters)
    assert dead_letters(spark, source, Span(end_ms=1_000)).letters == 0


def test_rows_that_a_spark_write_rejected(spark: SparkSession, died: Died) -> None:
    nameserver, _ = died
    reason = "topic orders has no writable queue {}; it has 4"
    with Producer("writer", nameserver=nameserver) as producer:
        for number in (7, 8):
            properties = {
                "ORBIT_REJECT_REASON": reason.format(number),
                "ORBIT_REJECT_TOPIC": "orders",
            }
            producer.send(Message("rejects", b"tea", properties=properties))
    found = dead_letters(spark, Topics(nameserver, ("rejects",)))
    (cause,) = found.causes
    assert (cause.group, cause.topic, cause.letters) == ("rejects", "orders", 2)
    assert cause.cause == "topic orders has no writable queue N; it has N"


def test_a_condition_that_can_not_be_read(spark: SparkSession, died: Died) -> None:
    nameserver, _ = died
    letters = read_letters(spark, Topics(nameserver, ("%DLQ%billing",)), now_ms=0)
    for where in ("colour = 'blue'", "topic ==== 'a'"):
        with pytest.raises(InvalidInput, match=r"which Spark can't read.*age_hours"):
            selected(letters, where)
    assert selected(letters, "`group` = 'billing' AND group = 'billing'").count() == len(SENT)
