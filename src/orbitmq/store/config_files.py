"""The texts in ``config/``: topics, groups, offsets, each with the version before it as ``.bak``.

They are written and found as Java's ConfigManager does, with two differences. A new version is
written under another name first, so no crash leaves a half of it. And a file that can't be read is
kept as ``.damaged``, where Java deletes it.

>>> from orbitmq.testing.disks import SimulatedDisk
>>> config = ConfigFiles(SimulatedDisk(), "/store/config")
>>> config.read("delayOffset.json", int) is None
True
>>> config.write("delayOffset.json", "17")
>>> config.read("delayOffset.json", int)
17

"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from orbitmq.errors import OrbitError, StoreDamaged, StoreError
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import make_durable_directory, read_file, replace_file

__all__ = ["ConfigFiles"]

T = TypeVar("T")

log = logging.getLogger("orbitmq.store")

_BACKUP: Final = ".bak"
_DAMAGED: Final = ".damaged"
_REASON_CHARACTERS: Final = 200


class ConfigFiles:
    """The directory of the metadata files; made at the first write.

    With ``writable`` False nothing is changed, not even to set a damaged file aside: for offline
    readers of a store that may belong to somebody else.
    """

    def __init__(self, disk: Disk, directory: str, *, writable: bool = True) -> None:
        self.directory = directory
        self._disk = disk
        self._writable = writable

    def __repr__(self) -> str:
        return f"<ConfigFiles {self.directory}>"

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return what ``parse`` makes of the file, or of its backup; None if there is neither.

        An empty file counts as absent. ``parse`` says that a text can't be used by raising an
        ``OrbitError`` or a ``ValueError``; the backup is taken then, a warning logged, and the bad
        file set aside, so that the next write doesn't make it the backup.

        Raises:
            StoreDamaged: there is a file, and no version of it can be used. Nothing was changed.
            DiskFailed: a file is there and can't be read.

        """
        path = f"{self.directory}/{name}"
        backup = path + _BACKUP
        fault: tuple[str, Exception] | None = None
        for version in (path, backup):
            data = read_file(self._disk, version)
            if not data:
                continue
            try:
                value = parse(data.decode())
            except (OrbitError, ValueError) as error:
                fault = fault or (version, error)
                continue
            if version == backup:
                self._fall_back(path, "absent or empty" if fault is None else _reason(fault[1]))
            return value
        if fault is not None:
            raise _unusable(*fault) from fault[1]
        return None

    def write(self, name: str, text: str) -> None:
        """Write a new version, keep the last one as the backup; return when it is on the disk.

        After a crash at any point ``read`` finds the old version or the new one, and so does Java.

        Raises:
            DiskFailed: the old version is still there.
            StoreError: the files were opened for reading alone.

        """
        if not self._writable:
            raise StoreError(
                f"{self.directory} was opened for reading; {name} was not written",
                path=self.directory,
            )
        if not self._disk.exists(self.directory):
            make_durable_directory(self._disk, self.directory)
        path = f"{self.directory}/{name}"
        replace_file(self._disk, path, text.encode(), backup=path + _BACKUP)

    def _fall_back(self, path: str, reason: str) -> None:
        """Say that the backup is used, and set the file aside if there is one."""
        log.warning("%s can't be used (%s); %s is, an older version", path, reason, path + _BACKUP)
        if self._writable and self._disk.exists(path):
            # Not synced: a crash that undoes it brings this same choice back.
            self._disk.rename(path, path + _DAMAGED)


def _unusable(path: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{path} can't be used ({_reason(error)}), and there is no other version; put a good one "
        "in its place, or remove it to begin without",
        path=path,
    )


def _reason(error: Exception) -> str:
    """Return a parser's words, but not all of a text that it may repeat."""
    text = str(error)
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}…"
