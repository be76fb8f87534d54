from html import escape
from html.parser import HTMLParser
from pathlib import Path

from bench.report.page import html, write
from bench.rows import ROWS
from tests.bench.report.figures import run_of

VOID = {"meta", "br"}
UNCLOSED_SHAPES = {"rect", "line", "circle", "polyline"}  # they close themselves


class Page(HTMLParser):
    """Checks that elements nest, and notes what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in UNCLOSED_SHAPES
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_needs_nothing_else(tmp_path: Path) -> None:
    write(run_of(), tmp_path / "page.html")
    page = Page()
    page.feed((tmp_path / "page.html").read_text())
    assert page.open == []
    assert page.addresses == []
    assert "script" not in page.seen
    assert page.seen.count("td") == 7 * len(ROWS)


def test_each_row_has_a_bar_and_each_growth_a_curve() -> None:
    text = html(run_of())
    growth = sum(row.group == "growth" for row in ROWS)
    assert text.count("<svg") == len(ROWS) + growth
    assert text.count("<polyline") == growth
    assert all(escape(row.work) in text for row in ROWS)


def test_missed_aims_are_shown_as_missed() -> None:
    aims = sum(row.aim is not None for row in ROWS)
    assert html(run_of(9.0)).count('class="missed">NO') == aims - 1  # all but the throughput
    assert html(run_of(0.1)).count('class="met">yes') == aims - 1
