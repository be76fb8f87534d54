"""The files of a ledger, on any file system that pyarrow knows.

What has a name is complete: a small file is written under a temporary name, and moved. On a local
disk it is also flushed to the disk before it counts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from pyarrow import fs

from orbitmq.errors import InvalidOption, LedgerDamaged
from orbitmq.randomness import SystemRandomness

__all__ = ["TEMPORARY", "LedgerFiles"]

TEMPORARY: Final = ".tmp-"
"""How the names of files begin that are not complete."""


class LedgerFiles:
    """The files below one location; names are relative to it, with ``/``."""

    def __init__(self, location: str) -> None:
        self.location = location
        try:
            self._fs, self._root = fs.FileSystem.from_uri(location)
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"ledgerLocation {location[:200]!r} can't be opened: {error}; give a path, or the "
                "URI of a file system that pyarrow knows, such as s3:// or hdfs://",
                field="ledgerLocation",
            ) from error
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)

    def __repr__(self) -> str:
        return f"<LedgerFiles {self.location}>"

    @property
    def is_there(self) -> bool:
        """Whether the location exists."""
        found: fs.FileInfo = self._fs.get_file_info(self._root)
        return found.type is not fs.FileType.NotFound

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted, without temporary ones; empty if it is missing."""
        found = self._fs.get_file_info(
            fs.FileSelector(self._path(folder), allow_not_found=True, recursive=False)
        )
        return sorted(one.base_name for one in found if not one.base_name.startswith(TEMPORARY))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            with self._fs.open_input_stream(self._path(name)) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None

    def read_head(self, name: str, size: int) -> bytes | None:
        """Return the first bytes of a file; None if there is none."""
        try:
            with self._fs.open_input_stream(self._path(name)) as source:
                return bytes(source.read(size))
        except FileNotFoundError:
            return None

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the complete lines of a file, without their ends; LedgerDamaged if it is gone."""
        try:
            source = self._fs.open_input_stream(self._path(name))
        except FileNotFoundError as error:
            raise LedgerDamaged(
                f"the ledger {self.location} lacks {name}, which it needs to end transactions; "
                "restore it",
                path=name,
            ) from error
        with source:
            rest = b""
            while block := source.read(1 << 20):
                *whole, rest = (rest + block).split(b"\n")
                yield from whole

    def create(self, name: str, content: bytes) -> bytes:
        """Create a file, unless it exists; return what it holds now: the first content stays.

        If two processes do this at once, both get the same on a local disk and on HDFS. Object
        stores can't promise it.
        """
        standing = self.read(name)
        if standing is not None:
            return standing
        path = self._path(name)
        with self._written(name, content) as temporary:
            if self._is_local:
                with suppress(FileExistsError):
                    os.link(temporary, path)
                self._sync_folder(path)
            else:
                try:
                    self._fs.move(temporary, path)
                except OSError:
                    if self.read(name) is None:
                        raise
        return self.read(name) or b""

    def replace(self, name: str, content: bytes) -> None:
        """Create a file, or replace it as a whole."""
        path = self._path(name)
        with self._written(name, content) as temporary:
            if self._is_local:
                os.replace(temporary, path)
                self._sync_folder(path)
            else:
                with suppress(FileNotFoundError):  # HDFS moves to no name that is taken
                    self._fs.delete_file(path)
                self._fs.move(temporary, path)

    @contextmanager
    def written(self, name: str) -> Iterator[IO[bytes]]:
        """Open a new file for writing; it is on the disk after the block."""
        path = self._path(name)
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        with self._fs.open_output_stream(path) as target:
            yield target
        self._sync(path)
        self._sync_folder(path)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self._fs.delete_file(self._path(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all in it, if it is there."""
        with suppress(FileNotFoundError):
            self._fs.delete_dir(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    @contextmanager
    def _written(self, name: str, content: bytes) -> Iterator[str]:
        """Write a temporary file beside a name; it is gone after the block."""
        folder, _, last = name.rpartition("/")
        temporary = f"{folder}/{TEMPORARY}{SystemRandomness().uuid4()}-{last}".lstrip("/")
        with self.written(temporary) as target:
            target.write(content)
        try:
            yield self._path(temporary)
        finally:
            self.delete(temporary)

    def _sync(self, path: str) -> None:
        if self._is_local:
            _sync(path, os.O_RDWR)

    def _sync_folder(self, path: str) -> None:
        if self._is_local:
            _sync(path.rpartition("/")[0], os.O_RDONLY)


def _sync(path: str, mode: int) -> None:
    opened: Any = os.open(path, mode)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
