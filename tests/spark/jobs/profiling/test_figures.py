"""Growth, and the advice that figures lead to."""

import msgspec
import pytest

from orbitmq.spark.jobs.profiling.figures import (
    DAY_MS,
    Growth,
    HotKey,
    Profile,
    QueueShare,
    Slot,
    TopicProfile,
    advice,
    growth,
)

GIB = 1 << 30

CALM = TopicProfile(
    topic="orders",
    messages=4_000,
    bytes=4_000_000,
    size_p50=1_000,
    size_p99=2_000,
    size_max=4_000,
    keyed=4_000,
    keys=3_900,
    hot_keys=(HotKey("o-1", 3),),
    tags=(),
    queues=tuple(QueueShare("broker-a", number, 1_000, 1_000_000) for number in range(4)),
)


def told(topic: TopicProfile = CALM, slots: tuple[Slot, ...] = (), *grown: Growth) -> str:
    found = Profile(
        messages=topic.messages,
        bytes=topic.bytes,
        first_ms=0,
        last_ms=60_000,
        slot_ms=1_000,
        slots=slots,
        topics=(topic,),
        growth=grown,
    )
    return "\n".join(advice(found))


def with_(**changes: object) -> TopicProfile:
    return msgspec.structs.replace(CALM, **changes)


def test_a_calm_topic_needs_no_advice() -> None:
    assert told(CALM, tuple(Slot(at * 1_000, 100, 1) for at in range(10))) == ""


def test_a_full_queue_is_named() -> None:
    queues = (QueueShare("broker-b", 7, 3_700, 0), *CALM.queues[:3])
    queues = (queues[0], *(msgspec.structs.replace(one, messages=100) for one in queues[1:]))
    said = told(with_(queues=queues))
    assert "broker-b:7" in said
    assert "3.7 times" in said


@pytest.mark.parametrize(
    ("topic", "word"),
    [
        (with_(hot_keys=(HotKey("o-9", 900),)), "'o-9' is in 22%"),
        (with_(size_max=3 << 20), "3.0 MiB"),
        (with_(size_p50=40), "batches"),
        (with_(keyed=0, keys=0, hot_keys=()), "No message of orders has a key"),
    ],
)
def test_what_stands_out_is_told(topic: TopicProfile, word: str) -> None:
    assert word in told(topic)


def test_a_few_messages_say_nothing() -> None:
    few = with_(messages=10, keyed=0, size_p50=1, queues=(QueueShare("a", 0, 10, 1),) * 1)
    assert told(few) == ""


def test_bursts_are_told() -> None:
    slots = (Slot(0, 5_000, 1), *(Slot(at * 1_000, 10, 1) for at in range(1, 20)))
    assert "bursts" in told(CALM, slots)


def test_a_disk_that_is_full_before_the_retention() -> None:
    disk = (100 * GIB, 60 * GIB)
    one = growth("broker-a", 20 * GIB, disk=disk, stored=0, retention_ms=3 * DAY_MS)
    assert one.days_until_full == pytest.approx(0.75)
    assert one.retained_bytes == 60 * GIB
    assert "delete messages early" in told(CALM, (), one)


def test_what_the_log_takes_already_is_part_of_the_retention() -> None:
    disk = (100 * GIB, 60 * GIB)
    one = growth("broker-a", 20 * GIB, disk=disk, stored=60 * GIB, retention_ms=3 * DAY_MS)
    assert one.days_until_full is None
    assert told(CALM, (), one) == ""


def test_a_disk_that_is_full_already() -> None:
    disk = (100 * GIB, 90 * GIB)
    one = growth("broker-a", 1 * GIB, disk=disk, stored=0, retention_ms=DAY_MS)
    assert one.days_until_full == 0
