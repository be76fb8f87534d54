"""The epochs of a log, one for each primary that wrote it, and the file that keeps them.

::

    epoch        3              5                        8
    log    ──────┴──────────────┴────────────────────────┴─────────▶ end
                 1,024          51,200                   88,064

Two logs with an epoch of the same number and start have the same bytes up to there, and in it as
far as both reach. So their epochs tell where they part, without a look at the bytes.

Invariants:

- Numbers and starts increase from epoch to epoch. An epoch that got no byte is forgotten when the
  next begins; Java keeps it, and drops the next, whose bytes then count as those of the former.
- An epoch is in the file before its first byte is in the log, and the log is cut before the epochs
  are. So no byte is ever taken for one of another epoch; an epoch without a byte may be left over.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from orbitmq.errors import InvalidInput, OrbitError, StoreDamaged
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import parent_of, read_file, replace_file
from orbitmq.wire.epoch_stream import EPOCH_MAX, EpochEntry
from orbitmq.wire.replica_stream import OFFSET_MAX

__all__ = ["EPOCH_FILE", "NO_EPOCH", "UNELECTED", "Epoch", "EpochFile", "EpochHistory"]

log = logging.getLogger("orbitmq.replication")

EPOCH_FILE: Final = "epochFileCheckpoint"
"""Its name in the store directory (Java's ``storePathEpochFile``)."""
NO_EPOCH: Final = -1
UNELECTED: Final = 0
"""The epoch of what a log had before its broker was first elected."""

_CRC_MASK: Final = 0x7FFF_FFFF
_UNCHECKED: Final = 0  # Java compares no checksum if this is in its place
_HEAD_LINES: Final = 2


class Epoch(NamedTuple):
    """One epoch, and the bytes of the log that belong to it."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochHistory:
    """The epochs of a log, the oldest first; it does not change.

    Raises:
        InvalidInput: numbers or starts do not increase, or are out of range.

    >>> ours = EpochHistory([EpochEntry(3, 0), EpochEntry(5, 1000)])
    >>> theirs = EpochHistory([EpochEntry(3, 0), EpochEntry(6, 800)])
    >>> ours.common_end(1200, theirs, 900)
    800
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries = tuple(entries)
        """Number and start of each epoch."""
        before = EpochEntry(NO_EPOCH, -1)
        for one in self.entries:
            in_range = one.epoch <= EPOCH_MAX and one.start_offset <= OFFSET_MAX
            if not in_range or one.epoch <= before.epoch or one.start_offset <= before.start_offset:
                raise InvalidInput(
                    f"epoch {one.epoch} at {one.start_offset} can't come after epoch "
                    f"{before.epoch} at {before.start_offset}: both have to increase",
                    field="epoch",
                )
            before = one

    def __repr__(self) -> str:
        listed = ", ".join(f"{epoch}@{start}" for epoch, start in self.entries)
        return f"<EpochHistory {listed or 'empty'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochHistory) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def last(self) -> EpochEntry | None:
        """The newest epoch."""
        return self.entries[-1] if self.entries else None

    @property
    def last_epoch(self) -> int:
        """The number of the newest epoch; -1 without any."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def at(self, offset: int) -> EpochEntry | None:
        """Return the epoch of the byte at an offset; None if it is before all."""
        index = bisect_right(self.entries, offset, key=lambda one: one.start_offset)
        return self.entries[index - 1] if index else None

    def end_of(self, entry: EpochEntry) -> int | None:
        """Return where an epoch ends; None if it is the newest, which may grow."""
        later = self.entries[self.entries.index(entry) + 1 :]
        return later[0].start_offset if later else None

    def ranges(self, end: int) -> tuple[Epoch, ...]:
        """Return the epochs of a log that ends at ``end``, with their ends."""
        ends = [*(one.start_offset for one in self.entries[1:]), end]
        return tuple(Epoch(*one, stop) for one, stop in zip(self.entries, ends, strict=False))

    def common_end(self, end: int, other: "EpochHistory", other_end: int) -> int | None:
        """Return up to where two logs have the same bytes; None if no epoch is in both.

        The logs end at ``end`` and ``other_end``.
        """
        theirs = {(one.epoch, one.start_offset): one for one in other.ranges(other_end)}
        for own in reversed(self.ranges(end)):
            same = theirs.get((own.epoch, own.start_offset))
            if same is not None:
                return min(own.end_offset, same.end_offset)
        return None

    def is_older(self, other: "EpochHistory") -> bool:
        """Return whether the other log begins at the same offset, in an epoch after all of these.

        >>> EpochHistory([EpochEntry(1, 0)]).is_older(EpochHistory([EpochEntry(2, 0)]))
        True
        """
        if not self.entries or not other.entries:
            return False
        first, theirs = self.entries[0], other.entries[0]
        return first.start_offset == theirs.start_offset and self.last_epoch < theirs.epoch

    def begun(self, epoch: int, offset: int) -> "EpochHistory":
        """Return the history after an epoch began at the end of the log, or goes on.

        Raise InvalidInput if it is older than the newest here: its primary was replaced.
        """
        if epoch == self.last_epoch:
            return self
        if epoch < self.last_epoch:
            raise InvalidInput(
                f"epoch {epoch} is over: the log here has epoch {self.last_epoch}", field="epoch"
            )
        return EpochHistory((*self.cut(offset).entries, EpochEntry(epoch, offset)))

    def followed(self, offset: int, other: "EpochHistory") -> "EpochHistory":
        """Return the history of a log that is this one before an offset, and another from there on.

        The logs agree up to there. Without an epoch of its own the log has those of the other.
        """
        own = self.cut(offset).entries
        later = (one for one in other.entries if one.start_offset >= offset)
        return EpochHistory((*own, *later)) if own else other

    def count_before(self, offset: int) -> int:
        """Return how many epochs begin before an offset."""
        return bisect_left(self.entries, offset, key=lambda one: one.start_offset)

    def cut(self, offset: int) -> "EpochHistory":
        """Return the history of the log before an offset."""
        return EpochHistory(one for one in self.entries if one.start_offset < offset)

    def trimmed(self, first_offset: int) -> "EpochHistory":
        """Return the history of the log from an offset on; the newest epoch stays in any case."""
        kept = self.at(first_offset)
        return self if kept is None else EpochHistory(self.entries[self.entries.index(kept) :])

    def encode(self) -> bytes:
        r"""Return the content of an epoch file.

        >>> EpochHistory([EpochEntry(7, 7000), EpochEntry(8, 8000)]).encode()
        b'2\n773307083\n7-7000\n8-8000\n'
        """
        lines = b"".join(b"%d-%d\n" % one for one in self.entries)
        return b"%d\n%d\n" % (len(self.entries), crc32(lines) & _CRC_MASK) + lines

    @classmethod
    def decode(cls, data: bytes) -> "EpochHistory":
        r"""Return what an epoch file says; raise InvalidInput if it can't be read.

        >>> EpochHistory.decode(b'1\n0\n4-640\n')
        <EpochHistory 4@640>
        """
        lines = data.split(b"\n")
        numbers, entries = lines[:_HEAD_LINES], [line for line in lines[_HEAD_LINES:] if line]
        try:
            count, crc = (int(number) for number in numbers)
            found = [EpochEntry(*map(int, line.split(b"-"))) for line in entries]
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"it is no epoch file: {error}", field="epochs") from error
        if count != len(found):
            raise InvalidInput(f"it has {len(found)} of {count} epochs", field="epochs")
        actual = crc32(b"".join(line + b"\n" for line in entries)) & _CRC_MASK
        if crc not in (_UNCHECKED, actual):
            raise InvalidInput(f"its checksum is {actual}, and should be {crc}", field="epochs")
        return cls(found)


class EpochFile:
    """The epochs of a store's log, on disk: what a method has changed is there when it returns.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> epochs = EpochFile(disk, "/")
    >>> epochs.begin(1, 0)
    >>> disk.crash()
    >>> EpochFile(disk, "/").history
    <EpochHistory 1@0>
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the file; raise StoreDamaged if it can't be read."""
        self._disk = disk
        self._path = f"{directory.rstrip('/')}/{EPOCH_FILE}"
        self.history = self._read()
        """All epochs."""

    def __repr__(self) -> str:
        return f"<EpochFile {self._path} {self.history!r}>"

    def begin(self, epoch: int, offset: int, *, log_start: int | None = None) -> None:
        """Let an epoch begin at the end of the log, before its first byte is appended.

        The newest one goes on. ``log_start`` is where the log begins: what a log without epochs has
        before becomes epoch 0, which nobody is elected for. Raise InvalidInput if the epoch is
        over.
        """
        before = self.history
        if not before and log_start is not None and log_start < offset:
            before = EpochHistory([EpochEntry(UNELECTED, log_start)])
        self._replace(before.begun(epoch, offset))

    def follow(self, history: EpochHistory, end: int) -> None:
        """Take the epochs of a primary that begin before ``end``.

        Call it before bytes up to there are appended. ``history`` is that of the log which the
        replica is going to have.
        """
        self._replace(history.cut(end))

    def cut(self, offset: int) -> None:
        """Forget the epochs from an offset on, after the log was cut there, or when it is opened.

        Call it with the end of the log at a start: a crash may leave an epoch without a byte.
        """
        self._replace(self.history.cut(offset))

    def trim(self, first_offset: int) -> None:
        """Forget the epochs of which the log has no byte any more, since old files were removed."""
        self._replace(self.history.trimmed(first_offset))

    def _read(self) -> EpochHistory:
        data = read_file(self._disk, self._path)
        if data is None:
            return EpochHistory()
        try:
            return EpochHistory.decode(data)
        except OrbitError as error:
            raise StoreDamaged(
                f"{self._path} can't be read: {error}. It says which primary wrote what of the "
                f"log. Put a copy back ({EPOCH_FILE}.bak is the version before, if a Java broker "
                "wrote it), or remove it: the log is then compared by its last bytes",
                path=self._path,
                position=0,
            ) from error

    def _replace(self, history: EpochHistory) -> None:
        if history == self.history:
            return
        if history:
            replace_file(self._disk, self._path, history.encode())
        else:
            self._remove()
        log.info("epochs of the log: %r; before: %r", history, self.history)
        self.history = history

    def _remove(self) -> None:
        """Remove the file, and Java's copy, which a Java broker reads if the file is missing."""
        for path in (f"{self._path}.bak", self._path):
            if self._disk.exists(path):
                self._disk.remove(path)
        self._disk.sync_directory(parent_of(self._path))
