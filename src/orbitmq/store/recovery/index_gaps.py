"""Whether an index file is missing: records of the log with keys that are in no file.

::

    index  ├── file ──┤         ├── file ──┤├── file ──┤
    log  ──────────────▲─────────▲──────────────────────
           the last record       the first record with keys of the next: another one with keys
           with keys of a file   in between was in a file that is gone

Files say where they begin and end, but not which came before them: retention takes the first ones,
and records without keys may lie between any two. Only the log tells. Its beginning stands for the
file before the first.
"""

from typing import Final

from orbitmq.store.index.record_keys import is_keyed
from orbitmq.store.log.record_rows import is_blank, next_sound, sound_row, sound_rows, view_of
from orbitmq.store.log.segments import Segment, Segments

__all__ = ["first_keyed"]

_LOOKED_AT: Final = 1024
"""Records that are looked at for one with keys: most have one, so the first tells. A start must not
read the log for the sake of a gap; ``verify`` looks at all."""


def first_keyed(chain: Segments, after: int, before: int) -> int | None:
    """Return where the first record with keys is, behind the record at one offset of the log.

    None if there is none before the other offset, as far as some records tell. What can't be read
    is passed over.

    Args:
        chain: the files of the log.
        after: where the last record is that is indexed, or one before the next, if none is known
            to be there; -1 for the beginning of the log.
        before: where the next record is that is indexed.

    """
    position = max(_behind(chain, after), chain.first_offset)
    left = _LOOKED_AT
    while position < before and left and (segment := chain.segment_at(position)) is not None:
        view, base = _mapped(segment), segment.base
        rows, at = sound_rows(view, base, position - base, before - base, left)
        for row in rows:
            if is_keyed(view_of(view, row)):
                return base + row[0]
        if is_blank(view, at):
            at = segment.size
        elif base + at < before and len(rows) < left:
            sound = next_sound(view, base, at + 1, min(before - base, segment.size))
            at = segment.size if sound is None else sound
        left -= len(rows)
        position = base + at
    return None


def _behind(chain: Segments, offset: int) -> int:
    """Return where the record behind the one at an offset begins."""
    segment = chain.segment_at(offset)
    row = segment and sound_row(_mapped(segment), segment.base, offset - segment.base)
    return offset + row[1] - row[0] if row else offset + 1


def _mapped(segment: Segment) -> memoryview:
    """Return the bytes of a file, and let go of it: a log may have more than can be open."""
    view = segment.view
    segment.drop()
    return view
