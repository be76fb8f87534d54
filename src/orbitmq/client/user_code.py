"""Functions of users, run so that they can't block the loop.

A coroutine function runs on the loop. A plain function may block, such as on a database, so it runs
on a worker thread; if it returns an awaitable, the loop awaits that.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from orbitmq.threads import Workers

__all__ = ["UserCode", "is_async"]

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UserCode:
    """Runs functions of users; the caller limits how many run at once."""

    workers: Workers

    async def call(self, function: Callable[[A], T | Awaitable[T]], argument: A) -> T:
        """Return the result of the function, or raise its error.

        A cancelled call on a thread continues there: threads can't be stopped.
        """
        if is_async(function):
            return await cast("Awaitable[T]", function(argument))
        outcome = await asyncio.wrap_future(self.workers.submit(function, argument))
        return await outcome if inspect.isawaitable(outcome) else outcome


def is_async(function: object) -> bool:
    """Return whether a function, or an object's ``__call__``, is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
