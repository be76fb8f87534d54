"""Numbers, times, tables and progress, as commands print them.

A terminal shows colours, and tables as wide as it is; a pipe or a file gets plain lines of at most
80 columns. NO_COLOR and TERM=dumb leave the colours out. All of it is written here, so that
commands need no extra: importing rich would add a quarter to the CPU time of most of them.
"""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TextIO

from orbitmq.settings import environment

__all__ = [
    "WIDTH",
    "Line",
    "ProgressBar",
    "elided",
    "hint",
    "human_size",
    "local_time",
    "shown",
    "table",
    "width",
]

WIDTH: Final = 80
"""Of lines that don't go to a terminal, and of the narrowest terminal that tables fit."""
_WIDTH_MAX: Final = 240
_STYLES: Final = {"head": "1", "wrong": "1;31", "risk": "33", "fine": "32"}
"""Names of styles → what a terminal is sent to begin them."""

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_BAR: Final = 30
_ROOM: Final = 79 - len("   100%  ") - 24  # label and bar; a full line would wrap


def human_size(size: int) -> str:
    """Return a size in the largest unit in which it is at least 1.

    >>> human_size(512), human_size(1536), human_size(1 << 30)
    ('512 B', '1.5 KiB', '1.0 GiB')
    """
    amount, unit = float(size), "B"
    for larger in _UNITS:
        if round(amount, 1) < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def local_time(timestamp_ms: int | None) -> str:
    """Return a time in the local time zone; a dash for None, or if it is out of range.

    >>> local_time(None)
    '-'
    """
    if timestamp_ms is None:
        return "-"
    try:
        local = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return "-"
    return f"{local:%Y-%m-%d %H:%M:%S}"


class Line(str):
    """A line that a terminal shows in a style, or its first ``styled`` characters.

    >>> line = Line("fine     all", style="fine", styled=4)
    >>> line, line.style
    ('fine     all', 'fine')
    """

    __slots__ = ("style", "styled")

    style: str
    styled: int

    def __new__(cls, text: str, *, style: str, styled: int | None = None) -> "Line":
        """Return a line; without ``styled`` all of it has the style."""
        line = super().__new__(cls, text)
        line.style = style
        line.styled = len(text) if styled is None else styled
        return line


def shown(line: str, stream: TextIO) -> str:
    """Return a line as it is printed to a stream: with its style if that is a terminal."""
    if not isinstance(line, Line) or not _has_colours(stream):
        return str(line)
    text = str(line)
    return f"\x1b[{_STYLES[line.style]}m{text[: line.styled]}\x1b[0m{text[line.styled :]}"


def hint(text: str) -> None:
    """Say on a terminal, on stderr, what a command waits for; a script's log gets nothing."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not environment("NO_COLOR") and environment("TERM") != "dumb"


def width(stream: TextIO | None = None) -> int:
    """Return how wide tables may be: as stdout is if it is a terminal, else 80."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return WIDTH
    given = environment("COLUMNS")
    try:
        columns = int(given) if given else os.get_terminal_size(stream.fileno()).columns
    except (ValueError, OSError):  # no number; or a stream that only claims to be a terminal
        columns = WIDTH
    return min(max(columns, WIDTH), _WIDTH_MAX)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the lines of a table; the first ``left`` columns are left-aligned, others right.

    >>> for line in table(["TOPIC", "SIZE"], [["orders", "1.5 KiB"], ["o", "512 B"]]):
    ...     print(line)
    TOPIC      SIZE
    orders  1.5 KiB
    o         512 B
    """
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    head, *lines = (
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    )
    return [Line(head, style="head"), *lines]


def elided(text: str, width: int) -> str:
    """Return a text shortened to ``width`` by leaving out its middle.

    >>> elided("%RETRY%a-very-long-group", 12)
    '%RETRY…group'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


class ProgressBar:
    """A progress bar on stderr, or nothing if stderr is not a terminal.

    It is at most 79 columns wide, and erased at the end::

        with ProgressBar("recovering") as bar:
            store.open(bar)
    """

    def __init__(self, label: str, stream: TextIO | None = None, *, unit: str = "") -> None:
        self._label = label
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()
        self._percent = -1
        self._width = min(_BAR, _ROOM - len(label))

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int) -> None:
        """Show how much of ``total`` is done, in bytes or ``unit``; redrawn once per percent."""
        percent = 100 if done >= total else 100 * done // total
        if not self._shown or percent == self._percent:
            return
        self._percent = percent
        filled = self._width * percent // 100
        bar = "█" * filled + "░" * (self._width - filled)
        sizes = f"{human_size(done)} of {human_size(total)}"
        if self._unit:
            sizes = f"{done:,} of {total:,} {self._unit}"
        self._draw(f"\r{self._label}  {bar} {percent:3d}%  {sizes:<24}")

    def clear(self) -> None:
        """Erase the line."""
        if self._percent >= 0:
            self._draw("\r\x1b[K")

    def _draw(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal was closed; the work it shows goes on
            self._shown = False
