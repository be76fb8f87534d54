"""What the documents promise is so; each rule is shown to catch what it forbids."""

import re
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.errors import OrbitError
from tests.architecture import documents
from tests.architecture.documents import Document, documents_below
from tests.architecture.sources import PACKAGE, ROOT, modules_below

DOCUMENTS = documents_below(ROOT)
MAKEFILE = (ROOT / "Makefile").read_text()


def page(text: str, path: str = "README.md") -> list[Document]:
    return [Document(path, text)]


# The documents as they stand.


def test_links_lead_somewhere() -> None:
    assert list(documents.link_faults(DOCUMENTS, ROOT)) == []


def test_paths_exist() -> None:
    assert list(documents.path_faults(DOCUMENTS, ROOT)) == []


def test_make_targets_exist() -> None:
    assert list(documents.make_faults(DOCUMENTS, MAKEFILE)) == []


def test_the_file_map_is_the_tree() -> None:
    design = next((one for one in DOCUMENTS if one.path == "DESIGN.md"), Document("DESIGN.md", ""))
    modules = [module.place for module in modules_below(ROOT / "src" / PACKAGE)]
    assert list(documents.file_map_faults(design, modules)) == []


def test_examples_run() -> None:
    assert list(documents.example_faults(DOCUMENTS)) == []


def test_no_file_tells_of_a_machine() -> None:
    assert list(documents.leak_faults(documents.tracked_files(ROOT))) == []


def test_the_documents_were_found() -> None:
    assert {"README.md", "CONTRIBUTING.md"} <= {document.path for document in DOCUMENTS}


# Links.


@pytest.mark.parametrize(
    "text",
    [
        "[gone](docs/gone.md)",
        "see [here](#nowhere)",
        "# Top\n[here](#bottom)",
        "[a](OTHER.md#first)",
        "[ref]: gone.md",
        '[titled](gone.md "A title")',
        "![picture](gone.svg)",
        "# In a block\n```\n# Only code\n```\n[x](#only-code)",
    ],
)
def test_a_link_to_nothing_is_caught(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    (tmp_path / "OTHER.md").write_text("# Second")
    assert len(list(documents.link_faults(documents_below(tmp_path), tmp_path))) == 1


def test_a_link_to_something_is_not(tmp_path: Path) -> None:
    text = """
# The `wire` room, and [more](docs/other.md)
# Again
# Again
[up](#the-wire-room-and-more) [second](#again-1) [file](Makefile) [folder](docs/)
[page](docs/other.md#a-heading) [site](https://example.org/#x) `[not](a-link)`
```
[not](a-link)
```
"""
    (tmp_path / "README.md").write_text(text)
    (tmp_path / "Makefile").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/other.md").write_text("## A heading\n[up](../README.md#again)")
    assert list(documents.link_faults(documents_below(tmp_path), tmp_path)) == []


# Paths and commands.


def test_a_path_that_is_not_there_is_caught(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/real.py").touch()
    good = "`src/real.py` `src/real.py::name` `src/*.py` `src/` `tests/<room>` `a / src/x.py`"
    assert list(documents.path_faults(page(good), tmp_path)) == []
    for bad in ("`src/gone.py`", "`tests/`", "`src/*.txt`"):
        assert len(list(documents.path_faults(page(bad), tmp_path))) == 1


def test_a_target_that_is_not_there_is_caught() -> None:
    makefile = ".PHONY: test\ntest: setup\n\tpytest\nsetup:\n"
    good = "`make test`, to make sense\n```\n$ make setup test\nmake test\n```"
    assert list(documents.make_faults(page(good), makefile)) == []
    for bad in ("`make tests`", "```\nmake test lint\n```", "`cd x && make lint`"):
        assert len(list(documents.make_faults(page(bad), makefile))) == 1


# The file map.


def design(*lines: str) -> Document:
    return Document("DESIGN.md", "\n".join(["# D", "## File map", "", "```", *lines, "```", ""]))


def test_the_file_map_lists_each_folder_once() -> None:
    modules = ["__init__.py", "clock.py", "wire/__init__.py", "wire/frame.py"]
    clock, wire = "clock.py — the time", "wire/ — frames"
    assert list(documents.file_map_faults(design(clock, "", wire), modules)) == []
    for lines, fault in [
        ((clock,), "leaves out wire/"),
        ((clock, wire, "gone/ — gone"), "invents gone/"),
        ((clock, wire, wire), "repeats wire/"),
        ((clock, wire, "wire/"), "gives no purpose in wire/"),
        ((), "has no fenced block"),
    ]:
        found = list(documents.file_map_faults(design(*lines), modules))
        assert len(found) == 1, lines
        assert fault in found[0]


def test_a_missing_file_map_is_caught() -> None:
    assert list(documents.file_map_faults(Document("DESIGN.md", "# D"), ["a.py"])) != []


# Examples.


@pytest.mark.parametrize(
    "text",
    ["x = (", ">>> 1 + 1\n3\n", ">>> undefined\n", "def f()\n    pass"],
)
def test_an_example_that_fails_is_caught(text: str) -> None:
    assert len(list(documents.example_faults(page(f"# A\n```python\n{text}\n```")))) == 1


@pytest.mark.parametrize(
    "text",
    ["x = 1", ">>> 1 + 1\n2\n", "await producer.send(message)", "x = (  # not run here"],
)
def test_an_example_that_runs_is_not(text: str) -> None:
    assert list(documents.example_faults(page(f"# A\n```python\n{text}\n```"))) == []


def test_an_example_in_a_list_is_one_too() -> None:
    assert list(documents.example_faults(page("1. A\n\n   ```python\n   x = 1\n   ```"))) == []
    assert list(documents.example_faults(page("1. A\n\n   ```python\n   x = (\n   ```"))) != []


def test_other_languages_are_left_alone() -> None:
    assert list(documents.example_faults(page("```sh\nx = (\n```"))) == []


# Leaks. The samples are put together here, so that this file holds none.


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main",
        "'/" + "root/.cache'",
        "=/" + "home/me/x",
        "https://files.python" + "hosted.org/x",
        "repo1." + "maven.org",
    ],
)
def test_a_leak_is_caught(text: str) -> None:
    assert len(list(documents.leak_faults({"a.txt": f"first\n{text}"}))) == 1


@pytest.mark.parametrize(
    "text", ["work/main", "a/work/b", "docs/home/x", "www.apache.org", "/tmp/x", "~/work/x"]
)
def test_an_innocent_path_is_not(text: str) -> None:
    assert list(documents.leak_faults({"a.txt": text})) == []


def test_the_tracked_files_were_found() -> None:
    assert {"Makefile", "tests/test_docs.py"} <= documents.tracked_files(ROOT).keys()


def test_a_copy_without_its_history_is_read_too(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(".venv/\n")
    for name in (".venv/ignored.txt", "src/kept.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert documents.tracked_files(tmp_path).keys() == {".gitignore", "src/kept.txt"}


# Errors.


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_has_an_entry_where_it_says(name: str) -> None:
    kind: type[OrbitError] = getattr(errors, name)
    path, _, anchor = kind.__new__(kind).docs.partition("#")
    entries = Document(path, Path(path).read_text())
    assert anchor in entries.anchors


def test_every_entry_about_an_error_is_about_one_there_is() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    assert sorted(re.findall(r"(?m)^### (\w+)$", text)) == sorted(errors.__all__)
