"""The Spark side of the demo: a stream from the topic into Parquet, and the comparison of both."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import orbitmq.spark
from orbitmq.clock import Clock
from orbitmq.demo.figures import Batch, Comparison, Jobs, Total
from orbitmq.demo.jobs import run_jobs
from orbitmq.demo.latency import Spread
from orbitmq.demo.shop import REMINDER, TOPIC
from orbitmq.errors import OrbitError

if TYPE_CHECKING:  # PySpark is imported only when the session is created
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Pipeline", "batches_of", "spark_errors_wrapped"]

# The demo takes half a minute: two cores are enough, and code that compiles fast beats fast code.
_MASTER: Final = "local[2]"
_CONFIG: Final[Mapping[str, str | int]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 2,
}
_GROUP: Final = "orbitmq-demo"
_COLUMNS: Final = "value,tags,queue_id,queue_offset,born_timestamp"
_EVENT: Final = "order STRING, customer STRING, step INT, state STRING, item STRING, cents BIGINT"


class Pipeline:
    """A Spark session that reads the shop's topic, and writes Parquet files and a checkpoint."""

    def __init__(self, nameserver: str, directory: str, clock: Clock) -> None:
        began_ms = clock.monotonic_ms()
        self._spark: SparkSession = orbitmq.spark.session("orbitmq demo", _MASTER, _CONFIG)
        self.ready_ms = clock.monotonic_ms() - began_ms
        """How long the session took to start."""
        self._nameserver = nameserver
        self._files = f"{directory}/orders"
        self._checkpoint = f"{directory}/checkpoint"
        self._clock = clock

    @cached_property
    def versions(self) -> str:
        """The versions of Spark and Java."""
        asked = "java_method('java.lang.System', 'getProperty', 'java.version') AS java"
        ((java,),) = self._spark.range(1).selectExpr(asked).collect()
        return f"Spark {self._spark.version}, Java {java}"

    def close(self) -> None:
        """Stop running streams, and Spark, which has nothing to say any more."""
        self._spark.sparkContext.setLogLevel("OFF")
        for query in self._spark.streams.active:
            query.stop()
        self._spark.stop()

    # Streaming

    def start(self) -> "StreamingQuery":
        """Start a stream that writes the messages of the topic to Parquet, old and new."""
        stream = self._spark.readStream.format("rocketmq").options(
            nameserver=self._nameserver,
            subscribe=TOPIC,
            columns=_COLUMNS,
            startingOffsets="earliest",
            groupId=_GROUP,
        )
        return (
            _orders(stream.load())
            .writeStream.queryName(TOPIC)
            .trigger(processingTime="1 second")
            .option("checkpointLocation", self._checkpoint)
            .start(self._files, format="parquet")
        )

    # Comparing

    def compare(self) -> Comparison:
        """Run the same queries on the topic and on the files."""
        reader = self._spark.read.format("rocketmq").options(
            nameserver=self._nameserver, subscribe=TOPIC, columns=_COLUMNS
        )
        topic = _orders(reader.load()).cache()
        files = self._spark.read.parquet(self._files)
        began_ms = self._clock.monotonic_ms()
        in_topic = _by_state(topic)
        between_ms = self._clock.monotonic_ms()
        in_files = _by_state(files)
        files_ms = self._clock.monotonic_ms() - between_ms
        return Comparison(
            totals=totals(in_topic, in_files),
            missing=topic.exceptAll(files).count(),
            extra=files.exceptAll(topic).count(),
            out_of_order=_out_of_order(files),
            topic_ms=between_ms - began_ms,
            files_ms=files_ms,
            arrived=_arrived(files),
        )

    def jobs(self, home: Path) -> Jobs:
        """Run the jobs of the demo on what is in its directory."""
        return run_jobs(self._spark, self._nameserver, TOPIC, home, self._clock)


@contextmanager
def spark_errors_wrapped() -> Iterator[None]:
    """Turn Spark's errors into an OrbitError with the first line of their text."""
    kind: type[Exception] = import_module("pyspark.errors").PySparkException
    try:
        yield
    except kind as error:
        raise OrbitError(f"Spark failed: {str(error).partition(chr(10))[0]}") from error


def batches_of(query: "StreamingQuery", since_ms: int) -> tuple[Batch, ...]:
    """Return the batches that a query has reported, with times since ``since_ms``."""
    return tuple(
        Batch(_ended_ms(one.timestamp, one.durationMs["triggerExecution"]) - since_ms, rows)
        for one in query.recentProgress
        if (rows := one.numInputRows)
    )


def _ended_ms(began: str, took_ms: int) -> int:
    """Return when a batch ended, in milliseconds since 1970.

    >>> _ended_ms("2026-01-01T00:00:00.250Z", 750) - _ended_ms("2026-01-01T00:00:00.000Z", 0)
    1000
    """
    return round(datetime.fromisoformat(began).timestamp() * 1000) + took_ms


def _orders(messages: "DataFrame") -> "DataFrame":
    """Return the columns of the events in messages, and the position of each message."""
    event = f"from_json(CAST(value AS STRING), '{_EVENT}') AS event"
    places = ("tags", "queue_id", "queue_offset", "born_timestamp")
    return messages.selectExpr(event, *places).selectExpr("event.*", *places)


_States: TypeAlias = dict[str, tuple[int, int]]
"""Messages and cents, by state."""


def _by_state(orders: "DataFrame") -> _States:
    found = orders.groupBy("state").agg({"*": "count", "cents": "sum"}).collect()
    return {row["state"]: (row["count(1)"], row["sum(cents)"]) for row in found}


def totals(in_topic: _States, in_files: _States) -> tuple[Total, ...]:
    """Return the results of both queries by state, the most frequent state first."""
    nothing = (0, 0)
    found = (
        Total(state, *in_topic.get(state, nothing), *in_files.get(state, nothing))
        for state in sorted({*in_topic, *in_files})
    )
    return tuple(sorted(found, key=lambda total: -total.topic_messages))


def _out_of_order(files: "DataFrame") -> int:
    """Return the number of rows that precede an earlier one of their customer, or change queue."""
    before = "lag(struct(queue_id, step)) OVER (PARTITION BY customer ORDER BY queue_offset) AS b"
    steps = files.where(f"state <> '{REMINDER}'").selectExpr("queue_id", "step", before)
    return steps.where("b.step >= step OR b.queue_id <> queue_id").count()


def _arrived(files: "DataFrame") -> Spread:
    """Return the times from birth to readable in a file."""
    took = "unix_millis(_metadata.file_modification_time) - unix_millis(born_timestamp)"
    shares = "array(0.5, 0.9, 0.99, 0.999)"
    (row,) = (
        files.where(f"state <> '{REMINDER}'")
        .selectExpr(f"{took} AS took")
        .selectExpr(
            "count(took) AS count",
            f"percentile_approx(took, {shares}, 10000) AS shares",
            "max(took) AS longest",
        )
        .collect()
    )
    p50, p90, p99, p999 = row["shares"] or (0, 0, 0, 0)
    return Spread(row["count"], p50, p90, p99, p999, row["longest"] or 0)
