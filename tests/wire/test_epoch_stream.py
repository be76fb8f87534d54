import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import LocalProtocolError, RemoteProtocolError
from orbitmq.wire.epoch_stream import (
    EPOCH_MAX,
    EPOCHS_MAX,
    TRANSITIONS,
    EpochChunk,
    EpochEntry,
    EpochPrimary,
    EpochReplica,
    Hello,
    History,
    LinkState,
)
from orbitmq.wire.replica_stream import CHUNK_BYTES_MAX, OFFSET_MAX, Report

offsets = st.integers(0, OFFSET_MAX - CHUNK_BYTES_MAX)
entries = st.builds(EpochEntry, st.integers(0, EPOCH_MAX), offsets)
histories = st.builds(
    History, offsets, st.integers(0, EPOCH_MAX), st.lists(entries, max_size=5).map(tuple)
)
FIRST_EPOCH = EpochEntry(1, 0)


def greeted() -> tuple[EpochReplica, EpochPrimary]:
    replica, primary = EpochReplica(), EpochPrimary()
    primary.feed(replica.hello(Hello(2)))
    return replica, primary


def joined() -> tuple[EpochReplica, EpochPrimary]:
    """Return two ends that have shaken hands."""
    replica, primary = greeted()
    replica.feed(primary.history(History(0, 1, (FIRST_EPOCH,))))
    primary.feed(replica.report(0))
    return replica, primary


def test_the_bytes_are_those_of_the_layouts() -> None:
    replica, primary = EpochReplica(), EpochPrimary()
    hello = replica.hello(Hello(broker_id=2, from_last_file=True, learner=True))
    assert hello.hex(" ", 4) == "00000001 00010001 00000000 00000002"
    primary.feed(hello)
    history = primary.history(History(4096, 3, (EpochEntry(1, 0), EpochEntry(3, 1024))))
    assert history.hex(" ", 4) == (
        "00000001 00000018 00000000 00001000 00000003"
        " 00000001 00000000 00000000 00000003 00000000 00000400"
    )
    replica.feed(history)
    report = replica.report(4096)
    assert report.hex(" ", 4) == "00000002 00000000 00001000"
    primary.feed(report)
    head = primary.chunk_head(4096, 5, epoch=EpochEntry(3, 1024), confirm_offset=2048)
    assert head.hex(" ", 4) == (
        "00000002 00000005 00000000 00001000 00000003 00000000 00000400 00000000 00000800"
    )


@given(st.integers(0, OFFSET_MAX), st.booleans(), st.booleans(), histories, offsets)
def test_two_ends_shake_hands_and_move_on(
    broker_id: int, from_last_file: bool, learner: bool, history: History, reached: int
) -> None:
    replica, primary = EpochReplica(), EpochPrimary()
    hello = Hello(broker_id, from_last_file, learner)
    assert primary.feed(replica.hello(hello)) == [hello]
    assert replica.feed(primary.history(history)) == [history]
    assert primary.feed(replica.report(reached)) == [Report(reached)]
    assert replica.state is primary.state is LinkState.TRANSFER


@given(st.lists(st.tuples(offsets, st.binary(max_size=30), offsets), max_size=6), st.data())
def test_chunks_arrive_however_the_stream_is_cut(
    sent: list[tuple[int, bytes, int]], data: st.DataObject
) -> None:
    replica, primary = joined()
    stream = b"".join(
        primary.chunk_head(offset, len(log), epoch=EpochEntry(4, 9), confirm_offset=confirm) + log
        for offset, log, confirm in sent
    )
    at = data.draw(st.integers(0, len(stream)))
    arrived = [*replica.feed(stream[:at]), *replica.feed(stream[at:])]
    assert arrived == [
        EpochChunk(offset, memoryview(log), 4, 9, confirm) for offset, log, confirm in sent
    ]


def test_everything_arrives_byte_by_byte() -> None:
    replica, primary = EpochReplica(), EpochPrimary()
    history = History(7, 1, (FIRST_EPOCH,))

    def trickle(end: EpochReplica | EpochPrimary, data: bytes) -> list[object]:
        return [event for byte in data for event in end.feed(bytes([byte]))]

    assert trickle(primary, replica.hello(Hello(2))) == [Hello(2)]
    assert trickle(replica, primary.history(history)) == [history]
    assert trickle(primary, replica.report(7) + replica.report(9)) == [Report(7), Report(9)]


def test_an_empty_primary_has_no_offset_in_its_heartbeat() -> None:
    replica, primary = joined()
    head = primary.chunk_head(-1, 0, epoch=EpochEntry(-1, -1), confirm_offset=-1)
    assert replica.feed(head) == [EpochChunk(-1, memoryview(b""), -1, -1, -1)]


def test_a_hello_may_be_repeated_until_it_is_answered() -> None:
    replica, primary = greeted()
    assert primary.feed(replica.hello(Hello(2)) * 2) == [Hello(2)] * 2
    primary.feed(replica.report(0))
    with pytest.raises(LocalProtocolError, match="TRANSFER to HANDSHAKE"):
        replica.hello(Hello(2))


def test_a_report_before_the_hello_is_refused() -> None:
    replica, _ = greeted()
    with pytest.raises(RemoteProtocolError, match=r"state is 2, not 1 \(HANDSHAKE\)"):
        EpochPrimary().feed(replica.report(0))


@pytest.mark.parametrize("number", [-1, 0, 1, 3, 4, 5])
def test_an_unexpected_state_is_refused_with_its_position(number: int) -> None:
    replica, primary = joined()
    head = primary.chunk_head(0, 1, epoch=FIRST_EPOCH, confirm_offset=0)
    replica.feed(head + b"x")
    with pytest.raises(RemoteProtocolError, match=f"state is {number}, not 2") as caught:
        replica.feed(number.to_bytes(4, "big", signed=True) + head[4:])
    assert caught.value.position == 32 + 37  # after the history and the first chunk


@pytest.mark.parametrize(
    ("size", "what"),
    [(-12, "size of a history"), (13, "cuts an entry"), (12 * 1001, "size of a history")],
)
def test_an_impossible_history_is_refused(size: int, what: str) -> None:
    replica, primary = greeted()
    history = bytearray(primary.history(History(0, 1, ())))
    history[4:8] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(RemoteProtocolError, match=what) as caught:
        replica.feed(history)
    assert caught.value.position == 4


@pytest.mark.parametrize(
    ("at", "length", "value", "what"),
    [
        (4, 4, -1, "size of a chunk"),
        (4, 4, CHUNK_BYTES_MAX + 1, "size of a chunk"),
        (8, 8, -1, "offset of a chunk"),
        (8, 8, OFFSET_MAX, "offset of a chunk"),
        (16, 4, -2, "an epoch"),
        (20, 8, -2, "an epoch's start"),
        (28, 8, -2, "a confirm offset"),
    ],
)
def test_an_impossible_chunk_is_refused_with_its_position(
    at: int, length: int, value: int, what: str
) -> None:
    replica, primary = joined()
    head = bytearray(primary.chunk_head(0, 9, epoch=FIRST_EPOCH, confirm_offset=0))
    head[at : at + length] = value.to_bytes(length, "big", signed=True)
    with pytest.raises(RemoteProtocolError, match=what) as caught:
        replica.feed(head)
    assert caught.value.position == 32 + at


@given(st.binary(max_size=120), st.integers(0, 4))
def test_any_bytes_give_events_or_a_remote_error(stream: bytes, state: int) -> None:
    likely = state.to_bytes(4, "big") + stream
    for end in (EpochReplica(), *greeted(), *joined()):
        for data in (likely, stream):
            try:
                end.feed(data)
            except RemoteProtocolError:
                break


@pytest.mark.parametrize(
    "path",
    [
        [],
        [LinkState.HANDSHAKE],
        [LinkState.HANDSHAKE, LinkState.TRANSFER],
        [LinkState.SUSPEND],
        [LinkState.SHUTDOWN],
    ],
)
def test_a_state_changes_only_along_the_table(path: list[LinkState]) -> None:
    for following in LinkState:
        end = EpochReplica()
        for state in path:
            end.move(state)
        state = end.state
        if following in TRANSITIONS[state]:
            end.move(following)
            assert end.state is following
        else:
            with pytest.raises(LocalProtocolError, match=following.name):
                end.move(following)


def test_nothing_is_sent_in_the_wrong_state() -> None:
    replica, primary = EpochReplica(), EpochPrimary()
    with pytest.raises(LocalProtocolError, match="a report can't be sent in state READY"):
        replica.report(0)
    with pytest.raises(LocalProtocolError, match="a chunk can't be sent in state HANDSHAKE"):
        primary.chunk_head(0, 0, epoch=FIRST_EPOCH, confirm_offset=0)
    _, primary = joined()
    with pytest.raises(LocalProtocolError, match="a history can't be sent in state TRANSFER"):
        primary.history(History(0, 1, ()))


def test_we_write_nothing_that_we_would_refuse() -> None:
    _, primary = greeted()
    with pytest.raises(LocalProtocolError, match="number of epochs is 1001"):
        primary.history(History(0, 1, (FIRST_EPOCH,) * (EPOCHS_MAX + 1)))
    with pytest.raises(LocalProtocolError, match="broker_id"):
        EpochReplica().hello(Hello(-1))
    _, primary = joined()
    with pytest.raises(LocalProtocolError, match="offset is -1"):
        primary.chunk_head(-1, 1, epoch=FIRST_EPOCH, confirm_offset=0)


def test_a_silent_end_hears_nothing() -> None:
    with pytest.raises(RemoteProtocolError, match="the peer's state is 2"):
        EpochReplica().feed((2).to_bytes(4, "big"))
