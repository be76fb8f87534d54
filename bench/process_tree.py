"""CPU time and memory of a process and its descendants, from Linux's ``/proc``.

The time of an ended process is in its parent's ``cutime`` and ``cstime`` once the parent has waited
for it, so the sum over the running tree is complete.
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
"""Raised when a process has ended since it was listed."""
_STATE_AT: Final = 2  # the index of the field after the name


class Process(NamedTuple):
    """A process by its ``/proc/<pid>/stat``."""

    pid: int
    parent: int
    ticks: int
    """CPU ticks, including those of the children it has waited for."""

    @classmethod
    def of_stat(cls, text: str) -> "Process":
        """Parse the text of ``stat``; the process name may contain anything, even parentheses.

        >>> Process.of_stat("7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 20 4 10 1 20 0")
        Process(pid=7, parent=3, ticks=35)
        """
        behind_name = text.rpartition(")")[2].split()
        ticks = (int(behind_name[number - _STATE_AT]) for number in range(13, 17))
        return cls(int(text.split(maxsplit=1)[0]), int(behind_name[1]), sum(ticks))


def process_tree(root: int) -> list[Process]:
    """Return a process and its running descendants."""
    children: dict[int, list[Process]] = {}
    found = []
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:  # grows during the loop
        found += children.get(process.pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process and all its descendants."""
    return sum(process.ticks for process in process_tree(root)) / _TICKS_A_SECOND


def peak_mb(root: int, program: str) -> float | None:
    """Return the highest peak memory of a process below ``root``; None if there is none.

    Only processes with ``program`` in their command line count.
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
