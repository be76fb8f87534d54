"""Where the time of one send went, and how long our own loop stood still meanwhile."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["LoopStalls"]

_TICK_S: Final = 0.1
_STALL_S: Final = 0.02
"""A tick that is so late tells of a stall; less is the work of any busy loop."""
_STALLS_KEPT: Final = 64


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
