"""Consumers in processes of their own, for a ``with`` statement; see ``member_program``."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

END_SECONDS = 60


class Consumed(NamedTuple):
    """A message that a member consumed."""

    queue: str
    offset: int
    body: str
    began_ns: int


class Member:
    """A running consumer, and what it has consumed so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.consumed: list[Consumed] = []
        self._ready = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "ready\n":
                self._ready.set()
            elif line.endswith("\n"):
                queue, offset, body, began_ns = line.split()
                self.consumed.append(Consumed(queue, int(offset), body, int(began_ns)))

    def wait_until_ready(self) -> None:
        """Return when it has joined its group."""
        assert self._ready.wait(END_SECONDS), "it does not join"

    def stop(self) -> None:
        """Stop it by SIGTERM, which it has to obey without a complaint."""
        self.process.terminate()
        status = self.process.wait(END_SECONDS)
        self._reading.join(END_SECONDS)
        assert status == 0

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait(END_SECONDS)
        self._reading.join(END_SECONDS)


@contextlib.contextmanager
def member(nameserver: str, group: str, topic: str, *options: str) -> Iterator[Member]:
    """Start a consumer of a group; kill it at the end unless it has ended."""
    program = "tests.client.consumer.member_program"
    command = [sys.executable, "-m", program, nameserver, group, topic, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        running = Member(process)
        try:
            running.wait_until_ready()
            yield running
        finally:
            process.kill()
