"""Pictures show what they are given, and are well-formed."""

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orbitmq.demo.report import page
from tests.demo.measured import measured
from tools import pictures

SVG = "{http://www.w3.org/2000/svg}"


def test_a_terminal_shows_each_line_in_its_row() -> None:
    found = ET.fromstring(pictures.terminal(["$ make demo", "", "Summary", "───────", "a < b  5"]))
    texts = {text.text: text for text in found.iter(f"{SVG}text")}
    assert [text.get("class") for text in texts.values()] == ["command", "title", "rule", None]
    assert float(texts["a < b  5"].get("y", "")) - float(texts["$ make demo"].get("y", "")) == 80
    assert float(found.get("width", "")) > 11 * 8


def test_the_charts_of_a_report_are_below_each_other() -> None:
    found = ET.fromstring(pictures.charts(page(measured())))
    first, second = found.findall(f"{SVG}svg")
    assert float(second.get("y", "")) > float(first.get("y", "")) + float(first.get("height", ""))
    assert float(found.get("height", "")) > float(second.get("y", ""))


def test_what_has_no_charts_or_no_summary_is_refused() -> None:
    with pytest.raises(ValueError, match="no charts"):
        pictures.charts("<html></html>")
    with pytest.raises(ValueError, match="no summary"):
        pictures.summary("nothing\n")


def test_no_picture_is_taken_on_a_busy_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (64.0, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert pictures.main([], images=tmp_path) == 1
    assert capsys.readouterr().err == "the machine is busy: 64.0 processes want its 2 cores\n"
    assert list(tmp_path.iterdir()) == []


def test_the_pictures_of_the_documents_are_of_the_present_demo() -> None:
    """Its figures differ from run to run; their names don't."""
    text = "".join(ET.parse(pictures.IMAGES / "demo.svg").getroot().itertext())
    for name, _ in measured().summary:
        assert name in text
