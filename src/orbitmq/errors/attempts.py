"""What a failed send tried, and where its time went: carried by the errors of sends."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from orbitmq.errors.base import OrbitError
from orbitmq.errors.network import (
    ConnectFailed,
    ConnectionClosed,
    NetworkError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.errors.protocol import RemoteProtocolError

if TYPE_CHECKING:
    from orbitmq.message.model import MessageQueue, SendStatus

__all__ = ["Attempt", "TimeSpent"]


class TimeSpent(NamedTuple):
    """Milliseconds of one send, by what it waited for; the loop's stall is part of any of them.

    >>> print(TimeSpent(permit_ms=3, answer_ms=2_990))
    3 ms for a permit or its key's turn, 2990 ms for wire and broker
    """

    permit_ms: int = 0
    """Waiting for our own bound on sends in flight, or for earlier sends of its sharding key."""
    compression_ms: int = 0
    """Making a very large body smaller."""
    route_ms: int = 0
    """Asking nameservers."""
    connection_ms: int = 0
    """Dialling brokers."""
    pause_ms: int = 0
    """Pausing between attempts."""
    answer_ms: int = 0
    """On the wire, and in the broker."""
    loop_stall_ms: int = 0
    """The longest time that the loop ran nothing of ours: a callback or the garbage collector."""

    def __str__(self) -> str:
        named = (
            (self.permit_ms, "for a permit or its key's turn"),
            (self.compression_ms, "for compression"),
            (self.route_ms, "for the route"),
            (self.connection_ms, "for a connection"),
            (self.pause_ms, "between attempts"),
            (self.answer_ms, "for wire and broker"),
        )
        text = ", ".join(f"{ms} ms {what}" for ms, what in named if ms) or "no time at all"
        if self.loop_stall_ms:
            text += f"; our own loop stood still for {self.loop_stall_ms} ms at a time"
        return text


class Attempt(msgspec.Struct, frozen=True):
    """One try of a send, as an error lists it.

    Attributes:
        queue: where to; ``queue.broker_name`` is the broker.
        began_ms: when it left, in milliseconds since the call.
        took_ms: how long it took to fail.
        cause: what went wrong: the error, or a status other than SEND_OK.

    """

    queue: "MessageQueue"
    began_ms: int
    took_ms: int
    cause: "OrbitError | SendStatus"

    @property
    def may_have_left(self) -> bool:
        """Whether the request may have reached the broker."""
        match self.cause:
            case ConnectFailed() | TooManyRequests() | RequestTimeout(timeout_ms=0):
                return False
            case ConnectionClosed(was_sent=was_sent):
                return was_sent
            case _:
                return True

    @property
    def may_be_stored(self) -> bool:
        """Whether the broker may have stored the message, although the attempt failed."""
        match self.cause:
            case NetworkError() | RemoteProtocolError():
                return self.may_have_left
            case OrbitError():
                return False
            case _:  # a broker answered with a status: it has the message
                return True

    @property
    def what(self) -> str:
        """The cause, as a text."""
        cause = self.cause
        return f"{type(cause).__name__}: {cause}" if isinstance(cause, OrbitError) else cause.value

    def equals(self, other: "Attempt") -> bool:
        """Return whether another attempt failed on the same broker with the same text."""
        return self.queue.broker_name == other.queue.broker_name and self.what == other.what

    def __str__(self) -> str:
        where = f"{self.queue.broker_name} queue {self.queue.queue_id}"
        return f"{where} after {self.began_ms} ms, for {self.took_ms} ms: {self.what}"
