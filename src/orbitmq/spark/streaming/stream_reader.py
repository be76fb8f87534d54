"""Streaming reads, as Spark asks for them. What they do is decided in ``course``.

Spark makes a reader in the driver's own Python process for the stream, which lives as long as the
query and is asked all but ``read``; and others, elsewhere, whose ``read`` goes to tasks. So a new
reader asks nobody for anything.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from orbitmq.clock import SystemClock
from orbitmq.spark.cluster.cluster import cluster_for
from orbitmq.spark.offsets import from_spark, to_spark
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.reading.batch_reader import SlicePartition, rows_of
from orbitmq.spark.streaming.batch_limits import Limit
from orbitmq.spark.streaming.query_progress import Course

__all__ = ["StreamReader"]

SparkOffsets: TypeAlias = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream; offsets are ``{"orders": {"broker-a:0": 12}}``."""

    # Spark's names
    # ruff: noqa: N802

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def initialOffset(self) -> SparkOffsets:
        """Return where a query without a checkpoint begins.

        Raises:
            OrbitError: the errors of ``Course.initial``.

        """
        return to_spark(self._course.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set.

        A Python source can give one alone. With both, it is the upper one, and ``latestOffset``
        knows of the other.
        """
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: SparkOffsets, limit: ReadLimit) -> SparkOffsets:
        """Return where the next batch ends; its start if there is none now.

        Raises:
            OrbitError: the errors of ``Course.next_end``.

        """
        return to_spark(self._course.next_end(from_spark(start), self._limit(limit)))

    def reportLatestOffset(self) -> SparkOffsets | None:
        """Return where the queues ended when they were last asked: the progress shows the lag."""
        return to_spark(self._course.latest()) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end with what there is now."""
        self._course.aim()

    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> list[InputPartition]:
        """Return what the tasks of a batch read.

        Raises:
            OrbitError: the errors of ``Course.slices``.

        """
        found = self._course.slices(from_spark(start), from_spark(end))
        return [SlicePartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition, in a task."""
        return rows_of(partition, self._options)

    def commit(self, end: SparkOffsets) -> None:
        """Tell the brokers how far the group has come."""
        self._course.done(from_spark(end))

    def _limit(self, limit: ReadLimit) -> Limit:
        """Return a limit of Spark's as ours: one that it sets against our options counts."""
        if isinstance(limit, ReadMaxRows):
            return Limit(self._options.min_offsets_per_trigger, limit.max_rows)
        if isinstance(limit, ReadMinRows):
            return Limit(limit.min_rows, None)
        return Limit()

    @cached_property
    def _course(self) -> Course:
        return Course(cluster_for(self._options.access), self._options, SystemClock())

    def __getstate__(self) -> Mapping[str, object]:
        return {"_options": self._options}  # a task only reads
