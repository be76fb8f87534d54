"""All file calls of a local offset store. They block, so worker threads make them.

A new version is written to another name and synced; then the last one becomes the backup, and the
new one takes its place. A crash leaves one of them readable.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from orbitmq.errors import DiskFailed

__all__ = ["OffsetFile"]

_BACKUP: Final = ".bak"


class OffsetFile:
    """A file with its backup; its directories are created when it is first written."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))

    def __repr__(self) -> str:
        return f"<OffsetFile {self.path}>"

    def versions(self) -> Iterator[bytes]:
        """Yield the contents of the file and of its backup, those that exist and are not empty."""
        for path in (self.path, self.path + _BACKUP):
            with _as_disk_failure(path), suppress(FileNotFoundError), open(path, "rb") as file:
                if raw := file.read():
                    yield raw

    def replace(self, raw: bytes) -> None:
        """Write a new version; return when it is on disk."""
        with _as_disk_failure(self.path):
            directory = os.path.dirname(self.path)
            os.makedirs(directory, exist_ok=True)
            fresh = f"{self.path}.new"
            with open(fresh, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.replace(self.path, self.path + _BACKUP)
            os.replace(fresh, self.path)
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextmanager
def _as_disk_failure(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise DiskFailed(f"{path}: {why}", path=path, errno=error.errno or 0) from error
