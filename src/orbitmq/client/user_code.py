"""Functions that users hand in, run so that they can't hold up the loop.

A coroutine function runs on the loop. A plain function may block, as one that asks a database does,
so it runs on a worker thread; should it return an awaitable after all, the loop awaits that.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from orbitmq.threads import Workers

__all__ = ["UserCode", "is_async"]

A = TypeVar("A")
T = TypeVar("T")


class UserCode:
    """Runs what users hand in; the caller bounds how much of it runs at once."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def call(self, function: Callable[[A], T | Awaitable[T]], argument: A) -> T:
        """Return what the function makes of the argument; raise what it raises.

        A call that is cancelled goes on if it is on a thread: a thread can't be stopped.
        """
        if is_async(function):
            return await cast("Awaitable[T]", function(argument))
        outcome = await asyncio.wrap_future(self._workers.submit(function, argument))
        return await outcome if inspect.isawaitable(outcome) else outcome


def is_async(function: object) -> bool:
    """Return whether what a function returns has to be awaited; so may an object's call."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
