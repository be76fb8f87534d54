"""Finds out whether an index file is missing: the log has records with keys that no file covers.

::

    index  ├── file ──┤         ├── file ──┤├── file ──┤
    log  ──────────────▲─────────▲──────────────────────
           the last record       the first record of the next file; a record with keys in between
           of a file             was in a file that is gone

The header of a file has its first and last record, but not which file came before: retention
removes the first files, and records without keys may be between any two. Only the log shows a gap.
The beginning of the log counts as the end of a file before the first.
"""

from itertools import islice
from typing import Final

from orbitmq.store.index.record_keys import is_keyed
from orbitmq.store.log.log_walk import LogWalk
from orbitmq.store.log.record_rows import sound_row, view_of
from orbitmq.store.log.segments import Segment, Segments

__all__ = ["first_keyed"]

_LOOKED_AT: Final = 1024
"""The most records examined per gap: most have keys, so the first one decides. A start must not
read the whole log for this; ``verify`` does."""


def first_keyed(chain: Segments, after: int, before: int) -> int | None:
    """Return the offset of the first record with keys between two indexed records.

    Only the first records are examined; None if none of them has keys. Damage is skipped. ``after``
    is the offset of the last indexed record before the gap, or any offset up to the next record; -1
    for the beginning of the log. ``before`` is the offset of the first indexed record after the
    gap.
    """
    begin = max(_behind(chain, after), chain.first_offset)
    walk = LogWalk(chain.files, open_file=_mapped, on_damage=lambda _: None, block_rows=_LOOKED_AT)
    views = (view_of(buffer, row) for buffer, rows in walk.blocks(begin, before) for row in rows)
    keyed = filter(is_keyed, islice(views, _LOOKED_AT))
    return next((view.commit_log_offset for view in keyed), None)


def _behind(chain: Segments, offset: int) -> int:
    """Return the end of the record at an offset; the next offset if no record begins there."""
    segment = chain.segment_at(offset)
    row = segment and sound_row(_mapped(segment), segment.base, offset - segment.base)
    return offset + row[1] - row[0] if row else offset + 1


def _mapped(segment: Segment) -> memoryview:
    """Map a file and close it: a log may have more files than a process may open."""
    view = segment.view
    segment.drop()
    return view
