"""The page is complete, well-formed, and has no external resources."""

import re
from html.parser import HTMLParser

from orbitmq.demo.report import page, verdict
from tests.demo.measured import billed, comparison, measured, streamed

VOID = {"meta"}


class Outline(HTMLParser):
    """Collects unclosed elements, and the texts of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    return found


def test_every_element_is_closed() -> None:
    assert outline(page(measured())).open == []


def test_it_has_no_external_resources() -> None:
    text = page(measured())
    assert re.findall(r"(?:src|url|@import|<script|<link|//\w)", text) == []
    assert re.findall(r'href="(.*?)"', text) == ["traces.html", "reconcile.html"]


def test_it_has_the_figures_of_the_run() -> None:
    words = outline(page(measured())).words
    assert "equal" in words
    for name, figure in measured().summary:
        assert name in words
        assert figure in words
    for name, figure in measured().facts:
        assert name in words
        assert figure in words
    assert {"p50", "p90", "p99", "p99.9", "longest"} <= {*words}
    assert words.count("98.00") == 2  # the topic's amount and the files'


def test_without_spark_it_says_what_was_consumed() -> None:
    words = outline(page(measured(streamed=None))).words
    assert "all" in words
    assert "Topic and files" not in words
    lost = outline(page(measured(streamed=None, billed=billed(missing=2)))).words
    assert lost[lost.index("were not consumed") - 1] == "2"


def test_it_has_dark_colours() -> None:
    assert page(measured()).count("prefers-color-scheme: dark") == 2  # the page and its charts


def test_it_shows_differences() -> None:
    compared = comparison(missing=3, extra=2, out_of_order=1)
    words = outline(page(measured(streamed=streamed(compared)))).words
    assert "not equal" in words
    assert verdict(compared) == (
        "Topic and files differ: 3 rows are missing in the files, 2 should not be there, "
        "1 are out of order."
    )
    assert verdict(compared) in words
