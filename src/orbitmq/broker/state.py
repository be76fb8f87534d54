"""The state of a broker: store, tables, connected clients, pending sends and held pulls.

All of it belongs to one event loop. Handlers change it; what has to survive a restart is in the
store or registered with ``persistence``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, Protocol

from orbitmq.broker.clients.members import Members
from orbitmq.broker.clients.queue_locks import QueueLocks
from orbitmq.broker.durability import Durability
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.figures.transaction_counts import TRANSACTIONS_FILE, OpenTransactions
from orbitmq.broker.leadership import Leadership
from orbitmq.broker.machine import Machine
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.pulling.consumer_filters import FILTERS_FILE, ConsumerFilters
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.sending.deduplication import Deduplication
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.half_messages import HalfMessages
from orbitmq.broker.sending.inbox import Inbox
from orbitmq.broker.sending.op_messages import OpMessages
from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.sending.timers import Timers
from orbitmq.broker.sending.transaction_checks import TransactionChecks
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import GROUPS_FILE, Groups
from orbitmq.broker.tables.offsets import OFFSETS_FILE, ConsumerOffsets
from orbitmq.broker.tables.request_modes import REQUEST_MODES_FILE, RequestModes
from orbitmq.broker.tables.timer_counts import TIMER_COUNTS_FILE, TimerCounts
from orbitmq.broker.tables.topics import TOPICS_FILE, Topics
from orbitmq.errors import StoreError
from orbitmq.message.host import Host
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.message_store import STORE_WORKERS, MessageStore
from orbitmq.store.timers.timer_files import TimerFiles

__all__ = ["State"]

log = logging.getLogger("orbitmq.broker")

_DELAYS_FILE: Final = "delayOffset.json"
_LMQ_OFFSETS_FILE: Final = "lmqConsumerOffset.json"
"""Written beside the other offsets by a broker with light queues; Java's reads no other then."""
_WORKERS: Final = 2
"""Threads for blocking work outside the store: files of tables, and parsing long bodies."""


class _Table(Protocol):
    def to_json(self) -> str: ...

    def load_json(self, text: str) -> None: ...


class State:
    """The state of one broker; created on its event loop.

    ``on_topics`` registers the topics with nameservers, within a short time. ``store_host`` returns
    the address in message ids. ``leadership`` is that of an elected master.
    """

    def __init__(
        self,
        settings: LiveSettings,
        machine: Machine,
        on_topics: Callable[[], Awaitable[None]],
        store_host: Callable[[], Host],
        leadership: Leadership | None = None,
    ) -> None:
        self.settings = settings
        self.leadership = leadership
        self.machine = machine
        self.clock = clock = machine.clock
        self.workers = machine.workers("broker", _WORKERS)
        self._on_topics = on_topics
        self._loop = asyncio.get_running_loop()
        self._saving_topics: asyncio.Task[None] | None = None
        self._saves_topics = True
        self._unsaved_topics: dict[str, None] = {}  # in the order they were created
        directory = settings.broker.store_path_root_dir
        self.store = self._message_store(directory)
        self.follows: Callable[[], bool] = lambda: False
        """Whether this is a slave whose master is there."""
        self.why_unreadable: Callable[[], str] = lambda: ""
        """Why consumers are not served now; empty if they are."""
        self.acks = ReplicaAcks(lambda: settings.replication, lambda: self.store.log.end)
        """What replicas have, and which sends wait for them."""
        durability = self._durability()
        self.topics = Topics(settings, clock, self._topics_changed)
        self.groups = Groups(settings, clock, self._save_soon)
        self.offsets = ConsumerOffsets(settings, clock)
        self.request_modes = RequestModes()
        self.members = Members()
        self.filters = ConsumerFilters(settings, clock)
        self.locks = QueueLocks()
        self.held_pulls = HeldPulls(settings.broker.pull_thread_pool_queue_capacity)
        self.stats = BrokerStats(settings.broker.broker_cluster_name, clock.now_ms())
        self.inbox = Inbox(
            store=self.store,
            settings=settings,
            stats=self.stats,
            clock=clock,
            call_soon=self._loop.call_soon,
            durability=durability,
        )
        self.deduplication = Deduplication(
            inbox=self.inbox, store=self.store, settings=settings, durability=durability
        )
        self.delays = Delays(store=self.store, inbox=self.inbox, settings=settings)
        self.timers = self._timers()
        self.timer_rules = TimerRules(
            settings=settings,
            clock=clock,
            randomness=machine.randomness,
            in_slot=self.timers.in_slot,
        )
        self.open_transactions = OpenTransactions(clock)
        self.halves = self._half_messages(store_host)
        self.checks = TransactionChecks(
            halves=self.halves,
            inbox=self.inbox,
            members=self.members,
            topics=self.topics,
            settings=settings,
        )
        self.persistence = Persistence(
            ConfigFiles(machine.disk, f"{directory}/config"), self.workers
        )
        self._register_tables()
        self.store.queues.topic_has_batches = self._has_batch_queues

    def __repr__(self) -> str:
        return f"<State of {self.settings.broker.broker_name}, {self.topics!r}>"

    def _message_store(self, directory: str) -> MessageStore:
        store = MessageStore(
            directory,
            self.settings.store,
            post=self._post,
            pid=self.machine.pid,
            disk=self.machine.disk,
            clock=self.clock,
            workers=self.machine.workers("store", STORE_WORKERS),
        )
        store.is_replica = self.settings.broker.is_slave
        if self.leadership is not None:
            store.why_refused = self.leadership.why_refused
            store.confirmed_end = self.leadership.confirmed_end
        return store

    def _durability(self) -> Durability:
        return Durability(
            store=self.store,
            settings=self.settings,
            acks=self.acks,
            clock=self.clock,
            leads=None if self.leadership is None else self.leadership.holds,
        )

    def _timers(self) -> Timers:
        return Timers(
            files=TimerFiles(self.machine.disk, self.store.directory, self.settings.store),
            store=self.store,
            inbox=self.inbox,
            settings=self.settings,
            counts=TimerCounts(),
            workers=self.workers,
            call_soon=self._loop.call_soon,
            post=self._post,
        )

    def _half_messages(self, store_host: Callable[[], Host]) -> HalfMessages:
        ops = OpMessages(
            store=self.store,
            inbox=self.inbox,
            settings=self.settings,
            clock=self.clock,
            store_host=store_host,
            call_soon=self._loop.call_soon,
        )
        return HalfMessages(
            store=self.store,
            inbox=self.inbox,
            ops=ops,
            offsets=self.offsets,
            settings=self.settings,
            counts=self.open_transactions,
            timer_rules=self.timer_rules,
        )

    @property
    def is_slave(self) -> bool:
        """Whether the broker copies a master, and changes nothing of the log by itself."""
        return self.store.is_replica

    async def open(self, progress: Callable[[int, int], None]) -> None:
        """Recover the store, on a worker, and load the tables; its queues depend on the topics."""
        opening = asyncio.wrap_future(self.workers.submit(self._open_store, progress))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # the store must not be closed while it is recovered
            raise
        self.persistence.load()
        if self.is_slave:
            return  # its master delivers what is delayed, timed or transactional
        self.delays.start(self.store.now_ms())
        starting = self.workers.submit(
            self.timers.start, self.clock.now_ms(), list(self.topics.table)
        )
        await asyncio.wrap_future(starting)
        self.halves.start()

    def _open_store(self, progress: Callable[[int, int], None]) -> None:
        self.store.open(progress, partial(self.persistence.load, TOPICS_FILE))
        if self.is_slave:
            return
        self.timers.open(self.clock.now_ms())
        if self.settings.broker.send_deduplication_enable:
            self.deduplication.load()

    async def flushed(self) -> None:
        """Return when the log is flushed, or the flush failed: a stop saves the tables after it."""
        if self.is_slave:
            await self._log_flushed()
            return
        self.delays.stop()
        self.timers.stop()
        self.checks.stop()
        await self._log_flushed()  # what they have put, and the last ends of transactions
        self.halves.stop()
        self.timers.close(durable=await self._log_flushed())
        self.halves.save()

    async def _log_flushed(self) -> bool:
        """Store what is pending; return whether it is on disk."""
        self.inbox.flush()
        done: asyncio.Future[bool] = self._loop.create_future()
        self.store.when_durable(self.store.log.end, done.set_result)
        self.store.flush_soon()
        return await done

    def delete_topic(self, topic: str) -> None:
        """Delete the queues and statistics of a topic."""
        self.inbox.flush()  # pending sends would otherwise be stored after it
        self.store.delete_topic(topic)
        self.stats.forget_topic(topic)
        self.open_transactions.forget(topic)
        self.timers.counts.forget(topic)

    def is_consumed_in_order(self, group: str) -> bool:
        """Return whether a client of a group holds a queue lock."""
        return self.locks.is_locking(group, self.clock.monotonic_ms())

    def _has_batch_queues(self, name: str) -> bool | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.has_batch_queues

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    # Tables and their files

    def _register_tables(self) -> None:
        tables: Sequence[tuple[str, _Table, Callable[[], object]]] = (
            (TOPICS_FILE, self.topics, lambda: self.topics.data_version),
            (GROUPS_FILE, self.groups, lambda: self.groups.data_version),
            (OFFSETS_FILE, self.offsets, lambda: self.offsets.changes),
            (REQUEST_MODES_FILE, self.request_modes, lambda: self.request_modes.changes),
            (FILTERS_FILE, self.filters, lambda: self.filters.changes),
            (_DELAYS_FILE, self.delays, lambda: self.delays.version),
            (TRANSACTIONS_FILE, self.open_transactions, lambda: self.open_transactions.version),
            (TIMER_COUNTS_FILE, counts := self.timers.counts, lambda: counts.data_version),
        )
        for name, table, version in tables:
            self.persistence.register(
                name, to_json=table.to_json, load_json=table.load_json, version=version
            )
        if self.settings.store.lmq_enabled:
            self.persistence.register(
                _LMQ_OFFSETS_FILE,
                to_json=self.offsets.to_lmq_json,
                load_json=self.offsets.load_lmq_json,
                version=lambda: self.offsets.changes,
            )

    def _topics_changed(self, new: Collection[str]) -> None:
        # As in Java, a new topic is registered before the send that created it is acknowledged.
        self._unsaved_topics.update(dict.fromkeys(new))
        self.inbox.hold(new)
        if self._saving_topics is None and self._saves_topics:
            self._saving_topics = self._loop.create_task(self._save_topics())

    async def stop_saving_topics(self) -> None:
        """Wait no more for the registration of new topics: a stop saves them with the rest."""
        self._saves_topics = False
        if (saving := self._saving_topics) is not None:
            saving.cancel()
            await asyncio.wait([saving])

    async def _save_topics(self) -> None:
        """Register and save the topic table until it has no changes, in rounds.

        Each round acknowledges the sends to the topics that it saved, however many newer ones wait.
        """
        registered, topics = None, self.topics
        try:
            while registered != topics.data_version or self.persistence.is_changed(TOPICS_FILE):
                registered = topics.data_version
                saving, self._unsaved_topics = self._unsaved_topics, {}
                saved = False
                try:
                    await self._on_topics()
                    await self.persistence.save(TOPICS_FILE)
                    saved = True
                finally:
                    # One that was deleted and created again in between has to be saved again.
                    done = [name for name in saving if name not in self._unsaved_topics]
                    self.inbox.release(done, saved=saved)
        except StoreError as error:
            # The periodic save retries it; the store itself refuses sends if its disk is broken.
            log.error("the topic table could not be saved, a later save retries: %s", error)
        finally:
            self._saving_topics = None
            self.inbox.release(self._unsaved_topics, saved=False)
            self._unsaved_topics.clear()

    def _save_soon(self) -> None:
        self._loop.call_soon(self.persistence.save_changed)
