"""Batch reads: planned on the driver, read by tasks.

There are two classes, because Spark refuses a reader with ``pushFilters`` unless the setting
``spark.sql.python.filterPushdown.enabled`` is on, which the reader can't see.
"""

import logging
from collections.abc import Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from orbitmq.spark.cluster.cluster import cluster_for
from orbitmq.spark.offsets import Slice
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.reading.batch_plan import batch_slices
from orbitmq.spark.reading.filters import PushedFilters, pushed_filters
from orbitmq.spark.reading.worker_heap import freeze_imports

__all__ = ["BatchReader", "FilteringBatchReader", "SlicePartition", "rows_of"]

log = logging.getLogger("orbitmq.spark")

_FILTERS_SHOWN: Final = 300  # characters: a list of values may be long


class SlicePartition(InputPartition):
    """What one task reads, in the form that Spark wants."""

    def __init__(self, piece: Slice) -> None:
        super().__init__(piece)
        self.piece = piece


def rows_of(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Return the rows of a partition, in a task.

    If a read has no partitions, Spark adds an empty one.
    """
    if not isinstance(partition, SlicePartition):
        return iter(())
    # Imported here, so that processes which plan a read don't wait for numpy and Arrow.
    from orbitmq.spark.columns.row_builder import read_slice  # noqa: PLC0415

    if TaskContext.get() is not None:
        freeze_imports()
    return read_slice(cluster_for(options.access), partition.piece, options)


class BatchReader(DataSourceReader):
    """Reads what the options select; Spark applies the filters."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return what tasks read: fixed offsets, so that a retried task reads the same."""
        found = batch_slices(cluster_for(self._options.access), self._options)
        return [SlicePartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        return rows_of(partition, self._options)


class FilteringBatchReader(BatchReader):
    """Skips what the filters of a query exclude, as far as brokers can; see ``filters``.

    One ``load()`` is for one query. Spark (4.3) keeps the plan for the last filters with the loaded
    table and reuses it for later queries of that table, and for other uses of it in the same query
    (``PythonDataSourceV2.getOrCreateReadInfo``): these lack what the last filters exclude. Python
    is not called again, so we can only log a warning. All filters are returned to Spark, so a query
    never gets rows that its own filters exclude.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._filters = PushedFilters()
        self._selects_nothing = False

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  # Spark's name
        """Take the filters of a query; return them all, so that Spark applies them too."""
        self._filters = pushed_filters(filters)
        if self._filters != PushedFilters():
            log.warning(
                "pushFilters: from now on, every query of this load() reads only what these "
                "filters select: %s. Call load() again for another query, or for another filter "
                "in the same query",
                f"{', '.join(map(str, filters)):.{_FILTERS_SHOWN}}",
            )
        tags = self._filters.subscription(self._options.tags)
        if tags is None:
            self._selects_nothing = True
        else:
            self._options = msgspec.structs.replace(self._options, tags=tags)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return what tasks read; raises what ``BatchReader`` does."""
        if self._selects_nothing:
            return []
        cluster = cluster_for(self._options.access)
        return [
            SlicePartition(piece) for piece in batch_slices(cluster, self._options, self._filters)
        ]
