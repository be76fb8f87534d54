"""A start: log, queues and index brought into agreement, after a stop or a crash.

::

    queues end here ──┐   ┌── index ends here
    log  ─────────────┴───┴──────────▶ first record that can't be read, or the end
          read from the file that the checkpoint vouches for, or both indexes reach

After an orderly stop only what queues and index lack is added. After a crash each record that is
read is compared with its queue entry, and what the log does not hold is dropped from the queues.
"""

import logging
from collections.abc import Callable

from orbitmq.errors import StoreDamaged
from orbitmq.message.names import is_lmq
from orbitmq.store.commit_log import CommitLog
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.consume_queues import ConsumeQueues
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.key_index import KeyIndex
from orbitmq.store.queue_entry import QueueEntry
from orbitmq.store.recovery import RecoveryWalk, first_store_ms, zero_behind
from orbitmq.store.segment_chain import SegmentChain
from orbitmq.store.settings import StoreSettings

__all__ = ["Restart"]

log = logging.getLogger("orbitmq.store")

_WRITE_EVERY = 4096
"""Records after which the queue entries made of them are written."""


class Restart:
    """Recovers a store whose files are loaded; ``run`` it once.

    Args:
        chain, commit_log, queues, index: the parts of the store.
        dispatcher: says what a record means.
        settings: those of the store.

    """

    def __init__(
        self,
        chain: SegmentChain,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        dispatcher: Dispatcher,
        settings: StoreSettings,
    ) -> None:
        self._chain = chain
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._settings = settings
        self.damages: list[Damage] = []
        """Places that could not be read."""

    def run(self, *, crashed: bool, limit_ms: int, progress: Callable[[int, int], None]) -> None:
        """Find the end of the log, and bring the queues and the index up to it.

        Args:
            crashed: whether the last process did not stop in order.
            limit_ms: the store time from which on the log must be read again after a crash.
            progress: told how far it has come, in bytes of all.

        Raises:
            StoreError: a file can't be read or written.

        """
        dispatched_end = self._queues.recover()
        first = self._first_to_read(crashed, dispatched_end, limit_ms)
        self._log.end = self._chain.next_base()  # until the walk has found where it really is
        walk = RecoveryWalk(
            self._chain,
            first,
            cut=crashed,
            crc_property=self._settings.append_crc,
            progress=progress,
        )
        self.damages = walk.damages
        self._read(walk, crashed, dispatched_end)
        self._cut(walk.end)
        self._queues.write()
        self._log.end = walk.end
        self._queues.truncate(walk.end)
        if crashed:
            self._drop_false_tails()
        self._queues.correct_min_offsets(self._chain.first_offset)
        self._log.last_store_ms = walk.last_store_ms
        # What a killed process wrote may be in memory only: it counts as flushed after this.
        for segment in self._chain.segments[first:]:
            segment.file.sync()
        self._chain.sync_names()
        self._queues.sync()

    def _read(self, walk: RecoveryWalk, crashed: bool, dispatched_end: int) -> None:
        """Dispatch what the queues and the index lack of the records of a walk."""
        # After a crash the last indexed record may lack keys that stood in the next file.
        indexed_end = self._index.end_offset
        if indexed_end and not crashed:
            indexed_end += 1
        for count, view in enumerate(walk):
            for entry in self._dispatcher.entries(view):
                if entry.in_queue and crashed:
                    self._cut_unless_known(entry)
                if self._settings.index_enabled and entry.commit_log_offset >= indexed_end:
                    self._index.put(entry)
                if entry.in_queue and (crashed or entry.commit_log_offset >= dispatched_end):
                    self._requeue(entry)
            if count % _WRITE_EVERY == 0:
                self._queues.write()

    def _cut_unless_known(self, entry: Dispatched) -> None:
        """Drop what a queue has at a record's place, and behind, if it is not that record.

        After a power loss a page of a queue may be there that was never whole.
        """
        queue = self._queues.queue(entry.topic, entry.queue_id)
        known = None if queue is None else queue.entry(entry.queue_offset)
        if queue is not None and known is not None and known != (
            entry.commit_log_offset, entry.size, entry.tags_code
        ):  # fmt: skip
            queue.cut(entry.queue_offset)

    def _drop_false_tails(self) -> None:
        """Drop entries at the ends of queues whose records are not in the log."""
        for queue in self._queues:
            while queue.max_offset > queue.min_offset:
                last = queue.max_offset - 1
                entry = queue.entry(last)
                if entry is not None and (
                    self._is_removed(queue, last, entry) or self._holds(queue, last, entry)
                ):
                    break
                queue.cut(last)

    def _is_removed(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Return whether an entry's record went with its file: the entry keeps the offset."""
        before = queue.entry(offset - 1)
        in_order = before is None or before.commit_log_offset < entry.commit_log_offset
        return in_order and entry.commit_log_offset < self._log.first_offset

    def _holds(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Return whether the log holds the record that a queue entry stands for."""
        view = self._log.record(entry.commit_log_offset)
        if view is None or view.size != entry.size:
            return False
        if is_lmq(queue.topic):
            return True  # the record lies in another queue, and names this one in a property
        filed = view.filed()
        return (filed.queue_id, filed.queue_offset) == (queue.queue_id, offset)

    def _requeue(self, entry: Dispatched) -> None:
        try:
            self._queues.append(entry)
        except StoreDamaged as error:
            # The record before it is damaged: consumers go on behind the hole.
            log.error("%s", error)
            self.damages.append(Damage(entry.commit_log_offset, str(error), 0, where=error.path))

    def _first_to_read(self, crashed: bool, dispatched_end: int, limit_ms: int) -> int:
        """Return the segment from which on the log must be read."""
        segments = self._chain.segments
        known_end = dispatched_end
        if self._settings.index_enabled:
            known_end = min(known_end, self._index.end_offset)
        for index in range(len(segments) - 1, 0, -1):
            stored_ms = first_store_ms(segments[index])
            if stored_ms is None:
                continue
            if segments[index].base <= known_end and (not crashed or stored_ms <= limit_ms):
                return index
        return 0

    def _cut(self, end: int) -> None:
        """Remove what lies behind the end of the log."""
        while (last := self._chain.last) is not None and last.base > end:
            log.info("%r lies behind the end of the log: removed", last)
            self._chain.remove_last()
        last = self._chain.segment_at(end)
        if last is not None and (zeroed := zero_behind(last, end)):
            log.warning("%d bytes behind the end of the log at %d were zeroed", zeroed, end)
