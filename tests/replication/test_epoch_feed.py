"""What an elected primary sends to one replica; the follower's tests have both ends."""

import pytest

from orbitmq.errors import LogsDiverged, RemoteProtocolError
from orbitmq.replication.epoch_feed import EpochFeed
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.wire.epoch_stream import (
    EpochChunk,
    EpochEntry,
    EpochReplica,
    Hello,
    History,
    LinkState,
)
from tests.replication.worlds import Node, fill, log_bytes


def grown(*epochs: int) -> Node:
    """Return a primary whose log has ten messages of each epoch."""
    node = Node(1)
    for number, epoch in enumerate(epochs):
        node.lead(epoch, 10, first=number * 10)
    return node


def pieces(feed: EpochFeed) -> bytes:
    return b"".join(bytes(part) for one in iter(lambda: feed.next_piece(0), None) for part in one)


def chunks(wire: EpochReplica, data: bytes) -> list[EpochChunk]:
    return [one for one in wire.feed(data) if isinstance(one, EpochChunk)]


REPLICA = Hello(2)


def greeted(feed: EpochFeed, hello: Hello = REPLICA) -> tuple[EpochReplica, History]:
    wire = EpochReplica()
    [history] = wire.feed(feed.receive(wire.hello(hello), 0))
    assert isinstance(history, History)
    return wire, history


def test_a_hello_is_answered_with_the_epochs_of_the_log() -> None:
    node = grown(3, 5)
    feed = node.feed()
    assert (feed.broker_id, feed.hello) == (-1, None)
    _, history = greeted(feed, Hello(2, learner=True))
    assert history == History(node.store.log.end, 5, node.epochs.history.entries)
    assert (feed.broker_id, feed.state, feed.acked) == (2, LinkState.HANDSHAKE, -1)
    assert feed.next_piece(0) is None


def test_no_chunk_has_bytes_of_two_epochs() -> None:
    node = grown(3, 5, 8)
    feed = node.feed(ReplicationSettings(piece_bytes=1000))
    wire, _ = greeted(feed)
    feed.receive(wire.report(0), 0)
    data, epochs = b"", []
    for chunk in chunks(wire, pieces(feed)):
        assert chunk.offset == len(data)
        data += chunk.data
        entry = EpochEntry(chunk.epoch, chunk.epoch_start_offset)
        epochs.append(chunk.epoch)
        assert node.epochs.history.at(chunk.offset) == entry
        assert node.epochs.history.at(len(data) - 1) == entry
    assert data == log_bytes(node.store)
    assert sorted(set(epochs)) == [3, 5, 8]
    assert epochs == sorted(epochs)


def test_a_new_replica_may_begin_with_the_last_file() -> None:
    node = grown(3, 5, 8)
    feed = node.feed()
    wire, _ = greeted(feed, Hello(2, from_last_file=True))
    feed.receive(wire.report(0), 0)
    assert feed.position == node.store.tail.last_file_offset() > 0


def test_what_is_confirmed_is_said_soon() -> None:
    node = grown(3)
    feed = node.feed()
    wire, _ = greeted(feed)
    feed.receive(wire.report(0), 0)
    end = node.in_sync.confirmed
    assert end == node.store.log.end
    node.in_sync.agreed({1, 2})
    assert {one.confirm_offset for one in chunks(wire, pieces(feed))} == {end}
    fill(node.store, 1, first=20)
    [chunk] = chunks(wire, pieces(feed))
    assert chunk.confirm_offset == end
    assert feed.heartbeat(1) == b""
    node.in_sync.reported(2, node.store.log.end, 1)
    [beat] = chunks(wire, feed.heartbeat(1))
    assert beat == EpochChunk(
        node.store.log.end, memoryview(b""), 3, 0, confirm_offset=node.store.log.end
    )
    assert feed.heartbeat(2) == b""


def test_an_empty_log_is_said_to_be_so() -> None:
    node = Node(1)
    node.lead(4)
    feed = node.feed()
    wire, history = greeted(feed)
    assert history == History(0, 4, (EpochEntry(4, 0),))
    feed.receive(wire.report(0), 0)
    [beat] = chunks(wire, feed.heartbeat(5_000))
    assert beat == EpochChunk(0, memoryview(b""), 4, 0, 0)


def test_what_came_before_the_first_election_is_epoch_0() -> None:
    node = Node(1)
    fill(node.store, 5)
    node.lead(7, 5, first=5)
    assert node.epochs.history.entries[0] == EpochEntry(0, 0)
    feed = node.feed()
    wire, _ = greeted(feed)
    feed.receive(wire.report(0), 0)
    assert {one.epoch for one in chunks(wire, pieces(feed))} == {0, 7}


@pytest.mark.parametrize("asked", [1 << 40, 5])
def test_it_serves_nothing_that_it_has_not(asked: int) -> None:
    node = grown(3)
    if asked == 5:
        node.epochs.cut(0)
        node.epochs.begin(6, node.store.log.end)  # as a Java broker leaves it
    feed = node.feed()
    wire, _ = greeted(feed)
    with pytest.raises(LogsDiverged, match=f"from {asked} on"):
        feed.receive(wire.report(asked), 0)


def test_a_replica_has_an_id_of_its_own() -> None:
    with pytest.raises(RemoteProtocolError, match="broker id 1 of this broker"):
        greeted(grown(3).feed(), Hello(1))
