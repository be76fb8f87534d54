"""What a check finds, in words: what is wrong, and what to do."""

import textwrap
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orbitmq.cli.asking import counted
from orbitmq.cli.render import Line

__all__ = ["Finding", "Level", "finding_lines", "note", "problem", "risk"]

_INDENT: Final = 9
_WIDTH: Final = 80


class Level(StrEnum):
    """How bad it is: it does not work; it works, and will hurt one day; or it would elsewhere."""

    PROBLEM = "problem"
    RISK = "risk"
    NOTE = "note"


_STYLES: Final = {Level.PROBLEM: "wrong", Level.RISK: "risk"}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        level: how bad it is.
        check: the check that found it.
        says: what is wrong.
        do: what to do about it.
        run: the command that does it, if there is one.
    """

    level: Level
    check: str
    says: str
    do: str
    run: str | None = None


def problem(check: str, says: str, do: str, run: str | None = None) -> Finding:
    """Return a finding of something that does not work."""
    return Finding(level=Level.PROBLEM, check=check, says=says, do=do, run=run)


def risk(check: str, says: str, do: str, run: str | None = None) -> Finding:
    """Return a finding of something that works, and will hurt one day."""
    return Finding(level=Level.RISK, check=check, says=says, do=do, run=run)


def note(check: str, says: str, do: str, run: str | None = None) -> Finding:
    """Return a finding of something that is fine here, and would be a risk in production."""
    return Finding(level=Level.NOTE, check=check, says=says, do=do, run=run)


def finding_lines(findings: Sequence[Finding], fine: Sequence[str]) -> Iterator[str]:
    """Yield what is printed: problems first, then risks and notes, then what is fine."""
    for level in Level:
        for one in findings:
            if one.level is level:
                yield from _lines(level.upper(), one.says, _STYLES.get(level))
                yield from _lines("", one.do)
                if one.run is not None:  # on one line, however long: it is copied
                    yield f"{'':{_INDENT}}$ {one.run}"
                yield ""
    if fine:
        yield from _lines("fine", ", ".join(fine), "fine")
        yield ""
    problems = sum(one.level is Level.PROBLEM for one in findings)
    risks = sum(one.level is Level.RISK for one in findings)
    parts = [counted(problems, "problem")] * bool(problems) + [counted(risks, "risk")] * bool(risks)
    yield f"{' and '.join(parts) or 'nothing is wrong'}; {counted(len(fine), 'check')} passed"


def _lines(head: str, text: str, style: str | None = None) -> list[str]:
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head.ljust(_INDENT),
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )
    if style is not None:
        lines[0] = Line(lines[0], style=style, styled=len(head))
    return lines
