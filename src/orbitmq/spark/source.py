"""The data source ``rocketmq``: creates readers and writers from options.

They are imported when needed. Spark runs a Python process per step, the first of which needs the
schema only, and none should wait for the imports of the others.
"""

# ruff: noqa: PLC0415

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import MapType, StructField, StructType

from orbitmq.errors import InvalidColumn, OrbitError, SparkTooOld
from orbitmq.spark.options.options import ReadOptions, read_options, write_options
from orbitmq.spark.options.table import OPTIONS, Operation
from orbitmq.spark.schema import READ_COLUMNS, read_schema
from orbitmq.spark.streaming.refused_stream import RefusedStreamReader

__all__ = ["RocketMQSource"]

_STREAMS_SINCE: Final = (4, 2)


class RocketMQSource(DataSource):
    """RocketMQ as a source and a sink of Spark.

    ``docs/spark.md`` lists options and columns. Options are checked as soon as they are given; the
    cluster is contacted when a query runs. Errors are raised on the driver, and their text is the
    last line of Spark's error, except for the ``SQLSTATE`` that Spark adds.

    ::

        spark.read.format("rocketmq").options(nameserver="…", subscribe="orders").load()
    """

    # Spark's names
    # ruff: noqa: N802

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        return read_schema(_some_read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from orbitmq.spark.reading.batch_reader import BatchReader, FilteringBatchReader

        options = _with_schema(read_options(self.options, streaming=False), schema)
        return FilteringBatchReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream, or one that raises why there is none."""
        try:
            _check_spark_streams(pyspark.__version__)
            from orbitmq.spark.streaming.stream_reader import StreamReader

            return StreamReader(_with_schema(read_options(self.options, streaming=True), schema))
        except OrbitError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch; raises what ``RocketMQWriter`` does."""
        from orbitmq.spark.writing.writer import RocketMQWriter

        return RocketMQWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        """Return the writer of a stream; raises what ``RocketMQStreamWriter`` does."""
        from orbitmq.spark.writing.writer import RocketMQStreamWriter

        return RocketMQStreamWriter(write_options(self.options), schema)


def _check_spark_streams(version: str) -> None:
    """Check that a Spark version passes the start of the next batch to a stream's reader.

    Without it, commits, limits and data loss can't be handled after a restart.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < _STREAMS_SINCE:
        least = ".".join(map(str, _STREAMS_SINCE))
        raise SparkTooOld(
            f"Spark {version} can't stream from RocketMQ, since it doesn't tell a Python source "
            f"where a batch begins; use Spark {least} or later. Batch reads and all writes work",
            least=least,
        )


def _some_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return options for either kind of read: at this point Spark doesn't say which it is."""
    of_streams = {option.name.lower() for option in OPTIONS if option.operation is Operation.STREAM}
    looks_streaming = any(name.lower() in of_streams for name in given)
    try:
        return read_options(given, streaming=looks_streaming)
    except OrbitError as error:
        try:
            return read_options(given, streaming=not looks_streaming)
        except OrbitError:
            raise error from None


def _with_schema(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Return options with the columns of a schema, which may be the user's: ``.schema("…")``."""
    names = schema.fieldNames()
    if not names:
        raise InvalidColumn(
            "the given schema has no columns; add some, or leave the schema out",
            field="schema",
        )
    for field in schema.fields:
        _check_name(field.name, options.columns if options.are_columns_given else READ_COLUMNS)
        if names.count(field.name) > 1:
            raise InvalidColumn(
                f"column {field.name} is twice in the given schema; name it once, and copy it "
                "after the read",
                field=field.name,
            )
        _check_type(field)
    return msgspec.structs.replace(options, columns=tuple(names))


def _check_name(name: str, picked: Sequence[str]) -> None:
    if name not in READ_COLUMNS:
        raise InvalidColumn(
            f"column {name[:60]!r} can't be read; there are {', '.join(READ_COLUMNS)}",
            field=name,
        )
    if name not in picked:
        raise InvalidColumn(
            f"column {name} is in the given schema, but the option columns leaves it out; choose "
            "columns in one place",
            field=name,
        )


def _check_type(field: StructField) -> None:
    wanted, found = read_schema([field.name]).fields[0].dataType, field.dataType
    if found != wanted:
        # The short name of a map's type doesn't show this.
        never_null = isinstance(found, MapType) and not found.valueContainsNull
        raise InvalidColumn(
            f"column {field.name} is {wanted.simpleString()}, but the given schema has "
            f"{found.simpleString()[:60]}{' without null values' if never_null else ''}; cast it "
            "after the read",
            field=field.name,
        )
    if not field.nullable:
        raise InvalidColumn(
            f"column {field.name} may be null, but the given schema has NOT NULL; leave that out, "
            "and filter by IS NOT NULL after the read",
            field=field.name,
        )
