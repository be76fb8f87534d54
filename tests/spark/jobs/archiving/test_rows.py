"""An archive is read by what its manifests name."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import InvalidInput, LocationInUse
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.rows import Archive, archived_rows
from orbitmq.spark.jobs.sources import Span
from orbitmq.spark.locations.location import Location
from tests.spark.jobs.archiving.test_run import BEGIN, A, B, Queues, filled, run


def archived(place: Path) -> Queues:
    queues = filled()
    queues.kind = "topics"
    run(Location(str(place)), queues)
    return queues


def test_rows_and_queues(spark: SparkSession, tmp_path: Path) -> None:
    archived(tmp_path)
    found = archived_rows(spark, Archive(str(tmp_path)))
    assert found.queues == (A, B)
    assert not found.has_repetitions
    assert found.frame.count() == 180
    assert {row.topic for row in found.frame.select("topic").distinct().collect()} == {
        *("orders", "refunds")
    }
    refunds = archived_rows(spark, Archive(str(tmp_path), ("refunds",)))
    assert refunds.queues == (B,)
    assert refunds.frame.count() == 30
    begin_ms = round(BEGIN.timestamp() * 1000)
    span = Span(begin_ms + 60_000 * 100, begin_ms + 60_000 * 140)
    offsets = archived_rows(spark, Archive(str(tmp_path)), span).frame.select("queue_offset")
    assert sorted(row.queue_offset for row in offsets.collect()) == [*range(100, 140)]
    assert archived_rows(spark, Archive(str(tmp_path), ("none",))).frame.count() == 0


def test_files_that_no_manifest_names_or_nobody_has(spark: SparkSession, tmp_path: Path) -> None:
    archived(tmp_path)
    files = sorted(tmp_path.glob("topic=orders/*/*.parquet"))
    files[0].with_name("foreign.parquet").write_bytes(files[0].read_bytes())
    assert archived_rows(spark, Archive(str(tmp_path))).frame.count() == 180
    for file in files:
        file.unlink()
    assert archived_rows(spark, Archive(str(tmp_path))).frame.count() == 30


def test_a_run_between_commit_and_publication(spark: SparkSession, tmp_path: Path) -> None:
    archived(tmp_path)
    directory = ArchiveDirectory(Location(str(tmp_path)))
    last = directory.last()
    assert last is not None
    directory.location.move(last.files[0].name, f"{last.staging}/{last.files[0].name}")
    with pytest.raises(LocationInUse, match="not yet at their places"):
        archived_rows(spark, Archive(str(tmp_path)))


def test_no_archive(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not an archive"):
        archived_rows(spark, Archive(str(tmp_path)))
