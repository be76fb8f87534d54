"""The steps by which a run becomes part of an archive; ``test_run`` ends it at each of them."""

from pathlib import Path

import pytest

from orbitmq.errors import LocationDamaged
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.manifest import ArchivedFile, Manifest
from orbitmq.spark.locations.location import Location


@pytest.fixture
def directory(tmp_path: Path) -> ArchiveDirectory:
    return ArchiveDirectory(Location(str(tmp_path)))


def staged(directory: ArchiveDirectory, run: int) -> Manifest:
    """Return the manifest of a run whose file a task has written."""
    staging = directory.staging(run)
    file = ArchivedFile(f"topic=a/date=b/{run}.parquet", "a", "b", 1, 4)
    for name in (file.name, "topic=a/date=b/of-a-lost-attempt.parquet"):
        directory.location.replace(f"{staging}/{name}", b"rows")
    return Manifest(
        run=run, made_at="", source="topics", columns=(), staging=staging, files=(file,), ranges=()
    )


def test_the_steps_of_a_run(directory: ArchiveDirectory) -> None:
    assert directory.last() is None
    manifest = staged(directory, 1)
    assert directory.commit(manifest)
    assert not directory.commit(manifest)
    assert directory.last() == manifest
    assert not directory.is_published(manifest)
    assert directory.publish(manifest) == 1
    assert directory.is_published(manifest)
    assert directory.publish(manifest) == 0
    assert directory.location.all_files("") == [
        *("_orbitmq/runs/0000000001.json", "topic=a/date=b/1.parquet")
    ]


def test_a_committed_run_is_finished_by_the_next(directory: ArchiveDirectory) -> None:
    manifest = staged(directory, 1)
    directory.commit(manifest)
    staged(directory, 2)
    assert directory.recover() == manifest
    assert directory.location.all_files("_orbitmq/staging") == []
    assert directory.location.read("topic=a/date=b/1.parquet") == b"rows"
    assert directory.recover() == manifest


def test_old_files_may_be_deleted(directory: ArchiveDirectory) -> None:
    manifest = staged(directory, 1)
    directory.commit(manifest)
    directory.publish(manifest)
    directory.location.remove_folder("topic=a")
    assert directory.recover() == manifest


def test_a_file_that_vanished_while_it_was_moved_is_damage(directory: ArchiveDirectory) -> None:
    manifest = staged(directory, 1)
    directory.commit(manifest)
    directory.location.remove(f"{manifest.staging}/{manifest.files[0].name}")
    with pytest.raises(LocationDamaged, match="something else deletes"):
        directory.publish(manifest)


def test_other_files_are_not_runs(directory: ArchiveDirectory) -> None:
    directory.location.replace("_orbitmq/runs/0000000001.json.3fa9.tmp", b"torn")
    directory.location.replace("_orbitmq/runs/readme.txt", b"hello")
    assert directory.runs() == []
