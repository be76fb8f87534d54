"""A second event loop, which runs no user code: for what must go on while the user's loop blocks.

::

    user's loop ── run, call ──▶ second loop     heartbeats, rebalance, locks, requests of brokers
                ◀── call_back ──

It has a thread of its own, shared by all consumers of a process, that ends after the last. What
crosses is a function; all state belongs to one of the loops.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final, Protocol, TypeVar

from orbitmq.client.core.loop_thread import lease
from orbitmq.errors import NotRunning
from orbitmq.net.fork import check_process, process_token
from orbitmq.threads import Future

__all__ = ["SameLoop", "SecondLoop", "ThreadLoop", "second_loop"]

log = logging.getLogger("orbitmq.client")

_NAME: Final = "orbitmq-membership"

T = TypeVar("T")


class SecondLoop(Protocol):
    """The second loop as one user of it sees it."""

    async def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a coroutine function on the second loop, and return its result or raise its error.

        Cancelling the caller cancels the work. NotRunning if the loop has ended.
        """
        ...

    def call(self, work: Callable[[], object]) -> None:
        """Call a function soon on the second loop; after the loop's end it is dropped."""
        ...

    def call_back(self, work: Callable[[], object]) -> None:
        """Call a function soon on the user's loop; dropped if that is closed."""
        ...

    @property
    def is_abandoned(self) -> bool:
        """Whether the user's loop was closed."""
        ...

    async def close(self) -> None:
        """End this use; the thread ends after the last. A repeat does nothing."""
        ...


class ThreadLoop:
    """The second loop on its own thread; made on the user's loop, which ``call_back`` calls."""

    def __init__(self) -> None:
        self._process = process_token()
        self._users_loop = asyncio.get_running_loop()
        self._thread = lease(self, self._leave, _NAME)

    def __repr__(self) -> str:
        return f"<ThreadLoop on {self._thread!r}>"

    async def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a coroutine function on the thread."""
        check_process(self._process, self)
        future: Future[T] = Future()
        self._thread.begin(future, work)
        return await asyncio.wrap_future(future)

    def call(self, work: Callable[[], object]) -> None:
        """Call a function soon on the thread."""
        check_process(self._process, self)
        try:
            self._thread.hand_over(partial(_guarded, work))
        except NotRunning:
            log.debug("%r is not called: the second loop has ended", work)

    def call_back(self, work: Callable[[], object]) -> None:
        """Call a function soon on the user's loop."""
        try:
            self._users_loop.call_soon_threadsafe(work)
        except RuntimeError:
            log.debug("%r is not called: the user's loop is closed", work)

    @property
    def is_abandoned(self) -> bool:
        """Whether the user's loop was closed."""
        return self._users_loop.is_closed()

    async def close(self) -> None:
        """End this use."""
        await self._leave()

    async def _leave(self) -> None:
        self._thread.leave(self, linger_ms=0)


class SameLoop:
    """No second loop: all work runs on the user's; for simulations in virtual time."""

    async def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a coroutine function."""
        return await work()

    def call(self, work: Callable[[], object]) -> None:
        """Call a function soon."""
        asyncio.get_running_loop().call_soon(work)

    def call_back(self, work: Callable[[], object]) -> None:
        """Call a function soon."""
        asyncio.get_running_loop().call_soon(work)

    @property
    def is_abandoned(self) -> bool:
        """Never: it would have ended as well."""
        return False

    async def close(self) -> None:
        """Do nothing."""


def second_loop() -> SecondLoop:
    """Return the second loop of this process, for a user on the running loop; ``close`` it."""
    return ThreadLoop()


def _guarded(work: Callable[[], object]) -> None:
    # An error in one function must not keep those after it from being called.
    try:
        work()
    except Exception:
        log.exception("%r failed on the second loop", work)
