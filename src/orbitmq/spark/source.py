"""The data source ``rocketmq``: from a format's name and options to readers and writers.

These are imported when one is asked for. Spark has a Python process for each step, the first of
which asks for the columns alone, and none should wait for what the others need.
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
from orbitmq.spark.options.table import OPTIONS, Use
from orbitmq.spark.schema import READ_COLUMNS, read_schema
from orbitmq.spark.streaming.refused_stream import RefusedStreamReader

__all__ = ["RocketMQSource"]

_STREAMS_SINCE: Final = (4, 2)


class RocketMQSource(DataSource):
    """RocketMQ as a source and a sink of Spark.

    ``docs/spark.md`` lists options and columns. Nothing is asked of a cluster before a query runs,
    but options are checked as soon as there are any. Errors are raised on the driver, and their
    text is the last line of Spark's own error, but for the ``SQLSTATE`` that Spark adds.

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
        """Return the columns of a read.

        Raises:
            InvalidOption: an option can't be used, or contradicts another one.

        """
        return read_schema(_some_read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch.

        Raises:
            InvalidOption: an option can't be used for a batch.
            InvalidColumn: the user's own schema has columns that there are not.

        """
        from orbitmq.spark.reading.batch_reader import BatchReader, FilteringBatchReader

        options = _with_schema(read_options(self.options, streaming=False), schema)
        return FilteringBatchReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads a stream, or what says why not."""
        try:
            _check_spark_streams(pyspark.__version__)
            from orbitmq.spark.streaming.stream_reader import StreamReader

            return StreamReader(_with_schema(read_options(self.options, streaming=True), schema))
        except OrbitError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a batch; the errors are those of ``RocketMQWriter``."""
        from orbitmq.spark.writing.writer import RocketMQWriter

        return RocketMQWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        """Return what writes a stream; the errors are those of ``RocketMQStreamWriter``."""
        from orbitmq.spark.writing.writer import RocketMQStreamWriter

        return RocketMQStreamWriter(write_options(self.options), schema)


def _check_spark_streams(version: str) -> None:
    """Check that a Spark version tells a stream's reader where the next batch begins.

    Without that, the group's offsets, limits and losses could not be told from a restart.

    Raises:
        SparkTooOld: it doesn't.

    """
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < _STREAMS_SINCE:
        least = ".".join(map(str, _STREAMS_SINCE))
        raise SparkTooOld(
            f"Spark {version} can't stream from RocketMQ, for it doesn't tell a Python source "
            f"where a batch begins; Spark {least} does. Batch reads and all writes work here",
            least=least,
        )


def _some_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return what options mean to a read of either kind: Spark doesn't say yet which it will be.

    Raises:
        InvalidOption: they mean nothing to both; told as to the kind that they look like.

    """
    of_streams = {option.name.lower() for option in OPTIONS if option.use is Use.STREAM}
    looks_streaming = any(name.lower() in of_streams for name in given)
    try:
        return read_options(given, streaming=looks_streaming)
    except OrbitError as error:
        try:
            return read_options(given, streaming=not looks_streaming)
        except OrbitError:
            raise error from None


def _with_schema(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Return options that pick the columns of a schema, be it the user's own: ``.schema("…")``.

    Raises:
        InvalidColumn: it has no columns, one that there isn't or that the options leave out, one
            twice, or one of another type.

    """
    names = schema.fieldNames()
    if not names:
        raise InvalidColumn(
            "the schema given has no columns, and without any no row can be read; leave it out",
            field="schema",
        )
    for field in schema.fields:
        _check_name(field.name, options.columns)
        if names.count(field.name) > 1:
            raise InvalidColumn(
                f"column {field.name} is twice in the schema given; name it once, and copy it "
                "after reading",
                field=field.name,
            )
        _check_type(field)
    return msgspec.structs.replace(options, columns=tuple(names))


def _check_name(name: str, picked: Sequence[str]) -> None:
    if name not in READ_COLUMNS:
        raise InvalidColumn(
            f"there is no column {name[:60]!r} to read; there are {', '.join(READ_COLUMNS)}",
            field=name,
        )
    if name not in picked:
        raise InvalidColumn(
            f"column {name} is in the schema given, and the option columns or includeProperties "
            "leaves it out; say in one place what to read",
            field=name,
        )


def _check_type(field: StructField) -> None:
    wanted, found = read_schema([field.name]).fields[0].dataType, field.dataType
    if found != wanted:
        # Spark's short names don't say this of a map.
        never_null = isinstance(found, MapType) and not found.valueContainsNull
        raise InvalidColumn(
            f"column {field.name} is {wanted.simpleString()}, and the schema given says "
            f"{found.simpleString()[:60]}{' without null values' if never_null else ''}; cast it "
            "after reading",
            field=field.name,
        )
    if not field.nullable:
        raise InvalidColumn(
            f"column {field.name} may be null, and the schema given says NOT NULL; leave that out, "
            "and select rows by IS NOT NULL after reading",
            field=field.name,
        )
