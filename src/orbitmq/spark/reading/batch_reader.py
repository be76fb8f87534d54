"""Batch reads: planned on the driver, read by tasks.

There are two classes, because Spark refuses a reader that takes filters unless its setting
``spark.sql.python.filterPushdown.enabled`` is on, and doesn't tell the reader whether it is.
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
from orbitmq.spark.reading.filters import Narrowing, narrowed
from orbitmq.spark.reading.worker_heap import freeze_imports

__all__ = ["BatchReader", "FilteringBatchReader", "SlicePartition", "rows_of"]

log = logging.getLogger("orbitmq.spark")

_FILTERS_SHOWN: Final = 300  # characters: a list of values may be long


class SlicePartition(InputPartition):
    """What one task reads, as Spark hands it over."""

    def __init__(self, piece: Slice) -> None:
        super().__init__(piece)
        self.piece = piece


def rows_of(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Return the rows of a partition, in a task, over the connections that its process has.

    A read without any partition is given one by Spark, which holds nothing.

    Raises:
        OrbitError: the errors of ``read_slice``, when rows are taken.

    """
    if not isinstance(partition, SlicePartition):
        return iter(())
    # Here, because the processes that plan a read need not wait for numpy and Arrow's kernels.
    from orbitmq.spark.columns.row_builder import read_slice  # noqa: PLC0415

    if TaskContext.get() is not None:
        freeze_imports()
    return read_slice(cluster_for(options.access), partition.piece, options)


class BatchReader(DataSourceReader):
    """Reads all that the options say; Spark applies the filters."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return what tasks read: fixed here, so that a task that is tried again reads the same.

        Raises:
            InvalidOffsets: the options have offsets of queues that there are not.
            DataLost: they ask for what the queues don't have, and that is to fail the read.
            OrbitError: the topic, or a server, can't be found.

        """
        found = batch_slices(cluster_for(self._options.access), self._options)
        return [SlicePartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        return rows_of(partition, self._options)


class FilteringBatchReader(BatchReader):
    """Leaves out what filters exclude, as far as brokers can tell; see ``filters``.

    One ``load()`` is for one query. Spark (4.3) keeps what was planned for the last filters with
    the loaded table, and gives it to each later query of that table, and to each use of it in one
    plan (``PythonDataSourceV2.getOrCreateReadInfo``): these lack what the last filters exclude.
    Python isn't asked again, so that nothing here can mend that. It can only be told, and Spark be
    given all filters back: so a query never gets rows that its own filters exclude.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._narrowing = Narrowing()
        self._selects_nothing = False

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  # Spark's name
        """Take the filters of a query; return all of them, for Spark to apply them too."""
        self._narrowing = narrowed(filters)
        if self._narrowing != Narrowing():
            log.warning(
                "pushFilters: from now on this load() reads only what these filters leave, for "
                "every query that uses it: %s. Another query, or another filter in the same one, "
                "needs a load() of its own",
                f"{', '.join(map(str, filters)):.{_FILTERS_SHOWN}}",
            )
        tags = self._narrowing.subscription(self._options.tags)
        if tags is None:
            self._selects_nothing = True
        else:
            self._options = msgspec.structs.replace(self._options, tags=tags)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return what tasks read; the errors are those of ``BatchReader``."""
        if self._selects_nothing:
            return []
        cluster = cluster_for(self._options.access)
        return [
            SlicePartition(piece) for piece in batch_slices(cluster, self._options, self._narrowing)
        ]
