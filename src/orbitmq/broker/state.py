"""What a broker knows and keeps: the store, the tables, who is connected, what is under way.

Everything here belongs to one loop. Handlers change it, ``server`` brings it to life, and what has
to survive a restart is in the store or registered with ``persistence``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from orbitmq.broker.clients.members import Members
from orbitmq.broker.clients.queue_locks import QueueLocks
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.machine import Machine
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.inbox import SendTurn
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import GROUPS_FILE, Groups
from orbitmq.broker.tables.offsets import OFFSETS_FILE, ConsumerOffsets
from orbitmq.broker.tables.topics import TOPICS_FILE, Topics
from orbitmq.errors import StoreError
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.message_store import STORE_WORKERS, MessageStore
from orbitmq.wire.bodies.topic import TopicConfig

__all__ = ["State"]

log = logging.getLogger("orbitmq.broker")

_DELAYS_FILE: Final = "delayOffset.json"
_WORKERS: Final = 2
"""Threads for what blocks beside the store: the files of tables, and long bodies to be read."""


class _Table(Protocol):
    def to_json(self) -> str: ...

    def load_json(self, text: str) -> None: ...


class State:
    """The state of one broker; made on its loop.

    Args:
        settings: the settings in force.
        machine: what the broker stands on.
        on_topics: tells nameservers of the topics as they are now, in little time.

    """

    def __init__(
        self, settings: LiveSettings, machine: Machine, on_topics: Callable[[], Awaitable[None]]
    ) -> None:
        self.settings = settings
        self.machine = machine
        self.clock = clock = machine.clock
        self.workers = machine.workers("broker", _WORKERS)
        self._on_topics = on_topics
        self._loop = asyncio.get_running_loop()
        self._settling_topics: asyncio.Task[None] | None = None
        directory = settings.broker.store_path_root_dir
        self.store = MessageStore(
            directory,
            settings.store,
            post=self._post,
            pid=machine.pid,
            disk=machine.disk,
            clock=clock,
            workers=machine.workers("store", STORE_WORKERS),
        )
        self.topics = Topics(settings, clock, self._topics_changed)
        self.groups = Groups(settings, clock, self._save_soon)
        self.offsets = ConsumerOffsets(settings, clock)
        self.members = Members()
        self.locks = QueueLocks()
        self.held_pulls = HeldPulls(settings.broker.pull_thread_pool_queue_capacity)
        self.stats = BrokerStats(settings.broker.broker_cluster_name, clock.now_ms())
        self.turn = SendTurn(
            store=self.store,
            settings=settings,
            stats=self.stats,
            clock=clock,
            call_soon=self._loop.call_soon,
        )
        self.delays = Delays(store=self.store, turn=self.turn, settings=settings)
        self.persistence = Persistence(
            ConfigFiles(machine.disk, f"{directory}/config"), self.workers
        )
        self._register_tables()

    def __repr__(self) -> str:
        return f"<State of {self.settings.broker.broker_name}, {self.topics!r}>"

    async def open(self, progress: Callable[[int, int], None]) -> None:
        """Recover the store, on a worker, and read the tables.

        Raises:
            StoreError: a file can't be used; the message says why.

        """
        opening = asyncio.wrap_future(self.workers.submit(self.store.open, progress))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # the store must not be closed while it is recovered
            raise
        self.persistence.load()
        self.delays.start(self.clock.now_ms())

    async def flushed(self) -> None:
        """Return when the log is on the disk, or can't be: tables must not be ahead of it."""
        self.delays.stop()
        self.turn.flush()  # what delays had handed over
        done: asyncio.Future[bool] = self._loop.create_future()
        self.store.when_durable(self.store.log.end, done.set_result)
        self.store.flush_soon()
        await done

    def delete_topic(self, topic: str) -> None:
        """Forget what a topic had besides its place in the table."""
        self.turn.flush()  # what was admitted before would else be stored behind it
        self.store.delete_topic(topic)
        self.stats.forget_topic(topic)

    def is_consumed_in_order(self, group: str) -> bool:
        """Return whether a client of a group has locked a queue."""
        return self.locks.is_locking(group, self.clock.monotonic_ms())

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    # What survives a restart

    def _register_tables(self) -> None:
        tables: Sequence[tuple[str, _Table, Callable[[], object]]] = (
            (TOPICS_FILE, self.topics, lambda: self.topics.data_version),
            (GROUPS_FILE, self.groups, lambda: self.groups.data_version),
            (OFFSETS_FILE, self.offsets, lambda: self.offsets.changes),
            (_DELAYS_FILE, self.delays, lambda: self.delays.version),
        )
        for name, table, version in tables:
            self.persistence.register(
                name, to_json=table.to_json, load_json=table.load_json, version=version
            )

    def _topics_changed(self, _topics: Sequence[TopicConfig]) -> None:
        # Whoever sends to a new topic is not told "stored" before it is on the disk, and in routes
        # unless nameservers are slow: Java's broker too registers it first.
        self.turn.hold()
        if self._settling_topics is None:
            self._settling_topics = self._loop.create_task(self._settle_topics())

    async def _settle_topics(self) -> None:
        told = None
        try:
            while told != self.topics.data_version or self.persistence.is_changed(TOPICS_FILE):
                told = self.topics.data_version
                await self._on_topics()
                await self.persistence.save(TOPICS_FILE)
        except StoreError as error:
            # It is tried again every few seconds; sends say for themselves what the disk is like.
            log.error("topics are not on the disk: %s", error)
        finally:
            self._settling_topics = None
            self.turn.release()

    def _save_soon(self) -> None:
        self._loop.call_soon(self.persistence.save_changed)
