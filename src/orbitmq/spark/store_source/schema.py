"""The columns of a store directory: those of ``rocketmq``, and what only the files know."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from orbitmq.errors import InvalidColumn
from orbitmq.spark.schema import READ_COLUMNS, read_schema

__all__ = ["CORRUPT", "STORE_COLUMNS", "columns_of", "store_schema"]

CORRUPT: Final = "corrupt"
"""What is wrong at a place that can't be read; the column exists with ``onCorrupt=report``."""

_MORE: Final[Mapping[str, DataType]] = {
    "physical_offset": LongType(),
    "sys_flag": IntegerType(),
    "queue_tag_code": LongType(),
    CORRUPT: StringType(),
}
STORE_COLUMNS: Final = (*READ_COLUMNS, *(name for name in _MORE if name != CORRUPT))


def store_schema(columns: Sequence[str] = STORE_COLUMNS) -> StructType:
    """Return the schema of a read with these columns, in this order.

    >>> store_schema(["value", "physical_offset"]).simpleString()
    'struct<value:binary,physical_offset:bigint>'
    """
    return StructType(
        [
            StructField(name, _MORE[name]) if name in _MORE else read_schema([name]).fields[0]
            for name in columns
        ]
    )


def columns_of(given: StructType, picked: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a schema, which may be the user's: ``.schema("…")``.

    Raise InvalidColumn unless each is one of those ``picked`` by options, with its type, once.
    """
    offered = {field.name: field for field in store_schema(picked).fields}
    names = tuple(given.fieldNames())
    if not names:
        raise InvalidColumn(
            "the given schema has no columns; add some, or leave the schema out", field="schema"
        )
    for field in given.fields:
        if field.name not in offered:
            raise InvalidColumn(
                f"column {field.name[:60]!r} of the given schema can't be read with these "
                f"options; there are {', '.join(picked)}",
                field=field.name,
            )
        if names.count(field.name) > 1:
            raise InvalidColumn(
                f"column {field.name} is twice in the given schema; name it once", field=field.name
            )
        if field != offered[field.name]:
            raise InvalidColumn(
                f"column {field.name} is {offered[field.name].dataType.simpleString()} and may be "
                "null, but the given schema says otherwise; leave it as it is, and cast it after "
                "the read",
                field=field.name,
            )
    return names
