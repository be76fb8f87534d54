"""The files of a ledger; what has a name is complete, but for lists that are still written."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import IO

from orbitmq.errors import InvalidInput, InvalidOption, LedgerDamaged
from orbitmq.spark.locations.location import Location

__all__ = ["LedgerFiles"]

_BLOCK_BYTES = 1 << 20


class LedgerFiles:
    """The files below one location; names are relative to it, with ``/``."""

    def __init__(self, location: str) -> None:
        self.location = location
        try:
            if "://" not in location and not os.path.isabs(location):
                raise InvalidInput("it is a relative path", field="ledgerLocation")
            self._files = Location(location)
        except InvalidInput as error:
            raise InvalidOption(
                f"ledgerLocation {location[:200]!r} can't be opened: {error}; give an absolute "
                "path, or the URI of a file system that pyarrow knows, such as s3:// or hdfs://",
                field="ledgerLocation",
            ) from error

    def __repr__(self) -> str:
        return f"<LedgerFiles {self.location}>"

    @property
    def is_there(self) -> bool:
        """Whether the location exists."""
        return self._files.is_there

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; empty if it is missing."""
        return self._files.names(folder)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        return self._files.read(name)

    def read_head(self, name: str, size: int) -> bytes | None:
        """Return the first bytes of a file; None if there is none."""
        return self._files.read(name, size)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the complete lines of a file, without their ends; LedgerDamaged if it is gone."""
        try:
            source = self._files.files.open_input_stream(self._files.path(name))
        except FileNotFoundError as error:
            raise LedgerDamaged(
                f"the ledger {self.location} lacks {name}, which it needs to end transactions; "
                "restore it",
                path=name,
            ) from error
        with source:
            rest = b""
            while block := source.read(_BLOCK_BYTES):
                *whole, rest = (rest + block).split(b"\n")
                yield from whole

    def create(self, name: str, content: bytes) -> bytes:
        """Create a file, unless it exists; return what it holds now: the first content stays.

        If two processes do this at once, both get the same on a local disk and on HDFS. Object
        stores can't promise it.
        """
        self._files.create(name, content)
        return self._files.read(name) or b""

    def replace(self, name: str, content: bytes) -> None:
        """Create a file, or replace it as a whole."""
        self._files.replace(name, content)

    def written(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a new file for writing; it is on the disk after the block."""
        return self._files.written(name)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        self._files.remove(name)

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all in it, if it is there."""
        self._files.remove_folder(name)
