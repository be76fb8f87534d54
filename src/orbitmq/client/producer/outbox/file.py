"""All file calls of an outbox. They block, so worker threads make them, one at a time.

A record is safe when ``append`` has returned: it was appended and synced. A rewrite drops records
that are no longer needed: it writes and syncs a new file, which then replaces the old one by a
rename.

Only one process may use the file; the lock is a second file, ``….lock``, which is never removed.
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

_OWNER_ONLY: Final = 0o600  # other users must not read the bodies of messages


class Contents(NamedTuple):
    """What an outbox file holds.

    ``refused`` are messages that no retry will send, each with the reason. ``next_sequence`` is
    above all numbers in use. ``torn_bytes`` is what a crash left after the last valid record, not
    counted in ``file_bytes``. ``broken`` counts unreadable stretches between valid records.
    """

    waiting: tuple[Entry, ...]
    refused: tuple[Entry, ...]
    next_sequence: int
    file_bytes: int
    torn_bytes: int
    broken: int


class _Span(NamedTuple):
    """Where in the file the record of a message is."""

    position: int
    size: int


def read_contents(path: str) -> Contents:
    """Return what an outbox file holds, without a lock: its producer may be running."""
    with _as_disk_failure(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            return _contents(_mapped(fd), path)[0]
        finally:
            os.close(fd)


class OutboxFile:
    """An outbox file in use; its directory must exist."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # the program may change its directory later
        self._spans: dict[int, _Span] = {}
        self._fd = -1
        self._lock = -1
        self._broken: DiskFailed | None = None
        self.size = 0

    def __repr__(self) -> str:
        return f"<OutboxFile {self.path} {self.size} bytes, {len(self._spans)} messages>"

    def open(self) -> Contents:
        """Lock the file, create it if missing, cut off a torn end, and return its contents.

        Raise StoreLocked if another process, or another producer of this process, uses it, and
        StoreDamaged if it is not an outbox.
        """
        self._lock = _locked(f"{self.path}.lock")
        try:
            with _as_disk_failure(self.path):
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
                contents, self._spans = _contents(_mapped(self._fd), self.path)
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
                "%s: cut off %d bytes of incomplete records, left by a crash",
                self.path,
                contents.torn_bytes,
            )
        if contents.broken:
            log.error("%s: skipped %d damaged stretches of the file", self.path, contents.broken)

    def append(self, records: Sequence[tuple[Kind, int, bytes]], *, sync: bool) -> None:
        """Append records, each with its kind and sequence.

        Raise DiskFailed if a file call fails; none of the records is in the file. After a failed
        sync the state of the disk is unknown, so this and every later call fails.
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
                self._spans[sequence] = _Span(position, len(one))
            elif kind is Kind.DONE:
                self._spans.pop(sequence, None)
            position += len(one)

    def read(self, sequence: int) -> Kept:
        """Return a kept message; raise CorruptRecord if its record is damaged."""
        span = self._spans[sequence]
        with _as_disk_failure(self.path):
            raw = os.pread(self._fd, span.size, span.position)
        for record in scan(MARK + raw):
            return read_kept(record.payload, position=span.position)
        raise CorruptRecord(
            f"{self.path}: the message at byte {span.position} is damaged", position=span.position
        )

    def rewrite(self, refused: Iterable[Entry]) -> None:
        """Replace the file by one with only the messages, and the reasons of refused ones.

        If it fails, the file is unchanged; or, if syncing the directory failed, a power loss may
        bring the old file back, and no more messages are kept.
        """
        self._check_sound()
        fresh = f"{self.path}.new"
        spans: dict[int, _Span] = {}
        with _as_disk_failure(fresh):
            fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
            try:
                _write_all(fd, MARK, 0)
                end = len(MARK)
                for sequence, span in sorted(self._spans.items()):
                    _write_all(fd, os.pread(self._fd, span.size, span.position), end)
                    spans[sequence] = _Span(end, span.size)
                    end += span.size
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
        self._fd, self._spans, self.size = fd, spans, end
        try:
            with _as_disk_failure(self.path):
                _sync_directory(self.path)
        except DiskFailed as error:  # a power loss would bring the old file back, without new ones
            self._broken = error
            raise

    def close(self) -> None:
        """Close and unlock the file; a second call does nothing."""
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
                f"{self.path}: an earlier sync failed ({self._broken}), so no message can be kept; "
                "start the producer again",
                path=self.path,
                errno=self._broken.errno,
            )


def _contents(raw: Buffer, path: str) -> tuple[Contents, dict[int, _Span]]:
    waiting: dict[int, Entry] = {}
    refused: dict[int, Entry] = {}
    spans: dict[int, _Span] = {}
    last = 0
    unreadable = 0
    try:
        found = scan(raw)
    except CorruptRecord as error:
        raise StoreDamaged(f"{path}: {error}; give another file", path=path) from error
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
            spans[record.sequence] = _Span(record.position, record.size)
        elif record.kind is Kind.DONE:
            waiting.pop(record.sequence, None)
            refused.pop(record.sequence, None)
            spans.pop(record.sequence, None)
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
    return contents, spans


def _mapped(fd: int) -> Buffer:
    """Return the bytes of a file without reading them all into memory."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):  # mmap's own error would be "no such device"
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    size = status.st_size
    return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ)) if size else b""


def _locked(path: str) -> int:
    """Lock a file, created if missing, write our process id to it, and return its descriptor."""
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
    """Sync the directory, so that the file's name survives a power loss."""
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
