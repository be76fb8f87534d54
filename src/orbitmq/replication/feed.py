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

from collections.abc import Callable
from typing import Final

from orbitmq.errors import LogsDiverged
from orbitmq.message.buffer import Buffer
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.tail import LogTail
from orbitmq.wire.epoch_stream import LinkState
from orbitmq.wire.replica_stream import ReportReader, chunk_head

__all__ = ["ReplicaFeed"]

_NOTHING: Final = -1


class ReplicaFeed:
    """One replica of a primary, from its connection to its end."""

    def __init__(
        self, tail: LogTail, settings: Callable[[], ReplicationSettings], now_ms: int
    ) -> None:
        self._tail = tail
        self._settings = settings
        self._reader = ReportReader()
        self._heard_ms = self._sent_ms = now_ms
        self.state = LinkState.HANDSHAKE
        """What it does now."""
        self.position = 0
        """The offset of what is sent next."""
        self.acked = _NOTHING
        """The replica has all of the log before this offset; -1 before its first report."""

    def __repr__(self) -> str:
        return f"<ReplicaFeed {self.state.name}, at {self.position}, acknowledged {self.acked}>"

    def receive(self, data: Buffer, now_ms: int) -> None:
        """Take bytes of the replica.

        Raise RemoteProtocolError if they are no reports, and LogsDiverged if the log can't be sent
        from where the replica asks for it.
        """
        self._heard_ms = now_ms
        for report in self._reader.feed(data):
            if self.state is LinkState.HANDSHAKE:
                self._begin(report.offset)
            self.acked = report.offset

    def _begin(self, offset: int) -> None:
        tail = self._tail
        start = offset or tail.last_file_offset()
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
        piece = self._tail.piece(self.position, self._settings().piece_bytes)
        if piece is None:
            return None
        head = chunk_head(self.position, len(piece))
        self.position += len(piece)
        self._sent_ms = now_ms
        return head, piece

    def heartbeat(self, now_ms: int) -> bytes:
        """Return a heartbeat if one is due, or nothing."""
        is_idle = now_ms - self._sent_ms >= self._settings().heartbeat_ms
        if self.state is not LinkState.TRANSFER or not is_idle:
            return b""
        self._sent_ms = now_ms
        return chunk_head(self.position, 0)

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
