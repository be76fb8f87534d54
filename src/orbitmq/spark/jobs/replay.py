"""Replay: messages of an archive, a store or topics, sent to a topic; each once, queues in order.

::

    source ──▶ time range, where ──▶ one task for the rows of a queue, in order
                                            │
             ledger ◀── done, next ── QueueReplay ──▶ one target queue, at the rate of the task
                                            ▲                 │
                                            └── ids from next ┘   after a kill or a failed send

Topics are read queue by queue, in order, as they are. Rows of archives and stores are brought
together by queue, and sorted by offset.

A copy has an id that says where its original is: topic, broker, queue, offset. The ledger has what
is known to be stored, and the target queue what is stored: a replay that was killed at any moment
continues where it was, by its ledger and the ids at the end of its target queues.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import cluster_for
from orbitmq.spark.jobs.archiving.rows import Archive, archived_rows
from orbitmq.spark.jobs.parallelism import parallelism
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.replaying.copies import COPIED, STORE_BROKER, assigned
from orbitmq.spark.jobs.replaying.ledger import Ledger, QueueProgress, ReplayIdentity
from orbitmq.spark.jobs.replaying.pace import Rate
from orbitmq.spark.jobs.replaying.sink import FORMAT, PLAN, ReplaySink, SinkPlan
from orbitmq.spark.jobs.replaying.target import target_queues
from orbitmq.spark.jobs.sources import EVERYTHING, Span, Store, Topics, rows
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import locked
from orbitmq.spark.options.options import read_options, write_options
from orbitmq.spark.schema import READ_COLUMNS
from orbitmq.spark.store_source.schema import STORE_COLUMNS
from orbitmq.store.reader.reader import StoreReader

__all__ = [
    "Archive",
    "Rate",
    "ReplaySource",
    "Replayed",
    "ReplayedQueue",
    "replay",
    "replay_counts",
]

ReplaySource: TypeAlias = Archive | Store | Topics

_OFTEN: Final = ("topic", "broker", "queue_id")
_SPLITTING: Final = frozenset({"minpartitions", "maxrecordsperpartition"})


class ReplayedQueue(msgspec.Struct, frozen=True):
    """What a run sent of one source queue, or would send."""

    source: MessageQueue
    target: MessageQueue | None
    messages: int


class Replayed(msgspec.Struct, frozen=True):
    """The result of a run, or of a dry one."""

    messages: int
    queues: tuple[ReplayedQueue, ...]
    seconds: float = 0.0


class _Rows(msgspec.Struct):
    """The rows of a source."""

    frame: DataFrame
    queues: tuple[MessageQueue, ...]
    is_ordered: bool = False
    """Whether each partition has the rows of one queue, in order."""


def replay(
    spark: SparkSession,
    source: ReplaySource,
    to: Topics,
    ledger: str,
    span: Span = EVERYTHING,
    *,
    where: str | None = None,
    rate: Rate | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Send what a source has and the ledger doesn't, and return what was sent.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: an archive, a store, or topics.
        to: the cluster and the one topic to send to, with options of a write.
        ledger: the directory that makes the replay resumable: a path, or an address for
            ``pyarrow.fs``, which the driver and all executors reach. One for each replay.
        span: only messages stored in this range of times. A ledger keeps its beginning; the end
            may be another one in each run.
        where: only messages for which this SQL condition over the columns holds.
        rate: the most messages and bytes of bodies per second, over all tasks together.
        progress: is called with finished tasks and all tasks.

    Raises:
        InvalidInput: an argument is invalid, or the ledger is that of another replay.
        LocationInUse: another run uses the ledger.
        OrbitError: a cluster can't be reached.
        PySparkException: Spark failed; its text ends with our reason, if it was ours. What was sent
            until then is in the ledger: run it again.

    ::

        to = Topics("127.0.0.1:9876", ("orders-again",))
        done = replay(spark, Archive("archive", ("orders",)), to, "ledger", where="tags = 'paid'")
        print(done.messages)
    """
    rate, clock = rate or Rate(), SystemClock()
    _check(spark, source, to)
    began_ms = clock.monotonic_ms()
    book = Ledger(Location(ledger))
    with locked(book.location, "", clock):
        span = _claimed(book, source, to, span, where)
        before = {one.source: one.sent for one in book.entries()}
        found = _rows(spark, source, span, where)
        if found.queues:
            with tasks_shown(spark, progress):
                _send(spark, found, to, ledger, rate)
        sent = _sent(before, book)
    took = (clock.monotonic_ms() - began_ms) / 1000
    return Replayed(sum(one.messages for one in sent), sent, took)


def replay_counts(
    spark: SparkSession,
    source: ReplaySource,
    ledger: str | None = None,
    span: Span = EVERYTHING,
    *,
    where: str | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Count what ``replay`` with the same arguments would send; nothing is sent or written.

    What a killed run has sent but not noted counts once more.
    """
    book = Ledger(Location(ledger)) if ledger else None
    known = {one.source: one for one in book.entries()} if book else {}
    frame = _rows(spark, source, span, where).frame
    if known:
        done = [
            (one.source.topic, one.source.broker_name, one.source.queue_id, one.done)
            for one in known.values()
        ]
        table = spark.createDataFrame(
            done, "topic string, broker string, queue_id int, done bigint"
        )
        frame = frame.join(F.broadcast(table), [*_OFTEN], "left")
        frame = frame.where("done IS NULL OR queue_offset > done")
    with tasks_shown(spark, progress):
        counted = frame.groupBy(*_OFTEN).count().orderBy(*_OFTEN).collect()
    queues = tuple(
        ReplayedQueue(queue, known[queue].target if queue in known else None, row["count"])
        for row in counted
        for queue in (MessageQueue(row.topic, row.broker, row.queue_id),)
    )
    return Replayed(sum(one.messages for one in queues), queues)


def _check(spark: SparkSession, source: ReplaySource, to: Topics) -> None:
    if len(to.names) != 1:
        raise InvalidInput("a replay has one target topic", field="to_topic")
    is_same = isinstance(source, Topics) and to.nameserver == source.nameserver
    if is_same and to.names[0] in source.names:
        raise InvalidInput(
            f"topic {to.names[0]} would be replayed into itself; name another target",
            field="to_topic",
        )
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise InvalidInput(
            "spark.speculation is on: two attempts of a task would send at the same time. Turn it "
            "off for a replay",
            field="spark.speculation",
        )


def _claimed(book: Ledger, source: ReplaySource, to: Topics, span: Span, where: str | None) -> Span:
    """Make the ledger that of this replay, and return the range of times with its beginning."""
    identity = ReplayIdentity(
        source=repr(source),
        target=f"{to.names[0]} at {to.nameserver}",
        where=where,
        start_ms=span.start_ms,
    )
    return Span(book.claim(identity).start_ms, span.end_ms)


def _rows(spark: SparkSession, source: ReplaySource, span: Span, where: str | None) -> _Rows:
    if isinstance(source, Archive):
        archived = archived_rows(spark, source, span)
        if archived.has_repetitions and span == EVERYTHING:
            raise InvalidInput(
                f"{source.directory} has queues that were made again, so that two messages have "
                "one place; choose one of them by a range of times",
                field="archive",
            )
        queues = [_named(queue) for queue in archived.queues]
        found = _Rows(archived.frame, tuple(sorted({*queues})))
    elif isinstance(source, Store):
        columns = COPIED if where is None else STORE_COLUMNS
        broker = source.options.get("broker", STORE_BROKER)
        found = _Rows(
            rows(spark, source, columns, span),
            tuple(
                MessageQueue(one.topic, broker, one.queue_id)
                for one in StoreReader(source.directory).queues()
                if not source.names or one.topic in source.names
            ),
        )
    else:
        found = _rows_of_topics(spark, source, span, where)
    frame = found.frame if where is None else found.frame.where(where)
    named = F.coalesce("broker", F.lit(STORE_BROKER)).alias("broker")
    found.frame = frame.select(*(named if name == "broker" else name for name in COPIED))
    return found


def _rows_of_topics(spark: SparkSession, source: Topics, span: Span, where: str | None) -> _Rows:
    columns = COPIED if where is None else READ_COLUMNS
    options = {"nameserver": source.nameserver, "subscribe": ",".join(source.names)}
    parsed = read_options({**source.options, **options}, streaming=False)
    queues = cluster_for(parsed.access).resolve(parsed.topics)
    is_ordered = _SPLITTING.isdisjoint(name.lower() for name in source.options)
    return _Rows(rows(spark, source, columns, span), queues, is_ordered)


def _named(queue: MessageQueue) -> MessageQueue:
    return MessageQueue(queue.topic, queue.broker_name or STORE_BROKER, queue.queue_id)


def _send(spark: SparkSession, found: _Rows, to: Topics, ledger: str, rate: Rate) -> None:
    topic = to.names[0]
    access = {**to.options, "nameserver": to.nameserver}
    queues = 1 + max(queue.queue_id for queue in found.queues)
    targets = target_queues(write_options(access), topic, queues)
    at_once = min(len(found.queues), parallelism(spark))
    frame = found.frame
    if not found.is_ordered:
        frame = frame.repartition(at_once, *_OFTEN).sortWithinPartitions(*_OFTEN, "queue_offset")
    elif rate.is_limited:
        frame = frame.coalesce(at_once)  # never more tasks at once than share the rate
    plan = SinkPlan(
        topic=topic,
        ledger=Location(ledger).place,
        queues=[*assigned([*found.queues], targets).items()],
        rate=rate.shared(at_once),
    )
    spark.dataSource.register(ReplaySink)
    options = {**access, PLAN: msgspec.json.encode(plan).decode()}
    frame.write.format(FORMAT).mode("append").options(**options).save()


def _sent(before: Mapping[MessageQueue, int], book: Ledger) -> tuple[ReplayedQueue, ...]:
    def queue(entry: QueueProgress) -> ReplayedQueue:
        more = entry.sent - before.get(entry.source, 0)
        return ReplayedQueue(entry.source, entry.target, more)

    return tuple(one for one in map(queue, book.entries()) if one.messages)
