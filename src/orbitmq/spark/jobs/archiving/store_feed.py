"""What a store directory offers to an archive: ranges of its commit log.

Progress is a place in the log, not the offsets of queues: the log alone holds everything, grows at
one end, and is read in its order without asking its queues, which may be many, late, or lost. So a
run continues with one number. That place is the end of a record, since a plan ends with the last
sound one.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from orbitmq.errors import InvalidInput, StoreDamaged
from orbitmq.message.model import MessageQueue
from orbitmq.spark.columns.arrow_schema import as_arrow
from orbitmq.spark.jobs.archiving.feeds import Work
from orbitmq.spark.jobs.archiving.manifest import ArchivedRange, Gap, Manifest
from orbitmq.spark.jobs.sources import Span, Store
from orbitmq.spark.store_source.options import OnCorrupt, StoreOptions, store_options
from orbitmq.spark.store_source.partitions import StorePartition, open_store, plan
from orbitmq.spark.store_source.rows import read_part
from orbitmq.spark.store_source.schema import STORE_COLUMNS, store_schema

__all__ = ["StoreFeed", "by_topic", "store_feed"]

_COLUMNS: Final = ("topic", *(name for name in STORE_COLUMNS if name != "topic"))
_PARTS_MAX: Final = 4
"""Parts of 128 MiB that one task reads, so that its files get larger."""
_FAIL_ON_LOSS: Final = "failondataloss"


class StoreFeed(msgspec.Struct, frozen=True):
    """A store directory; a piece is a range of its commit log."""

    options: StoreOptions
    fails_on_loss: bool = True

    @property
    def kind(self) -> str:
        """Return what manifests call it."""
        return "store"

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of its rows, without the topic."""
        return as_arrow(store_schema(self.options.columns[1:]))

    def work(self, last: Manifest | None, parallelism: int) -> Work:
        """Return which parts of the log to read.

        Raise StoreDamaged if the log doesn't continue where the last run ended, and
        ``failOnDataLoss`` is not false; and what the plan of a read raises.
        """
        archived = last.log_end if last else None
        gaps = []
        if archived is not None and (gap := self._gap(archived)):
            if self.fails_on_loss:
                raise StoreDamaged(
                    f"{gap}. Set failOnDataLoss to false to archive what is there, and to have the "
                    "gap in the manifest",
                    path=self.options.directory,
                    position=archived,
                )
            gaps.append(gap)
            archived = 0 if gap.why == "recreated" else gap.end
        parts = [
            msgspec.structs.replace(part, start=max(part.start, archived or 0))
            for part in plan(self.options)
            if part.end > (archived or 0)
        ]
        each = max(1, min(_PARTS_MAX, len(parts) // parallelism))
        tasks = [parts[at : at + each] for at in range(0, len(parts), each)]
        return Work(tasks, gaps, parts[-1].end if parts else archived)

    def _gap(self, archived: int) -> Gap | None:
        reader = open_store(self.options)
        begin, end = reader.segments[0].base if reader.segments else 0, reader.written_end
        if end < archived:
            return _log_gap(archived, end, "recreated")
        return _log_gap(archived, begin, "expired") if begin > archived else None

    def read(
        self, piece: StorePartition, note: Callable[[ArchivedRange], object]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of a part by topic; note what offsets of which queues they were."""
        seen: dict[MessageQueue, tuple[int, int, int]] = {}
        broker = self.options.broker or "store"
        for batch in read_part(piece, self.options):
            for topic, rows in by_topic(batch):
                for number, found in _offsets_by_queue(rows):
                    queue = MessageQueue(topic, broker, number)
                    low, high, count = seen.get(queue, (found.min(), found.max(), 0))
                    seen[queue] = (
                        *(min(low, int(found.min())), max(high, int(found.max()))),
                        count + len(found),
                    )
                yield topic, rows
        for queue, (low, high, count) in seen.items():
            note(
                ArchivedRange(
                    topic=queue.topic,
                    broker=broker,
                    queue_id=queue.queue_id,
                    start=int(low),
                    end=int(high) + 1,
                    rows=count,
                )
            )


def by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic in their order, without the first column, which is the topic."""
    if not batch.num_rows:
        return
    topics = batch.column(0).dictionary_encode()
    rest = batch.select(batch.schema.names[1:])
    names = topics.dictionary.to_pylist()
    if len(names) > 1:
        codes = topics.indices.to_numpy()
        rest = rest.take(pa.array(np.argsort(codes, kind="stable")))
        counts = np.bincount(codes, minlength=len(names)).tolist()
    else:
        counts = [batch.num_rows]
    start = 0
    for name, count in zip(names, counts, strict=True):
        yield name, rest.slice(start, count)
        start += count


def _offsets_by_queue(rows: pa.RecordBatch) -> Iterator[tuple[int, np.ndarray]]:
    numbers, offsets = (
        rows.column(rows.schema.get_field_index(name)).to_numpy()
        for name in ("queue_id", "queue_offset")
    )
    for number in np.unique(numbers).tolist():
        yield number, offsets[numbers == number]


def _log_gap(start: int, end: int, why: str) -> Gap:
    return Gap(topic="", broker="", queue_id=0, start=start, end=end, why=why)  # type: ignore[arg-type]


def store_feed(source: Store, span: Span) -> StoreFeed:
    """Return the feed of a store; raise InvalidInput if an option can't be used."""
    options = dict(source.options)
    for name in source.options:
        if name.lower() in ("columns", "includeproperties"):
            raise InvalidInput(
                f"option {name} can't be given: an archive has all columns", field=name
            )
    careless = [name for name in options if name.lower() == _FAIL_ON_LOSS]
    fails = all(options.pop(name).lower() != "false" for name in careless)
    options |= {"path": source.directory, "columns": ",".join(_COLUMNS)}
    if source.names:
        options["subscribe"] = ",".join(source.names)
    if span.start_ms is not None:
        options["startingTimestamp"] = str(span.start_ms)
    if span.end_ms is not None:
        options["endingTimestamp"] = str(span.end_ms)
    parsed = store_options(options)
    if parsed.on_corrupt is OnCorrupt.REPORT:
        raise InvalidInput(
            "onCorrupt is report, but an archive has messages alone; use fail or skip",
            field="onCorrupt",
        )
    return StoreFeed(parsed, fails)
