"""The event loop of our servers and commands: uvloop if it is installed, else the standard one.

uvloop halves the cost of the loop; it doesn't exist on Windows and PyPy.
"""

import asyncio

__all__ = ["new_event_loop"]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop, for ``asyncio.Runner(loop_factory=new_event_loop)``.

    >>> async def main() -> str:
    ...     return "done"
    >>> with asyncio.Runner(loop_factory=new_event_loop) as runner:
    ...     runner.run(main())
    'done'
    """
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
