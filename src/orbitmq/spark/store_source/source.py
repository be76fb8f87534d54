"""The data source ``rocketmq-store``: the files of a broker as a table."""

# ruff: noqa: PLC0415  # a process that needs the schema alone doesn't wait for numpy and Arrow

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from orbitmq.errors import InvalidOption
from orbitmq.spark.reading.worker_heap import freeze_imports
from orbitmq.spark.store_source.options import StoreOptions, store_options
from orbitmq.spark.store_source.partitions import StorePartition, plan
from orbitmq.spark.store_source.schema import columns_of, store_schema
from orbitmq.spark.streaming.refused_stream import RefusedStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RocketMQStoreSource", "StoreBatchReader"]


class RocketMQStoreSource(DataSource):
    """A store directory as a source of Spark.

    ``docs/spark.md`` lists options and columns. Options are checked as soon as they are given; the
    directory is read when a query runs.

    ::

        spark.read.format("rocketmq-store").option("subscribe", "orders").load("/data/store")
    """

    # Spark's names
    # ruff: noqa: N802

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        return store_schema(store_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        options = store_options(self.options)
        columns = columns_of(schema, options.columns)
        return StoreBatchReader(msgspec.structs.replace(options, columns=columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        """Return a reader that raises why there is none."""
        return RefusedStreamReader(
            InvalidOption(
                "a store directory can't be read as a stream; read it again from where the last "
                "read ended, or stream from its broker with format('rocketmq')",
                field="format",
            )
        )


class _Partition(InputPartition):
    """What one task reads, in the form that Spark wants."""

    def __init__(self, part: StorePartition) -> None:
        super().__init__(part)
        self.part = part


class StoreBatchReader(DataSourceReader):
    """Reads what the options select.

    The plan is made once: Spark asks a reader for its partitions again when a data frame is used
    again, and gets the same.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options

    @cached_property
    def _parts(self) -> list[StorePartition]:
        return plan(self._options)

    def partitions(self) -> list[InputPartition]:
        """Return what tasks read: fixed ranges, so that a retried task reads the same."""
        return [_Partition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Return the rows of one partition; if there are none, Spark adds an empty one."""
        if not isinstance(partition, _Partition):
            return iter(())
        from orbitmq.spark.store_source.rows import read_part

        if TaskContext.get() is not None:
            freeze_imports()
        return read_part(partition.part, self._options)
