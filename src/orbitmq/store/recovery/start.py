"""A start: log, queues and index brought into agreement, after a stop or a crash.

::

    queues end here ──┐   ┌── index ends here
    log  ─────────────┴───┴──────────▶ first record that can't be read, or the end
          read from the file that the checkpoint vouches for, or both indexes reach

After an orderly stop only what queues and index lack is added. After a crash each record that the
checkpoint does not vouch for is compared with its queue entry; what the log does not hold is
dropped from the queues; and all of it is written again, in the log and in the queues, before it is
synced and served: the process may have ended because a sync had failed. An entry whose record was
on the disk and is damaged stays: the offset was given out, and must not be a second time.

A queue that is missing, or lacks its last files, is known by the list of where queues ended; the
others agree with the log as it is. It alone gets what it lacks of the records before that. One that
lacks its first files is known by what its first entry leads to.
"""

import logging
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from orbitmq.clock import Clock
from orbitmq.message.names import is_lmq
from orbitmq.message.record import BLANK_SIZE
from orbitmq.message.record_view import Filed
from orbitmq.store.checkpoint.checkpoint import CheckpointValues, OwnValues
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.index.key_index import IndexMark, KeyIndex
from orbitmq.store.layout import COMMIT_LOG
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.record_rows import Block, Checked, filed_of, sound_row, written_end
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.progress import Progress
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues, Ends
from orbitmq.store.queues.entry import QueueEntry
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk, first_store_ms, zero_behind
from orbitmq.store.recovery.power_loss import write_again
from orbitmq.store.recovery.queue_heads import restored_heads
from orbitmq.store.recovery.queue_restore import QueueName, QueueRestore
from orbitmq.store.settings import StoreSettings

__all__ = ["Restart"]

log = logging.getLogger("orbitmq.store")

_NAMED_AT_ONCE: Final = 10
_DAY_MS: Final = 24 * 60 * 60 * 1000  # clocks may be set back, hardly by more
_ORDERLY = CheckpointValues(log_ms=ALL_VOUCHED, queues_ms=ALL_VOUCHED, index_ms=ALL_VOUCHED)


class Restart:
    """Recovers a store whose files are loaded; ``run`` it once.

    Args:
        chain, commit_log, queues, index: the parts of the store.
        dispatcher: says what a record means.
        settings: those of the store.
        clock: tells which store times can't be.

    """

    def __init__(
        self,
        chain: Segments,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        dispatcher: Dispatcher,
        settings: StoreSettings,
        clock: Clock,
    ) -> None:
        self._chain = chain
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._settings = settings
        self._clock = clock
        self._checked = Checked.BODY_AND_SEAL if settings.append_crc else Checked.BODY
        self.damages: list[Damage] = []
        """Places that could not be read; before the run, what is known to be lost."""
        self.index_mark: IndexMark | None = None
        """What is on the disk of the index file that grows; the full ones are, too."""

    def run(
        self,
        crashed_at: CheckpointValues | None,
        progress: Progress,
        listed: Ends | None = None,
        *,
        own: OwnValues | None = None,
    ) -> None:
        """Find the end of the log, and bring the queues and the index up to it.

        Args:
            crashed_at: what the checkpoint says if the last process did not stop in order; None
                if it did.
            progress: told how far it has come, in bytes of all.
            listed: where queues ended when that was last noted; None if nobody knows.
            own: what the checkpoint says for ourselves; None if a Java broker used the store last.

        Raises:
            StoreError: a file can't be read or written.

        """
        known = crashed_at or _ORDERLY
        listed = listed or {}
        vouched_end = 0 if own is None else min(own.log_end, self._chain.next_base())
        dispatched_end = self._queues.recover()
        lacking = self._lacking(listed)
        known_end = min((dispatched_end, *lacking.values()))
        first = self._first_to_read(known.recovery_limit_ms, known_end)
        self._log.end = self._chain.next_base()  # until the walk has found where it really is
        walk = RecoveryWalk(
            self._chain,
            first,
            vouched_ms=known.log_vouched_ms,
            vouched_end=vouched_end,
            checked=self._checked,
            reached=dispatched_end,
            progress=progress,
        )
        walk.damages += self.damages
        self.damages = walk.damages
        queues = QueueRestore(
            self._queues,
            self._dispatcher,
            correct=crashed_at is not None,
            damages=self.damages,
            log_start=self._chain.first_offset if first == 0 else 0,
            listed=listed,
        )
        self._read(walk, queues, crashed_at, dispatched_end, lacking)
        if crashed_at is None and own is not None:
            self._keep_tail(walk, dispatched_end, vouched_end)
        else:
            self._cut(walk.end)
        self._log.end = walk.end
        self._queues.truncate(walk.end)
        if crashed_at is not None:
            self._drop_false_tails(first, listed, vouched_end)
        self._restore_heads(vouched_end)
        queues.keep_ends(lacking)
        self._queues.correct_min_offsets(self._chain.first_offset)
        self._log.last_store_ms = self._plausible_ms(walk)
        # What a killed process wrote may be in memory only: it counts as flushed after this.
        for segment in self._chain.files[first:]:
            if walk.unvouched is not None:
                write_again(segment, walk.unvouched, walk.end)
            segment.file.sync()
        self._chain.close_before(walk.end)
        self._chain.sync_names()
        self._queues.sync()
        self.index_mark = self._index.sync_mark(walk.end)

    def _lacking(self, listed: Ends) -> dict[QueueName, int]:
        """Return the queues that end before they did, and how far in the log each is whole."""
        lacking: dict[QueueName, int] = {}
        told = []
        for topic, ends in listed.items():
            for queue_id, end in ends.items():
                queue = self._queues.queue(topic, queue_id)
                if queue is not None and queue.max_offset >= end:
                    continue
                lacking[topic.encode(), queue_id] = -1 if queue is None else queue.record_end
                state = "is missing" if queue is None else f"ends at {queue.max_offset}"
                told.append(f"queue {queue_id} of topic {topic} {state}, and ended at {end} before")
        if told:
            more = len(told) - _NAMED_AT_ONCE
            log.warning(
                "%s%s: what the log has of them is written again",
                "; ".join(told[:_NAMED_AT_ONCE]),
                f"; and {more} other queues lack entries" if more > 0 else "",
            )
        return lacking

    def _read(
        self,
        walk: RecoveryWalk,
        queues: QueueRestore,
        crashed_at: CheckpointValues | None,
        dispatched_end: int,
        lacking: Collection[QueueName],
    ) -> None:
        """Give the queues and the index what they lack of the records of a walk."""
        vouched_ms = ALL_VOUCHED if crashed_at is None else crashed_at.queues_vouched_ms
        indexed_end = self._indexed_end(crashed=crashed_at is not None)
        for block in walk:
            base = walk.end - block.rows[-1][1]
            if walk.end > indexed_end:
                self._index_rows(_behind(block, indexed_end - base))
            # Up to here those queues have all their entries that lack none.
            whole_end = base if walk.last_store_ms > vouched_ms else dispatched_end
            if lacking:
                queues.add_block(_before(block, whole_end - base), lacking)
            if walk.end > whole_end:
                queues.add_block(_behind(block, whole_end - base))
        queues.finish()

    def _plausible_ms(self, walk: RecoveryWalk) -> int:
        """Return when the last record was stored, which is the least that the next one can say.

        A damaged time may lie millennia ahead, and all that is stored from now on would be then.
        """
        known_ms = max(self._clock.now_ms(), walk.before_last_ms)
        if walk.last_store_ms <= known_ms + _DAY_MS:
            return walk.last_store_ms
        log.error(
            "the last record says that it was stored at %d, in ms since 1970, which can't be: its "
            "time is damaged, and what comes next is stored at %d or later",
            walk.last_store_ms,
            known_ms,
        )
        return known_ms

    def _restore_heads(self, vouched_end: int) -> None:
        found = restored_heads(
            self._chain, self._queues, self._dispatcher, self._checked, vouched_end
        )
        self.damages += [damage for damage in found if damage not in self.damages]

    def _indexed_end(self, *, crashed: bool) -> int:
        """Return the offset of the log from which on keys are to be indexed."""
        if not self._settings.index_enabled:
            return self._chain.next_base()
        # The last indexed record may lack keys: those in a next file, which is gone.
        last = self._index.end_offset
        return last if not last or crashed or self._index.ends_full else last + 1

    def _index_rows(self, block: Block) -> None:
        records = [filed_of(block.buffer, row) for row in block.rows]
        _mend_times(records, self._index.last_timestamp_ms)
        self._index.put_all(self._dispatcher.entries_of(records))

    def _drop_false_tails(self, first: int, listed: Ends, vouched_end: int) -> None:
        """Drop entries at the ends of queues whose records never were in the log.

        The walk has read the log from the segment ``first`` on. What is listed was true once: if
        its record says something else now, then the record is damaged.
        """
        unread = {segment.base for segment in self._chain.files[:first]}
        for queue in self._queues:
            listed_end = listed.get(queue.topic, {}).get(queue.queue_id, 0)
            while queue.max_offset > queue.min_offset:
                last = queue.max_offset - 1
                entry = queue.entry(last)
                if entry is not None and (
                    self._is_removed(queue, last, entry)
                    or self._holds(queue, last, entry, vouched_end)
                    or self._is_damaged(entry.commit_log_offset, unread)
                    or last < listed_end
                ):
                    break
                queue.cut(last)

    def _is_removed(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Return whether an entry's record went with its file: the entry keeps the offset."""
        before = queue.entry(offset - 1)
        in_order = before is None or before.commit_log_offset < entry.commit_log_offset
        return in_order and entry.commit_log_offset < self._log.first_offset

    def _holds(self, queue: ConsumeQueue, offset: int, entry: QueueEntry, vouched_end: int) -> bool:
        """Return whether the log holds the record that a queue entry stands for.

        One that was on the disk may name another place in a queue by now, through damage: it does
        if no entry there leads to it.
        """
        segment = self._chain.segment_at(entry.commit_log_offset)
        if segment is None:
            return False
        row = sound_row(segment.view, segment.base, entry.commit_log_offset - segment.base)
        if row is None or row[1] - row[0] != entry.size:
            return False
        if is_lmq(queue.topic):
            return True  # the record lies in another queue, and names this one in a property
        filed = filed_of(segment.view, row)
        if (filed.queue_id, filed.queue_offset) == (queue.queue_id, offset):
            return True
        named = self._queues.queue(str(filed.topic, "utf-8", "replace"), filed.queue_id)
        there = named.entry(filed.queue_offset) if named else None
        is_taken = there is not None and there.commit_log_offset == entry.commit_log_offset
        return entry.commit_log_offset + entry.size <= vouched_end and not is_taken

    def _is_damaged(self, offset: int, unread: set[int]) -> bool:
        """Return whether a place of the log is damaged; its file is read for that if it was not.

        An entry that leads to no record may be one that Java left behind the end of a queue when
        it cut the log: then other records, all sound, have come to lie there.

        Args:
            offset: the place.
            unread: the files that were not read yet, by where they begin.

        """
        segment = self._chain.segment_at(offset)
        if segment is not None and segment.base in unread:
            unread.remove(segment.base)
            self._read_for_damages(segment)
        return any(
            damage.where == COMMIT_LOG and 0 <= offset - damage.position < damage.skipped_bytes
            for damage in self.damages
        )

    def _read_for_damages(self, segment: Segment) -> None:
        """Read a file all of whose records are vouched for, and report what is damaged."""
        walk = RecoveryWalk(
            self._chain,
            self._chain.files.index(segment),
            vouched_ms=ALL_VOUCHED,
            checked=self._checked,
            files=1,
        )
        for _ in walk:
            pass
        self.damages += walk.damages

    def _first_to_read(self, limit_ms: int, known_end: int) -> int:
        """Return the segment from which on the log must be read."""
        segments = self._chain.files
        if self._settings.index_enabled:
            known_end = min(known_end, self._index.end_offset)
        for index in range(len(segments) - 1, 0, -1):
            if segments[index].base > known_end:
                continue
            stored_ms = first_store_ms(segments[index])
            if stored_ms is not None and stored_ms <= limit_ms:
                return index
        return 0

    def _keep_tail(self, walk: RecoveryWalk, dispatched_end: int, vouched_end: int) -> None:
        """Take what was written behind the last sound record for damage.

        We leave nothing but zeros there, neither in the log nor in queues, and Java does: it cuts
        both by moving their ends.
        """
        written = walk.end
        for segment in reversed(self._chain.files):
            if segment.end <= walk.end or written > walk.end:
                break
            begin = max(walk.end - segment.base, 0)
            end = written_end(segment.view, begin)
            written = segment.base + end if end > begin else written
        is_in_log = dispatched_end <= self._chain.next_base()  # a damaged entry may say anything
        end = max(written, vouched_end, dispatched_end if is_in_log else 0)
        if end > walk.end:
            left = -end % self._chain.segment_bytes
            walk.step_over(end + left if left < BLANK_SIZE else end)

    def _cut(self, end: int) -> None:
        """Remove what lies behind the end of the log."""
        while (last := self._chain.last) is not None and last.base > end:
            log.info("%r lies behind the end of the log: removed", last)
            self._chain.remove_last()
        last = self._chain.segment_at(end)
        if last is not None and (zeroed := zero_behind(last, end)):
            log.warning("%d bytes behind the end of the log at %d were zeroed", zeroed, end)


def _mend_times(records: list[Filed], before_ms: int) -> None:
    """Give records whose store times contradict those on both sides the time before them.

    An index file says from when to when its records are: by one damaged time none of its keys, and
    none of those in older files, would be found.

    Args:
        records: some that follow each other.
        before_ms: the time of what was before them; 0 if nobody knows.

    """
    times = [before_ms, *(record.store_timestamp_ms for record in records)]
    if before_ms <= 0:
        first, *others = times[1:4] or [0]
        if first <= 0 or (others and first > max(others)):
            first = min((time for time in others if time > 0), default=first)
        times[0] = first
    times.append(max(times[-2:]))
    for number in range(1, len(times) - 1):
        before, after = times[number - 1], times[number + 1]
        if before <= after and not before <= times[number] <= after:
            times[number] = before
            records[number - 1] = replace(records[number - 1], store_timestamp_ms=before)


def _behind(block: Block, position: int) -> Block:
    """Return the records of a block that begin at a position of its buffer, or behind it."""
    if block.rows[0][0] >= position:
        return block
    return Block(block.buffer, [row for row in block.rows if row[0] >= position])


def _before(block: Block, position: int) -> Block:
    """Return the records of a block that begin before a position of its buffer."""
    if block.rows[-1][0] < position:
        return block
    return Block(block.buffer, [row for row in block.rows if row[0] < position])
