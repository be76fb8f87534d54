"""Removes copies of messages that were written more than once."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from orbitmq.errors import InvalidColumn
from orbitmq.spark.writing.stable_ids import ORBIT_ID

__all__ = ["drop_duplicates"]

_ID: Final = "__orbit_id"
_READ_AT: Final = "__orbit_read_at"
_DELAY: Final = "spark.watermarkDelayMs"
"""The metadata that Spark adds to a column with a watermark."""
_UNIQUE: Final = (("message_id",), ("offset_message_id",), ("broker", "queue_id", "queue_offset"))
"""Columns that identify messages without an ``ORBIT_ID``, best first: the unique id is the same for
copies from a producer's retries."""


def drop_duplicates(df: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return the messages of a read without the copies that retried writes left.

    Copies have the same topic and the same property ``ORBIT_ID``, which every write of
    ``format("rocketmq")`` sets. Messages without it, from other producers, are identified by their
    message id: only copies from a producer's retries are removed.

    A batch read is compared as a whole. A stream remembers an id for at least ``within`` after a
    batch has read it, by the driver's clock; a copy that is read later may stay. So ``within`` is
    about when messages are read, not when they were stored. No message is ever too old: the backlog
    of a queue, of a broker that was down, or of a stopped query is read completely. (If the clock
    is set back by more than ``within``, new messages count as too old, and Spark drops them.)

    If the stream has a watermark, for example for windows, that is used instead of ``within``,
    since Spark allows only one watermark. Messages older than it are dropped, copies or not.

    ::

        reader = spark.readStream.format("rocketmq").options(includeProperties=True, …)
        orders = reader.load()
        once = orbitmq.spark.drop_duplicates(orders, within="1 hour")

    Args:
        df: a read of ``format("rocketmq")`` with the columns ``properties`` (by
            ``includeProperties``) and ``message_id``, or another id.
        within: for a stream, how far apart copies may be read.

    Raises:
        InvalidColumn: a required column is missing.
    """
    if "properties" not in df.columns:
        raise InvalidColumn(
            "drop_duplicates needs the column properties, which has the ids; read it by "
            ".option('includeProperties', True), or add it to the option columns",
            field="properties",
        )
    marked = df.withColumn(_ID, _row_id(df))
    same = [_ID, "topic"] if "topic" in df.columns else [_ID]
    if not df.isStreaming:
        return marked.dropDuplicates(same).drop(_ID)
    if not _has_watermark(df):
        # Not the store time: a batch with the end of one queue would make the backlog of another
        # too old. The time of a batch is in the checkpoint, so a repeated batch has the same.
        marked = marked.withColumn(_READ_AT, f.current_timestamp()).withWatermark(_READ_AT, within)
    return marked.dropDuplicatesWithinWatermark(same).drop(_ID, _READ_AT)


def _has_watermark(df: DataFrame) -> bool:
    return any(_DELAY in field.metadata for field in df.schema.fields)


def _row_id(df: DataFrame) -> Column:
    written = f.try_element_at(f.col("properties"), f.lit(ORBIT_ID))
    for columns in _UNIQUE:
        if set(columns) <= set(df.columns):
            # The prefix keeps these apart from written ids, which may be any text.
            unique = f.concat_ws("\x01", f.lit(""), *(f.col(name) for name in columns))
            return f.coalesce(written, unique)
    raise InvalidColumn(
        "drop_duplicates needs a column that identifies messages without an ORBIT_ID: add "
        f"{' or '.join(', '.join(columns) for columns in _UNIQUE)}",
        field="message_id",
    )
