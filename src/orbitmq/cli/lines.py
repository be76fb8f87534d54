"""Lines of standard input as they come, without a thread and without holding the loop up.

Whatever can be waited for (a pipe, a terminal) is read when it has something; a read then returns
at once, so that its descriptor, which other programs may share, can stay as it is. A file can't be
waited for, and needs not.
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
    """Yield lines that are complete, some at once, without their ends; the last needs no end.

    Args:
        fd: where to read.
        count_max: the most that are yielded at once.
        line_bytes_max: the longest line.

    Raises:
        InvalidInput: a line is longer than ``line_bytes_max``; all before it have been yielded.

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
                f"line {count + 1} is longer than {line_bytes_max} bytes, which no message may be",
                field="body",
                length=len(begun),
            )
    if begun:
        yield [begun.removesuffix(b"\r")]


async def _read(fd: int) -> bytes:
    """Return what there is, as soon as there is something; nothing at the end."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:  # so the kernel says that it is a file
        await asyncio.sleep(0)
        return os.read(fd, _CHUNK_BYTES)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _CHUNK_BYTES)
