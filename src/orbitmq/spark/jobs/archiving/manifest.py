"""Manifests: what each run of an archive added, and where the next one begins.

``_orbitmq/runs/0000000008.json``, one a run, numbered from 1, never changed::

    {"format": 1, "run": 8, "made_at": "2026-11-18T21:40:00.000Z", "source": "topics",
     "columns": ["key", "value", …], "staging": "_orbitmq/staging/0000000008-5f3a…",
     "files":  [{"name": "topic=orders/date=2026-11-18/part-….parquet", "topic": "orders",
                 "date": "2026-11-18", "rows": 1000, "bytes": 204800}],
     "ranges": [{"topic": "orders", "broker": "broker-a", "queue_id": 0, "start": 0, "end": 1000,
                 "rows": 1000}],
     "gaps":   [{"topic": "orders", …, "start": 0, "end": 17, "why": "expired"}],
     "ends":   [{"topic": "orders", "broker": "broker-a", "queue_id": 0, "end": 1000}],
     "log_end": null}

``ends`` has all queues of the archive, so that the last manifest alone says where to continue; all
manifests together name each file once. An archive of a store continues at ``log_end``, a place in
its commit log; its ends are for information.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from orbitmq.message.model import MessageQueue
from orbitmq.spark.offset_json import queue_name

__all__ = ["FORMAT", "ArchivedFile", "ArchivedRange", "Gap", "Manifest", "QueueEnd", "merged_ends"]

FORMAT: Final = 1


class ArchivedFile(msgspec.Struct, frozen=True):
    """One Parquet file; its name is the same below the archive and below ``staging``."""

    name: str
    topic: str
    date: str
    rows: int
    bytes: int


class _OfQueue(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    broker: str
    queue_id: int

    @property
    def queue(self) -> MessageQueue:
        """The queue."""
        return MessageQueue(self.topic, self.broker, self.queue_id)


class ArchivedRange(_OfQueue, frozen=True, kw_only=True):
    """Offsets of a queue that are archived; ``end`` is not one of them.

    ``rows`` may be fewer than the offsets: brokers compact topics and keep no half messages.
    """

    start: int
    end: int
    rows: int = 0


class Gap(_OfQueue, frozen=True, kw_only=True):
    """Offsets that the archive lacks because they were gone before it came to them.

    ``expired``: retention deleted them. ``recreated``: the queue ends before what is archived of
    it, so it was deleted and made again, and is archived from its beginning. ``gone``: there is no
    such queue any more; what it had behind ``start`` is not known. Without a topic it is a part of
    the commit log of a store.
    """

    start: int
    end: int
    why: Literal["expired", "recreated", "gone"]

    def __str__(self) -> str:
        if not self.topic:
            what = "ends" if self.why == "recreated" else "begins"
            return f"the commit log is archived up to {self.start}, but {what} at {self.end} now"
        name = f"topic {self.topic}, queue {queue_name(self.queue)}"
        if self.why == "expired":
            return f"{name}: offsets {self.start} to {self.end - 1} were deleted by retention"
        if self.why == "recreated":
            return (
                f"{name}: archived up to {self.start}, but the queue ends at {self.end}: it was "
                "deleted and created again"
            )
        return f"{name}: archived up to {self.start}, and there is no such queue any more"


class QueueEnd(_OfQueue, frozen=True, kw_only=True, omit_defaults=True):
    """How far a queue is archived."""

    end: int
    gone: bool = False
    """Whether a gap says that the queue is gone; it is not said again."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    format: int = FORMAT
    run: int
    made_at: str
    source: str
    """The kind of source: ``topics`` or ``store``."""
    columns: tuple[str, ...]
    staging: str
    files: tuple[ArchivedFile, ...]
    ranges: tuple[ArchivedRange, ...]
    gaps: tuple[Gap, ...] = ()
    ends: tuple[QueueEnd, ...] = ()
    log_end: int | None = None

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file in self.files)

    def encode(self) -> bytes:
        """Return the manifest as its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def merged_ends(
    before: Iterable[QueueEnd], ranges: Iterable[ArchivedRange], gaps: Iterable[Gap]
) -> tuple[QueueEnd, ...]:
    """Return how far each queue is archived after a run.

    >>> was = QueueEnd(topic="orders", broker="broker-a", queue_id=0, end=5)
    >>> now = ArchivedRange(topic="orders", broker="broker-a", queue_id=0, start=5, end=8)
    >>> [one.end for one in merged_ends([was], [now], [])]
    [8]
    """
    found: dict[MessageQueue, QueueEnd] = {one.queue: one for one in before}
    for gap in gaps:
        if not gap.topic:
            continue
        end = 0 if gap.why == "recreated" else gap.end
        found[gap.queue] = _end(gap.queue, end, gone=gap.why == "gone")
    for one in sorted(ranges, key=lambda each: each.start):
        found[one.queue] = _end(one.queue, one.end)
    return tuple(found[queue] for queue in sorted(found))


def _end(queue: MessageQueue, end: int, *, gone: bool = False) -> QueueEnd:
    return QueueEnd(
        topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, end=end, gone=gone
    )


def ends_by_queue(ends: Iterable[QueueEnd]) -> Mapping[MessageQueue, QueueEnd]:
    """Return ends by their queue."""
    return {one.queue: one for one in ends}
