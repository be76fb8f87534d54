"""Reads the fields of thousands of records as columns, with numpy and Arrow only.

Records are in one array of bytes, in any order, with or without other bytes between them. All heads
are gathered first, through a view of the array in which a head begins at every byte. Bodies and
property texts are cut out by laying Arrow offsets over the array and keeping every second piece::

    … │ head │ body │ length, topic, length, properties, head │ body │ …
               2n     2n+1                                      2n+2

So a row costs a few steps in C, whatever the number of columns.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orbitmq.message import flags, properties
from orbitmq.message.record import (
    AT,
    FORMATS,
    IPV4_HEAD,
    IPV6_EXTRA,
    PROPERTIES_LENGTH,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    Version,
    dtype,
)

__all__ = ["MARGIN", "RecordBlock"]

Bytes: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]
Heads: TypeAlias = NDArray[np.void]

MARGIN: Final = 64
"""Bytes that must follow the last record, so that no read leaves the array."""

_NUMBERS: Final = tuple(name for name, form in FORMATS.items() if not form.endswith("s"))
_ADDRESS_AND_PORT: Final = AT["reconsume_times"] - AT["store_ip"]
_HEAD: Final = np.dtype(
    {
        "names": [*_NUMBERS, "store_host"],
        "formats": [*map(dtype, _NUMBERS), f"V{_ADDRESS_AND_PORT}"],
        "offsets": [*(AT[name] for name in _NUMBERS), AT["store_ip"]],
        "itemsize": IPV4_HEAD.size,
    }
)
"""A head if both hosts have IPv4 addresses; in others, what is before ``born_ip`` is right."""

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""The two digits of every byte, as they are in memory."""

_VALUE_END: Final = ord(properties.VALUE_END)


class RecordBlock:
    """Records of one array, none of them compressed or an inner batch.

    ``data`` has `MARGIN` bytes after the records. The block may write between them, unless the
    array is read-only: nothing else may read it afterwards. ``starts`` is where each record begins.
    The caller has checked their sizes: each is inside the array, and no two overlap. Everything
    returned is a copy.
    """

    def __init__(self, data: Bytes, starts: "Sequence[int] | Places") -> None:
        self._data = data
        self._starts = np.asarray(starts, np.int64)
        # Not gathered as _HEAD: numpy would copy field by field, which takes 15 times as long.
        at_every_byte: Heads = np.ndarray(
            (max(len(data) - _HEAD.itemsize + 1, 0),),
            f"V{_HEAD.itemsize}",
            data.data,
            strides=(1,),
        )
        self._heads = at_every_byte[self._starts].view(_HEAD)
        self._ends = self._starts + self._heads["size"]
        sys_flags = self._field("sys_flag")
        self._store_is_ipv6 = sys_flags & flags.STORE_HOST_IPV6 != 0
        self._behind_born: Places | int = 0
        self._behind_hosts: Places | int = 0
        if (sys_flags & (flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6)).any():
            self._behind_born = IPV6_EXTRA * (sys_flags & flags.BORN_HOST_IPV6 != 0)
            self._behind_hosts = self._behind_born + IPV6_EXTRA * self._store_is_ipv6
        self._body_starts = self._starts + (IPV4_HEAD.size + self._behind_hosts)
        self._body_ends = self._body_starts + self._field("body_length", self._behind_hosts)
        self.faulty = self._first_fault()
        """The first row whose lengths don't add up; None if there is none. The other methods are
        right only if it is None."""

    def __len__(self) -> int:
        return len(self._starts)

    def _field(self, name: str, shift: Places | int = 0) -> Places:
        """Return a number of each head; IPv6 addresses shift the fields after them."""
        if isinstance(shift, int):
            return self._heads[name].astype(np.int64)
        return self._read(self._starts + (AT[name] + shift), dtype(name))

    def _read(self, places: Places, kind: str) -> Places:
        """Return the integers that begin at some places, in the machine's byte order."""
        size = np.dtype(kind).itemsize
        at_every_byte: NDArray[np.int64] = np.ndarray(
            (len(self._data) - size + 1,), kind, self._data.data, strides=(1,)
        )
        return at_every_byte[places].astype(np.int64)

    def _first_fault(self) -> int | None:
        """Find the pieces of all records; return the first row whose size is not their sum."""
        magics = self._field("magic")
        is_v2 = magics == Version.V2.value
        sound = is_v2 | (magics == Version.V1.value)
        sound &= self._body_starts <= self._body_ends
        topics = self._body_ends + np.where(is_v2, TOPIC_LENGTH_V2.size, TOPIC_LENGTH_V1.size)
        sound &= topics + PROPERTIES_LENGTH.size <= self._ends
        # Positions in a faulty record may be anywhere, so they are not read.
        at = np.where(sound, self._body_ends, 0)
        topic_lengths = np.where(
            is_v2, self._read(at, TOPIC_LENGTH_V2.format), self._read(at, TOPIC_LENGTH_V1.format)
        )
        sound &= topic_lengths >= 0
        texts = topics + topic_lengths + PROPERTIES_LENGTH.size
        sound &= texts <= self._ends
        at = np.where(sound, texts - PROPERTIES_LENGTH.size, 0)
        sound &= texts + self._read(at, PROPERTIES_LENGTH.format) == self._ends
        self._text_starts = texts
        return None if sound.all() else int(np.argmin(sound))

    # Numbers

    def queue_offsets(self) -> Places:
        """Return the queue offset of each message."""
        return self._field("queue_offset")

    def born_ms(self) -> Places:
        """Return when each message was created, by its client's clock."""
        return self._field("born_timestamp_ms")

    def stored_ms(self) -> Places:
        """Return when each message was stored."""
        return self._field("store_timestamp_ms", self._behind_born)

    def user_flags(self) -> Places:
        """Return the user's flag of each message."""
        return self._field("flag")

    def body_crcs(self) -> Places:
        """Return the checksum of each body as it was stored."""
        return self._field("body_crc")

    def reconsume_times(self) -> Places:
        """Return how often each message was delivered again."""
        return self._field("reconsume_times", self._behind_hosts)

    # Bytes and texts

    def bodies(self) -> pa.Array:
        """Return the bodies: ``binary``."""
        return self._cut(self._body_starts, self._body_ends)

    def texts(self) -> pa.Array:
        """Return the texts of the properties: ``binary``, each empty or with U+0002 at its end.

        Some producers leave out the last one, and then it is written behind the record: over the
        first byte of a size that has been read.
        """
        ends = self._ends
        lacks = (self._data[ends - 1] != _VALUE_END) & (self._text_starts < ends)
        if lacks.any():
            if not self._data.flags.writeable:
                self._data = self._data.copy()
            self._data[ends[lacks]] = _VALUE_END
            ends = ends + lacks
        return self._cut(self._text_starts, ends)

    def offset_ids(self) -> pa.Array:
        """Return what ``message.ids.offset_id`` gives for each record: ``string``."""
        if isinstance(self._behind_born, int):
            return _hex(np.concatenate([_raw(self._heads["store_host"]), self._positions()], 1))
        rows = np.arange(len(self))
        is_ipv6 = self._store_is_ipv6
        if not is_ipv6.any():
            return self._ids(rows, 0)
        both = pa.concat_arrays(
            [self._ids(rows[~is_ipv6], 0), self._ids(rows[is_ipv6], IPV6_EXTRA)]
        )
        place = np.empty(len(self), np.int64)
        place[np.concatenate([rows[~is_ipv6], rows[is_ipv6]])] = rows
        return both.take(pa.array(place))

    def _ids(self, rows: Places, more: int) -> pa.Array:
        """Return the ids of some rows whose brokers' addresses have ``more`` bytes than IPv4's."""
        assert not isinstance(self._behind_born, int)
        hosts = self._starts[rows] + self._behind_born[rows] + AT["store_ip"]
        host = self._data[hosts[:, None] + np.arange(_ADDRESS_AND_PORT + more)]
        return _hex(np.concatenate([host, self._positions()[rows]], 1))

    def _positions(self) -> Bytes:
        """Return the eight bytes of each record's position in the commit log."""
        return _raw(self._heads["commit_log_offset"])

    def _cut(self, begins: Places, ends: Places) -> pa.Array:
        """Return copies of the pieces of the array between some positions."""
        count = len(begins)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = begins
        offsets[1::2] = ends
        offsets[-1] = len(self._data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        laid = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
        return laid.take(pa.array(np.arange(0, 2 * count, 2)))


def _raw(field: NDArray[np.generic]) -> Bytes:
    """Return the bytes of a field, a row of them for each element."""
    return np.ascontiguousarray(field).view(np.uint8).reshape(len(field), field.dtype.itemsize)


def _hex(ids: Bytes) -> pa.Array:
    """Return rows of bytes as hexadecimal digits: ``string``."""
    rows, size = ids.shape
    offsets = np.arange(0, (rows + 1) * 2 * size, 2 * size, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(_HEX[ids])]
    return pa.Array.from_buffers(pa.string(), rows, buffers)
