"""The demo's output: lines for a terminal of 80 columns."""

import sys
from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Final

__all__ = ["dump", "say", "title"]

_WIDTH: Final = 79  # a full line makes some terminals wrap
_ROW: Final = 16


def title(text: str) -> None:
    """Print the title of a section."""
    say("")
    say(text)
    say("─" * min(len(text), _WIDTH))


def say(text: str) -> None:
    """Print a line, wrapped at the width of the terminal, and flush it."""
    broken = fill(
        text, _WIDTH, subsequent_indent="    ", drop_whitespace=False, break_on_hyphens=False
    )
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in broken.split("\n"))
    sys.stdout.flush()


def dump(data: bytes | bytearray) -> None:
    """Print bytes in hexadecimal and as text, sixteen per row."""
    for line in dumped(data):
        say(line)


def dumped(data: bytes | bytearray) -> Iterator[str]:
    """Yield the rows of a dump.

    >>> list(dumped(b"orders"))
    ['  0000  6f 72 64 65 72 73                                orders']
    """
    for at in range(0, len(data), _ROW):
        row = data[at : at + _ROW]
        text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        yield f"  {at:04x}  {' '.join(_pairs(row.hex())):<47}  {text}"


def _pairs(digits: str) -> Iterable[str]:
    return (digits[i : i + 2] for i in range(0, len(digits), 2))
