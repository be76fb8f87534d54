"""Message ids and recall handles: formatting and parsing.

Ids are hexadecimal, in capitals; handles are words separated by one blank::

    offset message id   ip 4 or 16, port 4, commit log offset 8
    unique message id   ip 4 or 16, process 2, discriminator 4, ms of the month 4, counter 2
    recall handle       v1 topic broker time id, in base64
"""

import base64
import itertools
import struct
from collections.abc import Callable
from itertools import islice
from reprlib import repr as elided
from typing import Final, NamedTuple, Protocol

from orbitmq.errors import InvalidInput
from orbitmq.message.host import Host
from orbitmq.message.shown import shown_int

__all__ = [
    "RecallHandle",
    "TimeOfDay",
    "UniqueId",
    "UniqueIds",
    "offset_id",
    "parse_offset_id",
    "parse_recall_handle",
    "parse_unique_id",
    "recall_handle",
]

_OFFSET_TAIL: Final = struct.Struct(
    ">i"  # port, which Java writes as an int
    "q"  # commit log offset
)
assert _OFFSET_TAIL.size == 12

_UNIQUE_TAIL: Final = struct.Struct(
    ">H"  # process id, its low 16 bits
    "I"  # discriminator of producers in one process; Java takes the hash of a class loader
    "I"  # milliseconds since the local start of the month
    "H"  # counter
)
assert _UNIQUE_TAIL.size == 12

_BYTES: Final = tuple(f"{number:02X}" for number in range(256))
_RECALL_VERSION: Final = "v1"
# Up to here Java's MessageClientIDSetter assumes that NTP set the clock back.
_SMALL_STEP_BACK_MS: Final = 1_000_000


def offset_id(host: Host, commit_log_offset: int) -> str:
    """Return the id made of where a message is stored: the broker and the commit log offset.

    >>> offset_id(Host.parse("127.0.0.1:10911"), 8888)
    '7F00000100002A9F00000000000022B8'
    """
    if len(host.ip) not in (4, 16):
        raise InvalidInput(f"ip has {len(host.ip)} bytes, not 4 or 16", field="host")
    try:
        tail = _OFFSET_TAIL.pack(host.port, commit_log_offset)
    except struct.error as error:
        raise InvalidInput(
            f"port {shown_int(host.port)} or commit log offset {shown_int(commit_log_offset)} "
            f"can't be part of a message id: {error}",
            field="commit_log_offset",
        ) from None
    return (host.ip + tail).hex().upper()


def parse_offset_id(text: str) -> tuple[Host, int]:
    """Return the broker and the commit log offset of an offset message id.

    Raise InvalidInput if it is not 32 (IPv4) or 56 (IPv6) hexadecimal digits.

    >>> host, offset = parse_offset_id("7F00000100002A9F00000000000022B8")
    >>> str(host), offset
    ('127.0.0.1:10911', 8888)
    """
    ip, tail = _split_id(text, "offset message id")
    port, offset = _OFFSET_TAIL.unpack(tail)
    return Host(ip, port), offset


class TimeOfDay(Protocol):
    """The part of a clock that ids need."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        ...


class UniqueIds:
    r"""Generates the unique message ids of a producer, as Java's ``MessageClientIDSetter`` does.

    Ids are unique as long as no two generators share address, process and discriminator, and each
    is called at most 65536 times per millisecond. Threads may share a generator; after a fork the
    child needs a new one. If the clock is set back to at most a quarter of an hour before the month
    began, the ids keep the start of the month, as in Java.

    ``ip`` is the address of this machine, 4 or 16 bytes; the low 16 bits of ``pid`` are used;
    ``discriminator`` is 32 random bits that distinguish the generators of one process. ``month_of``
    returns the starts of the month of a time and of the next month, in milliseconds since 1970, in
    the local time zone as in Java; see ``orbitmq.clock.local_month``.

    >>> class Noon:
    ...     def now_ms(self): return 1_700_000_000_000
    >>> new_ids = UniqueIds(
    ...     b"\x7f\x00\x00\x01", pid=1234, discriminator=0x18B4AAC2, clock=Noon(),
    ...     month_of=lambda at_ms: (1_698_796_800_000, 1_701_388_800_000))
    >>> new_ids.next()
    '7F00000104D218B4AAC247B760000000'
    """

    def __init__(
        self,
        ip: bytes,
        pid: int,
        discriminator: int,
        clock: TimeOfDay,
        month_of: Callable[[int], tuple[int, int]],
    ) -> None:
        if len(ip) not in (4, 16):
            raise InvalidInput(f"ip has {len(ip)} bytes, not 4 or 16", field="ip", length=len(ip))
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{discriminator & 0xFFFF_FFFF:08X}"
        self._clock = clock
        self._month_of = month_of
        self._month = month_of(clock.now_ms())
        self._counter = itertools.count()
        # The ids of one millisecond share their beginning. One tuple, since threads may share this.
        self._begun = (-1, "")

    def next(self) -> str:
        """Return a new id."""
        return self.next_at(self._clock.now_ms())

    def next_at(self, now_ms: int) -> str:
        """Return a new id, for a caller that has the time already."""
        return f"{self._beginning_at(now_ms)}{next(self._counter) & 0xFFFF:04X}"

    def some(self, count: int) -> list[str]:
        """Return ``count`` new ids, at least one; cheaper than one at a time."""
        # One call, which no other thread interrupts: the numbers follow each other.
        numbers = list(islice(self._counter, count))
        number, last = numbers[0], numbers[-1]
        beginning = self._beginning_at(self._clock.now_ms())
        found: list[str] = []
        while number <= last:  # up to 256 at once, which differ in their last byte
            block, first, end = f"{beginning}{number >> 8 & 0xFF:02X}", number & 0xFF, number | 0xFF
            found += [block + byte for byte in _BYTES[first : first + last - number + 1]]
            number = end + 1
        return found

    def _beginning_at(self, now_ms: int) -> str:
        begun_ms, beginning = self._begun
        if now_ms != begun_ms:
            beginning = self._beginning(now_ms)
            self._begun = (now_ms, beginning)
        return beginning

    def _beginning(self, now_ms: int) -> str:
        start_ms, end_ms = self._month
        if now_ms >= end_ms:
            self._month = start_ms, end_ms = self._month_of(now_ms)
        passed_ms = now_ms - start_ms
        if -_SMALL_STEP_BACK_MS < passed_ms < 0:
            passed_ms = 0
        return f"{self._prefix}{passed_ms & 0xFFFF_FFFF:08X}"


class UniqueId(NamedTuple):
    """The parts of a unique message id."""

    ip: bytes
    pid: int
    discriminator: int
    ms_of_month: int
    counter: int

    def created_ms(self, now_ms: int, month_of: Callable[[int], tuple[int, int]]) -> int:
        r"""Return when the id was made, assuming that is less than a month before ``now_ms``.

        The id doesn't contain the month. Java's ``getNearlyTimeFromID`` dates an id of the current
        millisecond one month back; here it is new.

        >>> month_of = lambda at_ms: (1000, 2000) if at_ms >= 1000 else (0, 1000)
        >>> new_id = UniqueId(b"\x7f\x00\x00\x01", 1, 2, 300, 0)
        >>> new_id.created_ms(1400, month_of), new_id.created_ms(1200, month_of)
        (1300, 300)
        """
        start_ms = month_of(now_ms)[0]
        if start_ms + self.ms_of_month > now_ms:
            start_ms = month_of(start_ms - 1)[0]
        return start_ms + self.ms_of_month


def parse_unique_id(text: str) -> UniqueId:
    """Return the parts of a unique message id.

    Raise InvalidInput if it is not 32 (IPv4) or 56 (IPv6) hexadecimal digits. Other clients may use
    ids of any form, which are valid but have no parts.

    >>> parse_unique_id("7F00000104D218B4AAC21F8B8F9A0001").pid
    1234
    """
    ip, tail = _split_id(text, "unique message id")
    return UniqueId(ip, *_UNIQUE_TAIL.unpack(tail))


class RecallHandle(NamedTuple):
    """The parts of the handle to recall a delayed message; the time is by the broker's clock."""

    topic: str
    broker_name: str
    timestamp_ms: int
    message_id: str


def recall_handle(topic: str, broker_name: str, timestamp_ms: int, message_id: str) -> str:
    """Return the text of a recall handle; raise InvalidInput if a part is empty or holds a blank.

    >>> recall_handle("%RETRY%x", "b", 1, "A")
    'djEgJVJFVFJZJXggYiAxIEE='
    """
    if not 0 <= timestamp_ms < 1 << 63:
        raise InvalidInput("the time of a recall handle is out of range", field="timestamp_ms")
    words = [topic, broker_name, str(timestamp_ms), message_id]
    for field, word in zip(RecallHandle._fields, words, strict=True):
        if word.split() != [word] or not word.isprintable():
            raise InvalidInput(
                f"{field} {elided(word)} of a recall handle is empty, or holds a blank or an "
                "unprintable character",
                field=field,
                length=len(word),
            )
    return base64.urlsafe_b64encode(" ".join([_RECALL_VERSION, *words]).encode()).decode()


def parse_recall_handle(text: str) -> RecallHandle:
    """Return the parts of a recall handle; words after the fifth are ignored.

    Raise InvalidInput if it is not base64 of ``v1 topic broker time id``.

    >>> parse_recall_handle("djEgJVJFVFJZJXggYiAxIEE=")
    RecallHandle(topic='%RETRY%x', broker_name='b', timestamp_ms=1, message_id='A')
    """
    try:
        padded = text + "=" * (-len(text) % 4)  # Java's decoder accepts missing padding
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        words = raw.decode().split(" ")
    except ValueError:
        raise _bad_handle(text, "not base64 of UTF-8 text") from None
    if len(words) < 5 or words[0] != _RECALL_VERSION:
        raise _bad_handle(text, f"it must hold five words, the first {_RECALL_VERSION}")
    _, topic, broker_name, timestamp, message_id = words[:5]
    if not (topic and broker_name and message_id):
        raise _bad_handle(text, "one of its words is empty")
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 19):
        raise _bad_handle(text, "its fourth word must be a time in milliseconds")
    return RecallHandle(topic, broker_name, int(timestamp), message_id)


def _split_id(text: str, kind: str) -> tuple[bytes, bytes]:
    """Return the address in an id, and the twelve bytes after it."""
    if len(text) not in (32, 56):
        raise InvalidInput(
            f"{kind} {elided(text)} has {len(text)} characters, not 32 or 56",
            field="message_id",
            length=len(text),
        )
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if 2 * len(raw) != len(text):  # fromhex skips blanks
        raise InvalidInput(
            f"{kind} {elided(text)} must be hexadecimal digits only",
            field="message_id",
            length=len(text),
        )
    return raw[:-12], raw[-12:]


def _bad_handle(text: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"recall handle {elided(text)} can't be read: {why}",
        field="recall_handle",
        length=len(text),
    )
