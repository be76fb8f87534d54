"""Walks over many queues that let others be served on the way."""

import asyncio
from typing import Final

__all__ = ["LongWalk"]

_STEPS_AT_ONCE: Final = 64
"""Each may read a record from the disk. At some ten microseconds others wait about a
millisecond."""


class LongWalk:
    """Await ``step`` for each queue: the loop gets its turn now and then.

    What was looked up before a step may have changed after it.

    >>> async def main() -> list[str]:
    ...     walk, seen = LongWalk(), []
    ...     asyncio.get_running_loop().call_soon(seen.append, "somebody else")
    ...     for _ in range(64):
    ...         await walk.step()
    ...     return seen
    >>> asyncio.run(main())
    ['somebody else']
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    async def step(self) -> None:
        """Count a step; let others be served if it is time."""
        self._steps += 1
        if self._steps % _STEPS_AT_ONCE == 0:
            await asyncio.sleep(0)
