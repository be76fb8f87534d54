"""What an archive reads: planned on the driver as pieces, which tasks read as rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster, cluster_for
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.columns.row_builder import read_slice
from orbitmq.spark.jobs.archiving.manifest import (
    ArchivedRange,
    Gap,
    Manifest,
    QueueEnd,
    ends_by_queue,
)
from orbitmq.spark.jobs.archiving.plan import dealt, loss, planned, task_count
from orbitmq.spark.jobs.sources import Span, Topics
from orbitmq.spark.offsets import Offsets, Range, Slice
from orbitmq.spark.options.options import ReadOptions, read_options
from orbitmq.spark.reading.batch_plan import positions
from orbitmq.spark.schema import READ_COLUMNS

__all__ = ["Feed", "TopicFeed", "Work", "topic_feed"]

_COLUMNS: Final = tuple(name for name in READ_COLUMNS if name != "topic")
"""The folder of a file says its topic."""


class Work(NamedTuple):
    """The plan of a run."""

    tasks: Sequence[Sequence[Any]]
    """The pieces of each task."""
    gaps: Sequence[Gap]
    log_end: int | None = None
    """Where a later run continues in a commit log."""


class Feed(Protocol):
    """A source as an archive sees it; pickled for tasks."""

    @property
    def kind(self) -> str:
        """What manifests call it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows, without the topic."""

    def work(self, last: Manifest | None, parallelism: int) -> Work:
        """Return what follows after the last run, with fixed ends; on the driver."""

    def read(
        self, piece: Any, note: Callable[[ArchivedRange], object]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of a piece, with their topic, then note what they were; in a task."""


class TopicFeed(msgspec.Struct, frozen=True):
    """Topics of a cluster; a piece is a slice of a queue."""

    options: ReadOptions

    @property
    def kind(self) -> str:
        """Return what manifests call it."""
        return "topics"

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of its rows."""
        return arrow_schema(self.options.columns)

    def work(self, last: Manifest | None, parallelism: int) -> Work:
        """Return what to read of each queue.

        Raise DataLost if offsets are gone and ``failOnDataLoss`` is set, and what a cluster raises.
        """
        cluster = cluster_for(self.options.access)
        ranges = cluster.bounds(cluster.resolve(self.options.topics))
        archived = ends_by_queue(last.ends if last else ())
        plan = planned(
            archived,
            ranges,
            self._starts(cluster, archived, ranges),
            positions(
                *(cluster, self.options.end, ranges),
                field="endingOffsets",
                group=self.options.pull_group,
            ),
            self.options.topics.names,
        )
        if plan.gaps and self.options.fail_on_data_loss:
            raise loss(plan.gaps[0])
        offsets = sum(one.max - one.min for one in plan.wanted.values())
        tasks = task_count(offsets, parallelism)
        return Work(dealt(plan.wanted, tasks) if tasks else [], plan.gaps)

    def _starts(
        self,
        cluster: Cluster,
        archived: Mapping[MessageQueue, QueueEnd],
        ranges: Mapping[MessageQueue, Range],
    ) -> Offsets:
        """Return where the queues begin that the archive doesn't know."""
        start = self.options.start
        if start.kind != "offsets":  # those name all queues
            ranges = {queue: one for queue, one in ranges.items() if queue not in archived}
        return positions(
            cluster, start, ranges, field="startingOffsets", group=self.options.pull_group
        )

    def read(
        self, piece: Slice, note: Callable[[ArchivedRange], object]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of a slice."""
        rows = 0
        for batch in read_slice(cluster_for(self.options.access), piece, self.options):
            rows += batch.num_rows
            yield piece.queue.topic, batch
        note(
            ArchivedRange(
                topic=piece.queue.topic,
                broker=piece.queue.broker_name,
                queue_id=piece.queue.queue_id,
                start=piece.start,
                end=piece.end,
                rows=rows,
            )
        )


def topic_feed(source: Topics, span: Span) -> TopicFeed:
    """Return the feed of topics; raise InvalidInput if an option can't be used."""
    for name in source.options:
        if name.lower() in ("columns", "includeproperties"):
            raise InvalidInput(
                f"option {name} can't be given: an archive has all columns", field=name
            )
    options = {
        **source.options,
        "nameserver": source.nameserver,
        "subscribe": ",".join(source.names),
        "columns": ",".join(_COLUMNS),
    }
    if span.start_ms is not None:
        options["startingTimestamp"] = str(span.start_ms)
    if span.end_ms is not None:
        options["endingTimestamp"] = str(span.end_ms)
    return TopicFeed(read_options(options, streaming=False))
