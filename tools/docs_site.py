"""The documents as a site: ``make site`` writes it below ``build/site``.

::

    docs/, DESIGN.md … ── stage ──▶ build/site-source ── mkdocs ──▶ build/site

The pages stay Markdown that GitHub shows: their order in the menu is that of ``docs/index.md``, and
links to documents beside ``docs/`` are changed on the way. mkdocs fails on a link to nothing.
"""

import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["main", "menu", "relinked", "slug", "stage"]

ROOT: Final = Path(__file__).parents[1]
_BESIDE: Final = {  # documents that are not below docs/, and their places on the site
    "README.md": "index.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_PROJECT: Final = {
    "Design": "design.md",
    "Contributing": "contributing.md",
    "Changes": "changelog.md",
}
_LINK: Final = re.compile(r"\[([^\[\]]*)\]\(([^)\s#:]*)(#[^)\s]*)?\)")
_FENCE: Final = re.compile(r"(?ms)^ *```.*?^ *```$")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Stage the documents and build the site; return mkdocs's exit status."""
    source, site = root / "build" / "site-source", root / "build" / "site"
    stage(root, source)
    settings = {
        "site_name": "orbitmq",
        "docs_dir": "docs",
        "site_dir": str(site),
        "use_directory_urls": False,  # so that it can be read from a disk
        "theme": {"name": "mkdocs", "highlightjs": False, "user_color_mode_toggle": True},
        "plugins": ["search"],
        "nav": menu((root / "docs" / "index.md").read_text(encoding="utf-8")),
        "hooks": ["hooks.py"],
        "validation": {"links": {"anchors": "warn", "not_found": "warn"}},
        "markdown_extensions": [
            {"toc": {"permalink": True}},
            "sane_lists",
            {"pymdownx.highlight": {"noclasses": True, "pygments_style": "default"}},
            "pymdownx.superfences",
        ],
    }
    (source / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    (source / "hooks.py").write_text(
        "from tools.docs_site import slug\n\n\n"
        "def on_config(config):\n"
        '    config["mdx_configs"]["toc"]["slugify"] = slug\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", *arguments]
    return subprocess.run([*command, "-f", str(source / "mkdocs.yml")], check=False).returncode


def stage(root: Path, target: Path) -> None:
    """Copy the documents to a directory, with links that lead to each other there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / "docs", target / "docs")
    places = {
        path.relative_to(root).as_posix(): path.relative_to(root / "docs").as_posix()
        for path in (root / "docs").rglob("*")
        if path.is_file()
    }
    places |= _BESIDE
    for path, place in places.items():
        if path.endswith(".md") and path != "README.md":
            text = (root / path).read_text(encoding="utf-8")
            (target / "docs" / place).write_text(relinked(text, path, places), encoding="utf-8")


def relinked(text: str, path: str, places: Mapping[str, str]) -> str:
    """Return a document with its links as they are on the site; ``places`` says what is there.

    A link to a file that the site doesn't have becomes plain text.

    >>> places = {"docs/a.md": "a.md", "DESIGN.md": "design.md"}
    >>> relinked("[a](docs/a.md#x) [m](Makefile)", "DESIGN.md", places)
    '[a](a.md#x) m'
    """
    here = posixpath.dirname(path)
    there = posixpath.dirname(places[path])

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if not target:
            return found[0]
        place = places.get(posixpath.normpath(posixpath.join(here, target)))
        if place is None:
            return words
        return f"[{words}]({posixpath.relpath(place, there or '.')}{anchor})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(link, text[end:])])


def menu(index: str) -> list[Any]:
    r"""Return the menu: the links of ``docs/index.md`` below their headings, each page once.

    >>> menu("# A\n## Begin\n- [Start](start.md): in [minutes](start.md#x)\n")[1]
    {'Begin': [{'Start': 'start.md'}]}
    """
    seen = {"index.md"}
    parts = re.split(r"(?m)^## (.*)$", index)
    sections = [
        {heading: list(_pages(body, seen))}
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    ]
    project = [{name: place} for name, place in _PROJECT.items()]
    return [{"Home": "index.md"}, *sections, {"Project": project}]


def _pages(body: str, seen: set[str]) -> Iterator[dict[str, str]]:
    for words, target, _ in _LINK.findall(body):
        if target.endswith(".md") and not target.startswith("../") and target not in seen:
            seen.add(target)
            yield {words[:1].upper() + words[1:].replace("`", ""): target}


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading as GitHub makes it.

    >>> slug("Java's keys: `a_b` — all")
    'javas-keys-a_b--all'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
