"""What a process and all that it has started have cost, from Linux's ``/proc``.

Time of processes that have ended is in their parents' ``cutime`` and ``cstime`` as soon as those
have waited for them, so a sum over the tree that still runs has all of it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.measure import resident_of

__all__ = ["Process", "cpu_seconds", "peak_mb", "process_tree"]

_PROC: Final = Path("/proc")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_ENDED: Final = (FileNotFoundError, ProcessLookupError)
"""What is raised when a process has ended since it was seen."""
_STATE_AT: Final = 2  # the field that follows the name, counted from 0


class Process(NamedTuple):
    """What ``/proc/<pid>/stat`` says of a process."""

    pid: int
    parent: int
    ticks: int
    """Of CPU: its own, and those of the children that it has waited for."""

    @classmethod
    def of_stat(cls, text: str) -> "Process":
        """Read a line of ``stat``; the name in it may hold anything, parentheses too.

        >>> Process.of_stat("7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 20 4 10 1 20 0")
        Process(pid=7, parent=3, ticks=35)
        """
        behind_name = text.rpartition(")")[2].split()
        ticks = (int(behind_name[number - _STATE_AT]) for number in range(13, 17))
        return cls(int(text.split(maxsplit=1)[0]), int(behind_name[1]), sum(ticks))


def process_tree(root: int) -> list[Process]:
    """Return a process and all below it that run now."""
    children: dict[int, list[Process]] = {}
    found = []
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:  # which grows as it goes
        found += children.get(process.pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process and all that it has started, so far."""
    return sum(process.ticks for process in process_tree(root)) / _TICKS_A_SECOND


def peak_mb(root: int, program: str) -> float | None:
    """Return the most memory that one process below ``root`` ever had, None if there is none.

    Args:
        root: where to look.
        program: a part of the command line of the processes that are meant.

    """
    peaks = []
    for process in process_tree(root):
        place = _PROC / str(process.pid)
        with contextlib.suppress(*_ENDED):
            if program in (place / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                peaks.append(resident_of((place / "status").read_text()).peak)
    return max(peaks, default=None)


def _processes() -> Iterator[Process]:
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(*_ENDED):
                yield Process.of_stat((entry / "stat").read_text())
