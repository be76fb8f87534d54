"""The page shows what was found, and explains each kind."""

import re

import pytest

from orbitmq.cli.pipeline.reconcile import reconciliation_lines
from orbitmq.spark.jobs.reconciling.figures import (
    DIFFERENCES,
    VERDICTS,
    Group,
    Minute,
    Sample,
    reconciliation,
)
from orbitmq.spark.jobs.reconciling.page import MEANINGS, reconcile_page
from tests.spark.jobs.reconciling.test_figures import some_minutes


def test_it_names_every_kind_and_asks_nobody() -> None:
    assert set(MEANINGS) == {*VERDICTS, *DIFFERENCES}
    samples = [
        Sample(kind=kind, topic="<b>", message_id="7F00", sent_ms=1_005, place="a:0 at 7", note="n")
        for kind in MEANINGS
    ]
    groups = [Group(group="billing", topic="orders", not_consumed=7)]
    found = reconciliation(some_minutes(2), groups, samples, late_ms=5, unreadable=3)
    page = reconcile_page(found, "orders")
    for kind in MEANINGS:
        assert f"Examples: {kind.replace('_', ' ')}" in page
    assert "<b>7" not in page
    assert "&lt;b&gt;" in page
    assert "01-01 00:00:01.005" in page
    assert page.count('class="chart"') == 3  # sent, differences, not consumed
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page)
    lines = list(reconciliation_lines(found))
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == f"{found.differences:,} differences."


@pytest.mark.parametrize("days", [0, 1, 400])
def test_a_chart_has_at_most_120_bars(days: int) -> None:
    minutes = [Minute(topic="a", start_ms=at, found=1) for at in (0, days * 86_400_000)]
    found = reconciliation(minutes, [], [], late_ms=5)
    page = reconcile_page(found, "a")
    assert 1 <= page.count("<title>01") + page.count("<title>02") <= 120
    assert "equal" in page


def test_nothing_at_all() -> None:
    nothing = reconciliation([], [], [], late_ms=5)
    assert "Nobody says to have sent anything" in reconcile_page(nothing, "orders")
    (line,) = reconciliation_lines(nothing)
    assert line.startswith("Nobody says")


def test_many_minutes_with_differences_are_not_all_listed() -> None:
    minutes = [Minute(topic="a", start_ms=at * 60_000, lost=1) for at in range(70)]
    page = reconcile_page(reconciliation(minutes, [], [], late_ms=5), "a")
    assert "And 20 more" in page
