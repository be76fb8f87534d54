"""What a primary sends to one replica; the follower's tests have both ends."""

import pytest

from orbitmq.errors import RemoteProtocolError
from orbitmq.replication.feed import ReplicaFeed
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.wire.epoch_stream import LinkState
from orbitmq.wire.replica_stream import ChunkReader, report
from tests.replication.worlds import filled, log_bytes


def test_nothing_is_sent_before_the_first_report() -> None:
    feed = ReplicaFeed(filled().tail, ReplicationSettings, 0)
    assert feed.state is LinkState.HANDSHAKE
    assert feed.next_piece(0) is None
    assert feed.heartbeat(100_000) == b""
    feed.receive(report(0)[:5], 0)
    assert feed.state is LinkState.HANDSHAKE


def test_pieces_are_bounded_and_lie_in_one_file() -> None:
    store = filled()
    feed = ReplicaFeed(store.tail, lambda: ReplicationSettings(piece_bytes=1000), 0)
    feed.receive(report(4096), 0)
    sent = b"".join(
        bytes(part) for piece in iter(lambda: feed.next_piece(0), None) for part in piece
    )
    data, position = b"", 4096
    for chunk in ChunkReader().feed(sent):
        assert chunk.offset == position
        data += chunk.data  # type: ignore[union-attr]
        position += len(chunk.data)  # type: ignore[union-attr]
    assert data == log_bytes(store)[4096:]


def test_a_full_network_suspends_it_and_reports_still_count() -> None:
    feed = ReplicaFeed(filled().tail, ReplicationSettings, 0)
    feed.receive(report(4096), 0)
    feed.suspend()
    assert feed.next_piece(0) is None
    feed.receive(report(5000), 0)
    assert (feed.state, feed.acked) == (LinkState.SUSPEND, 5000)
    feed.resume()
    assert feed.next_piece(0) is not None
    feed.shut_down()
    feed.resume()
    assert feed.state is LinkState.SHUTDOWN


def test_what_is_no_report_is_an_error() -> None:
    feed = ReplicaFeed(filled().tail, ReplicationSettings, 0)
    with pytest.raises(RemoteProtocolError):
        feed.receive(b"\xff" * 8, 0)
