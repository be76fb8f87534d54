"""The half messages of one task attempt, as lines of JSON in a file of the ledger.

::

    {"version": 1, "group": "orders-etl", "began_ms": 1763500000000, "timeout_ms": 3600000}
    ["orders", "broker-a", 4711, 1048576, "7F0000010FA5…"]      one line per half message
    {"halves": 1}                                               the last line: the file is complete

A line has the topic, the broker, the offset in the half queue, the offset in the log, and the
unique id, which is what END_TRANSACTION asks for. ``began_ms`` is before the first half.
"""

from collections.abc import Iterable, Iterator
from typing import IO, Final, NamedTuple

import msgspec

from orbitmq.errors import LedgerDamaged
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import SendReceipt

__all__ = ["Half", "HalfListHead", "HalfListWriter", "read_halves", "read_head"]

_VERSION: Final = 1
HEAD_BYTES_MAX: Final = 4_096
"""A head is shorter: a group has at most 255 characters."""


class Half(NamedTuple):
    """One half message, as a broker can find it."""

    topic: str
    broker: str
    queue_offset: int
    log_offset: int
    message_id: str


class HalfListHead(msgspec.Struct, frozen=True):
    """The first line."""

    group: str
    """The producer group, without a namespace."""
    began_ms: int
    timeout_ms: int
    version: int = _VERSION

    @property
    def expires_ms(self) -> int:
        """When brokers begin to ask about the halves, and a commit is too late."""
        return self.began_ms + self.timeout_ms


class _Tail(msgspec.Struct, frozen=True):
    halves: int


_encode: Final = msgspec.json.Encoder().encode
_head_of: Final = msgspec.json.Decoder(HalfListHead).decode
_half_of: Final = msgspec.json.Decoder(Half).decode
_tail_of: Final = msgspec.json.Decoder(_Tail).decode


class HalfListWriter:
    """Writes a list to an open file; call ``end`` after the last half."""

    def __init__(self, target: IO[bytes], head: HalfListHead) -> None:
        self._target = target
        self._count = 0
        self._put([head])
        target.flush()  # where files can be seen before they are complete, so can this

    def add(self, receipts: Iterable[SendReceipt]) -> None:
        """Add the halves of some receipts."""
        halves = [
            Half(
                receipt.queue.topic,
                receipt.queue.broker_name,
                receipt.queue_offset,
                parse_offset_id(receipt.offset_message_id)[1],
                receipt.message_id,
            )
            for receipt in receipts
        ]
        self._put(halves)
        self._count += len(halves)

    def end(self) -> None:
        """Mark the list as complete."""
        self._put([_Tail(self._count)])

    def _put(self, lines: Iterable[object]) -> None:
        self._target.write(b"".join(_encode(line) + b"\n" for line in lines))


def read_head(data: bytes, name: str) -> HalfListHead:
    """Return the head of a file by its first bytes; raise LedgerDamaged if there is none."""
    line, end, _ = data.partition(b"\n")
    try:
        head = _head_of(line) if end else None
    except msgspec.DecodeError:
        head = None
    if head is None or head.version != _VERSION:
        raise LedgerDamaged(
            f"{name} of the ledger doesn't begin as a list of half messages of version {_VERSION}: "
            f"{line[:80]!r}",
            path=name,
        )
    return head


def read_halves(lines: Iterable[bytes], name: str, *, partly: bool = False) -> Iterator[Half]:
    """Yield the halves of a file, given its lines; ``partly``: of one that may be incomplete.

    Raise LedgerDamaged if a line can't be read, or the last line is missing and ``partly`` is not
    set.
    """
    count = 0
    for number, line in enumerate(lines):
        if number == 0:
            read_head(line + b"\n", name)
            continue
        try:
            if line.startswith(b"["):
                yield _half_of(line)
                count += 1
                continue
            if _tail_of(line).halves == count:
                return
        except msgspec.DecodeError as error:
            raise LedgerDamaged(
                f"line {number + 1} of {name} in the ledger can't be read: {error}", path=name
            ) from error
        break
    if not partly:
        raise LedgerDamaged(
            f"{name} of the ledger is incomplete: it has {count} half messages, and no right last "
            "line; restore it, since some of what was committed can't be delivered without it",
            path=name,
        )
