"""A primary's store and a replica's, on disks in memory, for tests of what lies between them."""

from orbitmq.replication.epoch_feed import EpochFeed
from orbitmq.replication.epoch_follower import EpochFollower
from orbitmq.replication.epochs import EpochFile
from orbitmq.replication.feed import Feed, ReplicaFeed
from orbitmq.replication.follower import Follower, LogFollower, LogRange
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import SimulatedDisk
from tests.store.stores import opened, put

DEFAULT = ReplicationSettings()


def a_store(*, replica: bool = False, mode: FlushMode = FlushMode.ASYNC) -> MessageStore:
    store = opened(SimulatedDisk(), mode=mode)
    store.is_replica = replica
    return store


def filled(count: int = 30, *, first: int = 0) -> MessageStore:
    """Return a store with messages; 30 take three files."""
    store = a_store()
    fill(store, count, first=first)
    return store


def fill(store: MessageStore, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        put(store, b"%d" % number, queue_id=number % 3)


def log_bytes(store: MessageStore) -> bytes:
    tail, position, found = store.tail, store.tail.first_offset, b""
    while piece := tail.piece(position, 1 << 20):
        found += piece
        position += len(piece)
    return found


def range_of(store: MessageStore) -> LogRange:
    return LogRange(store.log.first_offset, store.log.end)


class Joined:
    """One connection: what one end says, the other one gets at once."""

    def __init__(self, feed: Feed, follower: Follower, known: LogRange | None = None) -> None:
        self.feed = feed
        self.follower = follower
        self._to_replica(feed.receive(follower.connected(known, 0), 0), 0)

    def run(self, now_ms: int = 0) -> None:
        """Carry everything that is due."""
        while piece := self.feed.next_piece(now_ms):
            self._to_replica(b"".join(piece), now_ms)
        if beat := self.feed.heartbeat(now_ms):
            self._to_replica(beat, now_ms)

    def _to_replica(self, data: bytes, now_ms: int) -> None:
        for at in range(0, len(data), 500):
            self.follower.receive(data[at : at + 500], now_ms)
            if said := self.follower.report_due(now_ms):
                self.feed.receive(said, now_ms)


class Wire(Joined):
    """A connection with the classic stream."""

    def __init__(
        self,
        primary: MessageStore,
        follower: LogFollower,
        settings: ReplicationSettings = DEFAULT,
        *,
        known: bool = True,
    ) -> None:
        feed = ReplicaFeed(primary.tail, lambda: settings, 0)
        super().__init__(feed, follower, range_of(primary) if known else None)


def a_follower(store: MessageStore, settings: ReplicationSettings = DEFAULT) -> LogFollower:
    return LogFollower(store, lambda: settings, 0)


class Node:
    """A broker of an elected group: its store with epochs, on a disk in memory."""

    def __init__(
        self,
        broker_id: int,
        mode: FlushMode = FlushMode.ASYNC,
        disk: SimulatedDisk | None = None,
        segment_bytes: int = 4096,
    ) -> None:
        self.id = broker_id
        self.mode = mode
        self.disk = disk or SimulatedDisk()
        self.segment_bytes = segment_bytes
        self.open()

    def open(self) -> None:
        self.store = opened(self.disk, mode=self.mode, segment_bytes=self.segment_bytes)
        self.epochs = EpochFile(self.disk, "/store")
        self.epochs.cut(self.store.log.end)

    def lead(self, epoch: int, count: int = 0, *, first: int = 0) -> None:
        """Be elected, and take messages."""
        self.store.is_replica = False
        log = self.store.log
        self.epochs.begin(epoch, log.end, log_start=log.first_offset)
        self.in_sync = InSyncSet(
            self.id,
            members={self.id},
            epoch_start=log.end,
            settings=ReplicationSettings,
            log_end=lambda: self.store.log.end,
            now_ms=0,
        )
        fill(self.store, count, first=first)

    def follower(self, settings: ReplicationSettings = DEFAULT) -> EpochFollower:
        self.store.is_replica = True
        return EpochFollower(self.store, self.epochs, lambda: settings, self.id, 0)

    def feed(self, settings: ReplicationSettings = DEFAULT) -> EpochFeed:
        return EpochFeed(self.store.tail, self.epochs, self.in_sync, lambda: settings, 0)

    def follow(self, primary: "Node", settings: ReplicationSettings = DEFAULT) -> Joined:
        """Copy all that a primary has."""
        joined = Joined(primary.feed(settings), self.follower(settings))
        joined.run()
        return joined


def same(one: Node, other: Node) -> bool:
    """Return whether two brokers have the same log, the same queues and the same epochs."""
    return (
        log_bytes(one.store) == log_bytes(other.store)
        and one.store.queues.ends() == other.store.queues.ends()
        and one.epochs.history == other.epochs.history
    )
