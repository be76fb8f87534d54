"""A peer that went silent: its process was stopped, or the way to it is cut, and no packet says so.

The kernel gives up such a connection after a quarter of an hour. Java's client closes it when a
request times out, whatever else is answered (``clientCloseSocketIfTimeout``).
"""

from collections.abc import Iterable
from math import inf
from typing import Any

from orbitmq.wire.session import Pending

__all__ = ["Silence"]


class Silence:
    """When a peer was heard last, and whether it has been silent for long. Pure.

    A peer is silent if requests to it time out, and nothing at all was received since the first of
    them was sent. One that answers other requests meanwhile is slow. ``least`` is how long a
    silence has to be, so that requests with short timeouts don't end the connection of a peer that
    hesitates; times have any unit.

    >>> silence = Silence(3.0)
    >>> silence.is_long([Pending(1, 105, sent=2.0, deadline=3.0, waiter=None)], now=3.0)
    False
    >>> silence.is_long([Pending(2, 105, sent=3.0, deadline=5.0, waiter=None)], now=5.0)
    True
    >>> silence.heard = 2.1  # an answer to somebody else
    >>> silence.is_long([], now=5.0)
    False
    """

    __slots__ = ("_least", "heard", "since")

    def __init__(self, least: float) -> None:
        self._least = 0.99 * least  # a difference of floats may lack a little
        self.since = inf
        """When the first request was sent that timed out with nothing heard since."""
        self.heard = -inf
        """When something was received; the owner sets it."""

    def __repr__(self) -> str:
        return f"<Silence since {self.since}, heard at {self.heard}>"

    def is_long(self, expired: Iterable[Pending[Any]], now: float) -> bool:
        """Note requests that timed out; return whether their peer has been silent for long."""
        self.since = min(
            [self.since if self.since > self.heard else inf]
            + [one.sent for one in expired if one.sent > self.heard]
        )
        return now - self.since >= self._least
