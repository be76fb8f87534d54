"""The attempts of a failed send, and where its time went: carried by the errors of sends."""

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
    """Milliseconds of one send, by what it waited for; stalls of the loop are part of any of them.

    >>> print(TimeSpent(permit_ms=3, answer_ms=2_990))
    3 ms waiting to start, 2990 ms waiting for the broker
    """

    permit_ms: int = 0
    """Waiting for the limit on sends in flight, or for earlier sends of its sharding key."""
    compression_ms: int = 0
    """Compressing a very large body."""
    route_ms: int = 0
    """Looking up the route at nameservers."""
    connection_ms: int = 0
    """Connecting to brokers."""
    pause_ms: int = 0
    """Pausing between attempts."""
    answer_ms: int = 0
    """Waiting for answers of brokers."""
    loop_stall_ms: int = 0
    """The longest time that something else blocked the event loop, such as a callback."""

    def __str__(self) -> str:
        named = (
            (self.permit_ms, "waiting to start"),
            (self.compression_ms, "compressing"),
            (self.route_ms, "looking up the route"),
            (self.connection_ms, "connecting"),
            (self.pause_ms, "pausing between attempts"),
            (self.answer_ms, "waiting for the broker"),
        )
        text = ", ".join(f"{ms} ms {what}" for ms, what in named if ms) or "no time spent"
        if self.loop_stall_ms:
            text += f"; the event loop was blocked for up to {self.loop_stall_ms} ms"
        return text


class Attempt(msgspec.Struct, frozen=True):
    """One attempt of a send, as an error lists it.

    Attributes:
        queue: the queue; ``queue.broker_name`` is the broker.
        began_ms: when it began, in milliseconds since the call.
        took_ms: how long it took to fail.
        cause: the error, or a status other than SEND_OK.
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
