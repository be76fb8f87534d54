"""The file of an outbox: every file call it makes. Blocking, so workers make them, one at a time.

A record is safe when ``append`` has returned: it was written behind the others, and synced. What is
of no use any more is left behind when the file is rewritten: the new one is made beside it, synced,
and put in its place by one rename.

Only one process may use the file; the lock is a file beside it, ``….lock``, which stays.
"""

import errno
import fcntl
import logging
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from orbitmq.client.producer.outbox.ledger import Entry
from orbitmq.client.producer.outbox.records import MARK, Kept, Kind, encode, read_kept, scan
from orbitmq.errors import CorruptRecord, DiskFailed, StoreDamaged, StoreLocked
from orbitmq.message.buffer import Buffer

__all__ = ["Contents", "OutboxFile", "read_contents"]

log = logging.getLogger("orbitmq.client")

_OWNER_ONLY: Final = 0o600  # the bodies of messages are nobody else's business


class Contents(NamedTuple):
    """What an outbox file holds.

    Attributes:
        waiting: messages to be sent, in the order of keeping.
        refused: messages that no try will send, each with the reason.
        next_sequence: a number above all that were given.
        file_bytes: the size of the file, without a torn end.
        torn_bytes: what a crash left behind the last sound record.
        broken: places that can't be read although sound records follow.

    """

    waiting: tuple[Entry, ...]
    refused: tuple[Entry, ...]
    next_sequence: int
    file_bytes: int
    torn_bytes: int
    broken: int


class _Place(NamedTuple):
    position: int
    size: int


def read_contents(path: str) -> Contents:
    """Return what an outbox file holds, without a lock: its producer may be running.

    Raises:
        DiskFailed: it can't be read, or there is none.
        StoreDamaged: it is no outbox.

    """
    with _as_disk_failure(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            return _contents(_mapped(fd), path)[0]
        finally:
            os.close(fd)


class OutboxFile:
    """An outbox file in use.

    Args:
        path: where it is; its directory must exist.

    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # the program may change its directory later
        self._places: dict[int, _Place] = {}
        self._fd = -1
        self._lock = -1
        self._broken: DiskFailed | None = None
        self.size = 0

    def __repr__(self) -> str:
        return f"<OutboxFile {self.path} {self.size} bytes, {len(self._places)} messages>"

    def open(self) -> Contents:
        """Lock the file, made if there is none, cut off a torn end, and return what it holds.

        Raises:
            StoreLocked: another process, or another producer of this one, uses it.
            StoreDamaged: it is no outbox.
            DiskFailed: a file call was refused.

        """
        self._lock = _locked(f"{self.path}.lock")
        try:
            with _as_disk_failure(self.path):
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
                contents, self._places = _contents(_mapped(self._fd), self.path)
                self._begin(contents)
        except BaseException:
            self.close()
            raise
        return contents

    def _begin(self, contents: Contents) -> None:
        self.size = contents.file_bytes
        if not self.size:
            os.pwrite(self._fd, MARK, 0)
            self.size = len(MARK)
        os.ftruncate(self._fd, self.size)
        os.fsync(self._fd)
        _sync_directory(self.path)
        if contents.torn_bytes:
            log.warning(
                "%s: a crash left %d bytes of records that were not written to the end; they are "
                "cut off",
                self.path,
                contents.torn_bytes,
            )
        if contents.broken:
            log.error("%s: %d places can't be read any more", self.path, contents.broken)

    def append(self, records: Sequence[tuple[Kind, int, bytes]], *, sync: bool) -> None:
        """Write records, given with kind and sequence, behind the others.

        Raises:
            DiskFailed: the system refused; none of them is in the file. After a failed sync nobody
                knows what is on the disk, so that this and every later call fails.

        """
        self._check_sound()
        raw = b"".join(one for _, _, one in records)
        start = self.size
        try:
            with _as_disk_failure(self.path):
                _write_all(self._fd, raw, start)
        except DiskFailed:
            with _as_disk_failure(self.path):
                os.ftruncate(self._fd, start)  # what was written of it would be a torn end
            raise
        if sync:
            self._sync()
        self.size = start + len(raw)
        position = start
        for kind, sequence, one in records:
            if kind is Kind.KEPT:
                self._places[sequence] = _Place(position, len(one))
            elif kind is Kind.DONE:
                self._places.pop(sequence, None)
            position += len(one)

    def read(self, sequence: int) -> Kept:
        """Return a kept message.

        Raises:
            CorruptRecord: it can't be read any more.
            DiskFailed: the system refused.

        """
        place = self._places[sequence]
        with _as_disk_failure(self.path):
            raw = os.pread(self._fd, place.size, place.position)
        for record in scan(MARK + raw):
            return read_kept(record.payload, position=place.position)
        raise CorruptRecord(
            f"{self.path}: the message at byte {place.position} is damaged",
            position=place.position,
        )

    def rewrite(self, refused: Iterable[Entry]) -> None:
        """Leave behind what is of no use: keep the messages, and what is said of refused ones.

        Raises:
            DiskFailed: the system refused; the file is what it was, or it is not known which one a
                power loss would leave, so that nothing is kept any more.

        """
        self._check_sound()
        fresh = f"{self.path}.new"
        places: dict[int, _Place] = {}
        with _as_disk_failure(fresh):
            fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
            try:
                _write_all(fd, MARK, 0)
                end = len(MARK)
                for sequence, place in sorted(self._places.items()):
                    _write_all(fd, os.pread(self._fd, place.size, place.position), end)
                    places[sequence] = _Place(end, place.size)
                    end += place.size
                for entry in refused:
                    raw = encode(Kind.REFUSED, entry.sequence, entry.reason)
                    _write_all(fd, raw, end)
                    end += len(raw)
                os.fsync(fd)
                os.rename(fresh, self.path)
            except BaseException:
                os.close(fd)
                raise
            os.close(self._fd)
        self._fd, self._places, self.size = fd, places, end
        try:
            with _as_disk_failure(self.path):
                _sync_directory(self.path)
        except DiskFailed as error:  # a power loss would bring the old file back, without new ones
            self._broken = error
            raise

    def close(self) -> None:
        """Close the file and let others have it; twice is no error."""
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child may have the descriptor too
        for fd in (self._fd, self._lock):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock = -1

    def _sync(self) -> None:
        try:
            with _as_disk_failure(self.path):
                os.fdatasync(self._fd)
        except DiskFailed as error:
            self._broken = error
            raise

    def _check_sound(self) -> None:
        if self._broken is not None:
            raise DiskFailed(
                f"{self.path}: a sync failed before ({self._broken}), so nothing can be kept there "
                "until the producer is started anew",
                path=self.path,
                errno=self._broken.errno,
            )


def _contents(raw: Buffer, path: str) -> tuple[Contents, dict[int, _Place]]:
    waiting: dict[int, Entry] = {}
    refused: dict[int, Entry] = {}
    places: dict[int, _Place] = {}
    last = 0
    unreadable = 0
    try:
        found = scan(raw)
    except CorruptRecord as error:
        raise StoreDamaged(f"{path}: {error}; name another file", path=path) from error
    for record in found:
        last = max(last, record.sequence)
        if record.kind is Kind.KEPT:
            try:
                kept = read_kept(record.payload, position=record.position)
            except CorruptRecord as error:
                log.error("%s: %s", path, error)
                unreadable += 1
                continue
            waiting[record.sequence] = Entry.of(record.sequence, record.size, kept)
            places[record.sequence] = _Place(record.position, record.size)
        elif record.kind is Kind.DONE:
            waiting.pop(record.sequence, None)
            refused.pop(record.sequence, None)
            places.pop(record.sequence, None)
        elif record.sequence in waiting:
            reason = record.payload.decode(errors="replace")
            refused[record.sequence] = waiting.pop(record.sequence)._replace(reason=reason)
    end = min(found.end, len(raw)) if len(raw) >= len(MARK) else 0
    contents = Contents(
        tuple(waiting.values()),
        tuple(refused.values()),
        last + 1,
        end,
        len(raw) - end,
        found.broken + unreadable,
    )
    return contents, places


def _mapped(fd: int) -> Buffer:
    """Return the bytes of a file without reading them all into memory."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):  # of which mmap would say that there is no such device
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    size = status.st_size
    return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ)) if size else b""


def _locked(path: str) -> int:
    """Lock a file, made if there is none, with our process id in it; return its descriptor."""
    with _as_disk_failure(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        holder = os.pread(fd, 20, 0).decode(errors="replace")
        os.close(fd)
        raise StoreLocked(path, int(holder) if holder.isdecimal() else None) from None
    except OSError as error:
        os.close(fd)
        raise _disk_failure(path, error) from error
    return fd


def _write_all(fd: int, raw: bytes, position: int) -> None:
    view = memoryview(raw)
    while view:
        written = os.pwrite(fd, view, position)
        view = view[written:]
        position += written


def _sync_directory(path: str) -> None:
    """Have the file's name survive a power loss."""
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _as_disk_failure(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _disk_failure(path, error) from error


def _disk_failure(path: str, error: OSError) -> DiskFailed:
    why = error.strerror or str(error)
    return DiskFailed(f"{path}: {why}", path=path, errno=error.errno or errno.EIO)
