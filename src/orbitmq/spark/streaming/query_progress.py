"""The progress of a streaming query, on the driver: where it begins and where its batches end.

How Spark behaves (found by experiment, 4.3.0), and what follows:

- The checkpoint has the end of each batch, but no start for the first one. After a crash Spark asks
  for the start again, when ``latest`` is another offset. So the first batch is empty: it ends where
  the query begins, and from then on the checkpoint has the start. A crash before that loses nothing
  that was promised.
- A batch that was planned before a crash is planned again. Its plan is not remembered here, so it
  depends on start and end only: it reads the queues that are in both, even those of topics that the
  options no longer select.
- Spark commits a batch when the next one begins, and never commits the last one. But when Spark
  asks for the end of the next batch, all earlier batches are done.

::

    initial ─▶ next_end = initial, the empty batch ─▶ slices ─▶ next_end ─▶ slices ─▶ …
       └─ after a crash in the first batch: ─────────────┘
"""

import logging
from collections.abc import Mapping
from typing import Final

from orbitmq.clock import Clock
from orbitmq.errors import DataLost, GroupNotFound, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Offsets, Range, Slice, clamped, data_lost, lost, slices
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.reading.batch_plan import positions
from orbitmq.spark.streaming.batch_limits import Limit, batch_end, lag, whole_batch
from orbitmq.spark.streaming.queue_watch import QueueWatch

__all__ = ["COMMIT_PAUSE_MS", "QueryProgress"]

log = logging.getLogger("orbitmq.spark")

COMMIT_PAUSE_MS: Final = 1_000
"""Pause before a failed commit is repeated; Spark polls all the time."""


class QueryProgress:
    """The progress of one query."""

    def __init__(self, cluster: Cluster, options: ReadOptions, clock: Clock) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._watch = QueueWatch(cluster, options, clock)
        self._target: dict[MessageQueue, Range] | None = None
        self._is_target_whole = False
        self._initial: Offsets | None = None
        self._is_start_recorded = True
        self._waiting_since_ms: int | None = None
        self._committed: Offsets = {}
        self._uncommitted: Offsets = {}
        self._commit_tried_ms = 0
        self._logged: Offsets = {}

    def initial(self) -> Offsets:
        """Return where a query without a checkpoint begins; the same on each call.

        Raise InvalidOffsets if the options have offsets of queues that don't exist, and DataLost if
        the query begins at an offset that is gone and data loss is an error.
        """
        if self._initial is None:
            ranges = {**self._watch.all_ranges(), **(self._target or {})}
            start = positions(
                self._cluster,
                self._options.start,
                ranges,
                field="startingOffsets",
                group=self._options.pull_group,
            )
            self._initial = self._without_losses(start, ranges)
            self._is_start_recorded = False
        return self._initial

    def set_target(self) -> None:
        """Make the query end at the current end of the queues.

        A queue that doesn't answer causes an error when the query begins or continues.
        """
        self._target = dict(self._watch.answering_ranges())

    def next_end(self, start: Offsets, limit: Limit) -> Offsets:
        """Return where the next batch ends; its start if there is no batch yet.

        Raise DataLost if messages from the start on are gone and data loss is an error, and another
        OrbitError if brokers have not answered for minutes.
        """
        self.commit(start)
        if not self._is_start_recorded:
            self._is_start_recorded = True
            return start
        ranges = self._open(start, self._ranges(start))
        begin = self._without_losses(start, ranges)
        if self._waits(lag(begin, ranges), limit.least):
            return start
        return batch_end(begin, ranges, limit.most)

    def slices(self, start: Offsets, end: Offsets) -> list[Slice]:
        """Return what the tasks of a batch read: always the same, unless data is lost."""
        self._is_start_recorded = True  # Spark plans a batch after recording its end
        wanted = whole_batch(start, end)
        if not wanted:
            return []
        seen = self._watch.ranges_of(wanted)
        has = self._open(start, {queue: seen[queue] for queue in wanted if queue in seen})
        wanted = {queue: one for queue, one in wanted.items() if queue in has}
        begin = self._without_losses({queue: one.min for queue, one in wanted.items()}, has)
        # A lost start was reported above; the end of such a queue may be lost too.
        whole = [queue for queue, one in wanted.items() if begin[queue] == one.min]
        self._without_losses({queue: wanted[queue].max for queue in whole}, has)
        ends = {queue: one.max for queue, one in wanted.items()}
        until = clamped(ends, lost(ends, has))
        left = {queue: Range(begin[queue], until[queue]) for queue in wanted}
        options = self._options
        return slices(left, options.min_partitions, options.max_records_per_partition)

    def commit(self, end: Offsets) -> None:
        """Commit the offsets of the group, if the options say so.

        This is for monitoring, and no batch depends on it: what a broker refuses is committed again
        the next time.
        """
        group = self._options.group
        news = {
            queue: at
            for queue, at in end.items()
            if self._committed.get(queue) != at and self._watch.is_read(queue)
        }
        if not self._options.commit_offsets or group is None or not news:
            return
        now = self._clock.monotonic_ms()
        if news == self._uncommitted and now - self._commit_tried_ms < COMMIT_PAUSE_MS:
            return
        self._commit_tried_ms = now
        try:
            self._cluster.commit(group, news)
        except GroupNotFound as error:  # brokers create a group at its first pull
            log.debug("group %s has not pulled yet: %s", group, error)
            self._uncommitted = news
        except OrbitError as error:
            if not self._uncommitted:
                log.warning("can't commit the offsets of group %s now: %s", group, error)
            self._uncommitted = news
        else:
            self._committed |= news
            self._uncommitted = {}

    def latest(self) -> Offsets:
        """Return the last known ends of the queues."""
        return {queue: has.max for queue, has in self._watch.last_seen.items()}

    def _waits(self, offsets: int, least: int | None) -> bool:
        """Return whether there are too few offsets for a batch; the wait has a limit."""
        now = self._clock.monotonic_ms()
        if offsets and self._waiting_since_ms is None:
            self._waiting_since_ms = now
        # A query with a target gets no more than there is.
        may_wait = least is not None and offsets < least and self._target is None
        since = self._waiting_since_ms
        if may_wait and since is not None and now - since < self._options.max_trigger_delay_ms:
            return True
        self._waiting_since_ms = None
        return False

    def _ranges(self, start: Offsets) -> Mapping[MessageQueue, Range]:
        """Return the offsets of the queues that the query reads."""
        if self._target is None:
            return self._watch.current_ranges(start)
        if not self._is_target_whole:
            # The checkpoint, unknown before, may have queues that are in no route.
            self._target = {**self._watch.final_ranges(start), **self._target}
            self._is_target_whole = True
        return self._target

    def _open(
        self, start: Offsets, ranges: Mapping[MessageQueue, Range]
    ) -> Mapping[MessageQueue, Range]:
        """Return the ranges without closed queues; report what is unread in these."""
        closed = self._watch.closed(ranges)
        if not closed:
            return ranges
        for queue in sorted(closed):
            if queue in start and start[queue] < ranges[queue].max:  # else the query never read it
                self._report_loss(_closed(queue, start[queue], ranges[queue]))
        return {queue: has for queue, has in ranges.items() if queue not in closed}

    def _without_losses(self, start: Offsets, ranges: Mapping[MessageQueue, Range]) -> Offsets:
        """Return where to continue: at the start, or after a loss if that is no error."""
        gone = lost({queue: at for queue, at in start.items() if queue in ranges}, ranges)
        for one in gone:
            self._report_loss(data_lost(one))
        return clamped(start, gone)

    def _report_loss(self, error: DataLost) -> None:
        """Raise a loss, or log it once per offset and continue."""
        if self._options.fail_on_data_loss:
            raise error
        if self._logged.get(error.queue) != error.wanted:
            log.warning("continuing although data is lost: %s", error)
        self._logged[error.queue] = error.wanted


def _closed(queue: MessageQueue, wanted: int, has: Range) -> DataLost:
    return DataLost(
        f"topic {queue.topic}, queue {queue_name(queue)}: offsets {wanted} up to {has.max} are "
        "unread, but the topic has fewer queues now, and brokers refuse to read this one. Raise "
        f"readQueueNums to at least {queue.queue_id + 1} until all is read, or set failOnDataLoss "
        "to false to continue without it",
        queue=queue,
        wanted=wanted,
        available=(has.min, has.max),
    )
