"""Lines of standard input as they arrive, without a thread and without blocking the loop.

A pipe or a terminal is read when it is readable: the read then returns at once, and the descriptor,
which other programs may share, need not be made non-blocking. A file is always readable.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Final

from orbitmq.errors import InvalidInput

__all__ = ["lines"]

_CHUNK_BYTES: Final = 64 * 1024


async def lines(
    fd: int, *, count_max: int, line_bytes_max: int
) -> AsyncGenerator[list[bytes], None]:
    """Yield complete lines, at most ``count_max`` at a time, without their line ends.

    The last line may lack its end. If a line is longer than ``line_bytes_max``, raise InvalidInput
    after all lines before it have been yielded.
    """
    begun = b""
    count = 0
    while chunk := await _read(fd):
        *whole, begun = (begun + chunk).split(b"\n")
        for start in range(0, len(whole), count_max):
            yield [line.removesuffix(b"\r") for line in whole[start : start + count_max]]
        count += len(whole)
        if len(begun) > line_bytes_max:
            raise InvalidInput(
                f"line {count + 1} is longer than {line_bytes_max} bytes, the limit of a message",
                field="body",
                length=len(begun),
            )
    if begun:
        yield [begun.removesuffix(b"\r")]


async def _read(fd: int) -> bytes:
    """Wait for input, and return it; empty at the end."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:  # epoll refuses files
        await asyncio.sleep(0)
        return os.read(fd, _CHUNK_BYTES)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _CHUNK_BYTES)
