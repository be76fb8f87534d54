"""The start of a store: brings log, queues and index into agreement after a stop or a crash.

::

    queues end here ──┐   ┌── index ends here
    log  ─────────────┴───┴──────────▶ first record that can't be read, or the end
          read from the last file that the checkpoint vouches for and both indexes cover

After an orderly stop only the missing queue and index entries are added. After a crash each record
that the checkpoint does not vouch for is compared with its queue entry, and entries without a
record are dropped. Those records and entries are then written again and synced before they are
served: the process may have ended because a sync failed. The entry of a damaged record that was on
disk stays: its offset was given out and must not be given out again.

The list of queue ends shows which queues are missing or lack their last files. Only those are
rebuilt from older records; the other queues already agree with the log. A queue that lacks its
first files is recognised by the record of its first entry.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from msgspec.structs import replace

from orbitmq.clock import Clock
from orbitmq.message.names import is_lmq
from orbitmq.message.record import BLANK_SIZE
from orbitmq.message.record_view import Filed, filed_of
from orbitmq.store.checkpoint.checkpoint import CheckpointValues, OwnValues
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.index.key_index import IndexMark, KeyIndex
from orbitmq.store.layout import COMMIT_LOG
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.record_rows import Block, Checked, sound_row, written_end
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.progress import Progress
from orbitmq.store.queues.batch_entry import BatchEntry
from orbitmq.store.queues.consume_queues import AnyQueue, ConsumeQueues, Ends
from orbitmq.store.queues.entry import QueueEntry
from orbitmq.store.recovery.batch_heads import restored_batch_heads
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk, cut_files, first_store_ms
from orbitmq.store.recovery.power_loss import write_again
from orbitmq.store.recovery.queue_heads import restored_heads
from orbitmq.store.recovery.queue_restore import QueueName, QueueRestore
from orbitmq.store.settings import StoreSettings

__all__ = ["StoreRecovery"]

log = logging.getLogger("orbitmq.store")

_Entry: TypeAlias = QueueEntry | BatchEntry
_NAMED_AT_ONCE: Final = 10
_DAY_MS: Final = 24 * 60 * 60 * 1000  # clocks may be set back, hardly by more
_ORDERLY = CheckpointValues(log_ms=ALL_VOUCHED, queues_ms=ALL_VOUCHED, index_ms=ALL_VOUCHED)


@dataclass(eq=False)
class StoreRecovery:
    """Recovers a store whose files are loaded; call ``run`` once."""

    _chain: Segments
    _log: CommitLog
    _queues: ConsumeQueues
    _index: KeyIndex
    _dispatcher: Dispatcher
    _settings: StoreSettings
    _clock: Clock
    damages: list[Damage] = field(init=False, default_factory=list)
    """Places that could not be read; before the run, what is known to be lost."""
    index_mark: IndexMark | None = field(init=False, default=None)
    """How much of the growing index file is on disk; full files are on disk entirely."""

    @property
    def _checked(self) -> Checked:
        return Checked.BODY_AND_SEAL if self._settings.append_crc else Checked.BODY

    def run(
        self,
        crashed_at: CheckpointValues | None,
        progress: Progress,
        listed: Ends | None = None,
        *,
        own: OwnValues | None = None,
    ) -> None:
        """Find the end of the log, and bring the queues and the index up to it.

        ``crashed_at`` has Java's fields of the checkpoint after a crash; None after an orderly
        stop. ``listed`` is where queues ended, by the list of queue ends; None if there is no list.
        ``own`` has orbitmq's fields of the checkpoint; None if a Java broker used the store last.
        """
        known = crashed_at or _ORDERLY
        listed = listed or {}
        vouched_end = 0 if own is None else min(own.log_end, self._chain.next_base())
        dispatched_end = self._queues.recover()
        lacking = self._lacking(listed)
        known_end = min((dispatched_end, *lacking.values()))
        first = self._first_to_read(known.recovery_limit_ms, known_end)
        self._log.end = self._chain.next_base()  # until the walk has found the real end
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
            cut_files(self._chain, walk.end)
        self._log.end = walk.end
        self._queues.truncate(walk.end)
        if crashed_at is not None:
            self._drop_false_tails(first, listed, vouched_end)
        self._restore_heads(vouched_end)
        queues.keep_ends(lacking)
        self._queues.correct_min_offsets(self._chain.first_offset)
        self._log.last_store_ms = self._plausible_ms(walk)
        # Writes of a killed process may be in the page cache only; from here on they are flushed.
        for segment in self._chain.files[first:]:
            if walk.unvouched is not None:
                write_again(segment, walk.unvouched, walk.end)
            segment.file.sync()
        self._chain.close_before(walk.end)
        self._chain.sync_names()
        self._queues.sync()
        self.index_mark = self._index.sync_mark(walk.end)

    def _lacking(self, listed: Ends) -> dict[QueueName, int]:
        """Return the queues that end before their listed end, with the log offset each reaches."""
        lacking: dict[QueueName, int] = {}
        found = []
        for topic, ends in listed.items():
            for queue_id, end in ends.items():
                queue = self._queues.queue(topic, queue_id)
                if queue is not None and queue.max_offset >= end:
                    continue
                lacking[topic.encode(), queue_id] = -1 if queue is None else queue.record_end
                state = "is missing" if queue is None else f"ends at {queue.max_offset}"
                found.append(f"queue {queue_id} of topic {topic} {state} (listed end {end})")
        if found:
            more = len(found) - _NAMED_AT_ONCE
            log.warning(
                "%s%s: rebuilding their entries from the log",
                "; ".join(found[:_NAMED_AT_ONCE]),
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
        """Add the records of a walk to the queues and the index, as far as they lack them."""
        vouched_ms = ALL_VOUCHED if crashed_at is None else crashed_at.queues_vouched_ms
        indexed_end = self._indexed_end(crashed=crashed_at is not None)
        for block in walk:
            base = walk.end - block.rows[-1][1]
            if walk.end > indexed_end:
                self._index_rows(_behind(block, indexed_end - base))
            # Up to here the queues that are not lacking have all their entries.
            whole_end = base if walk.last_store_ms > vouched_ms else dispatched_end
            if lacking:
                queues.add_block(_before(block, whole_end - base), lacking)
            if walk.end > whole_end:
                queues.add_block(_behind(block, whole_end - base))
        queues.finish()

    def _plausible_ms(self, walk: RecoveryWalk) -> int:
        """Return when the last record was stored: store times never decrease along the log.

        A damaged time may be millennia ahead, and all later records would get it too.
        """
        known_ms = max(self._clock.now_ms(), walk.before_last_ms)
        if walk.last_store_ms <= known_ms + _DAY_MS:
            return walk.last_store_ms
        log.error(
            "the store time of the last record is damaged: %d ms since 1970 is in the future; the "
            "next records are stored at %d or later",
            walk.last_store_ms,
            known_ms,
        )
        return known_ms

    def _restore_heads(self, vouched_end: int) -> None:
        given = (self._chain, self._queues, self._dispatcher, self._checked, vouched_end)
        found = restored_heads(*given) + restored_batch_heads(*given)
        self.damages += [damage for damage in found if damage not in self.damages]

    def _indexed_end(self, *, crashed: bool) -> int:
        """Return the offset of the log from which keys must be indexed."""
        if not self._settings.index_enabled:
            return self._chain.next_base()
        # Some keys of the last indexed record may have been in a next file, which is gone.
        last = self._index.end_offset
        return last if not last or crashed or self._index.ends_full else last + 1

    def _index_rows(self, block: Block) -> None:
        records = [filed_of(block.buffer, row) for row in block.rows]
        _mend_times(records, self._index.last_timestamp_ms)
        self._index.put_all(self._dispatcher.entries_of(records))

    def _drop_false_tails(self, first: int, listed: Ends, vouched_end: int) -> None:
        """Drop entries at the ends of queues whose records were never in the log.

        The walk has read the log from segment ``first`` on. Entries before the listed end were
        right once: if the record says otherwise now, the record is damaged.
        """
        unread = {segment.base for segment in self._chain.files[:first]}
        for queue in self._queues:
            listed_end = listed.get(queue.topic, {}).get(queue.queue_id, 0)
            while queue.max_offset > queue.min_offset:
                last = queue.last_offset
                entry = queue.entry(last)
                if entry is not None and (
                    self._is_removed(queue, last, entry)
                    or self._holds(queue, last, entry, vouched_end)
                    or self._is_damaged(entry.commit_log_offset, unread)
                    or last < listed_end
                ):
                    break
                queue.drop_last()

    def _is_removed(self, queue: AnyQueue, offset: int, entry: _Entry) -> bool:
        """Return whether an entry's record was removed with its file; the entry stays."""
        before = queue.entry(offset - 1)
        in_order = before is None or before.commit_log_offset < entry.commit_log_offset
        return in_order and entry.commit_log_offset < self._log.first_offset

    def _holds(self, queue: AnyQueue, offset: int, entry: _Entry, vouched_end: int) -> bool:
        """Return whether the log holds the record of a queue entry.

        A record that was on disk may name another queue offset now, by damage: that is so if no
        entry at that offset points to it.
        """
        segment = self._chain.segment_at(entry.commit_log_offset)
        if segment is None:
            return False
        row = sound_row(segment.view, segment.base, entry.commit_log_offset - segment.base)
        if row is None or row[1] - row[0] != entry.size:
            return False
        if is_lmq(queue.topic):
            return True  # the record belongs to another queue and names this one in a property
        filed = filed_of(segment.view, row)
        if (filed.queue_id, filed.queue_offset) == (queue.queue_id, offset):
            return True
        named = self._queues.queue(str(filed.topic, "utf-8", "replace"), filed.queue_id)
        there = named.entry(filed.queue_offset) if named else None
        is_taken = there is not None and there.commit_log_offset == entry.commit_log_offset
        return entry.commit_log_offset + entry.size <= vouched_end and not is_taken

    def _is_damaged(self, offset: int, unread: set[int]) -> bool:
        """Return whether an offset of the log is damaged; read its file first if it is ``unread``.

        An entry that points to no record may be one that Java left after the end of a queue when it
        cut the log; sound records have been written to that place since.
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
        """Read a file whose records are all vouched for, and add its damaged places."""
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
        """Return the index of the first segment that must be read."""
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
        """Report anything written after the last sound record as damage, and keep it.

        orbitmq leaves only zeros there, in the log and in queues. Java does not: it cuts both by
        moving their ends.
        """
        written = walk.end
        for segment in reversed(self._chain.files):
            if segment.end <= walk.end or written > walk.end:
                break
            begin = max(walk.end - segment.base, 0)
            end = written_end(segment.view, begin)
            written = segment.base + end if end > begin else written
        is_in_log = dispatched_end <= self._chain.next_base()  # a damaged entry may be anything
        end = max(written, vouched_end, dispatched_end if is_in_log else 0)
        if end > walk.end:
            left = -end % self._chain.segment_bytes
            walk.step_over(end + left if left < BLANK_SIZE else end)


def _mend_times(records: list[Filed], before_ms: int) -> None:
    """Replace store times that contradict both neighbours by the time of the record before.

    The header of an index file has the time range of its records: one damaged time would hide all
    its keys, and those of older files. ``before_ms`` is the time of the record before the first; 0
    if it is unknown.
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
    """Return the records of a block that begin at or after a position of its buffer."""
    if block.rows[0][0] >= position:
        return block
    return Block(block.buffer, [row for row in block.rows if row[0] >= position])


def _before(block: Block, position: int) -> Block:
    """Return the records of a block that begin before a position of its buffer."""
    if block.rows[-1][0] < position:
        return block
    return Block(block.buffer, [row for row in block.rows if row[0] < position])
