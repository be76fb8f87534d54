"""Charts are well-formed, and their shapes match the values."""

from xml.etree import ElementTree as ET

import pytest

from orbitmq.reports.charts import (
    Series,
    columns,
    heatmap,
    histogram,
    lines,
    nice_step,
    ranking,
    stacked,
)
from tests.reports.svg import shapes, texts, titles

BUCKETS = [("< 1", "ms"), ("1–10", "ms"), ("> 10", "ms")]


def test_bars_are_proportional_to_their_values() -> None:
    chart = columns("rates", ["a", "b"], [Series("in", [400, 200]), Series("out", [None, 600])])
    first, second = (float(bar.get("height", "")) for bar in shapes(chart, "rect", "c0"))
    (out,) = shapes(chart, "rect", "c1")
    assert first == pytest.approx(2 * second, abs=0.1)
    assert float(out.get("height", "")) == pytest.approx(3 * second, abs=0.2)
    assert out.findtext("title") == "b: 600 out"


def test_the_column_of_a_single_label_is_narrow_and_above_it() -> None:
    chart = columns("rates", ["a"], [Series("in", [400])])
    (bar,) = shapes(chart, "rect", "c0")
    left, width = (float(bar.get(one, "")) for one in ("x", "width"))
    assert width < 100
    (label,) = (one for one in ET.fromstring(chart).iter("text") if one.text == "a")
    assert left + width / 2 == pytest.approx(float(label.get("x", "")), abs=1)


def test_the_grid_reaches_over_the_highest_bar() -> None:
    assert {"0", "200", "800"} <= {*texts(columns("rates", ["a"], [Series("in", [730])]))}


def test_a_line_is_interrupted_where_values_are_missing() -> None:
    chart = lines("p99", ["1", "2", "3", "4"], [Series("ms", [1, None, 2.5, 4])])
    assert len(shapes(chart, "polyline", "l0")) == 2
    assert titles(chart) == ["1: 1 ms", "3: 2.5 ms", "4: 4 ms"]


def test_labels_that_would_overlap_are_left_out() -> None:
    names = [f"2026-11-18 {hour:02}:00" for hour in range(24)]
    chart = columns("rates", names, [Series("in", [1] * 24)])
    shown = [text for text in texts(chart) if text in names]
    assert 2 <= len(shown) <= 6


def test_a_histogram_shows_each_count() -> None:
    chart = histogram("all", "two kinds", BUCKETS, [2_080, 0, 12])
    assert {"2,080", "12", "all", "two kinds"} <= {*texts(chart)}
    assert len(shapes(chart, "rect", "c0")) == 2


def test_stacked_histograms_share_a_scale() -> None:
    chart = stacked("both", [("a", "", [9, 0, 0]), ("b", "", [99, 0, 0])], BUCKETS)
    low, high = (float(bar.get("height", "")) for bar in shapes(chart, "rect", "c0"))
    assert high == pytest.approx(2 * low, abs=0.2)


def test_a_heatmap_is_darker_where_counts_are_higher() -> None:
    chart = heatmap("puts", ["09:30", "09:31"], ["< 1 ms", "> 10 ms"], [[9, 0], [0, 99]])
    light, dark = (float(c.get("fill-opacity", "")) for c in shapes(chart, "rect", "c0"))
    assert light < dark == 1
    assert titles(chart) == ["09:30, < 1 ms: 9", "09:31, > 10 ms: 99"]


def test_a_ranking_names_each_bar() -> None:
    chart = ranking("keys", [("hot & long " * 5, 10, "10 %"), ("b", 5, "5 %")])
    wide, narrow = (float(bar.get("width", "")) for bar in shapes(chart, "rect", "c0"))
    assert wide == pytest.approx(2 * narrow, abs=0.1)
    assert {"10 %", "5 %", "b"} <= {*texts(chart)}


@pytest.mark.parametrize(
    "chart",
    [
        columns("none", [], [Series("in", [])]),
        lines("none", [], [Series("in", [])]),
        heatmap("none", [], ["a"], []),
        ranking("none", []),
        histogram("none", "", BUCKETS, [0, 0, 0]),
    ],
)
def test_nothing_has_a_chart_too(chart: str) -> None:
    assert shapes(chart, "rect", "c0") == []
    assert "none" in texts(chart)


@pytest.mark.parametrize(("most", "step"), [(1, 1), (4, 1), (5, 2), (730, 200), (100_000, 50_000)])
def test_the_step_of_a_grid_is_a_round_number(most: float, step: int) -> None:
    assert nice_step(most) == step
