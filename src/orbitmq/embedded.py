"""A nameserver and brokers inside your own process: for tests, demos and notebooks.

For blocking code they run on a separate thread:

>>> with start() as cluster:
...     cluster.nameserver.startswith("127.0.0.1:")
True

In async code they can run on your loop:

>>> import asyncio
>>> async def main() -> int:
...     async with EmbeddedCluster(brokers=2) as cluster:
...         return len(cluster.brokers)
>>> asyncio.run(main())
2

A test asserts on what was sent in one line:

>>> from orbitmq.blocking import Producer
>>> from orbitmq.message.model import Message
>>> with start() as cluster:
...     with Producer("shop", nameserver=cluster.nameserver) as producer:
...         _ = producer.send(Message("orders", b"paid", tags="paid"))
...     [message.body for message in cluster.messages("orders", tags="paid")]
[b'paid']

Both use free ports, and a temporary store that is removed at the end unless you give a directory. A
forked child can use the cluster by its addresses, but only the parent can stop it.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, Self, TypeVar
from weakref import finalize

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings, check_known
from orbitmq.errors import InvalidInput, NotRunning
from orbitmq.message.model import StoredMessage
from orbitmq.message.scan import decode_all, split_inner
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.event_loop import new_event_loop
from orbitmq.settings import Property
from orbitmq.threads import Future, Thread, start_thread

__all__ = ["EmbeddedCluster", "RunningCluster", "start"]

log = logging.getLogger("orbitmq.broker")

T = TypeVar("T")

_READ_AT_ONCE: Final = 1_000
_BROKERS_MAX: Final = 26  # broker-a to broker-z

# Small files: with Java's sizes each broker would reserve 64 MiB for its log.
_SMALL_FILES: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 10_000),
    "mapperFileSizeBatchConsumeQueue": str(46 * 10_000),
    "maxHashSlotNum": str(10_000),
    "maxIndexNum": str(40_000),
    "mappedFileSizeTimerLog": str(1024 * 1024),
}


class EmbeddedCluster:
    """A nameserver and brokers on the current loop; an async context manager.

    Args:
        directory: for the stores, one subdirectory per broker; a temporary one if None.
        brokers: how many brokers; they are named broker-a, broker-b and so on.
        settings: properties of ``broker.conf`` for all brokers, such as ``flushDiskType``.
        machine: makes what a broker runs on, of its process id; the real network, disk and clock
            if None.

    Raises:
        InvalidInput: the number of brokers or a setting is invalid.
    """

    def __init__(
        self,
        directory: str | None = None,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        machine: Callable[[int], Machine] | None = None,
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
        self._settings = _checked(settings or {})
        self._machine = machine or (lambda pid: Machine(pid=pid))
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
        """The addresses of the brokers."""
        return tuple(str(broker.address) for broker in self._brokers)

    @property
    def running(self) -> tuple[Broker, ...]:
        """The brokers themselves; they belong to the loop of the cluster."""
        return tuple(self._brokers)

    @property
    def directories(self) -> tuple[str, ...]:
        """The store directories of the brokers."""
        return tuple(broker.state.store.directory for broker in self._brokers)

    def messages(
        self, topic: str, *, tags: str | None = None, key: str | None = None
    ) -> list[StoredMessage]:
        """Return the messages of a topic that consumers can see, by broker, queue and offset.

        A half message is not among them, and a delayed one is not until it is delivered. They are
        read from the stores of the brokers, so no group's offset changes. A topic that doesn't
        exist has none.

        Args:
            topic: such as ``orders`` or ``%DLQ%billing``.
            tags: only messages with this tag.
            key: only messages with this key.
        """
        return [one for some in self._batches(topic, tags, key) for one in some]

    def _batches(
        self, topic: str, tags: str | None, key: str | None
    ) -> Iterator[list[StoredMessage]]:
        for broker in self._brokers:
            for batch in _stored(broker, topic):
                yield [
                    one
                    for one in batch
                    if tags in (None, one.tags) and (key is None or key in one.keys)
                ]

    async def start(self) -> None:
        """Start nameserver and brokers; return when clients can use them.

        Raises:
            OrbitError: a setting is invalid, or a store can't be used.
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
                    self._broker_settings(name, f"{directory}/{name}"), self._machine(self._process)
                )
                self._brokers.append(await self._running.enter_async_context(broker))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop everything, and remove the temporary store; does nothing in a forked child."""
        if os.getpid() != self._process:
            return
        await self._running.aclose()
        self._brokers.clear()
        self._nameserver = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _temporary_directory(self) -> str:
        """Create a directory that is removed with the cluster, at the latest with the process."""
        path = mkdtemp(prefix="orbitmq-")
        # Not a TemporaryDirectory: a forked child would remove it when it ends.
        forgotten = finalize(self, _remove_forgotten, path, self._process)
        self._running.callback(rmtree, path)
        self._running.callback(forgotten.detach)
        return path

    def _broker_settings(self, name: str, directory: str) -> LiveSettings:
        properties = {
            **_SMALL_FILES,
            "listenPort": "0",
            "traceTopicEnable": "true",
            "enablePropertyFilter": "true",  # as orbitmq up does
            "recallMessageEnable": "true",
            **self._settings,
            "brokerName": name,
            "namesrvAddr": self.nameserver,
            "storePathRootDir": directory,
        }
        return LiveSettings.load(Property(*one, "settings") for one in properties.items())


def _checked(settings: Mapping[Any, Any]) -> dict[str, str]:
    """Check that names and values are texts, and names known; raise InvalidInput if not."""
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(
                f"settings contains {name!r}: {value!r}; write both as texts, as in broker.conf: "
                f'"{name}": "{value}"',
                field="settings",
            )
    check_known(Property(name, value, "settings") for name, value in settings.items())
    return dict(settings)


class RunningCluster:
    """An embedded cluster on a separate thread; a context manager. See ``start``."""

    def __init__(self, make: Callable[[], EmbeddedCluster]) -> None:
        self._make = make
        self._started: Future[EmbeddedCluster] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
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
        """The addresses of the brokers."""
        return self._cluster.brokers

    @property
    def directories(self) -> tuple[str, ...]:
        """The store directories of the brokers."""
        return self._cluster.directories

    def messages(
        self, topic: str, *, tags: str | None = None, key: str | None = None
    ) -> list[StoredMessage]:
        """Return the messages of a topic that consumers can see, as ``EmbeddedCluster`` does.

        Raises:
            NotRunning: the cluster is closed.
        """

        async def read() -> list[StoredMessage]:
            found: list[StoredMessage] = []
            for batch in self._cluster._batches(topic, tags, key):
                found += batch
                await asyncio.sleep(0)  # the brokers go on meanwhile
            return found

        return self._submit(read()).result()

    def _submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine on the loop of the cluster; raise NotRunning if it is closed."""
        if self._loop is None or self._is_closed:
            work.close()
            raise NotRunning("the embedded cluster is closed", state="closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the cluster, and wait until it has stopped; a second call does nothing.

        Raises:
            OrbitError: a broker could not write everything to disk.
        """
        self._is_closed = True
        if self._thread.is_alive() and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
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


def _stored(broker: Broker, topic: str) -> Iterator[list[StoredMessage]]:
    lookup, name = broker.state.store.lookup, broker.settings.broker.broker_name
    for queue in broker.state.store.queues.queues_of(topic):
        offset = queue.min_offset
        while offset < queue.max_offset:
            found = lookup.get_messages(topic, queue.queue_id, offset, max_count=_READ_AT_ONCE)
            yield [
                part
                for record in found.views
                for message in decode_all(record, broker_name=name)
                for part in split_inner(message)
            ]
            offset = max(found.next_offset, offset + 1)


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
    """Start a cluster on a separate thread, and return it when clients can use it.

    The arguments and errors are those of ``EmbeddedCluster``. Close it, or use it with ``with``.
    """
    return RunningCluster(lambda: EmbeddedCluster(directory, brokers=brokers, settings=settings))
