"""A loop whose time a test moves on, while sockets and other processes keep theirs."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop of the usual kind; what is due within a leap is done right after it.

    Args:
        pace: how fast time passes between leaps, beside the real one. At a slow pace a machine that
            is busy makes nothing look slow, and its timers take as much longer.

    """

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._leapt_s = 0.0
        super().__init__()

    def time(self) -> float:
        """Return the seconds that have passed, those of all leaps among them."""
        return super().time() * self._pace + self._leapt_s

    def leap(self, seconds: float) -> None:
        """Let so much time have passed."""
        self._leapt_s += seconds


def leap(seconds: float) -> None:
    """Let so much time have passed for all that runs on this loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop.leap(seconds)


def run_leaping(main: Coroutine[Any, Any, T], *, pace: float = 1.0) -> T:
    """Run a coroutine that may leap."""
    with asyncio.Runner(loop_factory=lambda: LeapingLoop(pace)) as runner:
        return runner.run(main)
