"""The page of traces has their figures, escaped, and no external resources."""

import re
from itertools import pairwise

import pytest

from orbitmq.spark.jobs.tracing.figures import (
    BUCKETS,
    Delay,
    GroupFigures,
    Latency,
    Minute,
    Orphans,
    Sample,
    Send,
    TraceFigures,
    put_times,
)
from orbitmq.spark.jobs.tracing.page import slots, trace_page
from tests.spark.jobs.tracing.test_figures import AT_MS, TIMES, minute

MINUTES = tuple(minute(slow % 40, at=slow) for slow in range(90))
SEND = Send(
    at_ms=AT_MS,
    topic="orders",
    broker="10.0.0.1:10911",
    client_host="10.0.1.7",
    group="shop",
    message_id="7F00000104D218B4AAC21F8B8F9A0002",
    keys="o-1",
    cost_ms=4_321,
    success=False,
)
FOUND = TraceFigures(
    counts={"send": 45_000, "delivery": 44_000, "malformed": 1},
    samples=(Sample("broker-a:0:7", "Pub|<b>"),),
    first_ms=AT_MS,
    last_ms=AT_MS + 90 * 60_000,
    minutes=MINUTES,
    put_times=tuple(put_times(MINUTES)),
    topics=(
        Latency(name="orders", sends=44_000, failed=7, **TIMES),
        Latency(name="refunds", sends=1_000, failed=0, **TIMES),
    ),
    slow=(SEND,),
    failed=(SEND,),
    groups=(
        GroupFigures(
            group="billing",
            deliveries=44_000,
            redeliveries=3,
            results=2,
            outcomes={"exception": 2},
            **TIMES,
        ),
    ),
    delays=(Delay(topic="orders", group="billing", deliveries=9, negative=0, **TIMES),),
    orphans=(Orphans(kind="no send", group="billing", count=1, message_ids=("STRAY",)),),
    transactions={"COMMIT_MESSAGE": 12},
    judgement=("a < b",),
)


def test_it_has_the_figures() -> None:
    page = trace_page(FOUND, "traces")
    for shown in (
        "45,000",
        "slow",
        "4,321",
        "STRAY",
        "exception",
        "COMMIT_MESSAGE",
        *BUCKETS,
    ):
        assert shown.replace("<", "&lt;") in page, shown
    assert "<p>a &lt; b</p>" in page
    assert "Pub|&lt;b&gt;" in page


def test_nothing_has_a_page_too() -> None:
    assert "No record was found." in trace_page(TraceFigures(counts={}), "traces")


def test_it_has_no_external_resources() -> None:
    page = trace_page(FOUND, "traces")
    assert re.findall(r"(?:src|href|url|@import|<script|<link|//\w)", page) == []


@pytest.mark.parametrize("count", [1, 2, 119, 120, 121, 4_320])
def test_slots_keep_all_puts_and_fit_a_chart(count: int) -> None:
    minutes = [Minute(at * 60_000, "a", (at, 1)) for at in range(0, count, 3)]
    shown = slots(minutes)
    assert len(shown) <= 120
    assert sum(one.counts[1] for one in shown) == len(minutes)
    assert sum(one.counts[0] for one in shown) == sum(one.counts[0] for one in minutes)
    assert len({after.start_ms - one.start_ms for one, after in pairwise(shown)}) <= 1
