"""What a replica of an elected primary asks for, and does with what it gets.

========== ============================================== ========== ============================
state      event                                          next       action
========== ============================================== ========== ============================
READY      connected                                      HANDSHAKE  say hello
HANDSHAKE  epochs of the primary, and the log is empty    TRANSFER   report 0
HANDSHAKE  epochs of the primary, one in common           TRANSFER   find the common end, report an
                                                                     offset shortly before it
HANDSHAKE  epochs of the primary, none in common, and     TRANSFER   cut the whole log, report 0
           nobody ever had a byte of the log
HANDSHAKE  epochs of the primary, none in common          SUSPENDED  raise LogsDiverged
HANDSHAKE  an epoch that is over                          READY      raise RemoteProtocolError
TRANSFER   the bytes up to the common end, the same       TRANSFER   cut the log there, report
TRANSFER   the same, but much is to be cut                READY      end the connection, save in
                                                                     steps what is to be cut
TRANSFER   other bytes, or another offset                 SUSPENDED  raise LogsDiverged
TRANSFER   chunk at the next offset                       TRANSFER   note its epoch, append, report
TRANSFER   heartbeat at the next offset                   TRANSFER   note what is confirmed
========== ============================================== ========== ============================

Epochs tell where two logs part, and the bytes before that place are compared all the same: a log
is cut only if both agree. A log without epochs, of a broker that was never in an elected group, has
its end compared, and is never cut.
"""

import logging
from collections.abc import Callable, Generator
from typing import Final

from orbitmq.errors import InvalidInput, RemoteProtocolError, StoreDamaged
from orbitmq.message.buffer import Buffer
from orbitmq.replication.epochs import NO_EPOCH, UNELECTED, Epoch, EpochFile, EpochHistory
from orbitmq.replication.follower import Follower, LogRange, PrepareFirst
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.message_store import MessageStore
from orbitmq.store.recovery.truncation import LogPiece
from orbitmq.wire.epoch_stream import EpochChunk, EpochReplica, Hello, History, LinkState

__all__ = ["EpochFollower"]

log = logging.getLogger("orbitmq.replication")

_SAVED_AT_ONCE: Final = 16 << 20
_ANYWHERE: Final = 0  # reported by an empty log


class EpochFollower(Follower):
    """A copy of the log of an elected primary, by the broker ``broker_id``."""

    def __init__(
        self,
        store: MessageStore,
        epochs: EpochFile,
        settings: Callable[[], ReplicationSettings],
        broker_id: int,
        now_ms: int,
    ) -> None:
        super().__init__(store, settings, now_ms)
        self._epochs = epochs
        self._wire = EpochReplica()
        self._broker_id = broker_id
        self._history = EpochHistory()  # of the log that this one is going to be
        self._common_end = 0
        self._unsaved: list[LogPiece] = []  # to be cut when they are saved
        self._saved: list[LogPiece] = []
        self.saved_at_once = _SAVED_AT_ONCE
        """How many bytes are saved while the connection waits; more are saved in steps."""
        self.least_epoch = NO_EPOCH
        """A primary of an older epoch is not followed: another was elected since."""
        self.met_epoch = NO_EPOCH
        """The epoch that a primary has named last."""

    @property
    def confirmed(self) -> int:
        """All brokers in sync have the log before this offset."""
        return self._store.confirmed

    def connected(self, _primary: LogRange | None, now_ms: int) -> bytes:
        """Return the hello; the range of the primary's log comes with its answer."""
        self._connect(now_ms)
        self._wire = EpochReplica()
        self._said_ms = now_ms
        settings = self._settings()
        return self._wire.hello(
            Hello(self._broker_id, settings.from_last_file, settings.is_learner)
        )

    def receive(self, data: Buffer, now_ms: int) -> None:
        """Take the primary's epochs, chunks and heartbeats."""
        self._heard_ms = now_ms
        for event in self._wire.feed(data):
            if isinstance(event, History):
                self._meet(event)
            else:
                self._take(event)

    def _meet(self, primary: History) -> None:
        """Find where the logs part, and ask for the bytes before that place."""
        if primary.epoch < self.least_epoch:
            raise RemoteProtocolError(
                f"the primary is that of epoch {primary.epoch}, and the group is in epoch "
                f"{self.least_epoch}: another was elected",
                position=0,
            )
        try:
            theirs = EpochHistory(primary.entries)
        except InvalidInput as error:
            raise RemoteProtocolError(f"the primary's epochs: {error}", position=0) from error
        self.met_epoch = primary.epoch
        self._history = theirs
        if not self.is_empty:
            common = self._common_end = self._common(theirs, primary.max_offset)
            self._history = self._epochs.history.followed(common, theirs)
            if common > self._store.log.first_offset:
                self._ask_again(common)
            if not self._compared:
                self._agree()
        if self.is_empty:
            self._ask(_ANYWHERE)
            self._is_agreed = False
        self.state = LinkState.TRANSFER

    def _common(self, theirs: EpochHistory, their_end: int) -> int:
        """Return up to where both logs have the same bytes."""
        own, log = self._epochs.history, self._store.log
        if not own:
            if their_end < log.end:
                raise self._diverged(their_end, "ends, and here are no epochs that could tell why")
            return log.end
        common = own.common_end(log.end, theirs, their_end)
        if common is None and self._was_never_known(theirs):
            return log.first_offset
        if common is None:
            raise self._diverged(
                their_end, f"ends with the epochs {theirs!r}, of which none is here: {own!r}"
            )
        if common < log.first_offset:
            raise self._diverged(
                common,
                f"parts from this log, whose bytes from there to {log.first_offset} are gone",
            )
        return common

    def _was_never_known(self, theirs: EpochHistory) -> bool:
        """Return whether the primary was elected before it had a byte of this log.

        It was in sync with an empty log, so nothing here was acknowledged. A log that others
        had a part of, as that of another group, has been confirmed.
        """
        own = self._epochs.history
        is_elected = own.entries[0].epoch != UNELECTED
        return is_elected and own.is_older(theirs) and not self._store.confirmed

    def _agree(self) -> None:
        """Let the log be that of the primary from here on: the bytes before were compared."""
        if self._store.log.end > self._common_end:
            self._cut()
        self._epochs.follow(self._history, self._common_end)
        self._is_agreed = True

    def _cut(self) -> None:
        """Cut the log where it parts from that of the primary; what is cut is saved."""
        store, common = self._store, self._common_end
        end = store.log.end
        epochs = [one for one in self._epochs.history.ranges(end) if one.end_offset > common]
        log.warning(
            "the log here ends at %d and is not that of the elected primary from %d on: it is cut "
            "there (%d bytes, of the epochs %s)",
            *(end, common, end - common, ", ".join(str(one.epoch) for one in epochs)),
        )
        if common < store.confirmed:
            log.critical(
                "what is cut was confirmed up to %d: a broker that lacked it was elected",
                store.confirmed,
            )
        pieces = [_piece(one, max(one.start_offset, common)) for one in epochs]
        if end - common > self.saved_at_once and self._saved != pieces:
            self._unsaved = pieces
            raise PrepareFirst
        try:
            store.truncate(common, [] if self._saved == pieces else pieces)
        except StoreDamaged as error:
            raise self._diverged(common, f"parts from this log, but {error}") from error

    def preparation(self) -> Generator[None, None, None]:
        """Save what is going to be cut, if it is much."""
        if pieces := self._unsaved:
            yield from self._store.truncation.saving(pieces)
            self._saved, self._unsaved = pieces, []

    def _take(self, chunk: EpochChunk) -> None:
        if chunk.offset < 0:
            return  # the log of a Java primary without a message has no offset yet
        if self.is_empty and not self._is_agreed:
            self._begin_at(chunk.offset)
            self._history = self._history.trimmed(chunk.offset)
            self._epochs.follow(self._history, chunk.offset)
            self._is_agreed = True
        self._check_place(chunk.offset)
        self._note_epoch(chunk)
        fresh = self._fresh(chunk.data)
        if not self._is_agreed and not self._compared:
            self._agree()
        if fresh:
            if self._history.count_before(self._position) > len(self._epochs.history.entries):
                self._epochs.follow(self._history, self._position)
            self._append(fresh)
        if self._is_agreed:
            store = self._store
            store.confirmed = max(store.confirmed, min(chunk.confirm_offset, store.log.end))
            store.dispatch_confirmed()

    def _note_epoch(self, chunk: EpochChunk) -> None:
        """Note an epoch that began while this is connected.

        Java's primary names it with the last bytes before its start already.
        """
        if chunk.epoch <= self._history.last_epoch:
            return
        if chunk.epoch_start_offset < chunk.offset:
            raise RemoteProtocolError(
                f"the primary says that epoch {chunk.epoch} began at {chunk.epoch_start_offset}, "
                f"and has sent the log up to {chunk.offset} as one of epoch "
                f"{self._history.last_epoch}",
                position=0,
            )
        self._history = self._history.begun(chunk.epoch, chunk.epoch_start_offset)

    def _report(self, offset: int) -> bytes:
        return self._wire.report(offset)

    def report_due(self, now_ms: int) -> bytes:
        """Return a report, as the classic follower does; none before the primary has answered."""
        return b"" if self.state is LinkState.HANDSHAKE else super().report_due(now_ms)


def _piece(epoch: Epoch, begin: int) -> LogPiece:
    """Return the bytes of an epoch from an offset on, and the file that they are saved in."""
    name = f"epoch-{epoch.epoch}-from-{begin:020d}-to-{epoch.end_offset:020d}"
    return LogPiece(name, begin, epoch.end_offset)
