"""The innermost loop of every scan: sound records of a buffer, a block at a time.

A row is a plain tuple and not a class, because this runs once for every record of a store.
"""

import enum
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from orbitmq.checksum import crc32
from orbitmq.message import flags
from orbitmq.message.record import (
    BLANK_SIZE,
    HEADS,
    INT,
    IPV4_HEAD,
    LEAST_SIZE,
    LONGEST_TEXT,
    LONGEST_V1_TOPIC,
    MAGIC_AT,
    MAGIC_BLANK,
    PROPERTIES_LENGTH,
    PROPERTIES_LENGTH_SIZE,
    SIGN_CLEARED,
    SIZE_AND_MAGIC,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    Row,
    Version,
    reader,
    seal_agrees,
)
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan, StopReason

__all__ = [
    "Block",
    "Checked",
    "fault_at",
    "is_blank",
    "magics",
    "next_sound",
    "sound_row",
    "sound_rows",
    "view_of",
    "written_end",
    "written_end_by_maps",
]

# All that has to be read to know that a record is sound, in one unpack.
_CHECKED: Final = reader(
    "size", "magic", "body_crc", "commit_log_offset", "sys_flag", "body_length"
)
assert _CHECKED.size == IPV4_HEAD.size  # the head ends with the length of the body

_V1, _V2 = Version.V1.value, Version.V2.value
_HOSTS: Final = flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6
_IPV4_HEAD_SIZE: Final = IPV4_HEAD.size
_LEAST_BEHIND_BODY: Final = TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
# The loop below reads these lengths by hand: one byte, two bytes, two bytes.
assert (TOPIC_LENGTH_V1.size, TOPIC_LENGTH_V2.size, PROPERTIES_LENGTH_SIZE) == (1, 2, 2)

# What both magics begin with; they differ in the last byte.
_MAGIC_START = _V1.to_bytes(4)[:3]
assert _V2.to_bytes(4).startswith(_MAGIC_START)
_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4)
_SEARCHED_AT_ONCE = 1 << 20
_SECTOR = 512  # the least that a disk writes at once
_ZEROS = bytes(_SEARCHED_AT_ONCE)


class Checked(enum.Enum):
    """Which checksums of a record are compared."""

    NONE = "none"
    BODY = "the CRC of the body, and that topic and properties were written to their ends"
    BODY_AND_SEAL = "that, and the ``__CRC32#`` property of a record that ends in one"


class Block(NamedTuple):
    """Some records that follow each other, and the bytes they lie in."""

    buffer: memoryview
    rows: list[Row]


def sound_rows(
    buffer: memoryview,
    base: int,
    position: int,
    stop: int,
    limit: int,
    checked: Checked = Checked.NONE,
) -> tuple[list[Row], int]:
    """Return up to ``limit`` sound records from ``position`` on, and where the next would begin.

    A record is sound if its size is the sum of its parts, the log offset it states is ``base``
    plus its place in the buffer, and those checksums that are ``checked`` match. Records that begin
    at ``stop`` or later are not examined. If there are fewer than ``limit``, the last place is the
    stop, or no sound record begins there.
    """
    rows: list[Row] = []
    append = rows.append
    unpack = _CHECKED.unpack_from
    check_body, check_seal = checked is not Checked.NONE, checked is Checked.BODY_AND_SEAL
    length = len(buffer)
    stop = min(stop, length - LEAST_SIZE + 1)
    while position < stop and len(rows) < limit:
        size, magic, crc, offset, sys_flag, body_length = unpack(buffer, position)
        end = position + size
        body_start = position + _IPV4_HEAD_SIZE
        if sys_flag & _HOSTS:
            body_start = position + HEADS[sys_flag & 0xFF].size
            if body_start > length:
                break
            (body_length,) = INT.unpack_from(buffer, body_start - INT.size)
        body_end = body_start + body_length
        if (
            offset != base + position
            or body_length < 0
            or end > length
            or body_end + _LEAST_BEHIND_BODY > end
        ):
            break
        if magic == _V1:
            topic_start = body_end + 1
            topic_end = topic_start + buffer[body_end]
            if topic_end - topic_start > LONGEST_V1_TOPIC:
                break
        elif magic == _V2:
            topic_start = body_end + 2
            topic_end = topic_start + (buffer[body_end] << 8 | buffer[body_end + 1])
            if topic_end - topic_start > LONGEST_TEXT:
                break
        else:
            break
        properties_length = end - topic_end - 2
        if (
            not 0 <= properties_length <= LONGEST_TEXT
            or (buffer[topic_end] << 8 | buffer[topic_end + 1]) != properties_length
        ):
            break
        # An empty body is whole whatever the CRC says, as in Java's CommitLog.
        if check_body and body_length and crc32(buffer[body_start:body_end]) & SIGN_CLEARED != crc:
            break
        # That covers only the body. After it a power loss may leave zeros.
        if check_body and (
            _is_torn(buffer, topic_start, topic_end) or _is_torn(buffer, topic_end + 2, end)
        ):
            break
        if check_seal and not seal_agrees(buffer, position, topic_end + 2, end):
            break
        append((position, end, body_start, body_end, topic_start, topic_end))
        position = end
    return rows, position


def _is_torn(buffer: memoryview, start: int, end: int) -> bool:
    """Return whether a power loss has left zeros in a text.

    It leaves zeros up to the end of a sector or of the text, and neither topics nor properties end
    in a zero. A real zero just before the end of a sector would look like a tear, but names and
    values don't contain zeros, and only records that nothing vouches for would be lost.
    """
    if start == end:
        return False
    if not buffer[end - 1]:
        return True
    sector = (start | _SECTOR - 1) + 1
    return sector < end and any(not buffer[at - 1] for at in range(sector, end, _SECTOR))


def sound_row(
    buffer: memoryview, base: int, position: int, checked: Checked = Checked.NONE
) -> Row | None:
    """Return the record that begins at ``position``, None if no sound one does."""
    if position < 0:
        return None
    rows, _ = sound_rows(buffer, base, position, position + 1, 1, checked)
    return rows[0] if rows else None


def fault_at(buffer: memoryview, position: int) -> str:
    """Return in words why no sound record begins at ``position``."""
    scan = Scan(buffer, position, verify=True)
    for view in scan:
        own_place = view.commit_log_offset - position
        if not sound_row(buffer, own_place, position, Checked.BODY):
            return "a record that was not written to its end"
        return f"a record that says it lies at byte {view.commit_log_offset} of the log"
    stop = scan.stop
    if stop.reason is StopReason.END:
        return "the end of the file"
    text: str = stop.reason.value
    return text.format(stop.detail)


def view_of(buffer: memoryview, row: Row) -> RecordView:
    """Return the record of a row as a view."""
    return RecordView(buffer, row[0], row[1] - row[0], row)


def is_blank(buffer: memoryview, position: int) -> bool:
    """Return whether the blank that ends a segment begins at ``position``."""
    left = len(buffer) - position
    return left >= BLANK_SIZE and SIZE_AND_MAGIC.unpack_from(buffer, position) == (
        left,
        MAGIC_BLANK,
    )


def next_sound(buffer: memoryview, base: int, position: int, stop: int) -> int | None:
    """Return where the next sound record, or the blank at the end, begins; None if none does.

    Bytes from ``stop`` on are known to be zeros.
    """
    for start in magics(buffer, position, stop):
        if sound_row(buffer, base, start) or is_blank(buffer, start):
            return start
    return None


def written_end(buffer: memoryview, position: int) -> int:
    """Return where the zeros begin that fill the rest of the buffer, ``position`` at least."""
    end = len(buffer)
    while end > position:
        begin = max(position, end - _SEARCHED_AT_ONCE)
        part = bytes(buffer[begin:end])
        # Comparing is ten times as fast as stripping, and a gigabyte may have to be looked at.
        if part != _ZEROS[: end - begin]:
            return begin + len(part.rstrip(b"\0"))
        end = begin
    return position


def written_end_by_maps(mapped: Callable[[], memoryview], position: int, map_bytes: int) -> int:
    """Return the same for a file, looked at through a new map for every ``map_bytes``.

    What was read through a map counts as memory of the process until the map is gone.
    """
    end = len(mapped())
    while end > position:
        begin = max(position, end - map_bytes)
        if written := written_end(mapped()[begin:end], 0):
            return begin + written
        end = begin
    return position


def magics(buffer: memoryview, position: int, stop: int) -> Iterator[int]:
    """Yield, in order, the positions where a record or a blank could begin, by its magic.

    Bytes from ``stop`` on are known to be zeros.
    """
    overlap = len(_BLANK_MAGIC) - 1
    position += MAGIC_AT
    while position < stop:
        # A copy of a part: a view can't be searched.
        part = bytes(buffer[position : position + _SEARCHED_AT_ONCE + overlap])
        for found in sorted({*_finds(part, _MAGIC_START), *_finds(part, _BLANK_MAGIC)}):
            yield position + found - MAGIC_AT
        position += _SEARCHED_AT_ONCE


def _finds(part: bytes, wanted: bytes) -> Iterator[int]:
    found = part.find(wanted, 0)
    while 0 <= found < _SEARCHED_AT_ONCE:
        yield found
        found = part.find(wanted, found + 1)
