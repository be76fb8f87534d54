"""The columns of a read and of a write; ``arrow_schema`` has their Arrow types."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from orbitmq.errors import InvalidColumn, InvalidOption

__all__ = [
    "DEFAULT_COLUMNS",
    "PROPERTIES",
    "READ_COLUMNS",
    "WRITE_COLUMNS",
    "check_read_columns",
    "check_write_schema",
    "read_schema",
]


_TEXT: Final = StringType()
_BYTES: Final = BinaryType()
_INT: Final = IntegerType()
_LONG: Final = LongType()
_TIME: Final = TimestampType()
_TEXTS: Final = MapType(StringType(), StringType())

_READ: Final[Mapping[str, DataType]] = {
    "key": _TEXT,
    "value": _BYTES,
    "topic": _TEXT,
    "broker": _TEXT,
    "queue_id": _INT,
    "queue_offset": _LONG,
    "timestamp": _TIME,  # when it was stored
    "born_timestamp": _TIME,
    "tags": _TEXT,
    "message_id": _TEXT,
    "offset_message_id": _TEXT,
    "properties": _TEXTS,
    "flag": _INT,
    "reconsume_times": _INT,
    "body_crc": _INT,
}
READ_COLUMNS: Final = tuple(_READ)
PROPERTIES: Final = "properties"
DEFAULT_COLUMNS: Final = tuple(name for name in _READ if name != PROPERTIES)
"""What is read unless options choose: like Kafka's headers, properties are dear and seldom used."""

_WRITE: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "topic": (StringType,),
    "value": (BinaryType, StringType),
    "key": (StringType,),
    "tags": (StringType,),
    "properties": (MapType,),
    "queue_id": (IntegerType, LongType),
    "sharding_key": (StringType,),
    "delay_level": (IntegerType, LongType),
    "deliver_at": (TimestampType,),
}
WRITE_COLUMNS: Final = tuple(_WRITE)


def check_read_columns(
    names: Iterable[str], known: Sequence[str] = READ_COLUMNS
) -> tuple[str, ...]:
    """Return the columns of the option ``columns``, in the same order.

    >>> check_read_columns(["value", "tags"])
    ('value', 'tags')
    """
    picked = tuple(names)
    for number, name in enumerate(picked):
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InvalidOption(
                f"columns: there is no column {name[:60]!r}; {hint}", field="columns"
            )
        if name in picked[:number]:
            raise InvalidOption(f"columns: {name} is given twice", field="columns")
    return picked


def read_schema(columns: Sequence[str] = READ_COLUMNS) -> StructType:
    """Return the schema of a read with these columns, in this order.

    >>> read_schema(["value", "timestamp"]).simpleString()
    'struct<value:binary,timestamp:timestamp>'
    """
    return StructType([StructField(name, _READ[name]) for name in columns])


def check_write_schema(
    schema: StructType, *, topic: str | None = None, id_column: str | None = None
) -> None:
    """Check that rows can be written as messages; raise InvalidColumn if not.

    ``topic`` is used for rows if there is no column ``topic``; ``id_column`` may have any name.
    """
    names = schema.fieldNames()
    if id_column is not None and id_column not in names:  # before unknown columns are reported
        raise InvalidColumn(
            f"idColumn is {id_column[:60]!r}, but there is no such column; there are "
            f"{', '.join(names)[:200]}",
            field=id_column,
        )
    for field in schema.fields:
        if field.name in _WRITE:
            _check_type(field)
        elif field.name != id_column:
            raise _unknown_column(field.name)
    for name in names:
        if names.count(name) > 1:
            raise InvalidColumn(
                f"column {name[:60]!r} is there twice; drop or rename one",
                field=name,
            )
    if "value" not in names:
        raise InvalidColumn("there is no column value, which is the body", field="value")
    if "topic" not in names and topic is None:
        raise InvalidColumn(
            "no topic is given: set the option topic, or add a column topic", field="topic"
        )
    if id_column is not None:
        _check_id_column(schema, id_column)


def _check_type(field: StructField) -> None:
    wanted = _WRITE[field.name]
    found = field.dataType
    fits = isinstance(found, wanted)
    if isinstance(found, MapType):
        fits = fits and isinstance(found.keyType, StringType)
        fits = fits and isinstance(found.valueType, StringType)
    if not fits:
        types = " or ".join(_type_name(one) for one in wanted)
        raise InvalidColumn(
            f"column {field.name} is {found.simpleString()[:60]}; it must be {types}. "
            f"Cast it, as in df.withColumn('{field.name}', …)",
            field=field.name,
        )


def _type_name(kind: type[DataType]) -> str:
    return "map<string,string>" if kind is MapType else kind().simpleString()


def _check_id_column(schema: StructType, name: str) -> None:
    if not isinstance(schema[name].dataType, StringType):
        raise InvalidColumn(
            f"idColumn {name[:60]} is {schema[name].dataType.simpleString()[:60]}; it must be "
            "string",
            field=name,
        )


def _unknown_column(name: str) -> InvalidColumn:
    near = get_close_matches(name.lower(), WRITE_COLUMNS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(WRITE_COLUMNS)}."
    return InvalidColumn(
        f"column {name[:60]!r} can't be written; {hint} Drop it by df.drop, or put it into "
        "properties",
        field=name,
    )
