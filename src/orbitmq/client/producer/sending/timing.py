"""Where the time of one send went, and how long our own loop stood still meanwhile."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

__all__ = ["LoopStalls", "TimeSpent"]

_TICK_S: Final = 0.1
_STALL_S: Final = 0.02
"""A tick that is so late tells of a stall; less is the work of any busy loop."""
_STALLS_KEPT: Final = 64


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


class LoopStalls:
    """How late a loop ran a timer that should have run every 100 ms. One for each loop.

    A stall shows at the end of it: before any timeout of a send is noticed, since that is a later
    timer of the same loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop_time: Callable[[], float] = loop.time
        self._call_at = loop.call_at
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._stalls: deque[tuple[float, float]] = deque(maxlen=_STALLS_KEPT)

    def __repr__(self) -> str:
        return f"<LoopStalls {len(self._stalls)} noted, {self._users} users>"

    @classmethod
    def watch(cls) -> "LoopStalls":
        """Return the watch of the running loop; ``release`` it in the end."""
        loop = asyncio.get_running_loop()
        stalls = _by_loop.get(loop)
        if stalls is None:
            stalls = _by_loop[loop] = cls(loop)
        stalls._users += 1
        if stalls._timer is None:
            stalls._due = stalls._loop_time() + _TICK_S
            stalls._timer = stalls._call_at(stalls._due, stalls._tick)
        return stalls

    def release(self) -> None:
        """Give the watch back; the last one to do so stops it."""
        self._users -= 1
        if not self._users and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def longest_ms_since(self, moment: float) -> int:
        """Return the longest stall that ended after a moment of the loop's time; 0 if none did."""
        late = [stall for ended, stall in self._stalls if ended > moment]
        now_late = self._loop_time() - self._due if self._timer is not None else 0.0
        if now_late > _STALL_S:  # it has not been noted yet
            late.append(now_late)
        return round(1_000 * max(late, default=0.0))

    def _tick(self) -> None:
        now = self._loop_time()
        if now - self._due > _STALL_S:
            self._stalls.append((now, now - self._due))
        self._due = now + _TICK_S
        self._timer = self._call_at(self._due, self._tick)


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopStalls] = WeakKeyDictionary()
