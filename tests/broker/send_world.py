"""What a broker has to store messages with, on a disk in memory; and small ways to ask it."""

import asyncio
from collections.abc import Callable
from typing import Any

from orbitmq.broker.clients.members import Members
from orbitmq.broker.durability import Durability
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.figures.transaction_counts import OpenTransactions
from orbitmq.broker.handlers.client.end_transaction import TransactionHandlers
from orbitmq.broker.handlers.client.recall import RecallHandlers
from orbitmq.broker.handlers.client.send import SendHandlers
from orbitmq.broker.handlers.client.send_back import SendBackHandlers
from orbitmq.broker.sending.deduplication import Deduplication
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.half_messages import HalfMessages
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.op_messages import OpMessages
from orbitmq.broker.sending.retries import Retries
from orbitmq.broker.sending.send_checks import SendChecks
from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.sending.timers import Timers
from orbitmq.broker.sending.transaction_checks import TransactionChecks
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.broker.tables.timer_counts import TimerCounts
from orbitmq.broker.tables.topics import Topics
from orbitmq.clock import local_month
from orbitmq.message import properties
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import StoredMessage
from orbitmq.randomness import SeededRandomness
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.store.disk.disk import Disk
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.store.timers.timer_files import TimerFiles
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.threads import Workers
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageV2
from tests.broker.world import HandClock, ask

HERE = Host.parse("127.0.0.1:10911")
SMALL = StoreSettings(
    segment_bytes=256 * 1024, queue_file_entries=100, index_slots=100, index_entries=500
)


class SendWorld:
    """A store and all parts between it and a send, with a clock that the test moves."""

    takes_plain_sends = True
    """False: all sends take the careful way."""

    def __init__(
        self,
        store: StoreSettings = SMALL,
        *,
        disk: Disk | None = None,
        directory: str = "/store",
        clock: HandClock | None = None,
        workers: Workers | None = None,
        slots: int = 1024,
        **settings: Any,
    ) -> None:
        self.clock = clock or HandClock()
        self.disk = disk or SimulatedDisk()
        self.settings = LiveSettings(BrokerSettings(**settings), store)
        self.topics = Topics(self.settings, self.clock)
        self.groups = Groups(self.settings, self.clock)
        self.stats = BrokerStats("DefaultCluster", self.clock.now_ms())
        self.store = MessageStore(
            directory,
            store,
            disk=self.disk,
            clock=self.clock,
            workers=workers or InlineWorkers(),
        )
        self.store.open()
        self.acks = ReplicaAcks(lambda: self.settings.replication, lambda: self.store.log.end)
        durability = Durability(
            store=self.store, settings=self.settings, acks=self.acks, clock=self.clock
        )
        self.inbox = Inbox(
            store=self.store,
            settings=self.settings,
            stats=self.stats,
            clock=self.clock,
            call_soon=self._call_soon,
            durability=durability,
        )
        self.deduplication = Deduplication(
            inbox=self.inbox, store=self.store, settings=self.settings, durability=durability
        )
        self.delays = Delays(store=self.store, inbox=self.inbox, settings=self.settings)
        chance = SeededRandomness(7)
        self._add_timers(TimerFiles(self.disk, directory, store, slots=slots), workers, chance)
        self._add_transactions()
        self._add_handlers(chance)
        self._soon: list[Callable[[], None]] = []

    def _add_timers(
        self, files: TimerFiles, workers: Workers | None, chance: SeededRandomness
    ) -> None:
        self.timers = Timers(
            files=files,
            store=self.store,
            inbox=self.inbox,
            settings=self.settings,
            counts=TimerCounts(),
            workers=workers or InlineWorkers(),
            call_soon=self._call_soon,
            post=lambda call: call(),
        )
        self.timers.open(self.clock.now_ms())
        self.timer_rules = TimerRules(
            settings=self.settings,
            clock=self.clock,
            randomness=chance,
            in_slot=self.timers.in_slot,
        )

    def _add_transactions(self) -> None:
        self.offsets = ConsumerOffsets(self.settings, self.clock)
        self.open_transactions = OpenTransactions(self.clock)
        self.ops = OpMessages(
            store=self.store,
            inbox=self.inbox,
            settings=self.settings,
            clock=self.clock,
            store_host=lambda: HERE,
            call_soon=self._call_soon,
        )
        self.halves = HalfMessages(
            store=self.store,
            inbox=self.inbox,
            ops=self.ops,
            offsets=self.offsets,
            settings=self.settings,
            counts=self.open_transactions,
            timer_rules=self.timer_rules,
        )
        self.members = Members()
        self.transaction_checks = TransactionChecks(
            halves=self.halves,
            inbox=self.inbox,
            members=self.members,
            topics=self.topics,
            settings=self.settings,
        )

    def _add_handlers(self, chance: SeededRandomness) -> None:
        self.ordered_groups: set[str] = set()
        self.retries = Retries(
            topics=self.topics,
            groups=self.groups,
            holds_locks=self.ordered_groups.__contains__,
            randomness=chance,
        )
        self.checks = SendChecks(
            settings=self.settings,
            topics=self.topics,
            clock=self.clock,
            randomness=chance,
            own_host=lambda: "10.0.0.7",
            timer_rules=self.timer_rules,
        )
        self.handlers = SendHandlers(
            deduplication=self.deduplication,
            checks=self.checks,
            retries=self.retries,
            halves=self.halves,
            settings=self.settings,
            unique_ids=UniqueIds(HERE.ip, 1, 2, self.clock, local_month),
            store_host=lambda: HERE,
            store=self.store,
        )
        self.back_handlers = SendBackHandlers(
            store=self.store,
            inbox=self.inbox,
            retries=self.retries,
            stats=self.stats,
            settings=self.settings,
            store_host=lambda: HERE,
            own_host=lambda: "10.0.0.7",
        )
        self.transaction_handlers = TransactionHandlers(
            store=self.store,
            inbox=self.inbox,
            halves=self.halves,
            checks=self.transaction_checks,
            settings=self.settings,
            clock=self.clock,
        )
        self.recall_handlers = RecallHandlers(
            inbox=self.inbox,
            topics=self.topics,
            timer_rules=self.timer_rules,
            settings=self.settings,
            clock=self.clock,
            store_host=lambda: HERE,
        )

    def _call_soon(self, call: Callable[[], None]) -> None:
        try:
            asyncio.get_running_loop().call_soon(call)
        except RuntimeError:  # no loop: the test takes the turns
            self._soon.append(call)

    def take_turn(self) -> bool:
        """Do one turn of the loop; return whether there was anything to do."""
        calls, self._soon = self._soon, []
        for call in calls:
            call()
        return bool(calls)

    def take_turns(self) -> None:
        """Do turns until nothing is left to do."""
        while self.take_turn():
            pass

    def put(self, *messages: Incoming) -> list[PutOutcome]:
        """Put messages, and return their results after all turns."""
        results: list[PutOutcome] = []
        for message in messages:
            self.inbox.put(message, results.append)
        self.take_turns()
        return results

    def send(self, header: SendMessageV2, body: bytes = b"x", *, code: int | None = None) -> Frame:
        """Send over a network in memory; return the answer."""
        take = self.handlers.plain.of if self.takes_plain_sends else None
        return ask(self.handlers.table(), header, body, code=code, take_leading=take)

    def create(self, name: str, queues: int = 4, **more: Any) -> None:
        """Create a topic."""
        self.topics.update(
            [TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **more)]
        )

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """Return the messages that consumers of a queue can see."""
        queue = self.store.queues.queue(topic, queue_id)
        found = [] if queue is None else [entry for _, entry in queue.iterate(0)]
        records = [self.store.record(entry.commit_log_offset) for entry in found]
        return [record.message() for record in records if record is not None]


def header(topic: str = "orders", /, **fields: Any) -> SendMessageV2:
    """Return the header of a send; properties are given as a mapping."""
    given = fields.pop("properties", {properties.UNIQUE_KEY: "U1"})
    values: dict[str, Any] = {
        "producer_group": "producers",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
        "properties": properties.encode(given).decode(),
    }
    return SendMessageV2(topic=topic, **{**values, **fields})
