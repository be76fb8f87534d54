"""A primary's store and a replica's, on disks in memory, for tests of what lies between them."""

from orbitmq.replication.feed import ReplicaFeed
from orbitmq.replication.follower import LogFollower, LogRange
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


class Wire:
    """One connection: what one end says, the other one gets at once."""

    def __init__(
        self,
        primary: MessageStore,
        follower: LogFollower,
        settings: ReplicationSettings = DEFAULT,
        *,
        known: bool = True,
    ) -> None:
        self.feed = ReplicaFeed(primary.tail, lambda: settings, 0)
        self.follower = follower
        asked = follower.connected(range_of(primary) if known else None, 0)
        self.feed.receive(asked, 0)

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


def a_follower(store: MessageStore, settings: ReplicationSettings = DEFAULT) -> LogFollower:
    return LogFollower(store, lambda: settings, 0)
