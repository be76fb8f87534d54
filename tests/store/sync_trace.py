"""What a trace of system calls tells of a writer's promises: was each kept before it was made?

Lines are those of ``strace -f``, in the order in which the tracer saw them. A call that another
thread's call came in between of is told in two halves::

    12 fdatasync(5 <unfinished ...>
    11 pwritev(6, [{…}], 1, 128) = 400
    12 <... fdatasync resumed>)             = 0

so that it is known what had returned when something else began.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

CALLS = ("openat", "write", "pwrite64", "pwritev", "pwritev2", "fdatasync", "fsync")

_WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)")
_PATH = re.compile(r'"([^"]*)"')
_ACKNOWLEDGED = re.compile(r'1, "ack (\d+) (\d+)\\n"')


class TracedCall(NamedTuple):
    """One system call: the lines of the trace at which it began and had returned."""

    name: str
    arguments: str
    returned: int
    begun_at: int
    done_at: int


def traced_calls(lines: Iterable[str]) -> Iterator[TracedCall]:
    """Yield the calls of a trace, in the order in which they returned."""
    begun: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines):
        if whole := _WHOLE.match(line):
            _, name, arguments, returned = whole.groups()
            yield TracedCall(name, arguments, int(returned), number, number)
        elif half := _BEGUN.match(line):
            thread, _, arguments = half.groups()
            begun[thread] = arguments, number
        elif rest := _RESUMED.match(line):
            thread, name, more, returned = rest.groups()
            arguments, begun_at = begun.pop(thread)
            yield TracedCall(name, arguments + more, int(returned), begun_at, number)


class _Span(NamedTuple):
    """Bytes of the log that were written, and since when."""

    path: str
    begin: int
    end: int
    done_at: int


@dataclass
class SyncAudit:
    """Follows the calls of a writer, and notes each acknowledgement that came too early.

    Attributes:
        directory: the writer's commit log.
        acknowledged: how many acknowledgements there were.
        segments: the files in which their records lie.
        faults: what was not on the disk when something was acknowledged.

    """

    directory: str
    acknowledged: int = 0
    segments: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _paths: dict[int, str] = field(default_factory=dict)
    _created_at: dict[str, int] = field(default_factory=dict)
    _synced: dict[str, tuple[int, int]] = field(default_factory=dict)
    _names_synced: tuple[int, int] = -1, -1
    _written: list[_Span] = field(default_factory=list)

    def follow(self, calls: Iterable[TracedCall]) -> None:
        for call in calls:
            if call.returned < 0:
                continue
            if call.name == "openat":
                self._opened(call)
            elif call.name in ("fdatasync", "fsync"):
                self._was_synced(call)
            elif found := _ACKNOWLEDGED.match(call.arguments):
                self._acknowledge(call, int(found[1]), int(found[2]))
            elif call.name != "write":
                self._was_written(call)

    def _opened(self, call: TracedCall) -> None:
        found = _PATH.search(call.arguments)
        assert found is not None
        path = found[1]
        self._paths[call.returned] = path
        if "O_CREAT" in call.arguments:
            self._created_at.setdefault(path, call.done_at)

    def _was_synced(self, call: TracedCall) -> None:
        path = self._paths.get(int(call.arguments), "")
        span = call.begun_at, call.done_at
        if path == self.directory:
            self._names_synced = span
        elif self._is_segment(path):
            self._synced[path] = span

    def _was_written(self, call: TracedCall) -> None:
        path = self._paths.get(int(call.arguments.partition(",")[0]), "")
        if self._is_segment(path):
            last = -2 if call.name == "pwritev2" else -1  # which has its flags behind the offset
            begin = int(PurePosixPath(path).name) + int(call.arguments.rsplit(", ", 2)[last])
            self._written.append(_Span(path, begin, begin + call.returned, call.done_at))

    def _acknowledge(self, call: TracedCall, begin: int, end: int) -> None:
        self.acknowledged += 1
        what = f"{begin} to {end}, acknowledged in line {call.begun_at + 1} of the trace"
        spans = [span for span in self._written if span.begin <= begin and end <= span.end]
        if not spans:
            self.faults.append(f"{what}: never written")
            return
        span = spans[-1]
        self.segments.add(span.path)
        begun_at, done_at = self._synced.get(span.path, (-1, -1))
        if not span.done_at < begun_at <= done_at < call.begun_at:
            self.faults.append(f"{what}: not synced since it was written")
        begun_at, done_at = self._names_synced
        if not self._created_at[span.path] < begun_at <= done_at < call.begun_at:
            self.faults.append(f"{what}: the name of its file was not synced")

    def _is_segment(self, path: str) -> bool:
        return str(PurePosixPath(path).parent) == self.directory
