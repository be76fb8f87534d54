"""Loops over many queues that let other requests be served meanwhile."""

import asyncio
from typing import Final

__all__ = ["LongWalk"]

_STEPS_AT_ONCE: Final = 64
"""Each may read a record from disk, some ten microseconds: other requests wait a millisecond."""


class LongWalk:
    """Await ``step`` for each queue; now and then it yields to the event loop.

    State that was read before a step may have changed after it.

    >>> async def main() -> list[str]:
    ...     walk, seen = LongWalk(), []
    ...     asyncio.get_running_loop().call_soon(seen.append, "another request")
    ...     for _ in range(64):
    ...         await walk.step()
    ...     return seen
    >>> asyncio.run(main())
    ['another request']
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    async def step(self) -> None:
        """Count a step; yield to the event loop after every 64."""
        self._steps += 1
        if self._steps % _STEPS_AT_ONCE == 0:
            await asyncio.sleep(0)
