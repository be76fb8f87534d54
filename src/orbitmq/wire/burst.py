"""Requests that are written together: consecutive numbers, one deadline, one table for all.

::

    Session.begin ──▶ Burst ── answers of a read that say "stored" ──▶ settle, many at once
                        └── any other answer, a timeout, a close ────▶ waiter, one at a time

A burst keeps what it needs of each request under its position, without an object for each. Only a
request that needs care gets a waiter, and goes on like one that was sent alone.
"""

from abc import ABC, abstractmethod
from collections.abc import MutableMapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from orbitmq.message.buffer import Buffer
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Int32
from orbitmq.wire.frame import ANSWER_FLAG, LEAD_SIZE, unpack_lead
from orbitmq.wire.headers.send import SendMessageAnswer

__all__ = ["Burst", "settle_leading"]

T = TypeVar("T")
W_co = TypeVar("W_co", covariant=True)

_PLAIN_BYTES_MAX: Final = 4_096
"""The largest answer that is plain; most have 300 bytes. A binary header looks larger."""
_SUCCESS: Final = int(ResponseCode.SUCCESS)


class Burst(ABC, Generic[W_co]):
    """Requests of one code that are written together; their sender derives its own class.

    The session sets ``first``, the number of the first request, and the times.
    """

    __slots__ = ("code", "count", "deadline", "first", "left", "sent")

    def __init__(self, code: int, count: int) -> None:
        self.code = code
        self.count = count
        self.left = count
        """How many are in flight."""
        self.first = 0
        self.sent = self.deadline = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.left} of {self.count} in flight>"

    @abstractmethod
    def frames(self) -> Sequence[Buffer]:
        """Return the requests, encoded, with numbers from ``first`` on."""

    def settle(self, positions: Sequence[int], answers: Sequence[SendMessageAnswer]) -> None:
        """Settle the requests at some positions, with what their answers say."""

    @abstractmethod
    def waiter(self, position: int) -> W_co:
        """Return what waits for the request at a position from now on; called once at most."""


class _StoredAnswer(msgspec.Struct, gc=False, rename="camel"):
    """An answer that says where a message is stored; others can't be decoded as one."""

    # In the order of most peers, which is decoded fastest.
    code: Int32
    ext_fields: SendMessageAnswer
    flag: Int32
    opaque: Int32


_read: Final = msgspec.json.Decoder(_StoredAnswer, strict=False).decode  # fields are texts


def settle_leading(data: bytes | bytearray, at: int, waiting: MutableMapping[int, T]) -> int:
    """Settle the leading answers of a read that say "stored" to requests of bursts.

    ``waiting`` has the bursts by the numbers of their requests, among others. Return where the
    first frame begins that is anything else, or incomplete.
    """
    end = len(data)
    burst: Burst[object] | None = None
    positions: list[int] = []
    answers: list[SendMessageAnswer] = []
    while at + LEAD_SIZE <= end:
        total, size = unpack_lead(data, at)
        begin, stop = at + LEAD_SIZE, at + 4 + total
        if stop > end or total > _PLAIN_BYTES_MAX or size > total - 4:
            break
        try:
            answer = _read(data[begin : begin + size])
        except (ValueError, RecursionError):
            break  # ValueError is the base of msgspec's errors
        opaque = answer.opaque
        asked: object = waiting.get(opaque)
        if answer.code != _SUCCESS or not answer.flag & ANSWER_FLAG:
            break
        if asked is not burst or burst is None:
            if not isinstance(asked, Burst):
                break
            if burst is not None:
                burst.left -= len(answers)
                burst.settle(positions, answers)
            burst, positions, answers = asked, [], []
        del waiting[opaque]
        positions.append(opaque - burst.first)
        answers.append(answer.ext_fields)
        at = stop
    if burst is not None:
        burst.left -= len(answers)
        burst.settle(positions, answers)
    return at
