"""What the documents promise: links, commands, paths, the file map, examples.

Conventions for whoever writes them:

- A path in backticks that begins with ``src/``, ``tests/``, ``docs/``, ``bench/`` or
  ``requirements/`` exists; one with a ``*`` matches something; one with ``<`` is a pattern for the
  reader and isn't looked up.
- The file map is the first fenced block below ``## File map``: one line for each folder with
  modules, and for each module beside them, ``path — purpose``, the path below ``src/orbitmq/``.
- A block marked ``python`` compiles, and is run as a doctest if it has ``>>>``, unless it says
  ``# not run here``.
"""

import ast
import doctest
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

NAMES = ("README.md", "DESIGN.md", "CHANGELOG.md", "CONTRIBUTING.md")
NOT_RUN = "# not run here"

_FENCE = re.compile(
    r"^ *(?P<fence>`{3,}|~{3,})(?P<language>[\w-]*).*?\n(?P<text>.*?)^ *(?P=fence)",
    re.MULTILINE | re.DOTALL,
)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)|^\[[^\]]+\]: *(\S+)", re.MULTILINE)
_PATH = re.compile(r"(?:src|tests|docs|bench|requirements)/[\w./*-]*")
_FILE_MAP_LINE = re.compile(r"(\S+(?:\.py|/)) +— +\S")
_TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)

# Written so that these lines don't match themselves.
_MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/[\w.]")
_REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|repo1?\.maven\b|npmjs\.(?:org|com)|proxy\.golang\.org"
    r"|docker\.io|ghcr\.io|quay\.io|mirrors\.\w+)"
)


class Block(NamedTuple):
    """A fenced block: the language it names, its text, and the line it begins on."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Document:
    """One Markdown file, named from the root of the project."""

    path: str
    text: str

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(
            Block(
                match["language"],
                textwrap.dedent(match["text"]),
                self.text.count("\n", 0, match.start("text")) + 1,
            )
            for match in _FENCE.finditer(self.text)
        )

    @cached_property
    def prose(self) -> str:
        """The text without fenced blocks, whose lines stay as blank ones."""
        return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), self.text)

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """What stands in backticks within the prose."""
        return tuple(_INLINE_CODE.findall(self.prose))

    @cached_property
    def anchors(self) -> frozenset[str]:
        """The anchors of the headings, numbered where a heading repeats."""
        seen: Counter[str] = Counter()
        anchors = set()
        for heading in _HEADING.findall(self.prose):
            slug = _slug(heading)
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return frozenset(anchors)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The targets of all links that lead to no other site."""
        targets = (one or other for one, other in _LINK.findall(_INLINE_CODE.sub("", self.prose)))
        return tuple(target for target in targets if not re.match(r"[a-z]+:", target))


def documents_below(root: Path) -> tuple[Document, ...]:
    """Read the documents that exist, in the order of their paths."""
    paths = [root / name for name in NAMES if (root / name).is_file()]
    paths += sorted((root / "docs").rglob("*.md"))
    return tuple(Document(path.relative_to(root).as_posix(), path.read_text()) for path in paths)


def link_faults(documents: Iterable[Document], root: Path) -> Iterator[str]:
    """Yield a line for each link to a file or heading that isn't there."""
    documents = tuple(documents)
    known = {document.path: document for document in documents}
    for document in documents:
        for link in document.links:
            path, _, anchor = link.partition("#")
            file = (root / document.path).parent / path if path else root / document.path
            if not file.exists():
                yield f"{document.path}: the link {link} leads nowhere"
                continue
            target = known.get(file.resolve().relative_to(root.resolve()).as_posix())
            if anchor and (target is None or anchor not in target.anchors):
                yield f"{document.path}: the link {link} names no heading"


def path_faults(documents: Iterable[Document], root: Path) -> Iterator[str]:
    """Yield a line for each path in backticks that doesn't exist."""
    for document in documents:
        for code in document.codes:
            path = code.partition("::")[0]
            if _PATH.fullmatch(path) and not any(root.glob(path.rstrip("/"))):
                yield f"{document.path}: `{code}` doesn't exist"


def make_faults(documents: Iterable[Document], makefile: str) -> Iterator[str]:
    """Yield a line for each ``make`` target that the Makefile doesn't have."""
    targets = set(_TARGET.findall(makefile))
    for document in documents:
        lines = [line for block in document.blocks for line in block.text.splitlines()]
        for code in (*document.codes, *lines):
            for named in re.findall(r"(?:^|&& |\$ )make((?: [a-z][\w-]*)+)", code):
                for target in named.split():
                    if target not in targets:
                        yield f"{document.path}: the Makefile has no target {target!r}"


def file_map_faults(design: Document, modules: Iterable[str]) -> Iterator[str]:
    """Yield a line for each folder, or module beside them, that the map leaves out or invents."""
    lines = _file_map(design)
    if not lines:
        yield f"{design.path}: has no fenced block of `path — purpose` below `## File map`"
        return
    mapped = Counter(match[1] for line in lines if (match := _FILE_MAP_LINE.match(line)))
    folders = {path.rpartition("/")[0] + "/" if "/" in path else path for path in modules}
    existing = folders - {"__init__.py"}
    for fault, places in (
        ("leaves out", sorted(existing - {*mapped})),
        ("invents", sorted({*mapped} - existing)),
        ("repeats", [path for path, count in mapped.items() if count > 1]),
        ("gives no purpose in", [line for line in lines if not _FILE_MAP_LINE.match(line)]),
    ):
        yield from (f"{design.path}: the file map {fault} {place}" for place in places)


def _file_map(design: Document) -> list[str]:
    """Return the lines of the first block below the heading."""
    start = design.prose.find("\n## File map")
    if start < 0:
        return []
    heading = design.prose.count("\n", 0, start + 1)
    block = next((block for block in design.blocks if block.line > heading), Block("", "", 0))
    return [line for line in block.text.splitlines() if line.strip()]


def example_faults(documents: Iterable[Document]) -> Iterator[str]:
    """Yield a line for each python block that doesn't compile or whose doctest fails."""
    for document in documents:
        for block in document.blocks:
            if block.language == "python" and NOT_RUN not in block.text:
                where = f"{document.path}:{block.line}"
                yield from (f"{where}: {fault}" for fault in _example_faults(block.text, where))


def _example_faults(text: str, where: str) -> Iterator[str]:
    if ">>>" not in text:
        try:
            compile(text, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            yield f"doesn't compile: {error.msg}, line {error.lineno}"
        return
    test = doctest.DocTestParser().get_doctest(text, {"__name__": where}, where, where, 0)
    output: list[str] = []
    if doctest.DocTestRunner(verbose=False).run(test, out=output.append).failed:
        yield "".join(output)


def leak_faults(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each path of somebody's machine, and each registry host, in any file."""
    for path, text in texts.items():
        for pattern, what in ((_MACHINE_PATH, "a machine path"), (_REGISTRY, "a registry host")):
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: {what}: {match[0]}"


def tracked_files(root: Path) -> dict[str, str]:
    """Return the text of every file that is, or is about to be, under version control."""
    return {
        name: (root / name).read_text(encoding="utf-8", errors="replace")
        for name in _tracked_names(root)
        if (root / name).is_file() and not (root / name).is_symlink()
    }


def _tracked_names(root: Path) -> list[str]:
    if (root / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
        return sorted({name for name in listed.stdout.split("\0") if name})
    # A copy without its history, or a machine without git: all but the hidden and ignored folders.
    ignored = {line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()}
    ignored.add(".git")
    paths = (path.relative_to(root) for path in sorted(root.rglob("*")))
    return [path.as_posix() for path in paths if not ignored & {*path.parts}]


def _slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
