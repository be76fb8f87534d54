"""Minutes add up to topics, and to a judgement."""

import random

from orbitmq.spark.jobs.reconciling.figures import (
    DIFFERENCES,
    VERDICTS,
    Minute,
    reconciliation,
)

NAMES = tuple(dict.fromkeys((*VERDICTS, *DIFFERENCES)))


def some_minutes(seed: int) -> list[Minute]:
    chance = random.Random(seed)
    return [
        Minute(topic=topic, start_ms=at, **{name: chance.randrange(4) for name in NAMES})
        for topic in ("orders", "refunds")
        for at in range(0, 600_000, 60_000)
        if chance.random() < 0.8
    ]


def test_sums() -> None:
    minutes = some_minutes(1)
    found = reconciliation(reversed(minutes), [], [], late_ms=5)
    assert [topic.topic for topic in found.topics] == ["orders", "refunds"]
    for name in NAMES:
        assert found.count(name) == sum(getattr(one, name) for one in minutes)
    said = [name for name in VERDICTS if name not in ("duplicated", "unreported")]
    assert found.sent == sum(found.count(name) for name in said)
    assert found.differences == sum(found.count(name) for name in DIFFERENCES) > 0
    assert found.equal is False
    starts = [one.start_ms for one in minutes]
    assert (found.first_ms, found.last_ms) == (min(starts), max(starts) + 60_000)
    assert list(found.minutes) == sorted(minutes, key=lambda one: (one.start_ms, one.topic))


def test_what_is_only_missing_for_a_reason_is_equal() -> None:
    harmless = {name: 3 for name in VERDICTS if name not in DIFFERENCES}
    found = reconciliation([Minute(topic="a", start_ms=0, **harmless)], [], [], late_ms=5)
    assert found.equal
    nothing = reconciliation([], [], [], late_ms=5)
    assert (nothing.equal, nothing.first_ms, nothing.sent) == (True, None, 0)


def test_what_nobody_says_to_have_sent_is_not_equal() -> None:
    """As if the receipts are of other topics, or no line of them can be read."""
    there = reconciliation([Minute(topic="a", start_ms=0, unreported=9)], [], [], late_ms=5)
    assert (there.equal, there.differences) == (False, 0)
    assert not reconciliation([], [], [], late_ms=5, unreadable=9).equal
