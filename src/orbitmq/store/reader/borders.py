"""Where the log can be divided among readers, and where it ends for them.

A border is a place where a record begins. Consume queues name such places, so that finding one
costs a few reads; where there are no queues, a record is found by its bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from orbitmq.store.damage import Damage
from orbitmq.store.log.record_rows import view_of
from orbitmq.store.queues.entry import PREFILL_SIZE
from orbitmq.store.reader.queue_reader import QueueReader
from orbitmq.store.reader.reader import StoreReader

__all__ = ["LogEnd", "borders", "largest_queues", "log_end"]

_QUEUES_ASKED: Final = 16
_NEAR: Final = 8
"""A record within an eighth of a step is near enough to its target."""


class LogEnd(NamedTuple):
    """The offset after the last sound record, and the damage behind it."""

    position: int
    behind: tuple[Damage, ...] = ()


def largest_queues(reader: StoreReader) -> list[QueueReader]:
    """Return the few queues that name most records, the largest first."""
    queues = [reader.queue(*name) for name in reader.queues()]
    return sorted(queues, key=lambda queue: queue.stored_bytes, reverse=True)[:_QUEUES_ASKED]


def borders(
    reader: StoreReader, low: int, high: int, step: int, queues: Sequence[QueueReader]
) -> Iterator[int]:
    """Yield places from ``low`` on and before ``high`` where records begin, ``step`` bytes apart.

    They ascend, and the first one is ``low`` itself, which must be the beginning of a file. They
    are farther apart where records are longer than a step, or where no sound record begins.
    """
    last = low
    is_owed = False
    yield low
    for file in reader.segments:
        if is_owed and file.base < high:
            last, is_owed = file.base, False
            yield last
        first = max(file.base, low)
        for target in range(first + (low - first) % step, min(file.end, high), step):
            if target <= last:
                continue
            found = _border(reader, queues, target, min(file.end, high), step // _NEAR)
            if found is None:
                is_owed = True  # nothing more in this file: the next one begins with a record
                break
            if found > last:
                last = found
                yield found


def _border(
    reader: StoreReader, queues: Sequence[QueueReader], target: int, end: int, near: int
) -> int | None:
    best = end
    for queue in queues:
        entry = queue.entry(queue.first_from(target))
        if entry is not None and 0 < entry.size < PREFILL_SIZE:
            best = min(best, max(entry.commit_log_offset, target))
            if best - target <= near:
                break
    if best < end and reader.message(best) is not None:
        return best
    return reader.next_record(target, end)


def log_end(reader: StoreReader, start: int, queues: Sequence[QueueReader] = ()) -> LogEnd:
    """Return where the log ends now, for readers that begin at ``start`` or before.

    With ``queues`` it reads on from the last record that they name. A record that a broker is just
    writing is behind the end, and so are remains of a crash. The damage behind it is what a sound
    store doesn't have there.
    """
    damages: list[Damage] = []
    end = start = _last_named(reader, start, queues)
    files = reader.segments
    is_cut = len(files) > 1 and files[-1].size < files[-2].size  # which is reported behind its end
    stop = None if is_cut else reader.written_end
    for block in reader.blocks(start, stop, verify=True, on_damage=damages.append):
        last = view_of(block.buffer, block.rows[-1])
        end = last.commit_log_offset + last.size
    behind = [one for one in damages if one.position >= end and _counts(reader, one)]
    return LogEnd(end, tuple(behind))


def _last_named(reader: StoreReader, start: int, queues: Sequence[QueueReader]) -> int:
    """Return the last sound record that a queue names; ``start`` if none is behind it."""
    last = start
    for queue in queues:
        entry = queue.entry(queue.numbers.stop - 1) if queue.numbers else None
        offset = last if entry is None else entry.commit_log_offset
        if offset > last and _is_whole(reader, offset):
            last = offset
    return last


def _counts(reader: StoreReader, damage: Damage) -> bool:
    if damage.harmless:
        return False
    if damage.position >= reader.segments[-1].end or not reader.has_abort_file:
        return True
    # A broker has the store open, or crashed: only what a queue names was once whole. In this
    # order, since the broker names a record after it was written.
    return reader.is_claimed(damage.position) and not _is_whole(reader, damage.position)


def _is_whole(reader: StoreReader, position: int) -> bool:
    view = reader.message(position)
    return view is not None and view.is_whole()
