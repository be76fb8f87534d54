"""Settings of connections. Defaults are Java's where Java has the same setting."""

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
        InvalidInput: a number is not positive, or does not fit into 32 bits.
    """

    connect_timeout_ms: int = 3_000
    """How long a dial may take, TLS handshake included."""
    request_timeout_ms: int = 3_000
    """How long an answer may take, unless the caller passes a timeout."""
    idle_close_ms: int = 120_000
    """A connection on which nothing was read or written for this long is closed."""
    handshake_timeout_ms: int = 10_000
    """How long a new peer may take to send its first byte and to finish a TLS handshake."""
    close_timeout_ms: int = 3_000
    """How long a close waits for requests being served and unsent bytes, before it aborts."""
    in_flight_max: int = IN_FLIGHT_MAX
    """Requests that may be in flight on one connection."""
    serving_max: int = 65_536
    """Requests of one peer that may be served at a time; the next is answered SYSTEM_BUSY."""
    unsent_bytes_max: int = 64 * 1024 * 1024
    """Bytes that may be unsent because the peer doesn't read; with more the connection closes."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """The largest frame accepted."""
    connections_max: int = 10_000
    """Connections that a listener may have open; the next is closed immediately."""

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
