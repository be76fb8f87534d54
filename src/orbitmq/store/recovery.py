"""Finding the end of the log after a stop or a crash, and what its indexes lack.

The write position is stored nowhere: the end is where the records end. After an orderly stop
everything was on the disk, so a record that can't be read is damage: it is reported, stepped over,
and nothing behind it is given up. After a crash the first record that can't be read is where the
disk had got to: the log is cut there, and what lies behind is zeroed, so that no later crash can
take it for records again.

Java's rules (``CommitLog.recoverNormally`` and ``recoverAbnormally``), without four of their holes:
the record that begins exactly at the last dispatched end is dispatched too; the look-back is not
limited to ten files; missing index files are rebuilt even if the queues are whole; and a damaged
record behind an orderly stop cuts nothing off.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Final

from orbitmq.errors import CorruptRecord
from orbitmq.message.record import BLANK_SIZE, LEAST_SIZE, MAGICS, SIZE_AND_MAGIC
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan, Stop, StopReason
from orbitmq.store.damage import Damage
from orbitmq.store.segment_chain import Segment, SegmentChain

__all__ = ["RecoveryWalk", "first_store_ms", "zero_behind"]

log = logging.getLogger("orbitmq.store")

_ZEROS: Final = bytes(1024 * 1024)
_MAGIC_AT: Final = 4


class RecoveryWalk:
    """The records of a chain of segments from one of them on; ``end`` is known afterwards.

    Args:
        chain: the files.
        first: the index of the segment to begin with.
        cut: whether the first unreadable record is the end of the log (after a crash), or a
            damaged place to step over.
        crc_property: whether the store seals its records, so that the seal counts.
        progress: told how far the walk has come.

    """

    def __init__(
        self,
        chain: SegmentChain,
        first: int,
        *,
        cut: bool,
        crc_property: bool,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self._chain = chain
        self._first = first
        self._cut = cut
        self._crc_property = crc_property
        self._progress = progress
        self.end = chain.segments[first].base if chain.segments else chain.next_base()
        self.damages: list[Damage] = []
        self.last_store_ms = 0

    def __iter__(self) -> Iterator[RecordView]:
        segments = self._chain.segments[self._first :]
        total = sum(segment.size for segment in segments)
        for number, segment in enumerate(segments):
            goes_on = yield from self._walk(segment)
            self._progress((number + 1) * segment.size, total)
            if not goes_on:
                return

    def _walk(self, segment: Segment) -> Generator[RecordView, None, bool]:
        """Yield the records of one segment; return whether the log goes on in the next one."""
        at = 0
        while True:
            records = Scan(segment.view, at, verify=True, crc_property=self._crc_property)
            misplaced = False
            for view in records:
                if view.commit_log_offset != segment.base + view.start:
                    misplaced = True
                    at = view.start
                    break
                self.end = segment.base + view.start + view.size
                self.last_store_ms = view.store_timestamp_ms
                yield view
            stop = Stop(StopReason.BAD_SIZE, at, 0) if misplaced else records.stop
            if stop.reason is StopReason.BLANK and stop.position + stop.detail == segment.size:
                self.end = segment.end
                return True
            resumed = self._resume(segment, stop)
            if resumed is None:
                return self._goes_on_behind(segment, stop)
            at = resumed

    def _resume(self, segment: Segment, stop: Stop) -> int | None:
        """Return where in the segment the records go on behind a damaged place, if they do."""
        if self._cut:
            if stop.reason not in (StopReason.UNWRITTEN, StopReason.END):
                log.warning("the log ends %s of %r; it is cut there", stop, segment)
            return None
        # Older ones are what Java leaves behind the end when it cuts a log, and no part of it.
        position = _next_record(segment, stop.position + 1, since_ms=self.last_store_ms)
        if position is not None:
            self._note(segment.base + stop.position, segment.base + position, stop)
        return position

    def _goes_on_behind(self, segment: Segment, stop: Stop) -> bool:
        """Return whether the next file goes on with records, although this one has no blank."""
        following = self._chain.segment_at(segment.end)
        stored_ms = None if following is None else first_store_ms(following)
        if self._cut or stored_ms is None or stored_ms < self.last_store_ms:
            return False
        self._note(segment.base + stop.position, segment.end, stop)
        self.end = segment.end
        return True

    def _note(self, offset: int, end: int, stop: Stop) -> None:
        damage = Damage(offset, stop.reason.value.format(stop.detail), end - offset)
        log.error("%s; everything behind it is kept", damage)
        self.damages.append(damage)


def first_store_ms(segment: Segment) -> int | None:
    """Return when the first record of a file was stored; None if it begins with no record."""
    view = _record_at(segment, 0)
    return None if view is None else view.store_timestamp_ms


def _record_at(segment: Segment, at: int) -> RecordView | None:
    """Return the record that begins at a byte of a file, if all about it is right."""
    view = segment.view
    if segment.size - at < LEAST_SIZE:
        return None
    size, magic = SIZE_AND_MAGIC.unpack_from(view, at)
    if magic not in MAGICS or not LEAST_SIZE <= size <= segment.size - at:
        return None
    found = RecordView(view, at, size)
    try:
        right = found.commit_log_offset == segment.base + at and found.check_crc()
    except CorruptRecord:
        return None
    return found if right else None


def _next_record(segment: Segment, at: int, *, since_ms: int) -> int | None:
    """Return where the next record of a file begins that was not stored before ``since_ms``.

    It is found by the bytes that every record has.
    """
    view = segment.view
    magics = [SIZE_AND_MAGIC.pack(0, magic)[_MAGIC_AT:] for magic in MAGICS]
    chunk_size = len(_ZEROS)
    for begin in range(at, segment.size, chunk_size):
        chunk = bytes(view[begin : begin + chunk_size + BLANK_SIZE])
        found = sorted(
            begin + place - _MAGIC_AT for magic in magics for place in _places(chunk, magic)
        )
        for position in found:
            record = _record_at(segment, position) if at <= position < begin + chunk_size else None
            if record is not None and record.store_timestamp_ms >= since_ms:
                return position
    return None


def _places(chunk: bytes, wanted: bytes) -> Iterator[int]:
    place = chunk.find(wanted)
    while place >= 0:
        yield place
        place = chunk.find(wanted, place + 1)


def zero_behind(segment: Segment, offset: int) -> int:
    """Write zeros over whatever lies behind an offset of the log in its file; return how much.

    Bytes behind the end are legal, but a record among them could come to lie exactly where a
    later, shorter log ends, and be taken for its next record.
    """
    view = segment.view
    zeroed = 0
    for begin in range(offset - segment.base, segment.size, len(_ZEROS)):
        end = min(begin + len(_ZEROS), segment.size)
        if view[begin:end] != _ZEROS[: end - begin]:
            segment.file.write([_ZEROS[: end - begin]], begin)
            zeroed += end - begin
    return zeroed
