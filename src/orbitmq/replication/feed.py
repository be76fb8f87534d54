"""What a primary sends to one replica, and what it learns from it.

========== ========================================== ========== ================================
state      event                                      next       action
========== ========================================== ========== ================================
HANDSHAKE  first report: 0                            TRANSFER   send from the last file on
HANDSHAKE  first report: an offset of the log         TRANSFER   send from there on
HANDSHAKE  first report: any other offset             SHUTDOWN   raise LogsDiverged
TRANSFER   report                                     TRANSFER   note what the replica has
TRANSFER   the network takes no more                  SUSPENDED
SUSPENDED  report                                     SUSPENDED  note what the replica has
SUSPENDED  the network takes more                     TRANSFER
any        silence, a broken report, end              SHUTDOWN
========== ========================================== ========== ================================

Nothing to send for ``heartbeat_ms`` makes a heartbeat. There is no socket and no clock here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from orbitmq.errors import LogsDiverged
from orbitmq.message.buffer import Buffer
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.tail import LogTail
from orbitmq.wire.epoch_stream import LinkState
from orbitmq.wire.replica_stream import ReportReader, chunk_head

__all__ = ["Feed", "ReplicaFeed"]

_NOTHING: Final = -1


class Feed(ABC):
    """One replica of a primary, from its connection to its end; a subclass speaks its stream."""

    def __init__(
        self, tail: LogTail, settings: Callable[[], ReplicationSettings], now_ms: int
    ) -> None:
        self._tail = tail
        self._settings = settings
        self._heard_ms = self._sent_ms = now_ms
        self.state = LinkState.HANDSHAKE
        """What it does now."""
        self.position = 0
        """The offset of what is sent next."""
        self.acked = _NOTHING
        """The replica has all of the log before this offset; -1 before its first report."""

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.state.name}, at {self.position}, acknowledged {self.acked}>"

    @abstractmethod
    def receive(self, data: Buffer, now_ms: int) -> bytes:
        """Take bytes of the replica; return what is to be answered at once.

        Raise RemoteProtocolError if they break the stream, and LogsDiverged if the log can't be
        sent from where the replica asks for it.
        """

    @abstractmethod
    def _head(self, offset: int, size: int) -> bytes:
        """Return the head of a piece; with size 0 it is a heartbeat."""

    def _reported(self, offset: int, start: int) -> None:
        """Note a report; after the first one, the log is sent from ``start`` on."""
        if self.state is LinkState.HANDSHAKE:
            self._begin(offset, start)
        self.acked = offset

    def _begin(self, offset: int, start: int) -> None:
        tail = self._tail
        if not tail.first_offset <= start <= tail.end:
            self.state = LinkState.SHUTDOWN
            raise LogsDiverged(
                f"a replica asks for the log from {offset} on, and here it goes from "
                f"{tail.first_offset} to {tail.end}: "
                + (
                    "these files are gone; empty the replica's directory, so that it copies all"
                    if start < tail.first_offset
                    else "the replica has what this broker has not; find out which of both is right"
                ),
                own=tail.end,
                other=offset,
            )
        self.position = start
        self.state = LinkState.TRANSFER

    def next_piece(self, now_ms: int) -> tuple[bytes, memoryview] | None:
        """Return the next head and piece of the log; None if there is nothing to send now."""
        if self.state is not LinkState.TRANSFER:
            return None
        piece = self._tail.piece(self.position, self._most())
        if piece is None:
            return None
        head = self._head(self.position, len(piece))
        self.position += len(piece)
        self._sent_ms = now_ms
        return head, piece

    def _most(self) -> int:
        """Return how many bytes the next piece may have."""
        return self._settings().piece_bytes

    def heartbeat(self, now_ms: int) -> bytes:
        """Return a heartbeat if one is due, or nothing."""
        if self.state is not LinkState.TRANSFER or not self._is_due(now_ms):
            return b""
        self._sent_ms = now_ms
        return self._head(self.position, 0)

    def _is_due(self, now_ms: int) -> bool:
        return now_ms - self._sent_ms >= self._settings().heartbeat_ms

    def is_silent(self, now_ms: int) -> bool:
        """Return whether the replica has said nothing for too long."""
        return now_ms - self._heard_ms >= self._settings().housekeeping_ms

    def suspend(self) -> None:
        """Send nothing until ``resume``."""
        if self.state is LinkState.TRANSFER:
            self.state = LinkState.SUSPEND

    def resume(self) -> None:
        """Go on after ``suspend``."""
        if self.state is LinkState.SUSPEND:
            self.state = LinkState.TRANSFER

    def shut_down(self) -> None:
        """End it."""
        self.state = LinkState.SHUTDOWN


class ReplicaFeed(Feed):
    """One replica that speaks the classic stream."""

    def __init__(
        self, tail: LogTail, settings: Callable[[], ReplicationSettings], now_ms: int
    ) -> None:
        super().__init__(tail, settings, now_ms)
        self._reader = ReportReader()

    def receive(self, data: Buffer, now_ms: int) -> bytes:
        """Take reports; nothing is answered at once."""
        self._heard_ms = now_ms
        for report in self._reader.feed(data):
            self._reported(report.offset, report.offset or self._tail.last_file_offset())
        return b""

    def _head(self, offset: int, size: int) -> bytes:
        return chunk_head(offset, size)
