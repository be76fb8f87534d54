"""Charts are well-formed, and their bars match the measurements."""

from xml.etree import ElementTree as ET

import pytest

from orbitmq.demo.charts import latency_chart, throughput_chart
from orbitmq.demo.figures import Rate


def bars(chart: str, kind: str) -> list[ET.Element]:
    """Return the bars of a kind; those of the legend have another width."""
    found = ET.fromstring(chart).iter("rect")
    return [bar for bar in found if bar.get("class") == kind and bar.get("width") != "11"]


def texts(chart: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(chart).iter("text")]


def test_bars_are_proportional_to_their_values() -> None:
    chart = throughput_chart([Rate(400, 0), Rate(200, 600)])
    first, second = (float(bar.get("height", "")) for bar in bars(chart, "c0"))
    (written,) = bars(chart, "c1")
    assert first == pytest.approx(2 * second, abs=0.1)
    assert float(written.get("height", "")) == pytest.approx(3 * second, abs=0.2)
    assert written.findtext("title") == "2 s: 600 in Parquet, by batch"


def test_the_grid_reaches_over_the_highest_bar() -> None:
    shown = texts(throughput_chart([Rate(730, 10)]))
    assert {"0", "200", "400", "600", "800"} <= {*shown}


def test_a_long_run_has_wide_enough_bars() -> None:
    chart = throughput_chart([Rate(100, 50)] * 600)
    assert len(bars(chart, "c0")) == 60


def test_an_empty_run_has_a_chart_too() -> None:
    assert bars(throughput_chart([Rate(0, 0)]), "c0") == []


def test_without_files_there_are_only_sends() -> None:
    chart = throughput_chart([Rate(40, 0)], with_files=False)
    assert bars(chart, "c1") == []
    assert "in Parquet, by batch" not in texts(chart)


def test_each_bucket_has_its_count() -> None:
    chart = latency_chart([0] * 2_080 + [4] * 12 + [30_000])
    shown = texts(chart)
    assert "2,093 sends; the scale is logarithmic" in shown
    assert {"2,080", "12", "1", "3–4", "or more"} <= {*shown}
    assert len(bars(chart, "c0")) == 3
