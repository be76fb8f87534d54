"""How fast a replay sends: limits in messages and bytes per second, shared by its tasks.

>>> pace = Pace(Rate(messages=100))
>>> [pace.wait_ms(now, messages=50, size=0) for now in (0, 0, 900, 5_000)]
[0, 500, 100, 0]
"""

from math import ceil
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput

__all__ = ["Pace", "Rate"]

_PIECE_S: Final = 0.2
_PIECE_MESSAGES: Final = 4_096
_PIECE_BYTES: Final = 4 << 20


class Rate(msgspec.Struct, frozen=True):
    """Limits per second; None: none. Raise InvalidInput if one is not positive."""

    messages: float | None = None
    bytes: float | None = None

    def __post_init__(self) -> None:
        for name in ("messages", "bytes"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise InvalidInput(
                    f"the rate of {name} per second is {limit:g}; it must be more than 0",
                    field=name,
                )

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.messages is not None or self.bytes is not None

    def shared(self, tasks: int) -> "Rate":
        """Return the part of each of some tasks.

        >>> Rate(100, None).shared(4)
        Rate(messages=25.0, bytes=None)
        """
        return Rate(
            None if self.messages is None else self.messages / tasks,
            None if self.bytes is None else self.bytes / tasks,
        )

    @property
    def piece(self) -> tuple[int, int]:
        """The most messages and bytes to send at once: a fifth of a second's, at least one."""
        messages = _PIECE_MESSAGES if self.messages is None else self.messages * _PIECE_S
        size = _PIECE_BYTES if self.bytes is None else self.bytes * _PIECE_S
        return max(1, min(_PIECE_MESSAGES, int(messages))), max(1, min(_PIECE_BYTES, int(size)))


class Pace:
    """Says how long to wait before each piece.

    In any time, no more is sent than the rate allows for it and one piece. Time that was not used
    is lost: a slow broker is not followed by a burst.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._free_at_ms = 0.0

    def wait_ms(self, now_ms: int, *, messages: int, size: int) -> int:
        """Return how long to wait before sending a piece of some messages and bytes."""
        wait_ms = max(0, ceil(self._free_at_ms - now_ms))
        seconds = 0.0
        if self._rate.messages is not None:
            seconds = messages / self._rate.messages
        if self._rate.bytes is not None:
            seconds = max(seconds, size / self._rate.bytes)
        self._free_at_ms = now_ms + wait_ms + seconds * 1000
        return wait_ms
