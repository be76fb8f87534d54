"""Which files are open, for tests of descriptors."""

import errno
import os
from pathlib import Path

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import DiskFile, RealDisk, RealFile


class CountingDisk(RealDisk):
    """Remembers which files were opened, and which of them are."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.files: list[DiskFile] = []

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        file = super().open(path, create=create, writable=writable)
        self.opened.append(Path(path).name)
        self.files.append(file)
        return file

    def open_now(self) -> list[str]:
        return [Path(file.path).name for file in self.files if not closed(file)]


def closed(file: DiskFile) -> bool:
    try:
        file.size  # noqa: B018
    except DiskFailed as error:
        return error.errno == errno.EBADF
    return False


def descriptors_of(directory: Path) -> int:
    """Return how many files below a directory this process has open."""
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sum(directory in link.readlink().parents for link in links if link.is_symlink())
