"""How long something else blocked the event loop while a send was pending."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

__all__ = ["LoopStalls"]

_TICK_S: Final = 0.1
_STALL_S: Final = 0.02
"""A tick this late means a stall; less is normal for a busy loop."""
_STALLS_KEPT: Final = 64


class LoopStalls:
    """How late a loop ran a timer that is due every 100 ms. Shared by the producers of a loop.

    A stall is noted when it ends, before any timeout of a send, which is a later timer of the same
    loop.
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
        known = _by_loop.get(loop)
        stalls = None if known is None else known()
        if stalls is None:
            stalls = cls(loop)
            _by_loop[loop] = ref(stalls)
        stalls._users += 1
        if stalls._timer is None:
            stalls._due = stalls._loop_time() + _TICK_S
            stalls._timer = stalls._call_at(stalls._due, stalls._tick)
        return stalls

    def release(self) -> None:
        """Release the watch; the last release stops it."""
        self._users -= 1
        if not self._users and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def longest_ms_since(self, moment: float) -> int:
        """Return the longest stall that ended after a time of the loop's clock; 0 if none did."""
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


# Weak on both sides: a watch refers to its loop, and would keep it in memory.
_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ReferenceType[LoopStalls]]
_by_loop = WeakKeyDictionary()
