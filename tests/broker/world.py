"""The tables of a broker, on a disk in memory and by a clock moved by hand; and how to ask them."""

from collections.abc import Callable, Mapping
from functools import cached_property

from orbitmq.broker.persistence import Persistence
from orbitmq.broker.pulling.consumer_filters import ConsumerFilters
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.tables.groups import GROUPS_FILE, Groups
from orbitmq.broker.tables.offsets import OFFSETS_FILE, ConsumerOffsets
from orbitmq.broker.tables.topics import TOPICS_FILE, Topics
from orbitmq.clock import Clock
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.dialer import Dialer
from orbitmq.net.handlers import Handlers
from orbitmq.net.listener import Listener
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, TakeLeading
from tests.store.logs import NOW, incoming

SMALL_STORE = StoreSettings(
    segment_bytes=64 * 1024, queue_file_entries=100, index_slots=20, index_entries=50
)

MEMORY_BYTES = 10_000
"""What the machine has; four tenths of it count as filled with the youngest records."""


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


class World:
    """The tables, wired as a broker does it."""

    def __init__(self, **settings: object) -> None:
        self.clock = HandClock()
        self.disk = SimulatedDisk()
        self.settings = LiveSettings(
            BrokerSettings(**settings),  # type: ignore[arg-type]
            SMALL_STORE,
            now_ms=NOW,
        )
        self.changes: list[list[str]] = []
        """The topics that were new with each change of the table."""
        self.topics = Topics(
            self.settings, self.clock, lambda new: self.changes.append(sorted(new))
        )
        self.groups = Groups(self.settings, self.clock)
        self.offsets = ConsumerOffsets(self.settings, self.clock)
        self.filters = ConsumerFilters(self.settings, self.clock)
        self.workers = InlineWorkers()
        self.files = ConfigFiles(self.disk, "/store/config")
        self.persistence = Persistence(self.files, self.workers)
        for name, table, version in (
            (TOPICS_FILE, self.topics, lambda: self.topics.data_version),
            (GROUPS_FILE, self.groups, lambda: self.groups.data_version),
            (OFFSETS_FILE, self.offsets, lambda: self.offsets.changes),
        ):
            self.persistence.register(
                name, to_json=table.to_json, load_json=table.load_json, version=version
            )

    @cached_property
    def store(self) -> MessageStore:
        """The store, open."""
        store = MessageStore(
            "/store",
            SMALL_STORE,
            disk=self.disk,
            clock=self.clock,
            workers=InlineWorkers(),
            memory_limit=MEMORY_BYTES,
        )
        store.open()
        return store

    def put(self, topic: str, queue_id: int = 0, count: int = 1) -> None:
        """Store messages, all at the moment that the clock shows."""
        self.store.append([incoming(topic=topic, queue_id=queue_id) for _ in range(count)])

    def file(self, name: str) -> str | None:
        """Return the text of a file in the config directory."""
        return self.files.read(name, str)


def ask(
    table: Mapping[int, Handler],
    header: Header,
    body: bytes = b"",
    *,
    code: int | None = None,
    take_leading: Callable[[Connection], TakeLeading] | None = None,
) -> Frame:
    """Ask handlers one thing over a network in memory, in virtual time; return their answer."""

    async def conversation(_clock: Clock) -> Frame:
        network = MemoryNetwork()
        address = Address("broker-a", 10911)
        async with Listener(address, Handlers(table), network=network, take_leading=take_leading):
            async with Dialer(network=network) as dialer:
                return await dialer.request(address, header, body, code=code)

    return run_virtual(conversation)
