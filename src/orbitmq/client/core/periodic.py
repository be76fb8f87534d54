"""Work that a client does again and again, and how it is given up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

__all__ = ["again_and_again", "give_up"]

log = logging.getLogger("orbitmq.client")


async def again_and_again(
    interval_ms: int, work: Callable[[], Awaitable[object]], trouble: str
) -> None:
    """Do ``work`` after each interval, until cancelled.

    A fault of ours in it is logged, led by ``trouble``, and does not end it: brokers would forget
    the client, and routes grow old.
    """
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except Exception:
            log.exception("%s; the next time may go better", trouble)


async def give_up(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks, and return when they have ended; how they end is nobody's business any more."""
    given_up = list(tasks)
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
