"""Every file call of the store, in one place, so that a test can use another disk.

Facts about Python 3.11 on Linux:

- ``mmap.flush`` holds the GIL for as long as the disk takes, ``os.fdatasync`` doesn't.
- A write through a sparse map on a full disk kills the process (SIGBUS); ``pwrite`` fails with
  ENOSPC. So files are written by calls and read through maps.
- Reading a map of a truncated file kills the process, too: nothing here truncates a file that may
  be mapped.
- A map lives as long as a view of it. It is never closed explicitly: a transport may still be
  sending from it.
"""

import errno
import fcntl
import mmap
import os
import resource
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from orbitmq.errors import DiskFailed, StoreLocked
from orbitmq.message.buffer import Buffer

__all__ = ["Disk", "DiskFile", "DiskLock", "RealDisk", "Usage"]

_SYNC: Final = "sync"
_BUFFERS_AT_ONCE: Final = 1024  # IOV_MAX of Linux
_FILES_LEAST: Final = 512
_FILES_MOST: Final = 32_768
"""A file that is open takes some 400 bytes here, and more in the system."""

# Device and inode of each locked file → process that holds the lock. A forked child inherits the
# table but not the locks.
_locked_files: Final[dict[tuple[int, int], int]] = {}


class Usage(NamedTuple):
    """How full a file system is, in bytes."""

    total: int
    used: int
    reserved: int = 0
    """Blocks for root alone: as df counts, they are neither used nor free."""

    @property
    def ratio(self) -> float:
        """The used fraction, from 0 to 1."""
        return self.used / self.total if self.total else 0.0


class DiskFile(Protocol):
    """An open file. Each call may raise ``DiskFailed`` with the path and the system's reason."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    @property
    def size(self) -> int:
        """Its length in bytes."""
        ...

    @property
    def data_end(self) -> int:
        """Where the hole at the end of the file begins; its size if there is none.

        From there on all bytes are 0. There may be zeros and holes before it, too.
        """
        ...

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers, one after the other, from ``offset`` on."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; fewer at the end of the file."""
        ...

    def map(self) -> memoryview:
        """Return a read-only view of the whole file, which shows later writes too."""
        ...

    def allocate(self, size: int, offset: int = 0) -> None:
        """Reserve space for ``size`` bytes from ``offset`` on; a shorter file is extended.

        These bytes must not be written meanwhile: where the file system can't reserve space, the C
        library does it by writing.
        """
        ...

    def extend(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, with a hole at its end."""
        ...

    def sync(self) -> None:
        """Return when what was written is on disk."""
        ...

    def close(self) -> None:
        """Close the file; maps of it stay."""
        ...


class DiskLock(Protocol):
    """A lock on a file, held by this process."""

    def release(self) -> None:
        """Release it."""
        ...


class Disk(Protocol):
    """What the store needs of a disk. Paths are strings; each call may raise ``DiskFailed``."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; with ``create`` a missing one is created, empty."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether ``path`` is a directory."""
        ...

    def size(self, path: str) -> int:
        """Return the length of a file."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in milliseconds since 1970."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; maps of it stay."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on disk."""
        ...

    def hasten(self) -> None:
        """Write back all dirty pages; a hint before many syncs that guarantees nothing."""
        ...

    def files_at_once(self) -> int:
        """Return how many files a store may keep open; connections need descriptors, too."""
        ...

    def usage(self, path: str) -> Usage:
        """Return how full the file system of ``path`` is."""
        ...

    def lock(self, path: str, text: str) -> DiskLock:
        """Lock a file for this process, as Java does, then write ``text`` into it.

        Raise StoreLocked if another process holds the lock.
        """
        ...


class RealDisk:
    """The disk of the machine."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> "RealFile":
        """Open a file; with ``create`` a missing one is created, empty."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        try:
            return RealFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))
        except OSError as error:
            raise _failed(path, "open", error) from error

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # no permission to look does not mean that it is missing
            raise _failed(path, "look at", error) from error
        return True

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(path, "list", error) from error

    def is_directory(self, path: str) -> bool:
        """Whether ``path`` is a directory."""
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failed(path, "look at", error) from error

    def size(self, path: str) -> int:
        """Return the length of a file."""
        with _failing(path, "look at"):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in milliseconds since 1970."""
        with _failing(path, "look at"):
            return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        with _failing(path, "create"):
            os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a file; maps of it stay."""
        with _failing(path, "remove"):
            os.remove(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        with _failing(path, "remove"):
            os.rmdir(path)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced."""
        with _failing(path, f"rename to {new_path}"):
            os.replace(path, new_path)

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on disk."""
        with _failing(path, _SYNC):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def hasten(self) -> None:
        """Write back all dirty pages; a hint before many syncs that guarantees nothing."""
        os.sync()

    def files_at_once(self) -> int:
        """Return half of the process's limit of open files, within bounds."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return _FILES_MOST
        return min(max(limit // 2, _FILES_LEAST), _FILES_MOST)

    def usage(self, path: str) -> Usage:
        """Return how full the file system of ``path`` is."""
        with _failing(path, "look at the file system of"):
            found = os.statvfs(path)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        reserved = (found.f_bfree - found.f_bavail) * found.f_frsize
        return Usage(used + found.f_bavail * found.f_frsize, used, reserved)

    def lock(self, path: str, text: str) -> "RealLock":
        """Lock a file for this process, as Java does, then write ``text`` into it.

        Until the lock is released this process must not open the file again, not even to read it:
        closing any descriptor of the file drops the lock.
        """
        descriptor = -1
        try:
            _refuse_second_lock(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            # A record lock on the first byte, as Java's FileChannel.lock takes it.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(descriptor, text.encode(), 0)
            return RealLock(descriptor)
        except OSError as error:
            holder = _holder_of(descriptor) if descriptor >= 0 else None
            if descriptor >= 0:
                os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN) and descriptor >= 0:
                raise StoreLocked(path, holder) from error
            raise _failed(path, "lock", error) from error


class RealFile:
    """An open file of the machine."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __repr__(self) -> str:
        return f"<RealFile {self.path}>"

    @property
    def size(self) -> int:
        """Its length in bytes."""
        with _failing(self.path, "look at"):
            return os.fstat(self._descriptor).st_size

    @property
    def data_end(self) -> int:
        """Where the hole at the end of the file begins; its size if there is none."""
        with _failing(self.path, "look at"):
            return _data_end(self._descriptor)

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers, one after the other, from ``offset`` on."""
        if offset < 0:  # to pwritev2, which os.pwritev calls, -1 means the current position
            raise _failed(self.path, f"write at {offset} to", _system_error(errno.EINVAL))
        for begin in range(0, len(buffers), _BUFFERS_AT_ONCE):
            part = buffers[begin : begin + _BUFFERS_AT_ONCE]
            wanted = sum(map(len, part))
            try:
                written = os.pwritev(self._descriptor, part, offset)
                if written < wanted:
                    self._write_rest(b"".join(part), written, offset)
            except OSError as error:
                raise _failed(self.path, f"write {wanted} bytes at {offset} to", error) from error
            offset += wanted

    def _write_rest(self, data: bytes, written: int, offset: int) -> None:
        """Write what a short write left, or raise the error that cut it short."""
        view = memoryview(data)
        while written < len(view):
            written += os.pwrite(self._descriptor, view[written:], offset + written)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; fewer at the end of the file."""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise _failed(self.path, f"read {size} bytes at {offset} of", error) from error

    def map(self) -> memoryview:
        """Return a read-only view of the whole file, which shows later writes too."""
        with _failing(self.path, "map"):
            if not self.size:
                return memoryview(b"")
            return memoryview(mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ))

    def allocate(self, size: int, offset: int = 0) -> None:
        """Reserve space for ``size`` bytes from ``offset`` on; a shorter file is extended."""
        with _failing(self.path, f"allocate {size} bytes for"):
            os.posix_fallocate(self._descriptor, offset, size)

    def extend(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, with a hole at its end."""
        with _failing(self.path, f"extend to {size} bytes"):
            # Never shorter: the file may be mapped.
            os.ftruncate(self._descriptor, max(size, self.size))

    def sync(self) -> None:
        """Return when what was written is on disk."""
        with _failing(self.path, _SYNC):
            if self._descriptor < 0:  # os.fdatasync would raise ValueError
                raise _system_error(errno.EBADF)
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file; maps of it stay."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError as error:  # a network file system may report a lost write only now
                raise _failed(self.path, "close", error) from error


class RealLock:
    """A lock that lasts until it is released or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = _identity(os.fstat(descriptor))
        _locked_files[self._file] = os.getpid()

    def release(self) -> None:
        """Release it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _locked_files.pop(self._file, None)
            os.close(descriptor)


def set_read_ahead(view: memoryview, *, on: bool) -> None:
    """Have the system read further pages of a map along with one that is needed, or only that."""
    if isinstance(view.obj, mmap.mmap):
        view.obj.madvise(mmap.MADV_NORMAL if on else mmap.MADV_RANDOM)


def _data_end(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    end = 0
    while end < size:
        try:
            data = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data from there on
                return end
            if error.errno == errno.EINVAL:  # a file system without holes
                return size
            raise
        end = os.lseek(descriptor, data, os.SEEK_HOLE)
    return size


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _refuse_second_lock(path: str) -> None:
    """Raise StoreLocked if this process has the lock; the system would grant it again.

    To be called before the file is opened: closing any descriptor of it drops the lock.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    if _locked_files.get(_identity(found)) == os.getpid():
        raise StoreLocked(path, os.getpid())


def _holder_of(descriptor: int) -> int | None:
    """Return the process that holds the lock on a file, read from the kernel's table.

    The struct of ``fcntl(F_GETLK)`` differs between machines; the table is text.
    """
    inode = os.fstat(descriptor).st_ino
    try:
        with open("/proc/locks") as table:
            rows = [line.split() for line in table]
    except OSError:
        return None  # not Linux, or no permission
    for row in rows:
        # "1: POSIX  ADVISORY  WRITE 1234 08:01:131 0 0"
        if len(row) >= 8 and row[1] == "POSIX" and row[5].rpartition(":")[2] == str(inode):
            return int(row[4])
    return None


def _system_error(reason: int) -> OSError:
    return OSError(reason, os.strerror(reason))


@contextmanager
def _failing(path: str, doing: str) -> Iterator[None]:
    """Raise DiskFailed for an error of the system."""
    try:
        yield
    except OSError as error:
        raise _failed(path, doing, error) from error


def _failed(path: str, doing: str, error: OSError) -> DiskFailed:
    return DiskFailed(
        f"can't {doing} {path}: {error.strerror}",
        path=path,
        errno=error.errno or 0,
        of_sync=doing == _SYNC,
    )
