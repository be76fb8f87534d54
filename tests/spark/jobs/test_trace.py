"""The figures of traces are those that plain Python counts from the same records."""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address
from math import ceil
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.message.trace import (
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    decode,
    encode,
)
from orbitmq.spark.jobs import trace
from orbitmq.spark.jobs.tracing.figures import Latency, TraceFigures
from tests.spark.jobs.trace_story import (
    BEGIN_MS,
    BROKEN,
    REPORTED_MS,
    Carrier,
    carried,
    told,
)

STORY = told(seed=19, messages=2_000)
CARRIERS = carried(5, STORY)
GRACE_MS = 60_000

SENDS = [(one.record, one.host) for one in STORY if isinstance(one.record, Publish)]
BEFORES = [one.record for one in STORY if isinstance(one.record, SubscribeBefore)]
AFTERS = [one.record for one in STORY if isinstance(one.record, SubscribeAfter)]
ENDS = [one.record for one in STORY if isinstance(one.record, EndTransaction)]
RECALLS = [one.record for one in STORY if isinstance(one.record, Recall)]
TIMES = [one.record.timestamp_ms for one in STORY if one.record.timestamp_ms is not None]
UNTIL_MS = max(TIMES) - GRACE_MS


def frame(spark: SparkSession, carriers: Iterable[Carrier]) -> DataFrame:
    rows = [
        (
            bytearray(one.value),
            datetime.fromtimestamp(one.reported_ms / 1000, UTC),
            one.message_id,
            "broker-a",
            0,
            one.queue_offset,
        )
        for one in carriers
    ]
    columns = "value binary, timestamp timestamp, message_id string, broker string"
    return spark.createDataFrame(rows, f"{columns}, queue_id int, queue_offset bigint")


@functools.cache
def figures_of(spark: SparkSession) -> TraceFigures:
    """Return the figures of the story, which this file and that of the pairs compare."""
    records = trace.parsed(frame(spark, CARRIERS).repartition(3))
    return trace.figures(records, listed=50, grace_ms=GRACE_MS)


@pytest.fixture
def found(spark: SparkSession) -> TraceFigures:
    return figures_of(spark)


def percentiles(values: Iterable[int]) -> list[int]:
    """Return p50, p95, p99 and the most."""
    ordered = sorted(values)
    return [*(ordered[ceil(len(ordered) * part) - 1] for part in (0.5, 0.95, 0.99)), ordered[-1]]


def test_records_by_kind_and_those_that_are_broken(found: TraceFigures) -> None:
    broken = [one.value.rpartition(b"\x02")[0].rpartition(b"\x02")[2] for one in CARRIERS]
    spoiled = Counter(line for line in broken if line + b"\x02" in BROKEN)
    assert sum(spoiled.values()) > 3
    assert found.counts == {
        "send": len(SENDS),
        "delivery": len(BEFORES),
        "result": len(AFTERS),
        "transaction_end": len(ENDS),
        "recall": len(RECALLS),
        "malformed": sum(count for line, count in spoiled.items() if b"Poll" not in line),
        "unknown": spoiled[BROKEN[2][:-1]],
    }
    once = len(STORY)
    carried_records = sum(one.value.count(b"\x02") for one in CARRIERS) - sum(spoiled.values())
    assert found.repeated == carried_records - once > 0
    assert (found.first_ms, found.last_ms) == (min(TIMES), max(TIMES))
    assert {one.text for one in found.samples} <= {
        line.decode().replace("\x01", "|") for line in spoiled
    }
    assert all(one.place.startswith("broker-a:0:") for one in found.samples)


def test_the_buckets_of_each_minute(found: TraceFigures) -> None:
    ends = [1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 10**9]
    wanted: Counter[tuple[int, str | None, int]] = Counter()
    for send, _ in SENDS:
        bucket = next(number for number, end in enumerate(ends) if send.cost_ms < end)
        wanted[send.timestamp_ms // 60_000 * 60_000, send.store_host, bucket] += 1
    assert {
        (minute.start_ms, minute.broker, bucket): count
        for minute in found.minutes
        for bucket, count in enumerate(minute.counts)
        if count
    } == wanted
    slow, calm = found.put_times
    assert [slow.kind, calm.kind] == ["slow", "jitter"]
    assert slow.slow == sum(
        send.cost_ms >= 100 for send, _ in SENDS if send.store_host == slow.broker
    )


def test_percentiles_by_topic_broker_and_client(found: TraceFigures) -> None:
    by: tuple[tuple[Sequence[Latency], Callable[[Publish, str], str | None]], ...] = (
        (found.topics, lambda send, _: send.topic),
        (found.brokers, lambda send, _: send.store_host),
        (found.clients, lambda _, host: host),
    )
    for latencies, name_of in by:
        groups: dict[str | None, list[Publish]] = defaultdict(list)
        for send, host in SENDS:
            groups[name_of(send, host)].append(send)
        assert {
            one.name: [one.sends, one.failed, one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms]
            for one in latencies
        } == {
            name: [
                len(those),
                sum(not one.success for one in those),
                *percentiles(one.cost_ms for one in those),
            ]
            for name, those in groups.items()
        }


def test_the_slowest_and_the_last_that_failed(found: TraceFigures) -> None:
    slowest = sorted(
        (send for send, _ in SENDS),
        key=lambda one: (-one.cost_ms, one.timestamp_ms, one.message_id),
    )
    failed = sorted(
        (send for send, _ in SENDS if not send.success),
        key=lambda one: (-one.timestamp_ms, one.message_id),
    )
    assert [one.message_id for one in found.slow] == [one.message_id for one in slowest[:50]]
    assert [one.message_id for one in found.failed] == [one.message_id for one in failed[:50]]


def test_what_groups_consumed(found: TraceFigures) -> None:
    of_request = {one.request_id: one.group for one in BEFORES}
    for group in found.groups:
        deliveries = [one for one in BEFORES if one.group == group.group]
        after = [one for one in AFTERS if of_request[one.request_id] == group.group]
        assert group.deliveries == len(deliveries)
        assert group.redeliveries == sum(one.retry_times > 0 for one in deliveries)
        assert group.outcomes == Counter(
            one.outcome.name.lower().replace("_", " ") for one in after
        )
        assert [group.p50_ms, group.p95_ms, group.p99_ms, group.max_ms] == percentiles(
            one.cost_ms for one in after
        )
    assert [one.group for one in found.groups] == ["billing", "search"]
    assert found.transactions == Counter(one.transaction_state for one in ENDS)


def test_a_stream_of_reports_becomes_a_table(spark: SparkSession, tmp_path: Path) -> None:
    reports = [one.value for one in CARRIERS[:60]]
    with embedded.start() as cluster:
        with Producer("tracer", nameserver=cluster.nameserver) as producer:
            receipts = [producer.send(Message("traces", body)) for body in reports]
        stream = spark.readStream.format("rocketmq").options(
            nameserver=cluster.nameserver,
            subscribe="traces",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="20",
        )
        query = (
            trace.sends(trace.parsed(stream.load()))
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "sends"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    streamed = spark.read.parquet(str(tmp_path / "sends")).collect()
    told_in = b"".join(reports).replace(BROKEN[0], b"").replace(BROKEN[1], b"")
    sent = [one for one in decode(told_in) if isinstance(one, Publish)]
    assert len(sent) > 100
    assert Counter((row.message_id, row.cost_ms) for row in streamed) == Counter(
        (one.message_id, one.cost_ms) for one in sent
    )
    (address,) = {one.message_id[:8] for one in receipts}
    assert {row.client_host for row in streamed} == {str(IPv4Address(bytes.fromhex(address)))}


def test_a_clock_that_is_ahead_does_not_end_the_grace(spark: SparkSession) -> None:
    """A message is on its way, when a client of tomorrow reports."""
    plain, delivery = next(
        (send, before)
        for send, _ in SENDS
        for before in BEFORES
        if before.message_id == send.message_id and send.success
    )
    plain = msgspec.structs.replace(plain, timestamp_ms=BEGIN_MS, kind=MessageKind.NORMAL)
    delivery = msgspec.structs.replace(delivery, timestamp_ms=BEGIN_MS + 1)
    later = msgspec.structs.replace(plain, timestamp_ms=BEGIN_MS + 2, message_id="ON ITS WAY")
    ahead = msgspec.structs.replace(plain, timestamp_ms=REPORTED_MS, message_id="A", topic="other")
    body = encode([plain, delivery, later, ahead])
    records = trace.parsed(frame(spark, [Carrier(body, "", BEGIN_MS + 10, 0)]))
    assert trace.figures(records, grace_ms=GRACE_MS).orphans == ()
    (one, *_) = trace.figures(records, grace_ms=0).orphans
    assert (one.kind, one.message_ids) == ("never delivered", ("ON ITS WAY",))


def test_no_records(spark: SparkSession) -> None:
    nothing = trace.figures(trace.parsed(frame(spark, [])))
    assert (nothing.records, nothing.first_ms, nothing.judgement) == (0, None, ())
