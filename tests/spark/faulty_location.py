"""Locations for tests: one that fails at a chosen step, and one that is like an object store."""

from pathlib import Path

from pyarrow import fs

from orbitmq.spark.locations.location import Location


class Crash(BaseException):
    """Ends a process at some step; nothing in the program catches it."""


class FaultyLocation(Location):
    """A local directory whose steps are counted; ``fails_at`` is the one that doesn't happen."""

    def __init__(self, place: str, fails_at: int | None = None) -> None:
        super().__init__(place)
        self.fails_at = fails_at
        self.steps: list[str] = []

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) == self.fails_at:
            raise Crash

    def _write(self, name: str, data: bytes, *, replaces: bool) -> None:
        self._step(f"write {name}")
        super()._write(name, data, replaces=replaces)

    def make_folder(self, folder: str) -> None:
        self._step(f"folder {folder}")
        super().make_folder(folder)

    def sync(self, name: str) -> None:
        self._step(f"sync {name}")
        super().sync(name)

    def move(self, name: str, to: str) -> None:
        self._step(f"move {name}")
        super().move(name, to)

    def remove_folder(self, folder: str) -> None:
        self._step(f"remove {folder}")
        super().remove_folder(folder)


class BucketLocation(FaultyLocation):
    """Like an object store: no renames, no links; a move is a copy and a deletion."""

    def __init__(self, place: str, fails_at: int | None = None) -> None:
        super().__init__(place, fails_at)
        Path(place).mkdir(exist_ok=True)
        self.files = fs.SubTreeFileSystem(place, fs.LocalFileSystem())
        self._root = ""

    def path(self, name: str) -> str:
        return name

    def _write(self, name: str, data: bytes, *, replaces: bool) -> None:
        self.files.create_dir(name.rpartition("/")[0], recursive=True)
        super()._write(name, data, replaces=replaces)

    def make_folder(self, folder: str) -> None:
        self.files.create_dir(folder, recursive=True)  # not a step: there are no folders

    def move(self, name: str, to: str) -> None:
        self.files.create_dir(to.rpartition("/")[0], recursive=True)
        self.files.copy_file(name, to)
        self._step(f"delete {name}")
        self.files.delete_file(name)
