"""The pages made from the code are those of the code, and leave nothing public out."""

from pathlib import Path

import pytest

import orbitmq
from tools import reference
from tools.docstrings import as_markdown
from tools.signatures import signature_of


def test_the_committed_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--check"]) == 0, capsys.readouterr().out


def test_each_public_name_is_on_a_page_or_is_an_error() -> None:
    headings = {line for text in reference.pages().values() for line in text.splitlines()}
    missing = [
        name
        for name in orbitmq.__all__
        if f"## {name}" not in headings and not hasattr(orbitmq.errors, name)
    ]
    assert missing == []


def test_a_page_that_differs_and_one_too_many_are_told_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "java-keys.md").write_text("old")
    (tmp_path / "api" / "gone.md").write_text("left from before")
    assert reference.main(["--check"], tmp_path) == 1
    told = capsys.readouterr().out
    assert "java-keys.md differs" in told
    assert "api/gone.md differs" in told
    reference.main([], tmp_path)
    assert reference.main(["--check"], tmp_path) == 0


def test_the_parts_of_a_docstring() -> None:
    docstring = """Send it ``now``.

    Like this::

        producer.send(message)

        producer.close()

    Raises:
        NotRunning, WrongLoop: it can't be,
            here.

    >>> 1 + 1
    2

    >>> 2 + 2
    4
    """
    assert (
        as_markdown(docstring)
        == """Send it `now`.

Like this:

```py
producer.send(message)

producer.close()
```

Raises:

- `NotRunning`, `WrongLoop`: it can't be,
  here.

```pycon
>>> 1 + 1
2

>>> 2 + 2
4
```"""
    )


def test_a_long_signature_has_a_line_for_each_argument() -> None:
    async def send(first: str, *, second: str = "a long default", **third: int) -> None: ...

    assert signature_of("send", send).startswith("await send(first: str, *, second: str = ")
    assert signature_of("send" * 20, send).count("\n") == 5
