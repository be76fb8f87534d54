"""What an elected primary sends to one replica, and what it learns from it.

========== ========================================== ========== ================================
state      event                                      next       action
========== ========================================== ========== ================================
HANDSHAKE  hello                                      HANDSHAKE  answer with the epochs of the log
HANDSHAKE  first report: 0                            TRANSFER   send from the first file on, or
                                                                 from the last if hello said so
HANDSHAKE  first report: an offset of the log         TRANSFER   send from there on
HANDSHAKE  first report: any other offset             SHUTDOWN   raise LogsDiverged
========== ========================================== ========== ================================

The rest is as in ``replication/feed``. A chunk never has bytes of two epochs.
"""

from collections.abc import Callable
from typing import Final

from orbitmq.errors import LogsDiverged, RemoteProtocolError
from orbitmq.message.buffer import Buffer
from orbitmq.replication.epochs import EpochFile
from orbitmq.replication.feed import Feed
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.tail import LogTail
from orbitmq.wire.epoch_stream import (
    EPOCHS_MAX,
    NO_OFFSET,
    EpochEntry,
    EpochPrimary,
    Hello,
    History,
)
from orbitmq.wire.replica_stream import Report

__all__ = ["EpochFeed"]

_NO_ENTRY: Final = EpochEntry(NO_OFFSET, NO_OFFSET)


class EpochFeed(Feed):
    """One replica of a primary that was elected; ``in_sync`` says what is confirmed."""

    def __init__(
        self,
        tail: LogTail,
        epochs: EpochFile,
        in_sync: InSyncSet,
        settings: Callable[[], ReplicationSettings],
        now_ms: int,
    ) -> None:
        super().__init__(tail, settings, now_ms)
        self._epochs = epochs
        self._in_sync = in_sync
        self._wire = EpochPrimary()
        self._said_confirmed = NO_OFFSET
        self.hello: Hello | None = None
        """Who the replica is; None before it says so."""

    @property
    def broker_id(self) -> int:
        """The id of the replica; -1 before it has said so."""
        return NO_OFFSET if self.hello is None else self.hello.broker_id

    def receive(self, data: Buffer, now_ms: int) -> bytes:
        """Take a hello or reports; return the answer to a hello."""
        self._heard_ms = now_ms
        answer = b""
        for event in self._wire.feed(data):
            if isinstance(event, Report):
                self._reported(event.offset, event.offset or self._first_offset())
            else:
                answer += self._greeted(event)
        return answer

    def _greeted(self, hello: Hello) -> bytes:
        if hello.broker_id == self._in_sync.own_id:
            raise RemoteProtocolError(
                f"a replica has the broker id {hello.broker_id} of this broker: each needs its own",
                position=0,
            )
        self.hello = hello
        history = self._epochs.history
        return self._wire.history(
            History(self._tail.end, history.last_epoch, history.entries[-EPOCHS_MAX:])
        )

    def _first_offset(self) -> int:
        tail, hello = self._tail, self.hello
        return tail.last_file_offset() if hello and hello.from_last_file else tail.first_offset

    def _begin(self, offset: int, start: int) -> None:
        super()._begin(offset, start)
        if start < self._tail.end and self._epochs.history.at(start) is None:
            raise LogsDiverged(
                f"a replica asks for the log from {offset} on, and no epoch here has that place: "
                f"{self._epochs.history!r}; empty the replica's directory, so that it copies all",
                own=self._tail.end,
                other=offset,
            )

    def _most(self) -> int:
        history, most = self._epochs.history, super()._most()
        entry = history.at(self.position)
        end = None if entry is None else history.end_of(entry)
        return most if end is None else min(most, end - self.position)

    def _head(self, offset: int, size: int) -> bytes:
        self._said_confirmed = confirmed = self._in_sync.confirmed
        entry = self._epochs.history.at(offset) or _NO_ENTRY
        return self._wire.chunk_head(offset, size, epoch=entry, confirm_offset=confirmed)

    def _is_due(self, now_ms: int) -> bool:
        """Return whether a heartbeat is due: a replica should soon know what is confirmed."""
        return self._in_sync.confirmed > self._said_confirmed or super()._is_due(now_ms)
