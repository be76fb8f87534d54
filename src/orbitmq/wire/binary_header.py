"""The binary form of a frame header, which RocketMQ calls ROCKETMQ serialisation.

::

    s16 code | u8 language | s16 version | s32 opaque | s32 flag
    s32 size | remark
    s32 size | fields, each: s16 size | name | s32 size | value

Texts are UTF-8. An empty text means null, so a field with an empty value arrives without a value.
A code has only 16 bits: the pop codes don't fit, and Java truncates them.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.errors import RemoteProtocolError

__all__ = ["BinaryHeader", "read", "write"]

_FIXED = struct.Struct(
    ">h"  # code
    "B"  # language
    "h"  # version
    "i"  # opaque
    "i"  # flag
    "i"  # size of the remark, 0 = none
)
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
assert _FIXED.size == 17

CODE_MAX = 2**15 - 1
"""The highest code that fits."""


class BinaryHeader(NamedTuple):
    """A decoded binary header."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str | None]


def read(header: bytes | bytearray) -> BinaryHeader:
    """Decode a binary header.

    Raise RemoteProtocolError if its sizes don't add up or a text is not UTF-8; ``position`` is
    relative to the header's first byte.
    """
    if len(header) < _FIXED.size + _INT32.size:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes is too short")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    remark_end = _FIXED.size + remark_size
    fields_at = remark_end + _INT32.size
    if remark_size < 0 or fields_at > len(header):
        raise RemoteProtocolError(
            f"a remark of {remark_size} bytes in a binary header of {len(header)}",
            position=_FIXED.size,
        )
    (fields_size,) = _INT32.unpack_from(header, remark_end)
    if fields_size < 0 or fields_at + fields_size > len(header):
        raise RemoteProtocolError(
            f"extension fields of {fields_size} bytes, but {len(header) - fields_at} are left",
            position=remark_end,
        )
    try:
        remark = header[_FIXED.size : remark_end].decode() or None
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(
            f"the remark is not UTF-8: {error}", position=_FIXED.size
        ) from error
    fields = _read_fields(header, fields_at, fields_at + fields_size)
    return BinaryHeader(code, language, version, opaque, flag, remark, fields)


def write(
    code: int,
    language: int,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    fields: Mapping[str, str] | None,
) -> bytes:
    """Encode a binary header.

    Raise struct.error if a number doesn't fit its field, such as a code over ``CODE_MAX``, and
    UnicodeEncodeError if a text holds half of a surrogate pair.
    """
    raw_remark = remark.encode() if remark else b""
    parts = [_FIXED.pack(code, language, version, opaque, flag, len(raw_remark)), raw_remark, b""]
    fields_size = 0
    for name, value in (fields or {}).items():
        raw_name, raw_value = name.encode(), value.encode()
        parts += (_INT16.pack(len(raw_name)), raw_name, _INT32.pack(len(raw_value)), raw_value)
        fields_size += _INT16.size + _INT32.size + len(raw_name) + len(raw_value)
    parts[2] = _INT32.pack(fields_size)
    return b"".join(parts)


def _read_fields(header: bytes | bytearray, at: int, end: int) -> dict[str, str | None]:
    """Decode the fields between ``at`` and ``end``; of a repeated name the last wins.

    Sizes are read as unsigned, so that negative ones point behind the end. The loop avoids calls,
    since it runs for every frame with a binary header.
    """
    fields: dict[str, str | None] = {}
    size_of = int.from_bytes
    try:
        while at < end:
            name_at = at + 2
            name_end = name_at + size_of(header[at:name_at], "big")
            value_at = name_end + 4
            value_end = value_at + size_of(header[name_end:value_at], "big")
            if value_end > end:
                raise RemoteProtocolError(
                    f"an extension field ends {value_end - end} bytes behind the fields",
                    position=at,
                )
            if name_at < name_end:
                value = header[value_at:value_end].decode() or None
                fields[header[name_at:name_end].decode()] = value
            at = value_end
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a field is not UTF-8: {error}", position=at) from error
    return fields
