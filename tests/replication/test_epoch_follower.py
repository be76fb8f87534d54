"""A replica and the feed of an elected primary, connected without a network."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import LogsDiverged, RemoteProtocolError
from orbitmq.randomness import SeededRandomness
from orbitmq.replication.epoch_follower import EpochFollower
from orbitmq.replication.epochs import EpochHistory
from orbitmq.replication.follower import PrepareFirst
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from orbitmq.wire.epoch_stream import EpochEntry, EpochPrimary, History, LinkState
from orbitmq.wire.replica_stream import Report
from tests.replication.worlds import Joined, Node, fill, log_bytes, same
from tests.store.recovery.test_truncation import alike
from tests.store.stores import bodies, flush


def grown(*epochs: int, broker_id: int = 1, mode: FlushMode = FlushMode.ASYNC) -> Node:
    """Return a primary whose log has ten messages of each epoch."""
    node = Node(broker_id, mode)
    for number, epoch in enumerate(epochs):
        node.lead(epoch, 10, first=number * 10)
    return node


@pytest.mark.parametrize("epochs", [(3,), (3, 5, 8)])
def test_a_new_replica_gets_the_log_and_its_epochs(epochs: tuple[int, ...]) -> None:
    primary, replica = grown(*epochs), Node(2)
    joined = replica.follow(primary)
    assert same(primary, replica)
    fill(primary.store, 9, first=100)
    joined.run()
    assert same(primary, replica)
    assert bodies(primary.store) == bodies(replica.store)
    assert joined.feed.acked == primary.store.log.end
    assert joined.follower.state is joined.feed.state is LinkState.TRANSFER


def test_it_knows_the_epoch_that_a_primary_has_named_last() -> None:
    replica = Node(2)
    follower = replica.follow(grown(3, 5)).follower
    assert isinstance(follower, EpochFollower)
    assert follower.met_epoch == 5
    follower.disconnected()
    follower.connected(None, 0)  # by a process that ends
    assert follower.met_epoch == 5


def test_an_empty_primary_is_followed_and_so_is_its_first_message() -> None:
    primary, replica = Node(1), Node(2)
    primary.lead(4)
    joined = replica.follow(primary)
    joined.run(6_000)
    assert replica.epochs.history == EpochHistory()
    fill(primary.store, 1)
    joined.run(6_001)
    assert same(primary, replica)


def test_it_begins_with_the_last_file_if_that_is_wanted() -> None:
    primary, replica = grown(3, 5, 8), Node(2)
    replica.follow(primary, ReplicationSettings(from_last_file=True))
    start = primary.store.tail.last_file_offset()
    assert replica.store.log.first_offset == start > 0
    assert log_bytes(replica.store) == log_bytes(primary.store)[start:]
    assert replica.epochs.history == primary.epochs.history.trimmed(start)


def test_it_begins_with_the_first_file_that_is_left() -> None:
    primary, replica = grown(3, 5, 8), Node(2)
    primary.store.log._segments.take_first()
    replica.follow(primary)
    assert replica.store.log.first_offset == primary.store.log.first_offset == 4096
    assert log_bytes(replica.store) == log_bytes(primary.store)


@pytest.mark.parametrize("mode", FlushMode)
def test_after_a_cut_it_goes_on_where_it_was_also_after_a_restart(mode: FlushMode) -> None:
    primary, replica = grown(3, 5, 8), Node(2, mode)
    for number in range(6):
        follower = replica.follower()
        joined = Joined(primary.feed(ReplicationSettings(piece_bytes=700)), follower)
        for part in (1, 1, 2 / 3):  # then the connection is cut, inside a chunk
            piece = joined.feed.next_piece(0)
            if piece is not None:
                follower.receive(b"".join(piece)[: 36 + int(len(piece[1]) * part)], 0)
        follower.disconnected()
        if number % 2:
            replica.store.close()
            replica.open()
    replica.follow(primary)
    flush(replica.store)
    assert same(primary, replica)


def test_an_epoch_is_in_the_file_before_its_first_byte() -> None:
    primary, replica = grown(3, 5, 8), Node(2)
    ends: list[tuple[int, int]] = []
    append = replica.store.append_copy

    def watched(data: memoryview) -> None:
        ends.append((replica.epochs.history.last_epoch, replica.store.copy.next_offset))
        append(data)

    replica.store.append_copy = watched  # type: ignore[method-assign,assignment]
    replica.follow(primary, ReplicationSettings(piece_bytes=300))
    assert len(ends) > 15
    for epoch, offset in ends:
        entry = primary.epochs.history.at(offset)
        assert entry is not None
        assert entry.epoch == epoch


def test_what_is_confirmed_is_kept_and_never_beyond_the_log() -> None:
    primary, replica = grown(3), Node(2)
    follower = replica.follower()
    joined = Joined(primary.feed(ReplicationSettings(piece_bytes=500)), follower)
    piece = joined.feed.next_piece(0)
    assert piece is not None
    follower.receive(b"".join(piece), 0)
    assert 0 < replica.store.confirmed == replica.store.log.end < primary.store.log.end
    replica.follow(primary)
    assert replica.store.confirmed == primary.store.log.end
    replica.store.close()
    replica.open()
    assert replica.store.confirmed == primary.store.log.end


def test_a_replaced_primary_follows_the_next() -> None:
    one, two = Node(1), Node(2)
    for epoch in range(1, 6):
        primary, replica = (one, two) if epoch % 2 else (two, one)
        primary.lead(epoch, 7, first=epoch * 7)
        replica.follow(primary)
        assert same(one, two)
    assert [entry.epoch for entry in one.epochs.history.entries] == [1, 2, 3, 4, 5]


def test_a_primary_of_an_epoch_that_is_over_is_refused() -> None:
    primary, replica = grown(3), Node(2)
    follower = replica.follower()
    follower.least_epoch = 4
    with pytest.raises(RemoteProtocolError, match="of epoch 3, and the group is in epoch 4"):
        Joined(primary.feed(), follower)
    follower.disconnected()
    assert (follower.state, follower.report_due(99_000)) == (LinkState.READY, b"")


def test_a_log_that_nobody_else_had_a_byte_of_is_cut() -> None:
    """Its primary ended before a slave that was in sync, and leads now, had the first message."""
    primary, replica = grown(5), grown(3, 4, broker_id=2)
    replica.follow(primary)
    assert same(primary, replica)
    assert bodies(primary.store) == bodies(replica.store)


def test_a_log_that_was_confirmed_is_not_cut_if_no_epoch_is_common() -> None:
    primary, replica = grown(5), grown(3, broker_id=2)
    replica.store.confirmed = 1
    before = log_bytes(replica.store)
    with pytest.raises(LogsDiverged, match=r"5@0.* of which none is here: .*3@0"):
        replica.follow(primary)
    assert log_bytes(replica.store) == before


def test_without_a_common_epoch_both_are_named_and_nothing_is_cut() -> None:
    primary, replica = grown(3), grown(4, broker_id=2)
    before = log_bytes(replica.store)
    with pytest.raises(LogsDiverged, match=r"3@0.* of which none is here: .*4@0") as caught:
        replica.follow(primary)
    assert (caught.value.own, caught.value.other) == (len(before), primary.store.log.end)
    assert log_bytes(replica.store) == before


def test_the_same_epochs_with_other_bytes_are_noticed() -> None:
    primary, replica = Node(1), Node(2)
    primary.lead(3, 10)
    replica.lead(3, 10, first=500)
    before = log_bytes(replica.store)
    with pytest.raises(LogsDiverged, match="has other bytes there"):
        replica.follow(primary)
    assert log_bytes(replica.store) == before


def test_a_log_without_epochs_takes_those_of_the_primary_if_its_bytes_agree() -> None:
    primary, replica = Node(1), Node(2)
    for node in (primary, replica):
        fill(node.store, 10)
    primary.lead(3)
    replica.follow(primary)
    assert replica.epochs.history == EpochHistory([EpochEntry(0, 0)])
    fill(primary.store, 10, first=10)
    replica.follow(primary)
    assert same(primary, replica)
    assert [entry.epoch for entry in replica.epochs.history.entries] == [0, 3]


@pytest.mark.parametrize(("first", "count"), [(500, 10), (0, 12)])
def test_a_log_without_epochs_that_differs_stays(first: int, count: int) -> None:
    primary, replica = Node(1), Node(2)
    fill(primary.store, 10)
    fill(replica.store, count, first=first)
    primary.lead(3)
    before = log_bytes(replica.store)
    with pytest.raises(LogsDiverged):
        replica.follow(primary)
    assert log_bytes(replica.store) == before


def test_with_sync_flush_it_acknowledges_what_is_on_disk() -> None:
    primary, replica = grown(3), Node(2, FlushMode.SYNC)
    joined = replica.follow(primary)
    assert joined.feed.acked == 0
    flush(replica.store)
    joined.run(5_000)
    assert joined.feed.acked == replica.store.log.end == primary.store.log.end


class Spoken:
    """A primary that says what a test tells it to."""

    def __init__(self, follower_of: Node, *entries: tuple[int, int], end: int) -> None:
        self.follower = follower_of.follower()
        self.wire = EpochPrimary()
        self.wire.feed(self.follower.connected(None, 0))
        epochs = tuple(EpochEntry(*one) for one in entries)
        epoch = epochs[-1].epoch if epochs else -1
        self.follower.receive(self.wire.history(History(end, epoch, epochs)), 0)
        said = self.wire.feed(self.follower.report_due(0))
        assert len(said) == 1
        assert isinstance(said[0], Report)
        self.asked = said[0].offset

    def say(self, offset: int, data: bytes, epoch: tuple[int, int]) -> None:
        head = self.wire.chunk_head(offset, len(data), epoch=EpochEntry(*epoch), confirm_offset=-1)
        self.follower.receive(head + data, 0)


def test_java_names_an_epoch_with_the_last_bytes_before_it() -> None:
    data = log_bytes(grown(3, 5).store)
    start = grown(3).store.log.end
    replica = Node(2)
    java = Spoken(replica, (3, 0), (5, start), end=len(data))
    java.say(0, data[:100], (3, 0))
    java.say(100, data[100:start], (5, start))
    assert replica.epochs.history == EpochHistory([EpochEntry(3, 0)])
    java.say(start, b"", (5, start))
    java.say(start, data[start:], (5, start))
    assert replica.epochs.history == EpochHistory([EpochEntry(3, 0), EpochEntry(5, start)])


def test_an_epoch_may_begin_while_it_is_connected() -> None:
    data = log_bytes(grown(3, 5).store)
    start = grown(3).store.log.end
    replica = Node(2)
    primary = Spoken(replica, (3, 0), end=start)
    primary.say(0, data[:start], (3, 0))
    primary.say(start, data[start:], (5, start))
    assert replica.epochs.history == EpochHistory([EpochEntry(3, 0), EpochEntry(5, start)])
    with pytest.raises(RemoteProtocolError, match="epoch 6 began at 7"):
        primary.say(len(data), b"", (6, 7))


def test_a_java_primary_without_a_message_has_no_offset() -> None:
    replica = Node(2)
    java = Spoken(replica, end=0)
    assert java.asked == 0
    java.say(-1, b"", (-1, -1))
    assert replica.store.log.end == 0
    java.say(0, log_bytes(grown(3).store), (3, 0))
    assert replica.epochs.history == EpochHistory([EpochEntry(3, 0)])


def test_epochs_that_do_not_increase_break_the_link() -> None:
    with pytest.raises(RemoteProtocolError, match="both have to increase"):
        Spoken(Node(2), (3, 0), (2, 500), end=900)


def test_another_place_than_the_next_is_refused() -> None:
    replica = Node(2)
    replica.follow(grown(3))
    spoken = Spoken(replica, (3, 0), end=replica.store.log.end)
    with pytest.raises(LogsDiverged, match="sends another place"):
        spoken.say(spoken.asked + 7, b"", (3, 0))


# Logs that differ


class Branch(NamedTuple):
    """A log in the making: how many messages each epoch has."""

    shared: list[int]
    own: list[int]
    theirs: list[int]


def parted(
    branch: Branch, mode: FlushMode = FlushMode.ASYNC, disk: SimulatedDisk | None = None
) -> tuple[Node, Node, Node]:
    """Return a primary, a broker with a tail that the primary has not, and one that never had it.

    Both tails were written in epochs of their own, after some epochs that both have.
    """
    primary, replica, pure = Node(1, mode), Node(2, mode, disk), Node(3, mode)
    epoch = number = 0
    for count in branch.shared:
        epoch += 1
        for node in (primary, replica):
            node.lead(epoch, count, first=number)
        number += count
    # The last epoch that both have goes on at the replaced primary alone.
    fill(replica.store, branch.own[0], first=1000)
    for count in branch.own[1:]:
        epoch += 1
        replica.lead(epoch, count, first=1000 + epoch * 100)
    for count in branch.theirs:
        epoch += 1
        primary.lead(epoch, count, first=5000 + epoch * 100)
    pure.follow(primary)
    return primary, replica, pure


counts = st.lists(st.integers(0, 12), min_size=1, max_size=3)
branches = st.builds(Branch, st.lists(st.integers(1, 12), min_size=1, max_size=3), counts, counts)


@pytest.mark.parametrize("mode", FlushMode)
@settings(max_examples=30)
@given(branch=branches, later=st.integers(0, 4))
def test_after_following_it_is_as_if_the_log_had_never_been_another(
    mode: FlushMode, branch: Branch, later: int
) -> None:
    primary, replica, pure = parted(branch, mode)
    before, end = log_bytes(replica.store), replica.store.log.end
    joined = replica.follow(primary)
    fill(primary.store, later, first=9000)
    joined.run()
    pure.follow(primary)
    flush(primary.store)
    alike(replica.store, pure.store)
    assert replica.epochs.history == pure.epochs.history
    for number in range(3):
        assert bodies(replica.store, queue_id=number) == bodies(primary.store, queue_id=number)
    saved = saved_pieces(replica.disk)
    cut_at = end - len(saved)
    assert before[cut_at:] == saved
    assert log_bytes(primary.store)[:cut_at] == before[:cut_at]
    for one in (replica, pure):
        one.store.close()
        one.open()
    alike(replica.store, pure.store)


def saved_pieces(disk: SimulatedDisk) -> bytes:
    """Return what was saved in order of the offsets, which the names say."""
    found = {}
    for name in disk.list("/store/cutlog"):
        _, _, _, begin, _, end = name.split("-")
        found[int(begin)] = disk.open(f"/store/cutlog/{name}").read(1 << 24, 0)
        assert len(found[int(begin)]) == int(end) - int(begin)
    return b"".join(found[begin] for begin in sorted(found))


def test_what_is_cut_is_named_by_epoch_and_offsets_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    primary, replica, _ = parted(Branch([5], [4, 3], [6]))
    common = grown_end(5)
    end = replica.store.log.end
    middle = replica.epochs.history.entries[-1].start_offset
    replica.store.confirmed = common + 1
    replica.follow(primary)
    assert replica.disk.list("/store/cutlog") == [
        f"epoch-1-from-{common:020d}-to-{middle:020d}",
        f"epoch-2-from-{middle:020d}-to-{end:020d}",
    ]
    assert f"ends at {end} and is not that of the elected primary from {common} on" in caplog.text
    assert f"was confirmed up to {common + 1}" in caplog.text


def test_much_is_saved_before_a_connection_and_cut_on_the_next() -> None:
    primary, replica, pure = parted(Branch([5], [4, 3], [6]))
    before, end = log_bytes(replica.store), replica.store.log.end
    follower = replica.follower()
    follower.saved_at_once = 0
    with pytest.raises(PrepareFirst):
        Joined(primary.feed(), follower).run()
    assert replica.store.log.end == end
    assert not replica.disk.exists("/store/cutlog")
    for _ in follower.preparation():
        pass
    assert replica.store.log.end == end
    saved = saved_pieces(replica.disk)
    assert saved == before[-len(saved) :]
    Joined(primary.feed(), follower).run()
    pure.follow(primary)
    alike(replica.store, pure.store)
    assert saved_pieces(replica.disk) == saved
    assert not [*follower.preparation()]


def test_what_came_after_it_was_saved_is_saved_too() -> None:
    primary, replica, _ = parted(Branch([5], [4], [6]))
    follower = replica.follower()
    follower.saved_at_once = 0
    for _ in range(2):
        with pytest.raises(PrepareFirst):
            Joined(primary.feed(), follower).run()
        for _ in follower.preparation():
            pass
        if len(replica.disk.list("/store/cutlog")) == 1:
            replica.store.is_replica = False
            fill(replica.store, 2, first=7000)  # it was the master for a moment
            replica.store.is_replica = True
    end = replica.store.log.end
    Joined(primary.feed(), follower).run()
    first, second = replica.disk.list("/store/cutlog")
    assert first.split("-to-")[0] == second.split("-to-")[0]
    assert second.endswith(f"{end:020d}")
    assert same(replica, primary)


def grown_end(count: int) -> int:
    node = Node(9)
    node.lead(1, count)
    return node.store.log.end


def test_all_of_a_log_may_be_cut() -> None:
    primary, replica = Node(1), Node(2)
    primary.lead(1)
    replica.lead(1, 8, first=500)
    joined = replica.follow(primary)
    assert replica.store.log.end == 0
    fill(primary.store, 3)
    joined.run()
    assert same(replica, primary)


@pytest.mark.parametrize("kind", ["killed", "torn"])
def test_a_crash_at_any_call_of_a_cut_leaves_a_broker_that_converges(kind: str) -> None:
    branch = Branch([6, 4], [5, 3], [4])
    primary, replica, pure = parted(branch)
    replica.store.close()
    replica.open()
    before = len(replica.disk.log)
    replica.follow(primary)
    calls = len(replica.disk.log) - before
    assert calls > 60
    for call in range(calls):
        disk = SimulatedDisk(SeededRandomness(call) if kind == "torn" else None)
        _, replica, _ = parted(branch, disk=disk)
        replica.store.close()  # so that checkpoint and list claim all of it
        replica.open()
        disk.cut_power(after=call)
        with pytest.raises(PowerLost):
            replica.follow(primary)
        (disk.kill if kind == "killed" else disk.crash)()
        replica.open()
        replica.follow(primary)
        alike(replica.store, pure.store)
        assert same(replica, primary)
