"""Streaming reads in the form that Spark wants; ``query_progress`` makes the decisions.

Spark creates one reader in a Python process of the driver, which lives as long as the query and
gets all calls but ``read``; and others elsewhere, whose ``read`` runs in tasks. So creating a
reader sends no request.
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
from orbitmq.spark.streaming.query_progress import QueryProgress

__all__ = ["StreamReader"]

SparkOffsets: TypeAlias = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream; offsets are ``{"orders": {"broker-a:0": 12}}``."""

    # Spark's names
    # ruff: noqa: N802

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def initialOffset(self) -> SparkOffsets:
        """Return where a query without a checkpoint begins."""
        return to_spark(self._progress.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set.

        A Python source can return only one. With both, it is the maximum, and ``latestOffset``
        applies the minimum.
        """
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: SparkOffsets, limit: ReadLimit) -> SparkOffsets:
        """Return where the next batch ends; its start if there is no batch yet."""
        return to_spark(self._progress.next_end(from_spark(start), self._limit(limit)))

    def reportLatestOffset(self) -> SparkOffsets | None:
        """Return the last known ends of the queues, for the lag in Spark's progress report."""
        return to_spark(self._progress.latest()) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the query end at the current end of the queues."""
        self._progress.set_target()

    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> list[InputPartition]:
        """Return what the tasks of a batch read."""
        found = self._progress.slices(from_spark(start), from_spark(end))
        return [SlicePartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition, in a task."""
        return rows_of(partition, self._options)

    def commit(self, end: SparkOffsets) -> None:
        """Commit the offsets of the group."""
        self._progress.commit(from_spark(end))

    def _limit(self, limit: ReadLimit) -> Limit:
        """Return Spark's limit as ours; it overrides the options."""
        if isinstance(limit, ReadMaxRows):
            return Limit(self._options.min_offsets_per_trigger, limit.max_rows)
        if isinstance(limit, ReadMinRows):
            return Limit(limit.min_rows, None)
        return Limit()

    @cached_property
    def _progress(self) -> QueryProgress:
        return QueryProgress(cluster_for(self._options.access), self._options, SystemClock())

    def __getstate__(self) -> Mapping[str, object]:
        return {"_options": self._options}  # all that a task needs
