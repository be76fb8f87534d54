"""A directory that the driver and all tasks reach: a local path, or an address that pyarrow opens.

Small files are written whole or not at all::

    local, HDFS     NAME.TOKEN.tmp, synced ──rename──▶ NAME
    object stores   one object, which appears when its upload is complete

A file that isn't complete has no name that counts: lists leave it out.

Where renames are not atomic (object stores copy, then delete), a crash in ``move`` leaves the old
file, or both; moving again completes it.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Final, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import fs

from orbitmq.errors import InvalidInput, LocationDamaged
from orbitmq.randomness import SystemRandomness

__all__ = ["Location", "local_path"]

T = TypeVar("T")

_RENAMING: Final = frozenset({"local", "hdfs"})
"""File systems that rename in one step."""
_STAGED: Final = ".tmp"
"""How the names of files end that are not complete."""


class Location:
    """A directory; names within it are relative, with slashes.

    Raise InvalidInput if ``place`` is not an address that pyarrow can open. Pickled as its address,
    so it must be one that means the same on all machines.

    >>> Location("s3://bucket/archive?region=eu-west-1")
    <Location s3://bucket/archive?region=eu-west-1>
    """

    def __init__(self, place: str) -> None:
        self.place = place if "://" in place else os.path.abspath(place)
        try:
            self.files, self._root = fs.FileSystem.from_uri(self.place)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise InvalidInput(
                f"{place[:200]!r} can't be opened: {error}; give a path, or an address that "
                "pyarrow.fs knows, such as s3://bucket/path",
                field="to",
            ) from error

    def __repr__(self) -> str:
        return f"<Location {self.place}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Location, (self.place,)

    @property
    def renames(self) -> bool:
        """Whether a rename is one step."""
        return self.files.type_name in _RENAMING

    @property
    def is_there(self) -> bool:
        """Whether the directory exists; in an object store, whether it has a file."""
        found: fs.FileInfo = self.files.get_file_info(self.path(""))
        return found.type is not fs.FileType.NotFound

    def path(self, name: str) -> str:
        """Return what the file system calls a name."""
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if there is none."""
        info = self.files.get_file_info(self.path(name))
        return info.size if info.is_file else None

    def names(self, folder: str = "") -> list[str]:
        """Return what is directly within a folder, sorted; nothing if it is missing."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        names = (info.base_name for info in self.files.get_file_info(selector))
        return sorted(name for name in names if not name.endswith(_STAGED))

    def all_files(self, folder: str) -> list[str]:
        """Return the names of all files at any depth below a folder, sorted."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=True)
        found = [info.path for info in self.files.get_file_info(selector) if info.is_file]
        return sorted(path[len(self.path("")) :].lstrip("/") for path in found)

    def read(self, name: str, size: int | None = None) -> bytes | None:
        """Return the content of a file, or its first bytes; None if there is none."""
        try:
            with self.files.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read(size))
        except FileNotFoundError:
            return None

    def load(self, name: str, kind: type[T]) -> T | None:
        """Return a JSON file as ``kind``, None if there is none; raise LocationDamaged."""
        raw = self.read(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=kind)
        except (ValueError, RecursionError) as error:
            raise LocationDamaged(
                f"{self.place}/{name} is not what was written there: {error}. Restore it from a "
                "copy; deleting it would forget what was done",
                place=f"{self.place}/{name}",
            ) from error

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whole, in place of one that is there."""
        self._write(name, data, replaces=True)

    def create(self, name: str, data: bytes) -> bool:
        """Write a new file whole; return False if it is there already.

        On a local file system, and on HDFS, exactly one of several writers succeeds. Elsewhere two
        that write in the same moment may both get the answer that they did; see ``lock``.
        """
        if self.size(name) is not None:
            return False
        try:
            self._write(name, data, replaces=False)
        except FileExistsError:
            return False
        except OSError:  # HDFS has no error of its own for a name that is taken
            if self.size(name) is None:
                raise
            return False
        return True

    @contextlib.contextmanager
    def written(self, name: str) -> Iterator[IO[bytes]]:
        """Open a new file for writing; its first part may be seen before the block ends."""
        self.make_folder(name.rpartition("/")[0])
        with self.files.open_output_stream(self.path(name)) as stream:
            yield stream
        self.sync(name)
        self._sync_folder(name)

    def _write(self, name: str, data: bytes, *, replaces: bool) -> None:
        self.make_folder(name.rpartition("/")[0])
        if not self.renames:
            with self.files.open_output_stream(self.path(name)) as stream:
                stream.write(data)
            return
        staged = f"{name}.{SystemRandomness().token(6).hex()}{_STAGED}"
        try:
            with self.files.open_output_stream(self.path(staged)) as stream:
                stream.write(data)
            self.sync(staged)
            self._into_place(self.path(staged), self.path(name), replaces=replaces)
        finally:
            self.remove(staged)
        self._sync_folder(name)

    def _into_place(self, staged: str, path: str, *, replaces: bool) -> None:
        if not self._is_local:
            if replaces:
                with contextlib.suppress(FileNotFoundError):  # HDFS moves to no name that is taken
                    self.files.delete_file(path)
            self.files.move(staged, path)
        elif replaces:
            os.replace(staged, path)
        else:
            os.link(staged, path)  # unlike a rename, it fails if the name is taken

    @property
    def _is_local(self) -> bool:
        return bool(self.files.type_name == "local")

    def _sync_folder(self, name: str) -> None:
        if self._is_local:
            _sync(os.path.dirname(self.path(name)))

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it; object stores have none."""
        if self.renames:
            self.files.create_dir(self.path(folder), recursive=True)

    def sync(self, name: str) -> None:
        """Have a local file survive a power loss; object stores do that by themselves."""
        if self._is_local:
            _sync(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Rename a file; its new folder is made."""
        self.make_folder(to.rpartition("/")[0])
        self.files.move(self.path(name), self.path(to))

    def remove_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_dir(self.path(folder))

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))


def local_path(location: Location, name: str) -> str | None:
    """Return the path of a name on this machine; None if it is elsewhere."""
    return location.path(name) if location.files.type_name == "local" else None


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
