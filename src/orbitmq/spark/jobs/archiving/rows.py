"""An archive as the source of a job: the files that its manifests name, as rows.

>>> Archive("data/archive", ("orders",))
<Archive data/archive orders>
"""

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import DateType, StringType, StructField, StructType

from orbitmq.errors import InvalidInput, LocationInUse
from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.manifest import Manifest
from orbitmq.spark.jobs.sources import EVERYTHING, Span
from orbitmq.spark.locations.location import Location
from orbitmq.spark.store_source.schema import store_schema

__all__ = ["Archive", "ArchivedRows", "archived_rows"]


class Archive(msgspec.Struct, frozen=True):
    """An archive, as ``archive`` writes it; all its topics, or those that are named."""

    directory: str
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        only = f" {','.join(self.names)}" if self.names else ""
        return f"<Archive {self.directory}{only}>"


class ArchivedRows(msgspec.Struct, frozen=True):
    """What an archive has: rows, and the queues they are of."""

    frame: DataFrame
    queues: tuple[MessageQueue, ...]
    has_repetitions: bool
    """Whether a queue was made again, so that two messages may have the same place."""


def archived_rows(spark: SparkSession, source: Archive, span: Span = EVERYTHING) -> ArchivedRows:
    """Return the rows of all runs that are committed now, with the columns ``topic`` and ``date``.

    Files that somebody deleted are left out. Raise InvalidInput if there is no archive,
    LocationInUse if a run is moving its files at this moment, and LocationDamaged.
    """
    directory = ArchiveDirectory(Location(source.directory))
    manifests = [*directory.manifests()]
    if not manifests:
        raise InvalidInput(
            f"{source.directory} is not an archive: it has no manifests in _orbitmq/runs",
            field="archive",
        )
    last = manifests[-1]
    if not directory.is_published(last):
        raise LocationInUse(
            f"run {last.run} of {source.directory} is committed, and its files are not yet at "
            "their places; wait for it, or run the archive again if it was interrupted",
            place=source.directory,
            owner="",
        )
    there = {*directory.location.all_files("")}
    wanted = [
        file.name
        for manifest in manifests
        for file in manifest.files
        if file.name in there and (not source.names or file.topic in source.names)
    ]
    schema = _schema(last)
    place = _for_spark(directory.location)
    if wanted:
        reader = spark.read.schema(schema).option("basePath", place)
        frame = reader.parquet(*(f"{place}/{name}" for name in wanted))
    else:
        frame = spark.createDataFrame([], schema)
    ends = {one.queue for manifest in manifests for one in manifest.ends}
    return ArchivedRows(
        _within(frame, span),
        tuple(sorted(one for one in ends if not source.names or one.topic in source.names)),
        any(gap.why == "recreated" for manifest in manifests for gap in manifest.gaps),
    )


def _schema(last: Manifest) -> StructType:
    folders = [StructField("topic", StringType()), StructField("date", DateType())]
    return StructType([*store_schema(last.columns).fields, *folders])


def _for_spark(location: Location) -> str:
    """Return the address by which Spark knows a location: Hadoop's name of S3 is another one."""
    place = location.place.partition("?")[0].rstrip("/")
    if place.startswith("s3://"):
        return f"s3a://{place.removeprefix('s3://')}"
    return place if "://" in place else f"file://{place}"


def _within(frame: DataFrame, span: Span) -> DataFrame:
    if span.start_ms is not None:
        frame = frame.where(F.col("timestamp") >= F.timestamp_millis(F.lit(span.start_ms)))
    if span.end_ms is not None:
        frame = frame.where(F.col("timestamp") < F.timestamp_millis(F.lit(span.end_ms)))
    return frame
