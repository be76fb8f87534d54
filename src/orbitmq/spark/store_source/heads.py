"""The numbers and places of thousands of records in mapped bytes, read with numpy.

All heads are gathered at once, by a view of the bytes in which a head begins at every byte; what an
IPv6 address shifts is read again from its own place::

    start           body        topic              texts          end
    │ head: 88–112  │ body │ 1/2 │ topic │ length 2 │ properties │
"""

from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orbitmq.message import flags
from orbitmq.message.record import (
    AT,
    FORMATS,
    IPV4_HEAD,
    IPV6_EXTRA,
    LONGEST_TEXT,
    LONGEST_V1_TOPIC,
    MAGICS,
    PROPERTIES_LENGTH,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    Version,
    dtype,
)

__all__ = ["Bools", "Bytes", "Heads", "Places"]

Bytes: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

_HEAD: Final = np.dtype(
    [
        (name, f"V{code[:-1]}" if code.endswith("s") else dtype(name))
        for name, code in FORMATS.items()
    ]
)
assert _HEAD.itemsize == IPV4_HEAD.size


class Heads:
    """The heads of the records that begin at ``starts``, at least 91 bytes before the end.

    The places behind the head are right only where `add_up` is.
    """

    def __init__(self, data: Bytes, starts: Places) -> None:
        self._data = data
        self.starts = starts
        every: NDArray[np.void] = np.ndarray(
            (len(data) - _HEAD.itemsize + 1,), f"V{_HEAD.itemsize}", data.data, strides=(1,)
        )
        self._heads = every[starts].view(_HEAD)  # whole heads: field by field takes far longer
        self.sys_flags = self.number("sys_flag")
        self._behind_born: Places | int = 0
        self._behind_hosts: Places | int = 0
        if (self.sys_flags & (flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6)).any():
            self._behind_born = IPV6_EXTRA * (self.sys_flags & flags.BORN_HOST_IPV6 != 0)
            self._behind_hosts = self._behind_born + IPV6_EXTRA * (
                self.sys_flags & flags.STORE_HOST_IPV6 != 0
            )
        self.ends = starts + self.number("size")
        self.body_starts = starts + (IPV4_HEAD.size + self._behind_hosts)
        self.body_ends = self.body_starts + self._shifted("body_length", self._behind_hosts)

    def __len__(self) -> int:
        return len(self.starts)

    def number(self, name: str) -> Places:
        """Return a number of each head that stands before its addresses."""
        return self._heads[name].astype(np.int64)

    @cached_property
    def stored_ms(self) -> Places:
        """When each record was stored."""
        return self._shifted("store_timestamp_ms", self._behind_born)

    @cached_property
    def _is_v2(self) -> Bools:
        is_v2: Bools = self._heads["magic"] == Version.V2.value
        return is_v2

    @cached_property
    def topic_starts(self) -> Places:
        """Where each topic begins."""
        if not self._is_v2.any():
            return self.body_ends + TOPIC_LENGTH_V1.size
        sizes = np.where(self._is_v2, TOPIC_LENGTH_V2.size, TOPIC_LENGTH_V1.size)
        return self.body_ends + sizes

    @cached_property
    def topic_ends(self) -> Places:
        """Where each topic ends."""
        lengths = self._data[np.minimum(self.body_ends, len(self._data) - 1)].astype(np.int64)
        if self._is_v2.any():
            lengths = np.where(self._is_v2, self._read(self.body_ends, ">u2"), lengths)
        ends: Places = self.topic_starts + lengths
        return ends

    @property
    def text_starts(self) -> Places:
        """Where the properties of each record begin."""
        return self.topic_ends + PROPERTIES_LENGTH.size

    def add_up(self, base: int) -> Bools:
        """Return which records are sound but for checksums; ``base`` is the offset of byte 0.

        The rule is that of ``store.log.record_rows.sound_rows``. Each size has been checked:
        a record ends where the next one begins.
        """
        sound: Bools = np.isin(self._heads["magic"], MAGICS)
        sound &= self.number("commit_log_offset") == base + self.starts
        sound &= (self.body_starts <= self.body_ends) & (self.body_ends < self.ends)
        self.body_ends = np.where(sound, self.body_ends, 0)  # else it may be anywhere
        limits = np.where(self._is_v2, LONGEST_TEXT, LONGEST_V1_TOPIC)
        sound &= self.topic_ends - self.topic_starts <= limits
        lengths = self.ends - self.text_starts
        sound &= (lengths >= 0) & (lengths <= LONGEST_TEXT)
        stated = self._read(np.where(sound, self.topic_ends, 0), ">u2")
        sound &= stated == lengths
        return sound

    def _shifted(self, name: str, shift: Places | int) -> Places:
        if isinstance(shift, int):
            return self.number(name)
        return self._read(self.starts + (AT[name] + shift), dtype(name))

    def _read(self, places: Places, kind: str) -> Places:
        """Return the integers that begin at some places; anything where one is out of reach."""
        size = np.dtype(kind).itemsize
        last = len(self._data) - size
        every: NDArray[np.int64] = np.ndarray((last + 1,), kind, self._data.data, strides=(1,))
        return every[np.clip(places, 0, last)].astype(np.int64)
