"""The replication stream: a primary sends its commit log, and a replica reports its progress.

The replica connects and reports the end of its log; the primary sends the bytes after it (Java's
DefaultHAService; for primaries elected by a controller see ``wire/epoch_stream``)::

    replica → primary   report   │ max offset 8 │
    primary → replica   chunk    │ offset 8 │ size 4 │ size bytes of commit log │

A chunk without data is a heartbeat. A chunk may end inside a record, and may contain a blank.

There is no socket and no clock here: bytes in, events out. A reader checks a head before it waits
for the data, so a peer can't make it buffer more than ``CHUNK_BYTES_MAX``. After an error it can't
be used. The replica has to check that an offset continues its log.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Final, Generic, NamedTuple, TypeVar

from orbitmq.errors import LocalProtocolError, RemoteProtocolError
from orbitmq.message.buffer import Buffer

__all__ = [
    "CHUNK_BYTES_MAX",
    "Chunk",
    "ChunkReader",
    "Heartbeat",
    "Report",
    "ReportReader",
    "StreamReader",
    "chunk_head",
    "report",
]

T = TypeVar("T")

OFFSET_MAX: Final = 2**63 - 1

CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024 - 64
"""The most data in one chunk. Java's replica has a buffer of 4 MiB, and would wait forever for a
chunk that doesn't fit into it with its head. Java's primary sends 32 KiB at a time by default."""

REPORT: Final = struct.Struct(">q")  # the replica's max offset: the end of its log
assert REPORT.size == 8

CHUNK_HEAD: Final = struct.Struct(
    ">q"  # offset of the data in the commit log
    "i"  # size of the data, 0 in a heartbeat
)
assert CHUNK_HEAD.size == 12


class Report(NamedTuple):
    """The replica has all of the log up to ``offset``."""

    offset: int


class Chunk(NamedTuple):
    """Part of the commit log; the data may be a view of the input, see ``feed``."""

    offset: int
    data: memoryview


class Heartbeat(NamedTuple):
    """The primary has nothing new; the next chunk begins at ``offset``."""

    offset: int


def report(offset: int) -> bytes:
    """Return the bytes of a report.

    >>> report(4096).hex()
    '0000000000001000'
    """
    check_number("offset", offset, most=OFFSET_MAX)
    return REPORT.pack(offset)


def chunk_head(offset: int, size: int) -> bytes:
    """Return the head of a chunk with ``size`` bytes of log; with size 0 it is a heartbeat.

    The caller sends the head and then the data, which need not be copied. Raise LocalProtocolError
    if the size is over ``CHUNK_BYTES_MAX``.

    >>> chunk_head(4096, 5).hex()
    '000000000000100000000005'
    """
    check_number("size", size, most=CHUNK_BYTES_MAX)
    check_number("offset", offset, most=OFFSET_MAX - size)
    return CHUNK_HEAD.pack(offset, size)


def check_number(name: str, value: int, *, least: int = 0, most: int) -> None:
    """Raise LocalProtocolError unless ``value`` is in range."""
    if not least <= value <= most:
        raise LocalProtocolError(f"{name} is {value}; it must be in {least}..{most}")


class StreamReader(ABC, Generic[T]):
    """Splits a stream into units and returns them as events.

    A subclass implements ``_parse``, a generator that yields the number of bytes it needs next,
    gets exactly those, and appends to ``_events``.

    A unit that arrives whole is not copied. The pieces of others are collected and copied once
    more, so the cost is linear even if the stream arrives byte by byte.
    """

    def __init__(self) -> None:
        self._events: list[T] = []
        self._pending = bytearray()
        self._position = 0
        self._error: RemoteProtocolError | None = None
        self._parser = self._parse()
        self._wanted = next(self._parser)

    def feed(self, data: Buffer) -> list[T]:
        """Return the events that ``data`` completes, in order.

        They may contain views of ``data``: use them before it changes. Bytes kept for the next call
        are copied.

        Raise RemoteProtocolError if the peer broke the protocol; ``position`` counts from the start
        of the stream. Close the connection: every later call raises the error again.
        """
        if self._error is not None:
            raise self._error
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return []
            data = bytes(self._pending)
        self._events = []
        try:
            self._pending = bytearray(self._run(memoryview(data)))
        except RemoteProtocolError as error:
            self._error = error
            raise
        return self._events

    @abstractmethod
    def _parse(self) -> Generator[int, memoryview, None]: ...

    def _run(self, view: memoryview) -> memoryview:
        """Pass units to the parser as long as there are enough bytes; return the rest."""
        while len(view) >= self._wanted:
            unit, view = view[: self._wanted], view[self._wanted :]
            self._position += len(unit)
            self._wanted = self._parser.send(unit)
        return view

    def _check(self, name: str, value: int, *, back: int, most: int, least: int = 0) -> None:
        """Check a number of the peer that was ``back`` bytes before the current position."""
        if not least <= value <= most:
            raise self._refusal(f"{name} is {value}, not in {least}..{most}", back=back)

    def _refusal(self, what: str, *, back: int) -> RemoteProtocolError:
        position = self._position - back
        return RemoteProtocolError(f"{what} (byte {position} of the stream)", position=position)


class ReportReader(StreamReader[Report]):
    """Reads the stream of a replica, at the primary.

    >>> ReportReader().feed(report(4096) + report(8192) + b"half")
    [Report(offset=8192)]
    """

    def feed(self, data: Buffer) -> list[Report]:
        """Return the last complete report in ``data``, which supersedes those before it."""
        return super().feed(data)[-1:]

    def _parse(self) -> Generator[int, memoryview, None]:
        while True:
            (offset,) = REPORT.unpack((yield REPORT.size))
            self._check("a reported offset", offset, back=REPORT.size, most=OFFSET_MAX)
            self._events.append(Report(offset))


class ChunkReader(StreamReader[Chunk | Heartbeat]):
    """Reads the stream of a primary, at the replica.

    >>> reader = ChunkReader()
    >>> reader.feed(chunk_head(4096, 5) + b"he")
    []
    >>> [chunk] = reader.feed(b"llo")
    >>> chunk.offset, bytes(chunk.data)
    (4096, b'hello')
    """

    def _parse(self) -> Generator[int, memoryview, None]:
        while True:
            offset, size = CHUNK_HEAD.unpack((yield CHUNK_HEAD.size))
            self._check("the size of a chunk", size, back=4, most=CHUNK_BYTES_MAX)
            self._check("the offset of a chunk", offset, back=12, most=OFFSET_MAX - size)
            if size == 0:
                self._events.append(Heartbeat(offset))
                continue
            data = yield size
            self._events.append(Chunk(offset, data))
