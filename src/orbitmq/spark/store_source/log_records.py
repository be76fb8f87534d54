"""The records of a range of the log, as places in mapped bytes: thousands at a time.

::

    file    │ record record record … record ✗✗✗ record … blank │
    quick     └─── chunk: queues and sizes say where they are, ┘
              checked by numpy all at once; if anything is odd, carefully from the chunk on:
    careful   └ chunk ┘            damage └─ chunk ─┘ is skipped as ``StoreReader.blocks`` does

Each chunk has a private map of its own. So what was read leaves the memory of the process with the
chunk, and columns may be made in place: a page that they write to is copied by the system.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.spark.columns.record_columns import MARGIN
from orbitmq.spark.store_source.checksums import are_whole
from orbitmq.spark.store_source.heads import Bytes, Heads, Places
from orbitmq.spark.store_source.record_starts import find_starts, named_places
from orbitmq.store.reader.reader import Damage, OnDamage, QueueName, StoreReader

__all__ = ["CHUNK_BYTES", "CHUNK_ROWS", "Chunk", "chunks"]

CHUNK_ROWS: Final = 16_384
CHUNK_BYTES: Final = 16 << 20
"""A chunk ends with the record that reaches one of the two limits."""


class Chunk(NamedTuple):
    """Sound records that follow each other in a private map.

    ``data`` begins at the log offset ``base``, and has `MARGIN` bytes after the last record.
    """

    data: Bytes
    base: int
    heads: Heads


class _File(NamedTuple):
    """One file of the log, as ``StoreReader.segments`` has it."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


def chunks(
    reader: StoreReader,
    start: int,
    end: int,
    on_damage: OnDamage,
    queues: Sequence[QueueName] = (),
) -> Iterator[Chunk]:
    """Yield the records that begin from ``start`` on and before ``end``, where one begins.

    All checksums are compared. Places that can't be read go to ``on_damage``. It is faster if
    ``queues`` name most of the records.

    Raises:
        StoreDamaged: a record lies across the end.
        DiskFailed: a file can't be opened.
    """
    named = named_places(reader, queues, start, end)
    at = start
    for file in (_File(*file) for file in reader.segments):
        if file.end <= at or file.base >= end:
            continue
        if file.base > at:
            on_damage(Damage(at, "no file holds these bytes", file.base - at))
        at = max(at, file.base)
        for chunk in _of_file(reader, file, at, min(end, file.end), on_damage, named):
            reached = chunk.base + int(chunk.heads.ends[-1])
            if reached > end:
                raise _across(end, reached)
            yield chunk
        at = file.end
    if at < end:
        on_damage(Damage(at, "no file holds these bytes", end - at))


def _across(end: int, reached: int) -> StoreDamaged:
    return StoreDamaged(
        f"commitlog at byte {end}: a record lies across it, and ends at {reached}, though a record "
        "began there when the read was planned: the log was changed, or a body imitates a record. "
        "Read a copy of the store, or set minPartitions to another number",
        path="commitlog",
        position=end,
    )


def _of_file(
    reader: StoreReader, file: _File, start: int, end: int, on_damage: OnDamage, named: Places
) -> Iterator[Chunk]:
    at = start
    while at < end:
        found = _quick_chunk(file, at, end, named)
        if found is None:
            yield from _careful_chunks(reader, file, at, end, on_damage)
            return
        chunk, at = found
        if chunk is not None:
            yield chunk


def _quick_chunk(
    file: _File, start: int, end: int, named: Places
) -> tuple[Chunk | None, int] | None:
    """Return the next records, and where those after them begin; None if anything is odd.

    There may be no records before the blank at the end of the file.
    """
    data = _mapped(file, start, file.end)
    stop = min(end, start + CHUNK_BYTES)
    first, last = np.searchsorted(named, (start, stop))
    found = find_starts(data, named[first:last] - start, stop - start, CHUNK_ROWS)
    if found is None:
        return None
    places, after = found
    if not len(places):
        return None, start + after
    heads = Heads(data, places)
    if not heads.add_up(start).all() or not are_whole(data, heads, start - file.base):
        return None
    return Chunk(_with_margin(data, int(heads.ends[-1])), start, heads), start + after


def _careful_chunks(
    reader: StoreReader, file: _File, start: int, end: int, on_damage: OnDamage
) -> Iterator[Chunk]:
    """Yield the records of a part of a file in which something is wrong."""
    for block in reader.blocks(start, end, verify=True, on_damage=_whole_only(on_damage, file)):
        places = np.array([row[0] for row in block.rows], np.int64)
        ends = np.array([row[1] for row in block.rows], np.int64)
        first = 0
        while first < len(places):
            limit = int(places[first]) + CHUNK_BYTES
            after = max(first + 1, int(np.searchsorted(places, limit)))
            stop = int(ends[after - 1])
            begin = int(places[first])
            base = file.base + begin
            data = _mapped(file, base, min(file.base + stop + MARGIN, file.end))
            data = _with_margin(data, stop - begin)
            yield Chunk(data, base, Heads(data, places[first:after] - begin))
            first = after


def _whole_only(on_damage: OnDamage, file: _File) -> Callable[[Damage], None]:
    """Report what lies in a file; what a reader of its part alone says of others is not true."""

    def report(damage: Damage) -> None:
        if file.base <= damage.position < file.end:
            on_damage(damage)

    return report


def _mapped(file: _File, start: int, end: int) -> Bytes:
    """Return private bytes of a file between two log offsets."""
    shape = (end - start,)
    try:
        mapped = np.memmap(file.path, np.uint8, mode="c", offset=start - file.base, shape=shape)
    except (OSError, ValueError) as error:  # it is gone, or shorter
        raise DiskFailed(
            f"can't read {file.path}: {error}; if retention deleted it, read a copy of the store, "
            "or begin later with startingTimestamp",
            path=file.path,
            errno=getattr(error, "errno", None) or errno.EIO,
        ) from error
    return np.asarray(mapped)


def _with_margin(data: Bytes, end: int) -> Bytes:
    """Return the bytes up to the end of the last record with `MARGIN` more."""
    if end + MARGIN <= len(data):
        return data[: end + MARGIN]
    padded = np.zeros(end + MARGIN, np.uint8)
    padded[: min(end, len(data))] = data[:end]
    return padded
