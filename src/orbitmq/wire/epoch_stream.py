"""The replication stream of elected primaries: the log is a sequence of epochs, one per primary.

If a controller elects the primary (Java's AutoSwitchHAService), both ends compare epochs before
data is sent, and every unit begins with the sender's state::

    replica → primary   hello    │ state 4 │ from last file 2 │ learner 2 │ broker id 8 │
    primary → replica   history  │ state 4 │ size 4 │ max offset 8 │ epoch 4 │ entries, 12 each │
    replica → primary   report   │ state 4 │ max offset 8 │
    primary → replica   chunk    │ state 4 │ size 4 │ offset 8 │ epoch 4 │ epoch's start 8 │
                                 │ confirm offset 8 │ size bytes of commit log │

A replica sends ``hello``, receives a :class:`History`, truncates its log to the last common point,
and sends ``report``. Then it receives chunks and sends a report for each. After a lost connection
it starts again with a new object. A unit with an unexpected state breaks the link, as in Java.
"""

import struct
from collections.abc import Generator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from orbitmq.errors import LocalProtocolError
from orbitmq.wire.replica_stream import (
    CHUNK_BYTES_MAX,
    OFFSET_MAX,
    Report,
    StreamReader,
    check_number,
)

__all__ = [
    "TRANSITIONS",
    "EpochChunk",
    "EpochEntry",
    "EpochPrimary",
    "EpochReplica",
    "Hello",
    "History",
    "LinkState",
]

T = TypeVar("T")

NO_OFFSET: Final = -1
"""Sent by Java's primary while it has no offset: nothing sent or nothing confirmed."""

EPOCHS_MAX: Final = 1000
"""The most epochs in a history, as in Java's primary."""

EPOCH_MAX: Final = 2**31 - 1


class LinkState(IntEnum):
    """The state of one end of a link; the value is on the wire (Java's HAConnectionState)."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


# A replica begins with READY, a primary with HANDSHAKE, since it accepts the connection. After a
# lost connection both are in SHUTDOWN. SUSPEND is not used, neither here nor in Java.
TRANSITIONS: Final[Mapping[LinkState, frozenset[LinkState]]] = {
    LinkState.READY: frozenset({LinkState.HANDSHAKE, LinkState.SUSPEND, LinkState.SHUTDOWN}),
    LinkState.HANDSHAKE: frozenset({LinkState.TRANSFER, LinkState.SHUTDOWN}),
    LinkState.TRANSFER: frozenset({LinkState.SUSPEND, LinkState.SHUTDOWN}),
    LinkState.SUSPEND: frozenset({LinkState.READY, LinkState.SHUTDOWN}),
    LinkState.SHUTDOWN: frozenset(),
}

STATE: Final = struct.Struct(">i")  # the beginning of every unit
assert STATE.size == 4

HELLO: Final = struct.Struct(  # after the state
    ">h"  # 1: an empty replica starts at the primary's last segment, not its first
    "h"  # 1: a learner, which never counts as in sync
    "q"  # broker id of the replica
)
assert STATE.size + HELLO.size == 16

HISTORY_HEAD: Final = struct.Struct(  # after the state
    ">i"  # size of the entries
    "q"  # the primary's max offset
    "i"  # its epoch
)
assert STATE.size + HISTORY_HEAD.size == 20

EPOCH_ENTRY: Final = struct.Struct(
    ">i"  # epoch
    "q"  # offset at which it begins
)
assert EPOCH_ENTRY.size == 12

REPORT: Final = struct.Struct(">q")  # after the state: the replica's max offset
assert STATE.size + REPORT.size == 12

CHUNK_HEAD: Final = struct.Struct(  # after the state
    ">i"  # size of the data, 0 in a heartbeat
    "q"  # offset of the data in the commit log
    "i"  # epoch the data belongs to
    "q"  # offset at which that epoch begins
    "q"  # confirm offset: every replica in sync has the log up to there
)
assert STATE.size + CHUNK_HEAD.size == 36


class Hello(NamedTuple):
    """The id of the replica, and how it starts."""

    broker_id: int
    from_last_file: bool = False
    learner: bool = False


class EpochEntry(NamedTuple):
    """One epoch of the log, and where it begins."""

    epoch: int
    start_offset: int


class History(NamedTuple):
    """The primary's epochs, its current one, and the end of its log."""

    max_offset: int
    epoch: int
    entries: tuple[EpochEntry, ...]


class EpochChunk(NamedTuple):
    """Part of the commit log with its epoch; without data, a heartbeat.

    In a heartbeat any number may be ``NO_OFFSET``, since an empty primary has none.
    """

    offset: int
    data: memoryview
    epoch: int
    epoch_start_offset: int
    confirm_offset: int


class _End(StreamReader[T]):
    """One end of a link: its state, and the reader of the other end's stream."""

    _first: LinkState

    def __init__(self) -> None:
        self._state = self._first
        super().__init__()

    @property
    def state(self) -> LinkState:
        """The state of this end."""
        return self._state

    def move(self, state: LinkState) -> None:
        """Change the state, if ``TRANSITIONS`` has the change; raise LocalProtocolError if not."""
        if state not in TRANSITIONS[self._state]:
            raise LocalProtocolError(
                f"a replica link can't go from {self._state.name} to {state.name}"
            )
        self._state = state

    def _require(self, state: LinkState, what: str) -> None:
        if self._state is not state:
            raise LocalProtocolError(f"{what} can't be sent in state {self._state.name}")

    def _due(self, number: int, *due: LinkState) -> LinkState:
        """Return the peer's state if it is one of those expected."""
        if number not in due:
            names = " or ".join(f"{state.value} ({state.name})" for state in due)
            raise self._refusal(f"the peer's state is {number}, not {names}", back=STATE.size)
        return LinkState(number)


class EpochReplica(_End[History | EpochChunk]):
    """The replica's end: encodes its units, and reads the primary's stream.

    >>> EpochReplica().hello(Hello(broker_id=2)).hex()
    '00000001000000000000000000000002'
    """

    _first = LinkState.READY

    def hello(self, hello: Hello) -> bytes:
        """Return the first bytes to send; the state changes from READY to HANDSHAKE.

        It may be repeated until it is answered; Java's replica does that every 5 seconds.
        """
        check_number("broker_id", hello.broker_id, most=OFFSET_MAX)
        if self._state is not LinkState.HANDSHAKE:
            self.move(LinkState.HANDSHAKE)
        flags = (hello.from_last_file, hello.learner)
        return STATE.pack(self._state) + HELLO.pack(*flags, hello.broker_id)

    def report(self, max_offset: int) -> bytes:
        """Return the bytes of a report; the first changes the state from HANDSHAKE to TRANSFER.

        The caller must have truncated its log to the common point.
        """
        check_number("max_offset", max_offset, most=OFFSET_MAX)
        if self._state is LinkState.HANDSHAKE:
            self.move(LinkState.TRANSFER)
        self._require(LinkState.TRANSFER, "a report")
        return STATE.pack(self._state) + REPORT.pack(max_offset)

    def _parse(self) -> Generator[int, memoryview, None]:
        while True:
            (number,) = STATE.unpack((yield STATE.size))
            if self._due(number, self._state) is LinkState.TRANSFER:
                yield from self._parse_chunk()
            else:
                yield from self._parse_history()

    def _parse_history(self) -> Generator[int, memoryview, None]:
        size, max_offset, epoch = HISTORY_HEAD.unpack((yield HISTORY_HEAD.size))
        self._check("the size of a history", size, back=16, most=EPOCHS_MAX * EPOCH_ENTRY.size)
        if size % EPOCH_ENTRY.size:
            raise self._refusal(f"a history of {size} bytes cuts an entry of 12", back=16)
        self._check("a max offset", max_offset, back=12, most=OFFSET_MAX)
        self._check("an epoch", epoch, back=4, least=NO_OFFSET, most=EPOCH_MAX)
        entries = tuple(EpochEntry(*one) for one in EPOCH_ENTRY.iter_unpack((yield size)))
        self._events.append(History(max_offset, epoch, entries))

    def _parse_chunk(self) -> Generator[int, memoryview, None]:
        head = CHUNK_HEAD.unpack((yield CHUNK_HEAD.size))
        size, offset, epoch, epoch_start_offset, confirm_offset = head
        self._check("the size of a chunk", size, back=32, most=CHUNK_BYTES_MAX)
        least = 0 if size else NO_OFFSET
        self._check("the offset of a chunk", offset, back=28, least=least, most=OFFSET_MAX - size)
        self._check("an epoch", epoch, back=20, least=least, most=EPOCH_MAX)
        self._check("an epoch's start", epoch_start_offset, back=16, least=least, most=OFFSET_MAX)
        self._check("a confirm offset", confirm_offset, back=8, least=NO_OFFSET, most=OFFSET_MAX)
        data = yield size
        self._events.append(EpochChunk(offset, data, epoch, epoch_start_offset, confirm_offset))


class EpochPrimary(_End[Hello | Report]):
    """The primary's end: encodes its units, and reads the replica's stream.

    The first report changes the state from HANDSHAKE to TRANSFER. Every report is an event, since
    the first says where to start.
    """

    _first = LinkState.HANDSHAKE

    def __init__(self) -> None:
        self._greeted = False
        super().__init__()

    def history(self, history: History) -> bytes:
        """Return the bytes that answer a :class:`Hello`."""
        self._require(LinkState.HANDSHAKE, "a history")
        check_number("the number of epochs", len(history.entries), most=EPOCHS_MAX)
        check_number("max_offset", history.max_offset, most=OFFSET_MAX)
        entries = b"".join(EPOCH_ENTRY.pack(*entry) for entry in history.entries)
        head = HISTORY_HEAD.pack(len(entries), history.max_offset, history.epoch)
        return STATE.pack(self._state) + head + entries

    def chunk_head(
        self, offset: int, size: int, *, epoch: EpochEntry, confirm_offset: int
    ) -> bytes:
        """Return the head of a chunk with ``size`` bytes of log; with size 0 it is a heartbeat.

        The caller sends the head and then the data.
        """
        self._require(LinkState.TRANSFER, "a chunk")
        check_number("size", size, most=CHUNK_BYTES_MAX)
        least = 0 if size else NO_OFFSET
        check_number("offset", offset, least=least, most=OFFSET_MAX - size)
        check_number("epoch", epoch.epoch, least=least, most=EPOCH_MAX)
        check_number("epoch start", epoch.start_offset, least=least, most=OFFSET_MAX)
        check_number("confirm_offset", confirm_offset, least=NO_OFFSET, most=OFFSET_MAX)
        return STATE.pack(self._state) + CHUNK_HEAD.pack(size, offset, *epoch, confirm_offset)

    def _parse(self) -> Generator[int, memoryview, None]:
        while True:
            (number,) = STATE.unpack((yield STATE.size))
            if self._due(number, *self._states_due()) is LinkState.HANDSHAKE:
                from_last_file, learner, broker_id = HELLO.unpack((yield HELLO.size))
                self._check("a broker id", broker_id, back=8, most=OFFSET_MAX)
                # In Java 1 is true, and every other number false.
                self._events.append(Hello(broker_id, from_last_file == 1, learner == 1))
                self._greeted = True
            else:
                (offset,) = REPORT.unpack((yield REPORT.size))
                self._check("a reported offset", offset, back=8, most=OFFSET_MAX)
                self._state = LinkState.TRANSFER
                self._events.append(Report(offset))

    def _states_due(self) -> Sequence[LinkState]:
        if self._state is LinkState.HANDSHAKE and self._greeted:
            return (LinkState.HANDSHAKE, LinkState.TRANSFER)
        return (self._state,)
