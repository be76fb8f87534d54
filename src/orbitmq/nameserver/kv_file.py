"""The file of a nameserver: all its file calls, and when they are made.

A new version is written to another file, which then replaces the old one; the old one is kept as
``.bak``. So a crash never leaves half a file.
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
    """One text file and its backup; ``~`` at the beginning of the path is the user's home."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))

    def __repr__(self) -> str:
        return f"<KVFile {self.path}>"

    def versions(self) -> list[tuple[str, bytes]]:
        """Return path and contents of file and backup, as far as they exist and aren't empty."""
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
        """Rename the file to ``.damaged``, so that the next write keeps the backup."""
        try:
            os.replace(self.path, self.path + _DAMAGED)
        except OSError as error:
            raise _failed("rename", self.path, error) from error

    def write(self, text: str) -> None:
        """Replace the file by a new version; return when it is synced.

        Raise DiskFailed if a file call failed; the last version is still there, or is the backup.
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
    """A KV config and its file, if it has one. Changes during a write share the next write."""

    def __init__(self, config: KVConfig, file: KVFile | None, workers: Workers) -> None:
        self.config = config
        self._file = file
        self._workers = workers
        self._saved_version = config.version
        self._writing: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Load the file, or its backup if the file is damaged.

        Raise InvalidSetting if both are damaged, and DiskFailed if the file can't be read.
        """
        if self._file is None:
            return
        faults = []
        for path, data in await self._run(self._file.versions):
            try:
                self.config.load_json(data)
            except InvalidBody as error:
                faults.append(f"{path} is damaged ({error})")
                continue
            if faults:
                log.warning("%s; loaded the older version %s instead", faults[0], path)
                await self._run(self._file.set_aside)
            return
        if faults:
            raise InvalidSetting(
                f"{faults[0]}, and there is no usable backup; replace it by a good version, or "
                "remove it to start without one",
                file=self._file.path,
            )

    async def save(self) -> None:
        """Wait until all changes before the call are on disk.

        Raise DiskFailed if they are only in memory; the next save writes them too.
        """
        wanted = self.config.version
        while self._file is not None and self._saved_version < wanted:
            if self._writing is None:
                self._writing = asyncio.create_task(self._write(self._file))
            # Cancelling one waiter must not cancel the write.
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
