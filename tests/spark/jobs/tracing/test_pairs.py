"""Delays and orphans are those that plain Python finds in the same records."""

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession

from orbitmq.message.trace import MessageKind, Publish
from orbitmq.spark.jobs.tracing.figures import TraceFigures
from tests.spark.jobs.test_trace import (
    AFTERS,
    BEFORES,
    ENDS,
    RECALLS,
    SENDS,
    UNTIL_MS,
    figures_of,
    percentiles,
)


@pytest.fixture
def found(spark: SparkSession) -> TraceFigures:
    return figures_of(spark)


def each(send: Publish) -> list[str]:
    return send.message_id.split(",")


def test_from_send_to_first_delivery(found: TraceFigures) -> None:
    sent = {
        message_id: send
        for send, _ in SENDS
        if send.success and send.kind in (MessageKind.NORMAL, MessageKind.ORDERED)
        for message_id in each(send)
    }
    took: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in BEFORES:
        if one.message_id in sent and not one.retry_times:
            send = sent[one.message_id]
            took[send.topic, one.group].append(one.timestamp_ms - send.timestamp_ms)
    assert {
        (one.topic, one.group): [
            *(one.deliveries, one.negative),
            *(one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms),
        ]
        for one in found.delays
    } == {
        place: [len(those), sum(one < 0 for one in those), *percentiles(those)]
        for place, those in took.items()
    }


def test_messages_that_a_group_never_got(found: TraceFigures) -> None:
    committed = {one.message_id for one in ENDS if one.transaction_state == "COMMIT_MESSAGE"}
    recalled = {one.message_id for one in RECALLS if one.success}
    due = {
        message_id: send
        for send, _ in SENDS
        if send.success and send.kind is not MessageKind.DELAYED
        for message_id in each(send)
        if message_id not in recalled
        and (send.kind is not MessageKind.HALF or message_id in committed)
    }
    wanted: dict[tuple[str, str], list[str]] = {}
    for group in ("billing", "search"):
        got = {one.message_id for one in BEFORES if one.group == group}
        for topic in ("orders", "refunds"):
            times = [due[one].timestamp_ms for one in got if one in due and due[one].topic == topic]
            missing = [
                (send.timestamp_ms, message_id)
                for message_id, send in due.items()
                if times and send.topic == topic and message_id not in got
                if min(times) <= send.timestamp_ms <= UNTIL_MS
            ]
            if missing:
                wanted[topic, group] = [message_id for _, message_id in sorted(missing)]
    assert len(wanted) == 3
    assert {
        (one.topic, one.group): (one.count, one.message_ids)
        for one in found.orphans
        if one.kind == "never delivered"
    } == {place: (len(ids), tuple(ids[:3])) for place, ids in wanted.items()}


def test_deliveries_without_a_send_and_without_a_result(found: TraceFigures) -> None:
    (stray,) = [one for one in found.orphans if one.kind == "no send" and one.group == "billing"]
    assert (stray.count, stray.message_ids) == (1, ("STRAY",))
    ended = {(one.request_id, one.message_id) for one in AFTERS}
    for one in found.orphans:
        if one.kind == "no result":
            lost = {
                before.message_id
                for before in BEFORES
                if before.group == one.group and before.timestamp_ms <= UNTIL_MS
                if (before.request_id, before.message_id) not in ended
            }
            assert one.count == len(lost) > 3
            assert set(one.message_ids) <= lost
