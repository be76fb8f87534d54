"""The directory of an archive, and the steps in which a run becomes part of it.

`orbitmq.spark.jobs.archive` draws both.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

from orbitmq.errors import LocationDamaged
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.jobs.archiving.manifest import FORMAT, ArchivedFile, Manifest
from orbitmq.spark.locations.location import Location

__all__ = ["OWN", "ArchiveDirectory"]

log = logging.getLogger("orbitmq.spark")

OWN: Final = "_orbitmq"
"""What is not rows. Spark and pyarrow skip names that begin with an underscore."""
_RUNS: Final = f"{OWN}/runs"
_STAGING: Final = f"{OWN}/staging"
_RUN: Final = re.compile(r"(\d{10})\.json")


class ArchiveDirectory:
    """An archive; whoever writes it holds its lock."""

    def __init__(self, location: Location) -> None:
        self.location = location

    def __repr__(self) -> str:
        return f"<ArchiveDirectory {self.location.place}>"

    def runs(self) -> list[int]:
        """Return the numbers of the runs, in order."""
        found = (_RUN.fullmatch(name) for name in self.location.names(_RUNS))
        return [int(one[1]) for one in found if one]

    def manifest(self, run: int) -> Manifest:
        """Return the manifest of a run; raise LocationDamaged if it is missing or unreadable."""
        name = f"{_RUNS}/{run:010d}.json"
        found = self.location.load(name, Manifest)
        if found is None or found.format != FORMAT or found.run != run:
            what = "is missing" if found is None else f"has format {found.format}, run {found.run}"
            raise LocationDamaged(
                f"{self.location.place}/{name} {what}; this orbitmq writes format {FORMAT}",
                place=f"{self.location.place}/{name}",
            )
        return found

    def last(self) -> Manifest | None:
        """Return the manifest of the last run; None if there was none."""
        runs = self.runs()
        return self.manifest(runs[-1]) if runs else None

    def manifests(self) -> Iterator[Manifest]:
        """Yield all manifests, in order."""
        yield from map(self.manifest, self.runs())

    def is_published(self, manifest: Manifest) -> bool:
        """Return whether all files of a run are at their places."""
        staged = {*self.location.all_files(manifest.staging)}
        return staged.isdisjoint(f"{manifest.staging}/{file.name}" for file in manifest.files)

    # The steps of a run; each may be the last one of a process.

    def staging(self, run: int) -> str:
        """Return a new folder for the files of a run's tasks; nothing is written."""
        return f"{_STAGING}/{run:010d}-{SystemRandomness().token(8).hex()}"

    def commit(self, manifest: Manifest) -> bool:
        """Write the manifest of a new run: from then on the run has happened.

        Return False if another process has committed this run.
        """
        for file in manifest.files:  # of a lost lock: its new owner cleans up
            self._check(manifest, file, f"{manifest.staging}/{file.name}")
        return self.location.create(f"{_RUNS}/{manifest.run:010d}.json", manifest.encode())

    def publish(self, manifest: Manifest) -> int:
        """Move the files of a committed run to their places; return how many.

        May be repeated at any time until it has succeeded once.
        """
        moved = 0
        for file in manifest.files:
            staged = f"{manifest.staging}/{file.name}"
            if self.location.size(staged) is not None:
                self.location.move(staged, file.name)
                moved += 1
            else:
                self._check(manifest, file, file.name)
        self.location.remove_folder(manifest.staging)
        return moved

    def _check(self, manifest: Manifest, file: ArchivedFile, name: str) -> None:
        if self.location.size(name) != file.bytes:
            raise LocationDamaged(
                f"{self.location.place}: run {manifest.run} wrote {name} with {file.bytes} bytes, "
                "and it is not there; something else deletes or changes files of the archive",
                place=f"{self.location.place}/{name}",
            )

    def recover(self) -> Manifest | None:
        """Finish the last run if it was interrupted, remove what others left, and return it."""
        last = self.last()
        if last is not None and not self.is_published(last):
            moved = self.publish(last)
            log.warning(
                "%s: run %d was interrupted after its commit; moved its last %d files",
                *(self.location.place, last.run, moved),
            )
        self.location.remove_folder(_STAGING)
        return last
