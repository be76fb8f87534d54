"""The numbers of a connection. Defaults are Java's wherever Java has the same idea."""

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.wire.fields import INT32_MAX
from orbitmq.wire.frame import FRAME_BYTES_MAX
from orbitmq.wire.session import IN_FLIGHT_MAX

__all__ = ["NetSettings"]


class NetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How connections behave; ``docs/settings.md`` lists the fields.

    >>> NetSettings(idle_close_ms=5_000).connect_timeout_ms
    3000

    Raises:
        InvalidInput: a number is not positive, or too large for its place on the wire.

    """

    connect_timeout_ms: int = 3_000
    """How long a dial may take, TLS handshake included."""
    request_timeout_ms: int = 3_000
    """How long an answer may take, where the caller names no time."""
    idle_close_ms: int = 120_000
    """A connection on which nothing was read or written for so long is closed."""
    handshake_timeout_ms: int = 10_000
    """How long a new peer may take to send its first byte and to finish a TLS handshake."""
    close_timeout_ms: int = 3_000
    """How long a close waits for answers being made and bytes being sent, before it cuts."""
    in_flight_max: int = IN_FLIGHT_MAX
    """Requests of ours that may wait for an answer on one connection."""
    serving_max: int = 65_536
    """Requests of one peer that may be in the making; above it the answer is SYSTEM_BUSY."""
    unsent_bytes_max: int = 64 * 1024 * 1024
    """Bytes that may wait for a peer that doesn't read; above it the connection is cut."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """The largest frame that is accepted."""
    connections_max: int = 10_000
    """Connections that a listener holds at once; one more is closed as it comes."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value <= INT32_MAX:
                raise InvalidInput(
                    f"{name} is {value}; it must be from 1 to {INT32_MAX}", field=name
                )
        if self.frame_bytes_max > FRAME_BYTES_MAX:
            raise InvalidInput(
                f"frame_bytes_max is {self.frame_bytes_max}; no peer sends over {FRAME_BYTES_MAX}",
                field="frame_bytes_max",
            )
