"""Our own servers, as a user starts them: each a process, found by its ready line."""

import contextlib
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address
from tests.cli.running_servers import Serving, serving
from tests.interop.faketime import FakeClock, forget_clock_of
from tests.interop.java_server import free_port

LOOPBACK = "127.0.0.1"

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),  # over the 4 MiB that one message may have
    "mappedFileSizeConsumeQueue": str(6_000 * 20),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    # A busy machine is no reason to refuse a message; the refusals have tests of their own.
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}


class OurServer:
    """A server of ours that can be killed and comes back where it was, on its files.

    Args:
        address: where it listens.
        arguments: of the command ``orbitmq``.
        advertised: what its ready line and routes name, if that is another address.
        clock: the one that its process goes by; that of the machine if there is none.

    """

    def __init__(
        self,
        address: Address,
        *arguments: str,
        advertised: Address | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.address = address
        self._clock = clock
        self._advertised = advertised or address
        self._arguments = arguments
        self._running = contextlib.ExitStack()
        self._server: Serving | None = None

    def __repr__(self) -> str:
        return f"<OurServer {self._arguments[0]} {self.address}>"

    @property
    def pid(self) -> int:
        """Its process, which runs."""
        assert self._server is not None
        return self._server.process.pid

    def start(self) -> None:
        """Start it; return when it serves."""
        environment = None if self._clock is None else self._clock.environment
        server = self._running.enter_context(serving(*self._arguments, environment=environment))
        if self._clock is not None:
            self._running.callback(forget_clock_of, server.process.pid)
        line = server.ready_line()
        assert f"={self._advertised}" in line, server.end()
        self._server = server

    def stop(self) -> None:
        """Stop it in order, which it has to do without a complaint."""
        assert self._server is not None
        self._server.process.terminate()
        ended = self._server.end()
        assert ended.status == 0, ended.logged
        assert "Traceback" not in ended.logged, ended.logged
        self._forget()

    def kill(self) -> str:
        """End it at once, as a crash would; return what it has logged when it is gone."""
        assert self._server is not None
        self._server.process.kill()
        ended = self._server.end()
        self._forget()
        return ended.logged

    def signal(self, number: int) -> None:
        """Send its process a signal, such as SIGSTOP."""
        assert self._server is not None
        self._server.process.send_signal(number)

    def pause(self) -> None:
        """Stop it as a debugger does: it keeps its connections, and does nothing."""
        assert self._server is not None
        self._server.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._server is not None
        self._server.process.send_signal(signal.SIGCONT)

    def _forget(self) -> None:
        self._running.close()
        self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is None:
            return
        if error is None:
            self.stop()
        else:
            self._forget()


def a_nameserver(directory: Path, **settings: str) -> OurServer:
    """Return a nameserver whose file is in ``directory``."""
    address = Address(LOOPBACK, free_port())
    said = {"kvConfigPath": str(directory / "kvConfig.json"), **settings}
    return OurServer(address, "nameserver", "--port", str(address.port), *_set(said))


def a_broker(
    directory: Path, *, nameservers: str, name: str = "broker-a", **settings: str
) -> OurServer:
    """Return a broker with small files in ``directory``."""
    address = Address(LOOPBACK, free_port(below=2, above=1))
    said = {
        "brokerName": name,
        "listenPort": str(address.port),
        "namesrvAddr": nameservers,
        "storePathRootDir": str(directory),
        **SMALL_STORE,
        **settings,
    }
    return OurServer(address, "broker", *_set(said))


def a_small_cluster(directory: Path) -> tuple[OurServer, Address]:
    """Return ``orbitmq up`` with its files in ``directory``, and where its nameserver will be."""
    nameserver = Address(LOOPBACK, free_port())
    broker = Address(LOOPBACK, free_port(below=2, above=1))
    ports = ("--nameserver-port", str(nameserver.port), "--broker-port", str(broker.port))
    command = ("up", "--no-dashboard", "--store", str(directory), *ports, *_set(SMALL_STORE))
    return OurServer(broker, *command), nameserver


def _set(settings: Mapping[str, str]) -> list[str]:
    return [f"--set={name}={value}" for name, value in settings.items()]


@contextlib.contextmanager
def our_nameserver(directory: Path, **settings: str) -> Iterator[Address]:
    """Run a nameserver whose file is in ``directory``, and give out where it listens."""
    with a_nameserver(directory, **settings) as server:
        yield server.address
