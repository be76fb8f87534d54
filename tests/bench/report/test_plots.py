from xml.etree import ElementTree as ET

import pytest

from bench.report.plots import bar, curve
from bench.rounds import Spread


@pytest.mark.parametrize(("aim", "lines"), [(0.5, 3), (None, 2)])
def test_a_bar_has_its_spread_and_its_aim(aim: float | None, lines: int) -> None:
    svg = ET.fromstring(bar(Spread(0.4, 0.3, 0.6), aim, 1.0, met=True))
    (rect,) = svg.findall("rect")
    assert float(rect.attrib["width"]) == 400
    assert len(svg.findall("line")) == lines


def test_a_curve_begins_at_one_and_has_all_sizes() -> None:
    svg = ET.fromstring(curve("topics & more", [(1, 5.0), (100, 6.0), (5_000, 9.0)], 1.3))
    texts = [text.text for text in svg.findall("text")]
    assert texts[0] == "topics & more"
    assert {"1.00", "1.20", "1.80", "1", "100", "5,000", "1.3"} <= set(texts)
    assert len(svg.findall("circle")) == 3
