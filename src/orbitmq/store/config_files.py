"""The files in ``config/``: topics, groups, offsets, each with its previous version as ``.bak``.

They are written and read as Java's ConfigManager does, with two differences. A new version is
written to another name first, so that no crash leaves half of it. A file that can't be read is kept
as ``.damaged``; Java deletes it.

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
from dataclasses import dataclass
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


@dataclass(repr=False)
class ConfigFiles:
    """The directory of the metadata files; created at the first write.

    With ``writable`` False nothing is changed, not even to rename a damaged file: for offline
    readers.
    """

    _disk: Disk
    directory: str
    writable: bool = True

    def __repr__(self) -> str:
        return f"<ConfigFiles {self.directory}>"

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the parsed file, or its parsed backup; None if both are missing or empty.

        If ``parse`` raises an ``OrbitError`` or a ``ValueError``, the backup is used, with a
        warning, and the bad file is renamed, so that the next write doesn't make it the backup. If
        the backup can't be parsed either, raise StoreDamaged and change nothing.
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
                self._fall_back(path, "missing or empty" if fault is None else _reason(fault[1]))
            return value
        if fault is not None:
            raise _unusable(*fault) from fault[1]
        return None

    def write(self, name: str, text: str) -> None:
        """Write a new version, keep the last one as the backup; return when it is on disk.

        After a crash or a disk failure at any point ``read``, and Java, find the old version or the
        new one. Raise StoreError if the files were opened for reading only.
        """
        if not self.writable:
            raise StoreError(
                f"{self.directory} was opened for reading only; {name} was not written",
                path=self.directory,
            )
        if not self._disk.exists(self.directory):
            make_durable_directory(self._disk, self.directory)
        path = f"{self.directory}/{name}"
        replace_file(self._disk, path, text.encode(), backup=path + _BACKUP)

    def _fall_back(self, path: str, reason: str) -> None:
        """Log that the backup is used, and rename the bad file."""
        log.warning(
            "%s can't be used (%s); its older version %s is used", path, reason, path + _BACKUP
        )
        if self.writable and self._disk.exists(path):
            # Not synced: if a crash undoes it, the next start does the same again.
            self._disk.rename(path, path + _DAMAGED)


def _unusable(path: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{path} can't be used ({_reason(error)}), and there is no other version; replace it "
        "by a good one, or remove it to start without",
        path=path,
    )


def _reason(error: Exception) -> str:
    """Return a parser's message, shortened: it may quote the whole file."""
    text = str(error)
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}…"
