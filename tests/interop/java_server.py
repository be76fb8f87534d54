"""One Java server in a process of its own: its start, its end, and its last words."""

import contextlib
import os
import random
import socket
import ssl
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self

from orbitmq.errors import NetworkError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.settings import NetSettings
from orbitmq.wire.session import Identity
from tests.interop import counterparts, java_classes
from tests.interop.waiting import until

Settings = Mapping[str, str | int]
"""Settings of a server, or system properties of its JVM, under Java's names."""

PORTS = range(15_000, 32_000)
"""Below the range that Linux gives to outgoing connections, so that none takes a port of ours."""

START_SECONDS = 120
STOP_SECONDS = 60
LOG_TAIL_BYTES = 2_000
PATIENT = NetSettings(request_timeout_ms=10_000)

# What RocketMQ's own start scripts open for Java 9 and later.
MODULES_OPENED = (
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
)
JVM_OPTIONS = (
    *("-Xms64m", "-Xmx256m"),
    # A test server lives for seconds: quick to start counts for more than quick to run.
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *MODULES_OPENED,
)

LOG_TO_OUTPUT = """<configuration>
  <appender name="output" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="output"/></root>
</configuration>
"""
"""How 4.9 logs, which won't start without being told; 5.x brings its own idea along."""


class JavaServerFailed(Exception):
    """A server did not start, or died; the message ends with its last words."""


class JavaServer(ABC):
    """One server; in a ``with`` statement it is started, and at the end gone.

    Args:
        version: of RocketMQ; its jars must be there, see ``counterparts``.
        directory: where its settings, files and logs go; made if missing.
        settings: what its settings file says.
        jvm_properties: system properties, such as ``tls.server.mode``.
        identity: how tests introduce themselves to it, where it knows nobody else.

    """

    main_class: ClassVar[str]
    jvm_options: ClassVar[tuple[str, ...]] = JVM_OPTIONS

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        address: Address,
        settings: Settings,
        jvm_properties: Settings | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self.address = address
        """Where it serves: the same after a restart."""
        self.settings = settings
        self._jvm_properties = jvm_properties or {}
        self._identity = identity
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else "not running"
        return f"<{type(self).__name__} {self.version} {self.address}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its process; JavaServerFailed if it was never started."""
        if self._process is None:
            raise JavaServerFailed(f"{self.main_class} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start it, on the files it left if it ran before; return when it serves.

        Raises:
            JavaServerFailed: it is not to be had here, died, or did not serve in time; the message
                ends with the last lines of its logs.

        """
        self.launch()
        self.wait_until_it_serves()

    def launch(self) -> None:
        """Start its process and don't wait; JavaServerFailed if it can't be had here."""
        assert not self.is_running, f"{self!r} is started already"
        command = self._command()
        with self._output() as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory
            )

    def wait_until_it_serves(self) -> None:
        """Return when a launched server serves; else end it and raise JavaServerFailed."""
        try:
            until(self._serves, what=f"{self!r} serves", seconds=START_SECONDS)
        except TimeoutError as error:
            self.kill()
            raise self._failure(str(error)) from None
        except BaseException:  # whoever interrupts the start leaves no process behind
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it in order, so that its files are whole; return when it is gone.

        Raises:
            JavaServerFailed: it had to be killed.

        """
        if not self._end(STOP_SECONDS):
            raise self._failure(f"{self!r} had to be killed: no end after {STOP_SECONDS} s")

    def kill(self) -> None:
        """End it at once, as a crash would; return when it is gone."""
        self._end(0)

    def connect(
        self, *, identity: Identity | None = None, tls: ssl.SSLContext | None = None
    ) -> BlockingConnection:
        """Return a connection to it, patient with a busy machine; the caller closes it."""
        identity = identity or self._identity
        return BlockingConnection(self.address, identity=identity, settings=PATIENT, tls=tls)

    def last_words(self) -> str:
        """Return the ends of its logs, to show with a failure."""
        logs = [self.directory / "output.log", *self.directory.glob("logs/rocketmqlogs/*.log")]
        tails = {log.name: log.read_bytes()[-LOG_TAIL_BYTES:] for log in logs if log.is_file()}
        return "\n".join(
            f"--- {name}\n{tail.decode(errors='replace')}" for name, tail in tails.items() if tail
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()  # the test is over, and a broker takes eight seconds to close its files

    @abstractmethod
    def _is_ready(self) -> bool:
        """Ask it whether it serves; NetworkError while it can't be asked."""

    def _serves(self) -> bool:
        if not self.is_running:
            assert self._process is not None
            raise self._failure(f"{self!r} ended with status {self._process.returncode}")
        try:
            return self._is_ready()
        except NetworkError:  # it does not listen yet
            return False

    def _end(self, seconds: float) -> bool:
        """Ask it to end, and kill it when the time is over; tell whether it went by itself."""
        if self._process is None:
            return True
        if seconds:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return True
        self._process.kill()
        self._process.wait()
        return False

    def _command(self) -> list[str]:
        home = counterparts.java_home()
        why = counterparts.missing_for(self.version)
        if home is None or why is not None:
            raise JavaServerFailed(f"{why}: run 'make counterparts'")
        jars = counterparts.jars_of(self.version)
        properties = {
            "rocketmq.home.dir": str(self.directory),
            "user.home": str(self.directory),  # where it logs, too
            "tls.server.mode": "disabled",  # else it makes a certificate: half of its start
            **self._jvm_properties,
        }
        for name in ("logback_namesrv.xml", "logback_broker.xml"):
            (self.directory / "conf").mkdir(parents=True, exist_ok=True)
            (self.directory / "conf" / name).write_text(LOG_TO_OUTPUT)
        file = self.directory / "settings.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        return [
            str(home / "bin" / "java"),
            *self.jvm_options,
            *java_classes.options(jars, home),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", os.pathsep.join(java_classes.class_path(jars))),
            *(self.main_class, "-c", str(file)),
        ]

    def _output(self) -> IO[bytes]:
        return (self.directory / "output.log").open("ab")

    def _failure(self, what: str) -> JavaServerFailed:
        return JavaServerFailed(f"{what}\n{self.last_words()}")


def free_port(*, below: int = 0, above: int = 0) -> int:
    """Return a port that nobody listens on, nor on so many below and above it."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        if all(is_free(near) for near in range(port - below, port + above + 1)):
            return port


def is_free(port: int) -> bool:
    """Tell whether a server could listen on a port now."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
