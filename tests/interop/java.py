"""The tests' end of the pipe to a Java host: start it, ask it, end it."""

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.interop import java_classes
from tests.interop.operations import In, Operation, Out, Refusal
from tests.interop.pipe import LENGTH, Outcome, Request, write_packet

ANSWER_SECONDS = 1_500 if os.environ.get("ORBITMQ_SOAK") == "1" else 100
"""Below the time a test may take, so that a stuck host is told as such."""

FAREWELL_SECONDS = 5
LOG_TAIL_BYTES = 2_000


class JavaHostFailed(Exception):
    """The host died, hung or refused what a test needs; the message ends with its last words."""


class Java:
    """RocketMQ's own classes of one version, in a process of their own.

    Use it in a ``with`` statement: its end ends the process. One that failed is ended at once,
    since its answers would be taken for those to the next questions, and the next one starts
    another: tests share it.
    """

    def __init__(self, version: str, *, jars: Path, java_home: Path, home: Path) -> None:
        self.version = version
        self.home = home
        self._jars = jars
        self._java_home = java_home
        self._log = home / "java_host.log"
        self._has_failed = False
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        options = java_classes.options(self._jars, self._java_home)
        command = [sys.executable, "-m", "tests.interop.java_host"]
        command += [f"--jvm={option}" for option in options]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*command, f"--jars={self._jars}", f"--home={self.home}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                env=os.environ | {"JAVA_HOME": str(self._java_home)},
            )

    def another(self, home: Path) -> Self:
        """Start a second host of the same version, for a test that means to end it."""
        return type(self)(self.version, jars=self._jars, java_home=self._java_home, home=home)

    @property
    def pid(self) -> int:
        """The id of the host's process."""
        return self._process.pid

    def ask(self, operation: Operation[In, Out], inputs: Iterable[In]) -> list[Out]:
        """Return what Java makes of each input; JavaHostFailed if it refuses one."""
        answers: list[Out] = []
        for index, answer in enumerate(self.attempt(operation, inputs)):
            if isinstance(answer, Refusal):
                raise JavaHostFailed(f"{operation.name} of input {index}: {answer.error}")
            answers.append(answer)
        return answers

    def attempt(self, operation: Operation[In, Out], inputs: Iterable[In]) -> list[Out | Refusal]:
        """Return what Java makes of each input, a Refusal where it throws."""
        if self._has_failed:
            self._process, self._has_failed = self._start(), False
        packed = msgspec.Raw(msgspec.msgpack.encode(list(inputs)))
        request = msgspec.msgpack.encode(Request(operation.name, packed))
        assert self._process.stdin is not None
        try:
            write_packet(self._process.stdin, request)
        except BrokenPipeError:
            raise self._failure("is gone") from None
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        outcomes = msgspec.msgpack.decode(self._read(length), type=list[Outcome])
        read = msgspec.msgpack.Decoder(operation.gives).decode
        return [read(one.output) if one.thrown is None else Refusal(one.thrown) for one in outcomes]

    def _read(self, size: int) -> bytes:
        """Read exactly that many bytes; a host that falls silent is an error, not a wait."""
        assert self._process.stdout is not None
        received = bytearray()
        with selectors.DefaultSelector() as readable:
            readable.register(self._process.stdout, selectors.EVENT_READ)
            while len(received) < size:
                if not readable.select(ANSWER_SECONDS):
                    raise self._failure(f"was silent for {ANSWER_SECONDS} s")
                piece = os.read(self._process.stdout.fileno(), size - len(received))
                if not piece:
                    raise self._failure("closed its pipe")
                received += piece
        return bytes(received)

    def _failure(self, what: str) -> JavaHostFailed:
        self._has_failed = True
        self._process.kill()
        self.close()
        last_words = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return JavaHostFailed(f"the host of RocketMQ {self.version} {what}: {last_words}")

    def close(self) -> None:
        """Close the pipe, which ends the host; kill it if it does not go in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # what a dead host left unread
            self._process.stdin.close()
        try:
            self._process.wait(FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Java RocketMQ {self.version}, pid {self.pid}>"
