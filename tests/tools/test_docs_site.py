"""What the site is made of; mkdocs itself runs in make site alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import documents
from tests.architecture.documents import documents_below
from tests.architecture.sources import ROOT
from tools.docs_site import menu, relinked, slug, stage

PLACES = {"docs/a.md": "a.md", "docs/b/c.md": "b/c.md", "DESIGN.md": "design.md"}


def places_in(entries: list[Any]) -> list[str]:
    found: list[str] = []
    for entry in entries:
        for place in entry.values():
            found += [place] if isinstance(place, str) else places_in(place)
    return found


def test_each_page_is_in_the_menu_once(tmp_path: Path) -> None:
    stage(ROOT, tmp_path)
    staged = {
        path.relative_to(tmp_path / "docs").as_posix() for path in tmp_path.rglob("docs/**/*.md")
    }
    assert sorted(places_in(menu((ROOT / "docs" / "index.md").read_text()))) == sorted(staged)


def test_links_lead_somewhere_on_the_site_too(tmp_path: Path) -> None:
    stage(ROOT, tmp_path)
    assert list(documents.link_faults(documents_below(tmp_path), tmp_path)) == []


def test_what_was_staged_before_is_gone(tmp_path: Path) -> None:
    (tmp_path / "old.md").touch()
    stage(ROOT, tmp_path)
    assert not (tmp_path / "old.md").exists()


@pytest.mark.parametrize(
    ("path", "text", "there"),
    [
        ("DESIGN.md", "[a](docs/a.md), [c](docs/b/c.md#x)", "[a](a.md), [c](b/c.md#x)"),
        ("docs/b/c.md", "[design](../../DESIGN.md#x)", "[design](../design.md#x)"),
        ("docs/b/c.md", "[here](#x) [a](../a.md)", "[here](#x) [a](../a.md)"),
        (
            "docs/a.md",
            "[file](../Makefile) [`site`](https://a.b/c)",
            "file [`site`](https://a.b/c)",
        ),
        ("docs/a.md", "```\n[x](../DESIGN.md)\n```\n", "```\n[x](../DESIGN.md)\n```\n"),
    ],
)
def test_links_are_those_of_the_site(path: str, text: str, there: str) -> None:
    assert relinked(text, path, PLACES) == there


def test_anchors_are_those_that_links_are_checked_against() -> None:
    for document in documents_below(ROOT):
        for heading in re.findall(r"(?m)^#+ +(.+?) *#*$", document.prose):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
            assert slug(plain) in document.anchors, heading
