"""Running commands on a terminal, and in this process with the time zone of the golden texts."""

import io
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class OnTerminal:
    """A command whose standard input and standard error are a terminal; output is a pipe."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._shown = b""

    def shown(self, text: str) -> None:
        """Return when the terminal shows this text; EOFError if the command ends without."""
        while text.encode() not in self._shown:
            try:
                part = os.read(self._descriptor, 4096)
            except OSError:  # as Linux says that no process has it open
                part = b""
            if not part:
                raise EOFError(self._shown.decode())
            self._shown += part

    def type(self, text: str) -> None:
        """Type on the keyboard; \x04 is ^D."""
        os.write(self._descriptor, text.encode())


@contextmanager
def on_a_terminal(*arguments: str) -> Iterator[OnTerminal]:
    """Run a command on a terminal of its own; it is killed at the end."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "orbitmq.cli.main", *arguments]
    try:
        with subprocess.Popen(
            command, stdin=its, stderr=its, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            os.close(its)
            try:
                yield OnTerminal(process, ours)
            finally:
                process.kill()
    finally:
        os.close(ours)


@contextmanager
def utc() -> Iterator[None]:
    """Show local times in UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()
