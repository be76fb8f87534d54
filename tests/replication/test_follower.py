"""A replica and the feed of its primary, connected without a network."""

import pytest

from orbitmq.errors import LogsDiverged, RemoteProtocolError, StoreError
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.settings import FlushMode
from orbitmq.wire.epoch_stream import LinkState
from orbitmq.wire.replica_stream import chunk_head, report
from tests.replication.worlds import (
    Wire,
    a_follower,
    a_store,
    fill,
    filled,
    log_bytes,
    range_of,
)
from tests.store.stores import bodies


@pytest.mark.parametrize("count", [0, 1, 5, 30])
def test_a_new_replica_gets_all_of_the_log(count: int) -> None:
    primary, store = filled(count), a_store(replica=True)
    wire = Wire(primary, a_follower(store))
    wire.run(6_000)  # an empty log says so with a heartbeat
    assert log_bytes(store) == log_bytes(primary)
    fill(primary, 9, first=count)
    wire.run(6_001)
    assert log_bytes(store) == log_bytes(primary)
    assert bodies(store) == bodies(primary)
    assert wire.feed.acked == primary.log.end
    assert wire.follower.state is wire.feed.state is LinkState.TRANSFER


def test_it_begins_with_the_last_file_if_that_is_wanted_or_the_first_is_unknown() -> None:
    primary = filled()
    wanted = ReplicationSettings(from_last_file=True)
    for settings, known in ((wanted, True), (ReplicationSettings(), False)):
        store = a_store(replica=True)
        Wire(primary, a_follower(store, settings), known=known).run()
        start = primary.tail.last_file_offset()
        assert start > 0
        assert store.log.first_offset == start
        assert log_bytes(store) == log_bytes(primary)[start:]


def test_it_begins_with_the_first_file_that_is_left() -> None:
    primary = filled()
    primary.log._segments.take_first()
    store = a_store(replica=True)
    Wire(primary, a_follower(store)).run()
    assert store.log.first_offset == primary.log.first_offset == 4096
    assert log_bytes(store) == log_bytes(primary)


def test_a_log_that_grew_by_a_file_meanwhile_is_asked_for_again() -> None:
    primary, follower = filled(3), a_follower(a_store(replica=True))
    asked = follower.connected(range_of(primary), 0)
    assert asked == report(0)
    with pytest.raises(RemoteProtocolError, match="begins at 4096"):
        follower.receive(chunk_head(4096, 0), 0)
    follower.disconnected()
    assert follower.state is LinkState.READY


def test_after_a_cut_it_goes_on_where_it_was() -> None:
    primary, store = filled(), a_store(replica=True)
    follower = a_follower(store)
    for _ in range(4):
        wire = Wire(primary, follower)
        for _ in range(3):  # then the connection is cut, inside a record
            piece = wire.feed.next_piece(0)
            if piece is not None:
                follower.receive(b"".join(piece)[: 12 + len(piece[1]) * 2 // 3], 0)
        follower.disconnected()
    Wire(primary, follower).run()
    assert log_bytes(store) == log_bytes(primary)


def test_nothing_is_acknowledged_before_both_logs_are_known_to_agree() -> None:
    primary, store = filled(), a_store(replica=True)
    follower = a_follower(store)
    Wire(primary, follower).run()
    follower.disconnected()
    follower.connected(None, 0)
    assert follower.report_due(0) == b""
    assert follower.report_due(10_000) != report(store.log.end)


@pytest.mark.parametrize("extra", [0, 1, 40])
def test_a_log_with_another_past_is_noticed_and_stays(extra: int) -> None:
    store, other = a_store(replica=True), filled(30, first=100)
    follower = a_follower(store)
    Wire(filled(), follower).run()
    follower.disconnected()
    fill(other, extra)
    before, end = log_bytes(store), store.log.end
    with pytest.raises(LogsDiverged, match=f"ends at {end}") as caught:
        Wire(other, follower).run()
    assert caught.value.own in (end, other.log.end)
    assert log_bytes(store) == before


def test_a_replica_that_has_a_little_more_says_so_though_its_primary_is_idle() -> None:
    """As after a loss of power of a primary that had sent what was not on its disk."""
    store = a_store(replica=True)
    follower = a_follower(store)
    longer, shorter = filled(31), filled(30)
    Wire(longer, follower).run()
    follower.disconnected()
    wire = Wire(shorter, follower)
    wire.run()
    wire.run(6_000)  # the first heartbeat
    waiting = follower.state
    with pytest.raises(LogsDiverged, match=f"at offset {shorter.log.end}, has nothing") as caught:
        wire.run(12_000)
    assert (caught.value.own, caught.value.other) == (longer.log.end, shorter.log.end)
    assert (waiting, follower.state) == (LinkState.TRANSFER, LinkState.SUSPEND)


def test_a_heartbeat_before_the_bytes_says_nothing() -> None:
    primary, store = filled(), a_store(replica=True)
    follower = a_follower(store)
    Wire(primary, follower).run()
    follower.disconnected()
    start = int.from_bytes(follower.connected(range_of(primary), 0))
    for now_ms in (10_000, 10_001):  # after a pause, and as flow control of Java makes them
        follower.receive(chunk_head(start, 0), now_ms)
    rest = log_bytes(primary)[start:]
    follower.receive(chunk_head(start, len(rest)) + rest, 10_002)
    follower.receive(chunk_head(start + len(rest), 0), 15_000)
    follower.receive(chunk_head(start + len(rest), 0), 20_000)
    assert follower.state is LinkState.TRANSFER
    assert follower.report_due(20_000) == report(primary.log.end)


def test_a_replica_that_has_more_is_not_served() -> None:
    store, follower_of = filled(30), a_follower
    with pytest.raises(LogsDiverged, match=r"goes from 0 to \d+") as caught:
        Wire(filled(1), follower_of(store))
    assert caught.value.other > caught.value.own


def test_a_replica_that_was_away_for_too_long_is_not_served() -> None:
    primary, store = filled(1), a_store(replica=True)
    follower = a_follower(store)
    Wire(primary, follower).run()
    follower.disconnected()
    fill(primary, 60, first=1)
    primary.log._segments.take_first()
    with pytest.raises(LogsDiverged, match="these files are gone"):
        Wire(primary, follower)


def test_another_place_than_the_next_is_refused() -> None:
    primary, store = filled(5), a_store(replica=True)
    wire = Wire(primary, a_follower(store))
    wire.run()
    with pytest.raises(LogsDiverged, match="sends another place") as caught:
        wire.follower.receive(chunk_head(7, 0), 0)
    assert (caught.value.own, caught.value.other) == (store.log.end, 7)
    assert wire.follower.state is LinkState.SUSPEND
    wire.follower.disconnected()
    assert wire.follower.state is LinkState.SUSPEND


def test_with_sync_flush_it_acknowledges_what_is_on_disk() -> None:
    primary, store = filled(5), a_store(replica=True, mode=FlushMode.SYNC)
    wire = Wire(primary, a_follower(store))
    wire.run()
    assert store.log.end == primary.log.end
    assert wire.follower.acked == 0
    store.when_durable(store.log.end, lambda _durable: None)
    store.flush_soon()
    assert wire.follower.report_due(0) == report(primary.log.end)


def test_a_store_that_takes_nothing_ends_the_connection_alone() -> None:
    primary, store = filled(5), a_store(replica=True)
    wire = Wire(primary, a_follower(store))
    store.close()
    with pytest.raises(StoreError, match="not open"):
        wire.run()
    wire.follower.disconnected()
    assert wire.follower.state is LinkState.READY


def test_heartbeats_and_silence() -> None:
    wire = Wire(filled(1), a_follower(a_store(replica=True)))
    wire.run()
    assert wire.feed.heartbeat(4_999) == b""
    assert wire.feed.heartbeat(5_000) == chunk_head(wire.feed.position, 0)
    assert wire.feed.heartbeat(5_001) == b""
    assert wire.follower.report_due(4_999) == b""
    assert wire.follower.report_due(5_000) == report(wire.feed.acked)
    for end in (wire.feed, wire.follower):
        assert not end.is_silent(19_999)
        assert end.is_silent(20_000)
