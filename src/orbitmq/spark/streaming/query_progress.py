"""The course of a streaming query, as its driver keeps it: where it begins, how far batches go.

What Spark does, found by trying it (4.3.0), and what follows from it:

- The checkpoint holds where batches end, and no start for the first one: that is asked for anew
  after a crash, when ``latest`` is elsewhere. So the first batch is empty. It ends where the query
  begins, and the checkpoint holds that from then on; a crash before that loses nothing that was
  promised.
- A batch that was planned before a crash is planned again. Nothing of its plan is remembered here,
  so that it reads the same: from its start to its end, of the queues that are in both, be they of
  topics that the query was told to read no more.
- Spark says that a batch is done when the next one begins, and of the last one never; but whoever
  asks how far the next batch goes has done all before it.

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

__all__ = ["COMMIT_PAUSE_MS", "Course"]

log = logging.getLogger("orbitmq.spark")

COMMIT_PAUSE_MS: Final = 1_000
"""Before offsets that a broker did not take are committed again: Spark asks all the time."""


class Course:
    """The course of one query.

    Args:
        cluster: whom to ask.
        options: what the query was told.
        clock: what waits are measured with.

    """

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
        self._told: Offsets = {}

    def initial(self) -> Offsets:
        """Return where a query without a checkpoint begins; the same each time.

        Raises:
            InvalidOffsets: the options have offsets of queues that there are not.
            DataLost: they begin at what a queue doesn't have, and that is to fail the query.
            OrbitError: the topic, or a server, can't be found.

        """
        if self._initial is None:
            ranges = {**self._watch.see(), **(self._target or {})}
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

    def aim(self) -> None:
        """Let the query end with what there is now.

        That some queue can't be asked shows when the query begins, or goes on: it doesn't wait.
        """
        self._target = dict(self._watch.glance())

    def next_end(self, start: Offsets, limit: Limit) -> Offsets:
        """Return where the next batch ends; where it begins if there is to be none now.

        Args:
            start: where it begins: the batches up to there are done.
            limit: how many offsets it has.

        Raises:
            DataLost: messages from the start on are gone, and that is to fail the query.
            OrbitError: brokers have not answered for minutes.

        """
        self.done(start)
        if not self._is_start_recorded:
            self._is_start_recorded = True
            return start
        ranges = self._open(start, self._ranges(start))
        begin = self._without_losses(start, ranges)
        if self._waits(lag(begin, ranges), limit.least):
            return start
        return batch_end(begin, ranges, limit.most)

    def slices(self, start: Offsets, end: Offsets) -> list[Slice]:
        """Return what the tasks of a batch read: the same for the same batch, if it is still there.

        Raises:
            DataLost: some of it is gone, and that is to fail the query.
            OrbitError: a broker can't be asked.

        """
        self._is_start_recorded = True  # the batch would not be planned without its end recorded
        wanted = whole_batch(start, end)
        if not wanted:
            return []
        seen = self._watch.of(wanted)
        has = self._open(start, {queue: seen[queue] for queue in wanted if queue in seen})
        wanted = {queue: one for queue, one in wanted.items() if queue in has}
        begin = self._without_losses({queue: one.min for queue, one in wanted.items()}, has)
        # Of a queue whose start is gone that has been told, and its end may be gone as well.
        whole = [queue for queue, one in wanted.items() if begin[queue] == one.min]
        self._without_losses({queue: wanted[queue].max for queue in whole}, has)
        ends = {queue: one.max for queue, one in wanted.items()}
        until = clamped(ends, lost(ends, has))
        left = {queue: Range(begin[queue], until[queue]) for queue in wanted}
        options = self._options
        return slices(left, options.min_partitions, options.max_records_per_partition)

    def done(self, end: Offsets) -> None:
        """Tell the brokers how far the group has come, if it is to be told.

        It is for those who watch the group, and no batch depends on it: a broker that doesn't take
        it is told the next time.
        """
        group = self._options.group
        news = {
            queue: at
            for queue, at in end.items()
            if self._committed.get(queue) != at and self._watch.reads(queue)
        }
        if not self._options.commit_offsets or group is None or not news:
            return
        now = self._clock.monotonic_ms()
        if news == self._uncommitted and now - self._commit_tried_ms < COMMIT_PAUSE_MS:
            return
        self._commit_tried_ms = now
        try:
            self._cluster.commit(group, news)
        except GroupNotFound as error:  # brokers make a group when it first pulls
            log.debug("group %s has not pulled yet: %s", group, error)
            self._uncommitted = news
        except OrbitError as error:
            if not self._uncommitted:
                log.warning("the offsets of group %s are not committed now: %s", group, error)
            self._uncommitted = news
        else:
            self._committed |= news
            self._uncommitted = {}

    def latest(self) -> Offsets:
        """Return where the queues ended when they were last asked."""
        return {queue: has.max for queue, has in self._watch.last_seen.items()}

    def _waits(self, offsets: int, least: int | None) -> bool:
        """Return whether there are too few for a batch; none has to wait for ever."""
        now = self._clock.monotonic_ms()
        if offsets and self._waiting_since_ms is None:
            self._waiting_since_ms = now
        # What a query that ends lacks by now will not come.
        may_wait = least is not None and offsets < least and self._target is None
        since = self._waiting_since_ms
        if may_wait and since is not None and now - since < self._options.max_trigger_delay_ms:
            return True
        self._waiting_since_ms = None
        return False

    def _ranges(self, start: Offsets) -> Mapping[MessageQueue, Range]:
        """Return what the queues have that the query reads."""
        if self._target is None:
            return self._watch.news(start)
        if not self._is_target_whole:
            # The checkpoint may have queues that are in no route; before this it was not known.
            self._target = {**self._watch.ending(start), **self._target}
            self._is_target_whole = True
        return self._target

    def _open(
        self, start: Offsets, ranges: Mapping[MessageQueue, Range]
    ) -> Mapping[MessageQueue, Range]:
        """Return what queues have that brokers let be read; tell of what is unread in others."""
        closed = self._watch.closed(ranges)
        if not closed:
            return ranges
        for queue in sorted(closed):
            if queue in start and start[queue] < ranges[queue].max:  # else it never entered
                self._lose(_closed(queue, start[queue], ranges[queue]))
        return {queue: has for queue, has in ranges.items() if queue not in closed}

    def _without_losses(self, start: Offsets, ranges: Mapping[MessageQueue, Range]) -> Offsets:
        """Return where to go on: the start, unless that is gone and the query may go on."""
        gone = lost({queue: at for queue, at in start.items() if queue in ranges}, ranges)
        for one in gone:
            self._lose(data_lost(one))
        return clamped(start, gone)

    def _lose(self, error: DataLost) -> None:
        """Raise an error, or say once that the query goes on in spite of it.

        Under traffic the end of a queue is another one each time: what is lost stays the same.
        """
        if self._options.fail_on_data_loss:
            raise error
        if self._told.get(error.queue) != error.wanted:
            log.warning("reading on although data is lost: %s", error)
        self._told[error.queue] = error.wanted


def _closed(queue: MessageQueue, wanted: int, has: Range) -> DataLost:
    return DataLost(
        f"topic {queue.topic}, queue {queue_name(queue)}: offsets {wanted} up to {has.max} were to "
        "be read, and the topic has fewer queues by now: brokers let nobody read this one. Raise "
        f"its readQueueNums to {queue.queue_id + 1} at least until all is read, or set "
        "failOnDataLoss to false to go on without it",
        queue=queue,
        wanted=wanted,
        available=(has.min, has.max),
    )
