"""Server commands in separate processes, for a ``with`` statement."""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, NamedTuple

END_SECONDS = 90


class Ended(NamedTuple):
    """The end of a command: exit status, output after the ready line, and the whole log."""

    status: int
    printed: str
    logged: str


class Serving:
    """A running command."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str]) -> None:
        self.process = process
        self._log = log

    def ready_line(self) -> str:
        """Return the first line of output; empty if the command ends without one."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> Ended:
        """Wait until it ends; the caller has sent a signal."""
        printed, _ = self.process.communicate(timeout=END_SECONDS)
        self._log.seek(0)
        return Ended(self.process.returncode, printed, self._log.read())


@contextlib.contextmanager
def few_open_files(soft: int) -> Iterator[int]:
    """Start processes with a lower soft limit meanwhile; yield the hard limit."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@contextlib.contextmanager
def serving(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """Start a command, with more variables if there are any, and kill it at the end."""
    command = [sys.executable, "-m", "orbitmq.cli.main", *arguments]
    # The log goes to a file: a pipe that is not read would block the server once it is full.
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(environment or {})},
        ) as process:
            try:
                yield Serving(process, log)
            finally:
                process.kill()
