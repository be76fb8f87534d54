"""Pages are complete, escape what they show, and ask nothing of a network."""

import re

from orbitmq.reports.page import Page, Tile, note, paragraph, table


def example() -> str:
    page = Page("Archive of <orders>", "One run.", title="archive")
    page.tiles([Tile("1,000", "rows", "good"), Tile("0", "lost & found")])
    page.section("Files", table(["file", "rows"], [["a<b", "1"]], left=2), note("small"))
    page.section("Facts", table((), [("Spark", "4.3")], facts=True), paragraph("a & b"))
    return page.html()


def test_texts_are_escaped() -> None:
    page = example()
    for shown in ("Archive of &lt;orders&gt;", "lost &amp; found", "<td>a&lt;b</td>", "a &amp; b"):
        assert shown in page


def test_it_has_no_external_resources() -> None:
    assert re.findall(r"(?:src|href|url|@import|<script|<link|//\w)", example()) == []


def test_parts_are_in_the_order_in_which_they_were_added() -> None:
    page = example()
    places = [page.index(part) for part in ("1,000", "<h2>Files", ">small<", "<h2>Facts", "4.3")]
    assert places == sorted(places)
    assert "<title>archive</title>" in page
