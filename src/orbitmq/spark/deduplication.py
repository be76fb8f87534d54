"""Copies taken out: what was written more than once is read once."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from orbitmq.errors import InvalidColumn
from orbitmq.spark.stable_ids import ORBIT_ID

__all__ = ["drop_duplicates"]

_ID: Final = "__orbit_id"
_UNIQUE: Final = (("message_id",), ("offset_message_id",), ("broker", "queue_id", "queue_offset"))
"""What else tells messages of a topic apart, the best first: the unique id is the same for copies
that a producer's own retries made."""


def drop_duplicates(df: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return the messages of a read without the copies that retried writes left.

    Copies have the same topic and the same property ``ORBIT_ID``, which every write of
    ``format("rocketmq")`` sets. Messages without it, from other producers, are told apart by their
    message id: a copy that a producer's retry made goes, all else stays.

    A batch read is compared as a whole. A streaming one remembers ids for at least ``within``, by
    a watermark on ``timestamp``, the time of storing: a copy that was stored later than that after
    the first may stay. Don't set another watermark on the same stream.

    ::

        orders = spark.readStream.format("rocketmq").options(…).load()
        once = orbitmq.spark.drop_duplicates(orders, within="1 hour")

    Args:
        df: what ``format("rocketmq")`` read, with the column ``properties``, one that tells
            messages apart, such as ``message_id``, and, for a stream, ``timestamp``.
        within: how far apart copies may have been stored.

    Raises:
        InvalidColumn: a column that this needs was not read.

    """
    _need(df, "properties", "it holds the ids")
    marked = df.withColumn(_ID, _row_id(df))
    same = [_ID, "topic"] if "topic" in df.columns else [_ID]
    if df.isStreaming:
        _need(df, "timestamp", "it tells how far apart copies are")
        once = marked.withWatermark("timestamp", within).dropDuplicatesWithinWatermark(same)
    else:
        once = marked.dropDuplicates(same)
    return once.drop(_ID)


def _row_id(df: DataFrame) -> Column:
    written = f.try_element_at(f.col("properties"), f.lit(ORBIT_ID))
    for columns in _UNIQUE:
        if set(columns) <= set(df.columns):
            # No id begins so by chance: that of a written row could be any text.
            unique = f.concat_ws("\x01", f.lit(""), *(f.col(name) for name in columns))
            return f.coalesce(written, unique)
    raise InvalidColumn(
        "drop_duplicates needs a column that tells messages without an id apart: read "
        f"{' or '.join(', '.join(columns) for columns in _UNIQUE)} too",
        field="message_id",
    )


def _need(df: DataFrame, column: str, reason: str) -> None:
    if column not in df.columns:
        raise InvalidColumn(
            f"drop_duplicates needs the column {column}: {reason}. Read it too, by option columns, "
            "and drop it afterwards",
            field=column,
        )
