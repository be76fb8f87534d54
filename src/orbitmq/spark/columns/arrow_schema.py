"""The Arrow types of the columns of a read.

In a separate module, so that Spark's processes which need only the schema don't import Arrow.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from orbitmq.spark.schema import READ_COLUMNS, read_schema

__all__ = ["arrow_schema", "as_arrow"]

_ARROW: Final[Mapping[type[DataType], pa.DataType]] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    MapType: pa.map_(pa.string(), pa.string()),
}


def arrow_schema(columns: Sequence[str] = READ_COLUMNS) -> pa.Schema:
    """Return the schema of record batches; Spark requires exactly this one.

    >>> arrow_schema(["queue_offset"]).field("queue_offset").type
    DataType(int64)
    """
    return as_arrow(read_schema(columns))


def as_arrow(schema: StructType) -> pa.Schema:
    """Return a schema of Spark, with the types of our columns, as one of Arrow."""
    return pa.schema(
        [pa.field(field.name, _ARROW[type(field.dataType)]) for field in schema.fields]
    )
