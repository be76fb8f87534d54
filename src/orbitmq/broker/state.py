"""The state of a broker: store, tables, connected clients, pending sends and held pulls.

All of it belongs to one event loop. Handlers change it; what has to survive a restart is in the
store or registered with ``persistence``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from orbitmq.broker.clients.members import Members
from orbitmq.broker.clients.queue_locks import QueueLocks
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.machine import Machine
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.inbox import Inbox
from orbitmq.broker.sending.timers import Timers
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import GROUPS_FILE, Groups
from orbitmq.broker.tables.offsets import OFFSETS_FILE, ConsumerOffsets
from orbitmq.broker.tables.timer_counts import TIMER_COUNTS_FILE, TimerCounts
from orbitmq.broker.tables.topics import TOPICS_FILE, Topics
from orbitmq.errors import StoreError
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.message_store import STORE_WORKERS, MessageStore
from orbitmq.store.timers.timer_files import TimerFiles

__all__ = ["State"]

log = logging.getLogger("orbitmq.broker")

_DELAYS_FILE: Final = "delayOffset.json"
_WORKERS: Final = 2
"""Threads for blocking work outside the store: files of tables, and parsing long bodies."""


class _Table(Protocol):
    def to_json(self) -> str: ...

    def load_json(self, text: str) -> None: ...


class State:
    """The state of one broker; created on its event loop.

    ``on_topics`` registers the topics with nameservers, within a short time.
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
        self._saving_topics: asyncio.Task[None] | None = None
        self._unsaved_topics: dict[str, None] = {}  # in the order they were created
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
        self.inbox = Inbox(
            store=self.store,
            settings=settings,
            stats=self.stats,
            clock=clock,
            call_soon=self._loop.call_soon,
        )
        self.delays = Delays(store=self.store, inbox=self.inbox, settings=settings)
        self.timers = Timers(
            files=TimerFiles(machine.disk, directory, settings.store),
            store=self.store,
            inbox=self.inbox,
            settings=settings,
            counts=TimerCounts(),
            workers=self.workers,
            call_soon=self._loop.call_soon,
            post=self._post,
        )
        self.persistence = Persistence(
            ConfigFiles(machine.disk, f"{directory}/config"), self.workers
        )
        self._register_tables()

    def __repr__(self) -> str:
        return f"<State of {self.settings.broker.broker_name}, {self.topics!r}>"

    async def open(self, progress: Callable[[int, int], None]) -> None:
        """Recover the store, on a worker, and load the tables."""
        opening = asyncio.wrap_future(self.workers.submit(self._open_store, progress))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # the store must not be closed while it is recovered
            raise
        self.persistence.load()
        self.delays.start(self.clock.now_ms())
        starting = self.workers.submit(
            self.timers.start, self.clock.now_ms(), list(self.topics.table)
        )
        await asyncio.wrap_future(starting)

    def _open_store(self, progress: Callable[[int, int], None]) -> None:
        self.store.open(progress)
        self.timers.open(self.clock.now_ms())

    async def flushed(self) -> None:
        """Return when the log is flushed, or the flush failed: a stop saves the tables after it."""
        self.delays.stop()
        self.timers.stop()
        self.inbox.flush()  # what delays and timers have put
        done: asyncio.Future[bool] = self._loop.create_future()
        self.store.when_durable(self.store.log.end, done.set_result)
        self.store.flush_soon()
        self.timers.close(durable=await done)

    def delete_topic(self, topic: str) -> None:
        """Delete the queues and statistics of a topic."""
        self.inbox.flush()  # pending sends would otherwise be stored after it
        self.store.delete_topic(topic)
        self.stats.forget_topic(topic)
        self.timers.counts.forget(topic)

    def is_consumed_in_order(self, group: str) -> bool:
        """Return whether a client of a group holds a queue lock."""
        return self.locks.is_locking(group, self.clock.monotonic_ms())

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    # Tables and their files

    def _register_tables(self) -> None:
        tables: Sequence[tuple[str, _Table, Callable[[], object]]] = (
            (TOPICS_FILE, self.topics, lambda: self.topics.data_version),
            (GROUPS_FILE, self.groups, lambda: self.groups.data_version),
            (OFFSETS_FILE, self.offsets, lambda: self.offsets.changes),
            (_DELAYS_FILE, self.delays, lambda: self.delays.version),
            (TIMER_COUNTS_FILE, counts := self.timers.counts, lambda: counts.data_version),
        )
        for name, table, version in tables:
            self.persistence.register(
                name, to_json=table.to_json, load_json=table.load_json, version=version
            )

    def _topics_changed(self, new: Collection[str]) -> None:
        # As in Java, a new topic is registered before the send that created it is acknowledged.
        self._unsaved_topics.update(dict.fromkeys(new))
        self.inbox.hold(new)
        if self._saving_topics is None:
            self._saving_topics = self._loop.create_task(self._save_topics())

    async def _save_topics(self) -> None:
        """Register and save the topic table until it has no changes, in rounds.

        Each round acknowledges the sends to the topics that it saved, however many newer ones wait.
        """
        registered, topics = None, self.topics
        try:
            while registered != topics.data_version or self.persistence.is_changed(TOPICS_FILE):
                registered = topics.data_version
                saving, self._unsaved_topics = self._unsaved_topics, {}
                try:
                    await self._on_topics()
                    await self.persistence.save(TOPICS_FILE)
                finally:
                    # One that was deleted and created again in between has to be saved again.
                    self.inbox.release(name for name in saving if name not in self._unsaved_topics)
        except StoreError as error:
            # The periodic save retries it; the store itself refuses sends if its disk is broken.
            log.error("the topic table could not be saved, a later save retries: %s", error)
        finally:
            self._saving_topics = None
            self.inbox.release(self._unsaved_topics)
            self._unsaved_topics.clear()

    def _save_soon(self) -> None:
        self._loop.call_soon(self.persistence.save_changed)
