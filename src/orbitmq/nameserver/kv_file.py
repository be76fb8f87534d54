"""The file of a nameserver: every file call it makes, and when one is made.

A new version is written under another name and put in the place of the old one, which stays as
``.bak``: no crash leaves half a file.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from orbitmq.errors import DiskFailed, InvalidBody, InvalidSetting
from orbitmq.nameserver.kv_config import KVConfig
from orbitmq.threads import Workers

__all__ = ["KVFile", "SavedKVConfig"]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("orbitmq.nameserver")

_BACKUP: Final = ".bak"
_DAMAGED: Final = ".damaged"
_UNFINISHED: Final = ".tmp"


class KVFile:
    """One text on the disk; ``~`` at the beginning of the path is the user's home."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))

    def __repr__(self) -> str:
        return f"<KVFile {self.path}>"

    def versions(self) -> list[tuple[str, bytes]]:
        """Return the versions that are there and not empty, the newest first, with their paths.

        Raises:
            DiskFailed: one is there and can't be read.

        """
        found = []
        for path in (self.path, self.path + _BACKUP):
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _failed("read", path, error) from error
            if data:
                found.append((path, data))
        return found

    def set_aside(self) -> None:
        """Keep the newest version as ``.damaged``, so that the next write spares the backup."""
        try:
            os.replace(self.path, self.path + _DAMAGED)
        except OSError as error:
            raise _failed("rename", self.path, error) from error

    def write(self, text: str) -> None:
        """Put a new version in the place of the last one; return when it is on the disk.

        Raises:
            DiskFailed: the last version is still there, under its name or as the backup.

        """
        unfinished = self.path + _UNFINISHED
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(unfinished, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if os.path.exists(self.path):
                os.replace(self.path, self.path + _BACKUP)
            os.replace(unfinished, self.path)
            self._sync_directory()
        except OSError as error:
            raise _failed("write", self.path, error) from error

    def _sync_directory(self) -> None:
        descriptor = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class SavedKVConfig:
    """A KV config and its file. One write at a time; changes made meanwhile share the next one.

    Args:
        config: the table.
        file: where it is kept; None keeps it in memory alone.
        workers: who writes.

    """

    def __init__(self, config: KVConfig, file: KVFile | None, workers: Workers) -> None:
        self.config = config
        self._file = file
        self._workers = workers
        self._saved_version = config.version
        self._writing: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Take what the file holds, or, where it is damaged, its backup.

        Raises:
            InvalidSetting: there is a file, and no version of it can be used.
            DiskFailed: it can't be read.

        """
        if self._file is None:
            return
        faults = []
        for path, data in await self._run(self._file.versions):
            try:
                self.config.load_json(data)
            except InvalidBody as error:
                faults.append(f"{path} can't be used ({error})")
                continue
            if faults:
                log.warning("%s; %s is, an older version", faults[0], path)
                await self._run(self._file.set_aside)
            return
        if faults:
            raise InvalidSetting(
                f"{faults[0]}, and there is no other version; put a good one in its place, or "
                "remove it to begin without",
                file=self._file.path,
            )

    async def save(self) -> None:
        """Return when every change made before the call is on the disk.

        Raises:
            DiskFailed: it is in memory alone; the next change is written with it.

        """
        wanted = self.config.version
        while self._file is not None and self._saved_version < wanted:
            if self._writing is None:
                self._writing = asyncio.create_task(self._write(self._file))
            # Not to be cancelled by one of those who wait for it.
            await asyncio.shield(self._writing)

    async def _write(self, file: KVFile) -> None:
        version = self.config.version
        try:
            await self._run(file.write, self.config.to_json())
            self._saved_version = version
        finally:
            self._writing = None

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._workers.submit(work, *args, **kwargs))


def _failed(what: str, path: str, error: OSError) -> DiskFailed:
    return DiskFailed(f"can't {what} {path}: {error.strerror}", path=path, errno=error.errno or 0)
