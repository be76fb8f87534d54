"""Periodic work of a client, and how tasks are cancelled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

__all__ = ["cancel_all", "run_periodically"]

log = logging.getLogger("orbitmq.client")


async def run_periodically(
    interval_ms: int, work: Callable[[], Awaitable[object]], trouble: str
) -> None:
    """Do ``work`` after each interval, until cancelled.

    A bug in it is logged after the words of ``trouble``, and the work goes on: otherwise brokers
    would forget the client, and routes would become stale.
    """
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except Exception:
            log.exception("%s; trying again after the next interval", trouble)


async def cancel_all(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks, and wait until they have ended; their results and errors are dropped."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
