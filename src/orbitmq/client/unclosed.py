"""The ResourceWarning about a producer or consumer that was started and never closed."""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import finalize

from orbitmq.net.fork import process_token

__all__ = ["warn_unless_closed"]


@asynccontextmanager
async def warn_unless_closed(client: object, name: str) -> AsyncIterator[None]:
    """Warn if the client is collected, or its loop or the program ends, inside the block.

    An event loop closes open async generators, such as this one, when it shuts down, after its
    tasks have ended: a task that closes it while it is cancelled causes no warning.
    """
    unclosed = finalize(client, _warn, name, process_token())
    del client  # else this frame would keep it alive
    try:
        yield
    except GeneratorExit:
        unclosed()
        raise
    finally:
        unclosed.detach()


def _warn(name: str, process: object) -> None:
    if process is process_token():  # a forked child may drop what the parent still uses
        warnings.warn(
            f"{name} was not closed; call close(), or use 'async with'",
            ResourceWarning,
            stacklevel=1,
        )
