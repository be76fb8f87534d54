"""What a replica asks of its primary, and does with what it gets.

========== ============================================== ========== ============================
state      event                                          next       action
========== ============================================== ========== ============================
READY      connected                                      HANDSHAKE  report where it begins
HANDSHAKE  chunk or heartbeat, at that offset             TRANSFER   compare, append
HANDSHAKE  chunk or heartbeat at the start of a file,     TRANSFER   begin the log there, append
           if 0 was reported
TRANSFER   chunk at the next offset                       TRANSFER   append, report
TRANSFER   heartbeat at the next offset                   TRANSFER
TRANSFER   heartbeats alone, before all is compared       SUSPENDED  raise LogsDiverged
both       anything at another offset, or other bytes     SUSPENDED  raise LogsDiverged
both       silence, end, a full disk                      READY      forget a half record
========== ============================================== ========== ============================

The classic stream has no epochs: nothing in it tells whether both logs have the same past. So a
replica asks for its own last bytes again, and compares them. It never cuts its log.

A report of 0 means the last file. To copy all of a log that begins at 0 and has several files, a
replica asks for byte 1: byte 0 is that of the size of a record, which is below 16 MiB, so it is 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from orbitmq.errors import LogsDiverged, RemoteProtocolError, StoreDamaged
from orbitmq.message.buffer import Buffer
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.wire.epoch_stream import LinkState
from orbitmq.wire.replica_stream import Chunk, ChunkReader, Heartbeat, report

__all__ = ["Follower", "LogFollower", "LogRange", "PrepareFirst"]

_COMPARED_BYTES: Final = 4096
_LAST_FILE: Final = 0
_FIRST_BYTE: Final = b"\0"
_NOTHING: Final = -1


class PrepareFirst(Exception):
    """The connection has to end: what ``Follower.preparation`` does has to be done before."""


class LogRange(NamedTuple):
    """From where to where a primary's log goes."""

    first: int
    end: int


class Follower(ABC):
    """One replica's copy of the log, over many connections; a subclass speaks the stream.

    A replica asks for its own last bytes again, and compares them before it acknowledges anything.
    """

    def __init__(
        self, store: MessageStore, settings: Callable[[], ReplicationSettings], now_ms: int
    ) -> None:
        self._store = store
        self._settings = settings
        self._position = 0  # the offset of what comes next
        self._compared: bytes = b""  # what it has to begin with
        self._is_agreed = False  # whether both logs are the same up to the end of this one
        self._asked = 0  # what the first report of a connection says
        self._reported = 0
        self._heard_ms = self._said_ms = now_ms
        self.state = LinkState.READY
        """What it does now."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name}, at {self._store.log.end}>"

    @property
    def is_empty(self) -> bool:
        """Whether there is no log yet, so that it can begin anywhere."""
        return self._store.log.end == self._store.log.first_offset

    @abstractmethod
    def connected(self, primary: LogRange | None, now_ms: int) -> bytes:
        """Return what to say first. The range of the primary's log may be unknown."""

    @abstractmethod
    def receive(self, data: Buffer, now_ms: int) -> None:
        """Take bytes of the primary.

        Raise LogsDiverged if its log is another one, RemoteProtocolError if the stream is broken,
        and StoreError if the store takes nothing; and PrepareFirst.
        """

    def preparation(self) -> Generator[None, None, None]:
        """Do what has to be done before the next connection, in steps that take little time.

        Raise StoreError if that fails. Close the iterator if it is not exhausted.
        """
        yield from ()

    @abstractmethod
    def _report(self, offset: int) -> bytes:
        """Return the bytes of a report."""

    def _connect(self, now_ms: int) -> None:
        """Forget what belonged to the connection before."""
        self._compared = b""
        self._is_agreed = False
        self._store.copy.forget()
        self._heard_ms = now_ms
        self.state = LinkState.HANDSHAKE

    def _ask(self, offset: int) -> None:
        """Let the stream begin at an offset."""
        self._position = self._asked = offset
        self._reported = _NOTHING

    def _ask_again(self, end: int) -> None:
        """Let the stream begin shortly before an offset of the log, to compare the bytes there."""
        tail = self._store.tail
        # Not from a file before that of the end: the primary may have removed it.
        file_offset = end - end % self._store.log.segment_bytes
        start = max(end - _COMPARED_BYTES, file_offset, len(_FIRST_BYTE))
        compared = tail.piece(start, end - start)
        self._compared = b"" if compared is None else bytes(compared)
        self._ask(start)

    def _begin_at(self, offset: int) -> None:
        """Let an empty log begin where the primary sends from."""
        try:
            if self._store.log.end != offset:
                self._store.begin_copy(offset)
        except StoreDamaged as error:
            raise self._diverged(offset, str(error)) from error
        self._position = offset

    def _check_place(self, offset: int) -> None:
        if offset != self._position:
            raise self._diverged(offset, "sends another place of the log")

    def _fresh(self, data: memoryview) -> memoryview:
        """Return the part of the next bytes that the log has not; compare the others."""
        self._position += len(data)
        count = min(len(self._compared), len(data))
        if self._compared[:count] != data[:count]:
            raise self._diverged(self._position - len(data), "has other bytes there")
        self._compared = self._compared[count:]
        return data[count:]

    def _append(self, data: memoryview) -> None:
        try:
            self._store.append_copy(data)
        except StoreDamaged as error:
            raise self._diverged(error.position, str(error)) from error

    def _diverged(self, other: int, what: str) -> LogsDiverged:
        self.state = LinkState.SUSPEND
        own = self._store.log.end
        return LogsDiverged(
            f"the log here ends at {own}, and the primary, at offset {other}, {what}; the logs of "
            "both went different ways, and nothing is cut off: find out which is right, then empty "
            "the directory of the other",
            own=own,
            other=other,
        )

    @property
    def acked(self) -> int:
        """What it may report: with SYNC_FLUSH what is on disk, or else what is written."""
        store = self._store
        is_sync = store.settings.flush_mode is FlushMode.SYNC
        return min(store.flushed, store.log.end) if is_sync else store.log.end

    def report_due(self, now_ms: int) -> bytes:
        """Return a report if there is news, or none was sent for long; nothing otherwise."""
        if self.state not in (LinkState.HANDSHAKE, LinkState.TRANSFER):
            return b""
        offset = max(self._asked, self._reported)
        if self.state is LinkState.TRANSFER and self._is_agreed:
            offset = max(offset, self.acked)
        is_idle = now_ms - self._said_ms >= self._settings().heartbeat_ms
        if not is_idle and offset <= self._reported:
            return b""
        self._reported = offset
        self._said_ms = now_ms
        return self._report(offset)

    def is_silent(self, now_ms: int) -> bool:
        """Return whether the primary has said nothing for too long."""
        return now_ms - self._heard_ms >= self._settings().housekeeping_ms

    def disconnected(self) -> None:
        """Note the end of the connection."""
        self._store.copy.forget()
        if self.state is not LinkState.SUSPEND:
            self.state = LinkState.READY


class LogFollower(Follower):
    """A copy of the log of a primary that speaks the classic stream."""

    def __init__(
        self, store: MessageStore, settings: Callable[[], ReplicationSettings], now_ms: int
    ) -> None:
        super().__init__(store, settings, now_ms)
        self._reader = ChunkReader()
        self._may_begin_anywhere = False
        self._idle_since_ms: int | None = None  # the first heartbeat after the last bytes

    def connected(self, primary: LogRange | None, now_ms: int) -> bytes:
        """Return the first report."""
        self._reader = ChunkReader()
        self._idle_since_ms = None
        self._connect(now_ms)
        self._may_begin_anywhere = primary is None or self._settings().from_last_file
        if self.is_empty:
            self._ask(self._begin_empty(primary))
        else:
            self._ask_again(self._store.log.end)
        return self.report_due(now_ms)

    def _begin_empty(self, primary: LogRange | None) -> int:
        if primary is None or self._may_begin_anywhere:
            return _LAST_FILE
        if primary.first:
            return primary.first
        if primary.end <= self._store.log.segment_bytes:
            return _LAST_FILE  # which is the first
        self._begin_at(0)
        self._store.append_copy(_FIRST_BYTE)
        return len(_FIRST_BYTE)

    def receive(self, data: Buffer, now_ms: int) -> None:
        """Take chunks and heartbeats."""
        self._heard_ms = now_ms
        for event in self._reader.feed(data):
            if self.state is LinkState.HANDSHAKE:
                self._first(event)
            self._check_place(event.offset)
            if isinstance(event, Heartbeat):
                self._check_end(now_ms)
                continue
            self._idle_since_ms = None
            if fresh := self._fresh(event.data):
                self._append(fresh)
            self._is_agreed = not self._compared

    def _check_end(self, now_ms: int) -> None:
        """Note a heartbeat; raise LogsDiverged if the primary's log ends before this one.

        One alone says nothing: after a pause a primary may send it before the bytes that it has.
        Nor do two at once, as Java's flow control makes them.
        """
        self._is_agreed = not self._compared
        if self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        elif self._compared and now_ms - self._idle_since_ms >= self._settings().heartbeat_ms // 2:
            raise self._diverged(self._position, "has nothing more")

    def _first(self, event: Chunk | Heartbeat) -> None:
        self.state = LinkState.TRANSFER
        if not self.is_empty or self._position == len(_FIRST_BYTE):
            return
        if event.offset != self._position and not self._may_begin_anywhere:
            raise RemoteProtocolError(
                f"the primary begins at {event.offset}, and was asked for {self._position}; its "
                "log has a new file, so it is asked again",
                position=0,
            )
        self._begin_at(event.offset)

    def _report(self, offset: int) -> bytes:
        return report(offset)
