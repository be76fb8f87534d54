"""Connections of Java's AutoSwitchHAService, recorded: our bytes and both our ends against them.

The first is that of a new replica; the second that of a replaced master, which had to cut its log.
"""

from itertools import pairwise

import pytest

from orbitmq.replication.epochs import EPOCH_FILE, EpochHistory
from orbitmq.wire.epoch_stream import (
    EpochChunk,
    EpochEntry,
    EpochPrimary,
    EpochReplica,
    Hello,
    History,
)
from orbitmq.wire.replica_stream import Report
from tests.golden_files import golden
from tests.replication.worlds import Node, log_bytes
from tests.store.stores import bodies, put

LARGE = 1 << 20  # Java's log is in one file
HISTORY_HEAD = 20
HELLO = 16
CHUNK_HEAD = 36


class Recorded:
    """One connection, in units."""

    def __init__(self, number: int) -> None:
        found = golden("epoch_stream")[number]
        self.said = bytes.fromhex(found["replica"])
        self.told = bytes.fromhex(found["primary"])
        self.epoch_file: bytes = found["epoch_file"].encode()
        primary = EpochPrimary()
        self.hello, *self.reports = primary.feed(self.said)
        replica = EpochReplica()
        assert isinstance(self.hello, Hello)
        replica.hello(self.hello)
        (size,) = (int.from_bytes(self.told[4:8]),)
        self.history_bytes = self.told[: HISTORY_HEAD + size]
        [self.history] = replica.feed(self.history_bytes)
        assert isinstance(self.reports[0], Report)
        replica.report(self.reports[0].offset)
        found_chunks = replica.feed(self.told[len(self.history_bytes) :])
        self.chunks = [one for one in found_chunks if isinstance(one, EpochChunk)]
        assert len(self.chunks) == len(found_chunks) > 1

    @property
    def data(self) -> bytes:
        return b"".join(one.data for one in self.chunks)


NEW, REPLACED = Recorded(0), Recorded(1)


@pytest.mark.parametrize("recorded", [NEW, REPLACED])
def test_what_java_says_is_what_we_would_say(recorded: Recorded) -> None:
    assert isinstance(recorded.hello, Hello)
    assert isinstance(recorded.history, History)
    replica, primary = EpochReplica(), EpochPrimary()
    said = replica.hello(recorded.hello)
    primary.feed(said)
    told = primary.history(recorded.history)
    for report in recorded.reports:
        assert isinstance(report, Report)
        said += replica.report(report.offset)
    assert said == recorded.said
    primary.feed(said[HELLO:])
    for one in recorded.chunks:
        epoch = EpochEntry(one.epoch, one.epoch_start_offset)
        confirmed = one.confirm_offset
        told += primary.chunk_head(one.offset, len(one.data), epoch=epoch, confirm_offset=confirmed)
        told += one.data
    assert told == recorded.told


def test_epoch_files_are_those_of_java() -> None:
    for recorded in (NEW, REPLACED):
        assert EpochHistory.decode(recorded.epoch_file).encode() == recorded.epoch_file


def test_java_names_the_next_epoch_with_the_last_bytes_of_one() -> None:
    """So what the follower does about it is no guess."""
    early = [one for one in NEW.chunks if one.data and one.offset < one.epoch_start_offset]
    assert len(early) == 1
    assert early[0].offset + len(early[0].data) == early[0].epoch_start_offset


def following(recorded: Recorded, node: Node, step: int) -> None:
    """Let a broker follow what was recorded, in pieces of some bytes."""
    follower = node.follower()
    follower.connected(None, 0)
    follower.receive(recorded.history_bytes, 0)
    assert follower.report_due(0)
    told = recorded.told[len(recorded.history_bytes) :]
    if asked := follower._asked:  # ours asks for what it has, to compare it; Java's does not
        wire = EpochPrimary()
        wire.feed(EpochReplica().hello(Hello(1)) + bytes.fromhex("00000002") + bytes(8))
        again = log_bytes(node.store)[asked : recorded.chunks[0].offset]
        epoch = node.epochs.history.at(asked)
        assert epoch is not None
        told = wire.chunk_head(asked, len(again), epoch=epoch, confirm_offset=0) + again + told
    for at in range(0, len(told), step):
        follower.receive(told[at : at + step], 0)
        follower.report_due(0)


@pytest.mark.parametrize("step", [1, 100, 1 << 20])
def test_our_replica_has_the_log_and_the_epochs_of_a_java_replica(step: int) -> None:
    node = Node(2, segment_bytes=LARGE)
    following(NEW, node, step)
    assert log_bytes(node.store) == NEW.data
    assert node.disk.open(f"/store/{EPOCH_FILE}").read(1 << 10, 0) == NEW.epoch_file
    assert node.store.confirmed == NEW.chunks[-1].confirm_offset == node.store.log.end


@pytest.mark.parametrize("step", [100, 1 << 20])
def test_our_replica_cuts_its_log_where_java_does(step: int) -> None:
    node = Node(1, segment_bytes=LARGE)
    following(NEW, node, step)
    node.store.is_replica = False
    common = node.store.log.end
    put(node.store, b"a", b"b")
    end = node.store.log.end
    following(REPLACED, node, step)
    assert log_bytes(node.store) == NEW.data + REPLACED.data
    assert node.disk.open(f"/store/{EPOCH_FILE}").read(1 << 10, 0) == REPLACED.epoch_file
    [saved] = node.disk.list("/store/cutlog")
    epoch = EpochHistory.decode(NEW.epoch_file).last_epoch
    assert saved == f"epoch-{epoch}-from-{common:020d}-to-{end:020d}"
    said = REPLACED.reports
    assert isinstance(said[0], Report)
    assert said[0].offset == common
    found = bodies(node.store)
    assert len(found) == node.store.queues.queue("orders", 0).max_offset  # type: ignore[union-attr]
    assert found == sorted(set(found))  # each message once, in order; Java's count up


def test_our_primary_answers_a_java_replica_as_java_does() -> None:
    node = Node(9, segment_bytes=LARGE)
    end = NEW.history.max_offset  # type: ignore[union-attr]
    node.store.is_replica = True
    node.store.append_copy(NEW.data[:end])
    for epoch in EpochHistory.decode(NEW.epoch_file).entries:
        node.epochs.begin(*epoch)
    node.lead(node.epochs.history.last_epoch)
    feed = node.feed()
    assert feed.receive(NEW.said[:HELLO], 0) == NEW.history_bytes
    assert feed.receive(NEW.said[HELLO : HELLO + 12], 0) == b""
    replica = EpochReplica()
    replica.hello(Hello(2))
    replica.report(0)
    told = b"".join(bytes(part) for one in iter(lambda: feed.next_piece(0), None) for part in one)
    chunks = [one for one in replica.feed(told) if isinstance(one, EpochChunk)]
    assert b"".join(one.data for one in chunks) == NEW.data[:end]
    assert all(before.offset < after.offset for before, after in pairwise(chunks))
    assert {EpochEntry(one.epoch, one.epoch_start_offset) for one in chunks} == set(
        node.epochs.history.entries
    )
