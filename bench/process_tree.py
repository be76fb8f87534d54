"""CPU time and memory of a process and its descendants, from Linux's ``/proc``.

CPU time is counted by process: what each has used since the watch began. The times that a parent
sums up for its ended children don't do, since PySpark's daemon doesn't wait for its workers, so
theirs are lost. Instead the tree is looked at ten times a second, and a process that has ended
counts as it was last seen. A process that lives shorter than that may be missed.

The compiler threads of a JVM are left out: they work until everything is compiled, which takes
minutes, and whichever query runs meanwhile would be charged.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from bench.measure import resident_of

__all__ = ["CpuWatch", "Process", "peak_mb", "process_tree"]

_PROC: Final = Path("/proc")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_ENDED: Final = (FileNotFoundError, ProcessLookupError)
"""Raised when a process has ended since it was listed."""
_STATE_AT: Final = 2  # the index of the field after the name
_PARENT, _USER, _SYSTEM = 1, 13 - _STATE_AT, 14 - _STATE_AT
_COMPILERS: Final = ("C1 ", "C2 ")
"""How the names of the JVM's compiler threads begin. JVMs that are watched need the option
``-XX:-UseDynamicNumberOfCompilerThreads``, or the times of ended ones count after all."""
_LOOKS_EVERY_S: Final = 0.1


class Process(NamedTuple):
    """A process, or a thread, by its ``stat``."""

    pid: int
    name: str
    parent: int
    ticks: int
    """Its own CPU ticks."""

    @classmethod
    def of_stat(cls, text: str) -> "Process":
        """Parse the text of ``stat``; the process name may contain anything, even parentheses.

        >>> Process.of_stat("7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 20 4 10 1 20 0")
        Process(pid=7, name='a) b', parent=3, ticks=24)
        """
        named, _, behind = text.rpartition(")")
        pid, _, name = named.partition(" (")
        fields = behind.split()
        return cls(int(pid), name, int(fields[_PARENT]), int(fields[_USER]) + int(fields[_SYSTEM]))


class CpuWatch:
    """The CPU time of a process and its descendants while a ``with`` statement runs.

    ``seconds`` is set when it ends; the time of the watch itself is left out.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._before: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._own_s = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._before = _ticks(self._root)
        self._last = dict(self._before)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()
        self.look()
        used = sum(ticks - self._before.get(pid, 0) for pid, ticks in self._last.items())
        self.seconds = used / _TICKS_A_SECOND - self._own_s

    def look(self) -> None:
        """Look at the tree now: before a process ends whose last tenth of a second matters."""
        self._last |= _ticks(self._root)

    def _watch(self) -> None:
        while not self._ends.wait(_LOOKS_EVERY_S):
            self.look()
        self._own_s = time.thread_time()


def _ticks(root: int) -> dict[int, int]:
    """Return the ticks of each process of a tree, without those of compiler threads."""
    return {process.pid: process.ticks - _compiler_ticks(process) for process in process_tree(root)}


def _compiler_ticks(process: Process) -> int:
    if process.name != "java":
        return 0
    threads = _all_in(_PROC / str(process.pid) / "task")
    return sum(one.ticks for one in threads if one.name.startswith(_COMPILERS))


def process_tree(root: int) -> list[Process]:
    """Return a process and its running descendants."""
    children: dict[int, list[Process]] = {}
    found = []
    for process in _all_in(_PROC):
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:  # grows during the loop
        found += children.get(process.pid, [])
    return found


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


def _all_in(directory: Path) -> Iterator[Process]:
    """Yield the processes, or the threads of a process, that a directory of ``/proc`` lists."""
    with contextlib.suppress(*_ENDED):
        for entry in directory.iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(*_ENDED):
                    yield Process.of_stat((entry / "stat").read_text())
