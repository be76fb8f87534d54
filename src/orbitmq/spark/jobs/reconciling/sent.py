"""What producers say they sent: traces, receipts and outboxes, as one table.

::

    topic, message_id, sent_ms    one row for each message, however many said so
    acknowledged                  whether a broker said that it is stored
    kind                          normal, ordered, delayed, or half: of a transaction
    ended                         COMMIT_MESSAGE, ROLLBACK_MESSAGE, or null
    recalled, waiting             whether it was recalled; is in an outbox
    broker, queue_id, queue_offset    where it should be; null if nobody said
    producer, sequence            who sent it, and as the how-manieth; null: the time decides
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from orbitmq.errors import InvalidInput
from orbitmq.message.model import SendStatus
from orbitmq.spark.jobs import trace

__all__ = ["SAID", "Waiting", "merged", "of_outbox", "of_receipts", "of_traces"]

SAID: Final = (
    "topic string, message_id string, sent_ms bigint, acknowledged boolean, kind string, "
    "ended string, recalled boolean, waiting boolean, broker string, queue_id int, "
    "queue_offset bigint, producer string, sequence bigint"
)
"""A report about a message; several about one are ``merged``."""

_NAMES: Final = tuple(column.split()[0] for column in SAID.split(", "))
_TYPES: Final = dict(column.split() for column in SAID.split(", "))
_STORED: Final = tuple(status.value for status in SendStatus)
_MILLISECONDS: Final = r"^-?\d{1,18}$"
_FORMATS: Final = {
    ".jsonl": "json",
    ".json": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}


class Waiting(NamedTuple):
    """A message in an outbox."""

    topic: str
    message_id: str
    kept_ms: int


def of_traces(records: DataFrame) -> DataFrame:
    """Return what traces say: ``records`` are those of ``trace.parsed``.

    Java reports a batch as one send with all ids, separated by commas.
    """
    sends = _each(trace.sends(records)).select(
        *("topic", "message_id", F.unix_millis("at").alias("sent_ms")),
        *(F.col("success").alias("acknowledged"), F.col("message_kind").alias("kind")),
        F.concat_ws("@", "group", "client_host").alias("producer"),
    )
    ends = _each(trace.transaction_ends(records)).select(
        *("topic", "message_id", F.col("transaction_state").alias("ended"))
    )
    recalled = _each(trace.recalls(records).where("success")).select(
        *("topic", "message_id", F.lit(True).alias("recalled"))
    )
    return _said(sends).unionByName(_said(ends)).unionByName(_said(recalled))


def _each(frame: DataFrame) -> DataFrame:
    return frame.withColumn("message_id", F.explode(F.split("message_id", ",")))


def of_receipts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return what receipt logs say; see ``docs/pipeline/reconcile.md`` for their columns.

    Rows without a topic, an id or a time stay, for ``merged`` to leave out and the caller to count.

    Raises:
        InvalidInput: the name of a file doesn't say what it is, or columns are missing.
    """
    frames = [_receipts(spark, path) for path in paths]
    found = frames[0]
    for frame in frames[1:]:
        found = found.unionByName(frame)
    return found


def _receipts(spark: SparkSession, path: str) -> DataFrame:
    form = _FORMATS.get(PurePath(path.rstrip("/")).suffix.lower())
    if form is None:
        raise InvalidInput(
            f"{path} can't be read as receipts: its name has to end in {', '.join(_FORMATS)}",
            field="receipts",
        )
    columns = {**_TYPES, "sent_at": "string", "status": "string"}
    reader = spark.read
    if form == "json":
        schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        given = reader.schema(schema).json(path)
    else:
        given = reader.option("header", value=True).format(form).load(path)
    missing = [one for one in ("topic", "message_id", "sent_at") if one not in given.columns]
    if missing:
        raise InvalidInput(f"{path} lacks the column {missing[0]}", field="receipts")
    has_status = "status" in given.columns
    status = F.col("status") if has_status else F.lit(None).cast("string")
    acknowledged = status.isNull() | status.isin(*_STORED)
    timed = given.withColumn("sent_ms", _milliseconds(given))
    return _said(timed.withColumn("acknowledged", acknowledged))


def _milliseconds(given: DataFrame) -> Column:
    kind, at = given.schema["sent_at"].dataType, F.col("sent_at")
    if isinstance(kind, TimestampType | TimestampNTZType):
        return F.unix_millis(at.cast("timestamp"))
    if isinstance(kind, NumericType):
        return at.try_cast("bigint")
    is_number = at.rlike(_MILLISECONDS)
    as_time = F.unix_millis(F.expr("try_to_timestamp(sent_at)"))
    return F.when(is_number, F.expr("try_cast(sent_at AS bigint)")).otherwise(as_time)


def of_outbox(spark: SparkSession, waiting: Iterable[Waiting]) -> DataFrame:
    """Return what outboxes hold: messages whose sends failed, and will be tried again."""
    rows = spark.createDataFrame(list(waiting), "topic string, message_id string, sent_ms bigint")
    return _said(rows.withColumn("waiting", F.lit(True)))


def _said(frame: DataFrame) -> DataFrame:
    """Return the columns of ``SAID``; what a frame lacks, or can't be of the type, is null."""
    given = set(frame.columns)
    return frame.select(
        *(
            (F.col(name) if name in given else F.lit(None)).try_cast(_TYPES[name]).alias(name)
            for name in _NAMES
        )
    )


def merged(said: DataFrame) -> DataFrame:
    """Return one row for each message; see above.

    A place, a producer and a sequence belong together: those of a receipt go before a trace's.
    """
    readable = said.where("topic IS NOT NULL AND message_id IS NOT NULL AND message_id != ''")
    found = readable.groupBy("topic", "message_id").agg(
        F.min("sent_ms").alias("sent_ms"),
        F.coalesce(F.max("acknowledged"), F.lit(False)).alias("acknowledged"),
        F.coalesce(F.max("kind"), F.lit("normal")).alias("kind"),
        # A check may have answered twice: what was committed stays so.
        F.min("ended").alias("ended"),
        F.coalesce(F.max("recalled"), F.lit(False)).alias("recalled"),
        F.coalesce(F.max("waiting"), F.lit(False)).alias("waiting"),
        F.max(F.when(F.col("queue_offset").isNotNull(), F.struct(*_PLACE))).alias("place"),
        F.max(F.struct("sequence", "producer")).alias("turn"),
    )
    plain = found.select("*", "place.*", "turn.*").drop("place", "turn")
    # Ends and recalls alone don't say when it was sent.
    return plain.where("sent_ms IS NOT NULL")


_PLACE: Final = ("broker", "queue_id", "queue_offset")
