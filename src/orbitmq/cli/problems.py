"""Errors as commands print them: one line on stderr, or one object of JSON with ``--json``.

stdout has results alone, so that what a script parses there is never an error::

    {"error": "NoRoute", "message": "…", "retriable": true, "exit_status": 2, "docs": "…"}
"""

import difflib
import json
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Final

from orbitmq.cli.render import Line, shown
from orbitmq.errors import NameserversFailed, OrbitError

__all__ = ["BUG", "FAILED", "MISSING", "nearest", "tell", "tell_bug", "tell_missing", "warn"]

FAILED: Final = 2
"""The exit status of a command that could not do its work."""
MISSING: Final = 1
"""That of a command that did its work, and found nothing."""
BUG: Final = 70
"""That of a command that met an error which orbitmq did not foresee (EX_SOFTWARE)."""

_NO_NAMESERVER: Final = (
    "orbitmq up starts one here, with a broker; --nameserver or NAMESRV_ADDR names others"
)


def tell(
    error: OrbitError | OSError, *, as_json: bool, status: int = FAILED, debug: bool = False
) -> int:
    """Print an error, and return the exit status; with ``debug`` also where it was raised."""
    _print(
        type(error).__name__,
        _text(error),
        {
            "retriable": bool(getattr(error, "retriable", False)),
            "exit_status": status,
            "docs": getattr(error, "docs", None),
        },
        as_json=as_json,
    )
    if debug:
        traceback.print_exception(error)
    return status


def tell_missing(what: str, *, as_json: bool) -> int:
    """Print that there is nothing of the kind asked for, and return the exit status, 1."""
    more: dict[str, object] = {"retriable": False, "exit_status": MISSING, "docs": None}
    _print("NotFound", what, more, as_json=as_json)
    return MISSING


def tell_bug(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Print an error that is no error of ours, and return the exit status."""
    kind = type(error).__name__
    advice = "" if debug else "; --debug shows where, for a report"
    text = f"this is a bug of orbitmq: {kind}: {_text(error)}{advice}"
    _print(kind, text, {"retriable": False, "exit_status": BUG, "docs": None}, as_json=as_json)
    if debug:
        traceback.print_exception(error)
    return BUG


def warn(text: str, *, as_json: bool) -> None:
    """Print what deserves attention and does not stop the command."""
    line: str = Line(f"orbitmq: warning: {text}", style="risk", styled=len("orbitmq: warning:"))
    if as_json:
        line = json.dumps({"warning": text}, ensure_ascii=False)
    print(shown(line, sys.stderr), file=sys.stderr)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar word; None if none is similar.

    >>> nearest("topc", ["topic", "group"])
    'topic'
    """
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def _print(kind: str, text: str, more: dict[str, object], *, as_json: bool) -> None:
    line: str = Line(f"orbitmq: {text}", style="wrong", styled=len("orbitmq:"))
    if as_json:
        line = json.dumps({"error": kind, "message": text, **more}, ensure_ascii=False)
    print(shown(line, sys.stderr), file=sys.stderr)


def _text(error: Exception) -> str:
    """Return an error with its notes as one line; it may quote several lines of a broker.

    A note that repeats the error, with the name of the broker, is left out.
    """
    text = _of_system(error) if isinstance(error, OSError) and error.strerror else str(error)
    notes = [note for note in getattr(error, "__notes__", ()) if not note.endswith(text)]
    if isinstance(error, NameserversFailed):
        notes.append(_NO_NAMESERVER)
    return " ".join("; ".join([text, *notes]).split())


def _of_system(error: OSError) -> str:
    """Return an error of the system in words: those of str() begin with its number."""
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return f"input or output failed: {error.strerror}"
