"""A stream of bytes in files of one size, each named by the byte it begins with: one queue's files.

``OpenFiles`` has the open files of all queues.
"""

import logging

from orbitmq.errors import StoreDamaged
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.disk.stream_files import file_name, file_path, load_stream

__all__ = ["QueueFiles"]

log = logging.getLogger("orbitmq.store")

_CLEARED_AHEAD = 1 << 16
_ZEROS = bytes(_CLEARED_AHEAD)
_HEAD_BYTES = 20  # of an entry, which is not all 0


class QueueFiles:
    """The files of one directory, without a gap between them, from ``start`` to ``end``."""

    __slots__ = ("_cleared_to", "_directory", "_files", "_size", "end", "start")

    def __init__(self, files: OpenFiles, directory: str, file_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._size = file_bytes
        self.start = 0
        self.end = 0
        self._cleared_to = 0

    def __repr__(self) -> str:
        return f"<QueueFiles {self._directory} {self.start}..{self.end}>"

    def load(self) -> None:
        """Find the files; subdirectories are ignored, and an empty last file is removed.

        If a file is missing between others, the files before it are removed, or those after it if
        they are empty: a queue may lack its first files, which a start rebuilds from the log. Raise
        StoreDamaged if a file has another length or name.
        """
        found, others = load_stream(self._files.disk, self._directory, self._size)
        for path in others:
            raise StoreDamaged(f"{path} is not named by 20 digits; move it away", path=path)
        if found:
            self.start = self.end = found[0].base
        for path, start, _ in found:
            if start != self.end:
                log.warning("%s is missing before %s", file_name(self.end), path)
                if not any(self._files.read(path, _HEAD_BYTES, 0)):
                    self._files.remove(path)
                    continue
                self.remove_behind(0)
                self.start = self.end = start
            self.end += self._size

    def path_of(self, position: int) -> str:
        """Return the path of the file that holds, or would hold, a position."""
        return file_path(self._directory, position - position % self._size)

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer at the end of the file, none outside all files."""
        if not self.start <= position < self.end:
            return b""
        return self._files.read(self.path_of(position), size, position % self._size)

    def write(self, position: int, data: Buffer) -> None:
        """Write ``data``, one call for each file that it touches; a missing file is created.

        The caller writes into existing files, or where the next one begins. If there is none, any
        position is allowed.
        """
        if self.start == self.end:
            self.start = self.end = position - position % self._size
        view = memoryview(data)
        while view:
            if position >= self.end:
                self._files.create(self._directory, file_name(self.end), self._size)
                self.end += self._size
                self._cleared_to = self.end
            assert self.start <= position < self.end, (self.start, position, self.end)
            at = position % self._size
            part = view[: self._size - at]
            self._files.write(self.path_of(position), part, at)
            position += len(part)
            view = view[len(part) :]
        if position + _CLEARED_AHEAD > self._cleared_to < self.end:
            self._cleared_to = max(self._cleared_to, position)
            self._clear_to(position + 2 * _CLEARED_AHEAD)

    def clear(self, position: int, stale_end: int) -> None:
        """Zero the bytes after ``position`` in its file, immediately up to ``stale_end``.

        What comes after that is unknown. Reading it all, for every queue of the store, would take
        too long, so it is read and cleared piece by piece, ahead of what is written. A reader stops
        at zeros and does not reach the rest.
        """
        self._cleared_to = max(position, self.start)
        self._clear_to(max(stale_end, position + _CLEARED_AHEAD))

    def _clear_to(self, position: int) -> None:
        position = min(position, self.end)
        while self._cleared_to < position:
            at = self._cleared_to % self._size
            size = min(_CLEARED_AHEAD, position - self._cleared_to, self._size - at)
            path = self.path_of(self._cleared_to)
            data = self._files.read(path, size, at)
            # Only what is not 0 yet is written: the rest takes no space, and should not.
            if data != _ZEROS[: len(data)]:
                self._files.write(path, _ZEROS[: len(data.rstrip(b"\x00"))], at)
                # Before anything is written next to it, so that a crash can't bring it back.
                self._files.sync(path)
            self._cleared_to += size

    def remove_behind(self, position: int) -> list[str]:
        """Remove the files that begin at or after ``position``, last first; return their paths."""
        removed = []
        while self.end > self.start and self.end - self._size >= position:
            removed.append(self.path_of(self.end - self._size))
            self._files.remove(removed[-1])
            self.end -= self._size
        return removed

    def discard(self) -> None:
        """Close the files without syncing them: they are about to be removed."""
        for start in range(self.start, self.end, self._size):
            self._files.discard(self.path_of(start))

    def take_before(self, other: "QueueFiles") -> None:
        """Move the files of another stream, all closed, that precede the first file here.

        The last one is moved first, and each is on disk before the next: a crash leaves no gap.
        """
        disk = self._files.disk
        if self.start == self.end:
            self.start = self.end = other.end
        for position in range(self.start - self._size, other.start - 1, -self._size):
            disk.rename(other.path_of(position), self.path_of(position))
            disk.sync_directory(self._directory)
            self.start = position

    def remove_first(self) -> str:
        """Remove the first file; return its path."""
        path = self.path_of(self.start)
        self._files.remove(path)
        self.start += self._size
        return path
