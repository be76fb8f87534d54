"""A nameserver and brokers inside your own process: for tests, demos and notebooks.

In blocking code they run on a thread of their own:

>>> with start() as cluster:
...     cluster.nameserver.startswith("127.0.0.1:")
True

In asynchronous code they can run on your loop:

>>> import asyncio
>>> async def main() -> int:
...     async with EmbeddedCluster(brokers=2) as cluster:
...         return len(cluster.brokers)
>>> asyncio.run(main())
2

Both take free ports, and a temporary store that is removed in the end, unless you name a directory.
A forked child may use the cluster by its addresses; whatever the child closes or ends, it stays the
parent's.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Final, Self
from weakref import finalize

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings, warnings_about
from orbitmq.errors import InvalidInput
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.event_loop import new_event_loop
from orbitmq.settings import Property
from orbitmq.threads import Future, Thread, start_thread

__all__ = ["EmbeddedCluster", "RunningCluster", "start"]

log = logging.getLogger("orbitmq.broker")

_BROKERS_MAX: Final = 26  # broker-a to broker-z

# Small files: with Java's sizes each broker would reserve 64 MiB for its log.
_SMALL_FILES: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 10_000),
    "maxHashSlotNum": str(10_000),
    "maxIndexNum": str(40_000),
}


class EmbeddedCluster:
    """A nameserver and brokers on the loop that it is started on; an async context manager.

    Args:
        directory: where the stores go, one directory for each broker; a temporary one if None.
        brokers: how many; they are named broker-a, broker-b and so on.
        settings: properties of ``broker.conf`` for all of them, such as ``flushDiskType``.

    Raises:
        InvalidInput: a number or a setting can't be used.

    """

    def __init__(
        self,
        directory: str | None = None,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= brokers <= _BROKERS_MAX:
            raise InvalidInput(
                f"brokers is {brokers}; it must be from 1 to {_BROKERS_MAX}", field="brokers"
            )
        if brokers > 1 and settings and "storePathCommitLog" in settings:
            raise InvalidInput(
                "storePathCommitLog would be the log of all brokers; set it for one broker alone",
                field="settings",
            )
        self._directory = directory
        self._count = brokers
        self._settings = _as_said(settings or {})
        self._process = os.getpid()
        self._running = AsyncExitStack()
        self._nameserver: Nameserver | None = None
        self._brokers: list[Broker] = []

    def __repr__(self) -> str:
        return f"<EmbeddedCluster nameserver={self.nameserver or '-'} brokers={self.brokers}>"

    @property
    def nameserver(self) -> str:
        """The address to give to clients; empty before the start."""
        return "" if self._nameserver is None else str(self._nameserver.address)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Where the brokers listen."""
        return tuple(str(broker.address) for broker in self._brokers)

    @property
    def directories(self) -> tuple[str, ...]:
        """The store directories of the brokers."""
        return tuple(broker.state.store.directory for broker in self._brokers)

    async def start(self) -> None:
        """Start all of it; return when clients can use it.

        Raises:
            OrbitError: a setting can't be used, or a store can't.

        """
        self._process = os.getpid()
        try:
            directory = self._directory
            if directory is None:
                directory = self._temporary_directory()
            self._nameserver = await self._running.enter_async_context(
                Nameserver(NameserverSettings(listen_port=0, kv_config_path=""))
            )
            for number in range(self._count):
                name = f"broker-{chr(ord('a') + number)}"
                broker = Broker(
                    self._broker_settings(name, f"{directory}/{name}"), Machine(pid=self._process)
                )
                self._brokers.append(await self._running.enter_async_context(broker))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop all of it, and remove the temporary store; a forked child's call does nothing."""
        if os.getpid() != self._process:
            return
        await self._running.aclose()
        self._brokers.clear()
        self._nameserver = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _temporary_directory(self) -> str:
        """Make one that goes with the cluster, or at the latest with the process."""
        path = mkdtemp(prefix="orbitmq-")
        # Not a TemporaryDirectory: the end of a forked child would remove the parent's.
        forgotten = finalize(self, _remove_forgotten, path, self._process)
        self._running.callback(rmtree, path)
        self._running.callback(forgotten.detach)
        return path

    def _broker_settings(self, name: str, directory: str) -> LiveSettings:
        said = {
            **_SMALL_FILES,
            "listenPort": "0",
            **self._settings,
            "brokerName": name,
            "namesrvAddr": self.nameserver,
            "storePathRootDir": directory,
        }
        return LiveSettings.load(Property(key, value, "settings") for key, value in said.items())


def _as_said(settings: Mapping[Any, Any]) -> dict[str, str]:
    """Return settings as a file says them; warn of names that no broker knows.

    Raises:
        InvalidInput: a name or a value is no text.

    """
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(
                f"settings has {name!r}: {value!r}; write both as texts, as in broker.conf: "
                f'"{name}": "{value}"',
                field="settings",
            )
    for warning in warnings_about(Property(*one, "settings") for one in settings.items()):
        log.warning("%s", warning)
    return dict(settings)


class RunningCluster:
    """An embedded cluster on a thread of its own; a context manager. See ``start``."""

    def __init__(self, make: Callable[[], EmbeddedCluster]) -> None:
        self._make = make
        self._started: Future[EmbeddedCluster] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread: Thread = start_thread(self._run, name="orbitmq-embedded", daemon=True)
        self._cluster = self._started.result()

    def __repr__(self) -> str:
        return f"<RunningCluster {self._cluster!r}>"

    @property
    def nameserver(self) -> str:
        """The address to give to clients."""
        return self._cluster.nameserver

    @property
    def brokers(self) -> tuple[str, ...]:
        """Where the brokers listen."""
        return self._cluster.brokers

    @property
    def directories(self) -> tuple[str, ...]:
        """The store directories of the brokers."""
        return self._cluster.directories

    def close(self) -> None:
        """Stop it, and return when it has stopped; twice is no error.

        Raises:
            OrbitError: a broker could not put everything on the disk.

        """
        if self._thread.is_alive() and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._make() as cluster:
            self._started.set_result(cluster)
            await self._stop.wait()


def _remove_forgotten(directory: str, process: int) -> None:
    if os.getpid() == process:
        warnings.warn(
            f"the embedded cluster in {directory} was not closed; close it, or use 'with'",
            ResourceWarning,
            stacklevel=1,
        )
        rmtree(directory)


def start(
    directory: str | None = None,
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> RunningCluster:
    """Start a cluster on a thread of its own, and return it when clients can use it.

    The arguments and errors are those of ``EmbeddedCluster``. Close it, or use it with ``with``.
    """
    return RunningCluster(lambda: EmbeddedCluster(directory, brokers=brokers, settings=settings))
