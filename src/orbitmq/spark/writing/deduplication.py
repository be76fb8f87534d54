"""Copies taken out: what was written more than once is read once."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from orbitmq.errors import InvalidColumn
from orbitmq.spark.writing.stable_ids import ORBIT_ID

__all__ = ["drop_duplicates"]

_ID: Final = "__orbit_id"
_READ_AT: Final = "__orbit_read_at"
_DELAY: Final = "spark.watermarkDelayMs"
"""What Spark notes of a column that has a watermark."""
_UNIQUE: Final = (("message_id",), ("offset_message_id",), ("broker", "queue_id", "queue_offset"))
"""What else tells messages of a topic apart, the best first: the unique id is the same for copies
that a producer's own retries made."""


def drop_duplicates(df: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return the messages of a read without the copies that retried writes left.

    Copies have the same topic and the same property ``ORBIT_ID``, which every write of
    ``format("rocketmq")`` sets. Messages without it, from other producers, are told apart by their
    message id: a copy that a producer's retry made goes, all else stays.

    A batch read is compared as a whole. A streaming one remembers an id for at least ``within``
    after a batch has read it, by the clock of the driver: a copy that is read later than that may
    stay. So ``within`` is about when messages are read, and not when they were stored. No message
    is ever too old to be read, be it the backlog of a queue, of a broker that was away, or of a
    query that stood still. (A clock that is set back by more than ``within`` would make new ones
    too old: Spark drops what lies behind a watermark.)

    A stream with a watermark of its own is compared by that one, and ``within`` says nothing then,
    since Spark allows one watermark alone. It takes one to count in windows behind this. What is
    older than such a watermark is dropped, whether it is a copy or not.

    ::

        orders = spark.readStream.format("rocketmq").options(…).load()
        once = orbitmq.spark.drop_duplicates(orders, within="1 hour")

    Args:
        df: what ``format("rocketmq")`` read, with the column ``properties``, and one that tells
            messages apart, such as ``message_id``.
        within: for a stream, how far apart copies may be read.

    Raises:
        InvalidColumn: a column that this needs was not read.

    """
    if "properties" not in df.columns:
        raise InvalidColumn(
            "drop_duplicates needs the column properties: it holds the ids. Read it too, by "
            "option columns, and drop it afterwards",
            field="properties",
        )
    marked = df.withColumn(_ID, _row_id(df))
    same = [_ID, "topic"] if "topic" in df.columns else [_ID]
    if not df.isStreaming:
        return marked.dropDuplicates(same).drop(_ID)
    if not _has_watermark(df):
        # The time of storing would not do: a batch with the end of one queue would make the
        # backlog of another one too old. The time of a batch is in the checkpoint, and the same
        # when the batch is repeated.
        marked = marked.withColumn(_READ_AT, f.current_timestamp()).withWatermark(_READ_AT, within)
    return marked.dropDuplicatesWithinWatermark(same).drop(_ID, _READ_AT)


def _has_watermark(df: DataFrame) -> bool:
    return any(_DELAY in field.metadata for field in df.schema.fields)


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
