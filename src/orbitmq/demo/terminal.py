"""The demo's output: lines for a terminal of 80 columns."""

import sys
from textwrap import fill
from typing import Final

__all__ = ["figure", "say", "title"]

_WIDTH: Final = 79  # a full line makes some terminals wrap


def title(text: str) -> None:
    """Print the title of a section."""
    say("")
    say(text)
    say("─" * min(len(text), _WIDTH))


def say(text: str, *, wrap: bool = True) -> None:
    """Print a line, wrapped at the width of the terminal, and flush it."""
    if wrap:
        text = fill(
            text, _WIDTH, subsequent_indent="    ", drop_whitespace=False, break_on_hyphens=False
        )
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in text.split("\n"))
    sys.stdout.flush()


def figure(name: str, text: str, *, width: int = 24) -> None:
    """Print a figure behind its name, wrapped in a column of its own."""
    lines = fill(
        text,
        _WIDTH,
        initial_indent=name.ljust(width),
        subsequent_indent=" " * width,
        break_on_hyphens=False,
    )
    say(lines, wrap=False)
