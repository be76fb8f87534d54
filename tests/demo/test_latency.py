"""Percentiles are times that there are, and buckets end where they say."""

from typing import cast

import pytest

from orbitmq import SendContext, SendReceipt
from orbitmq.demo.latency import BUCKETS, SendTimes, Spread, by_bucket, shown_ms, spread


def test_a_percentile_is_the_least_that_so_many_did_not_exceed() -> None:
    assert spread([9, 1]) == Spread(2, 1, 9, 9, 9, 9)
    assert spread([5] * 99 + [70]) == Spread(100, 5, 5, 5, 70, 70)
    assert spread([5] * 98 + [70] * 2).p99_ms == 70
    assert spread([]) == Spread(0, 0, 0, 0, 0, 0)


def test_each_time_is_in_the_bucket_that_names_it() -> None:
    for ms, name in [(0, "< 1"), (1, "1"), (2, "2"), (3, "3–4"), (4, "3–4"), (5, "5–6")]:
        assert BUCKETS[by_bucket([ms]).index(1)][0] == name
    assert by_bucket([9, 10, 14, 15, 999, 1_000, 60_000]) == [0, 0, 0, 0, 0, 1, 2, 1] + [0] * 5 + [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("ms", "shown"), [(0, "under 1 ms"), (999, "999 ms"), (1_000, "1.0 s"), (61_250, "61.2 s")]
)
def test_a_duration_for_people(ms: int, shown: str) -> None:
    assert shown_ms(ms) == shown


def test_sends_that_failed_have_no_time() -> None:
    class Context:
        receipt: SendReceipt | None = None
        took_ms = 7

    times, context = SendTimes(), Context()
    times.after(cast(SendContext, context))
    context.receipt = cast(SendReceipt, object())
    times.after(cast(SendContext, context))
    assert times.ms == [7]
    assert repr(times) == "<SendTimes of 1 sends>"
