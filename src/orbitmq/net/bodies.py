"""Decoding a JSON body without blocking the loop.

Standard JSON is decoded in C, on the loop. fastjson's dialect needs a scanner in Python, which
takes milliseconds for a large table and so runs on a worker thread.
"""

import asyncio
from typing import TypeVar

from orbitmq.threads import Workers
from orbitmq.wire.json.body import Body, NotStandardJson, is_large

__all__ = ["read_body"]

B = TypeVar("B", bound=Body)


async def read_body(kind: type[B], data: bytes | memoryview, workers: Workers) -> B:
    """Decode the JSON body of an answer or a request.

    ``workers`` decode large bodies in fastjson's dialect. Raise InvalidBody, which says where and
    why, if it can't be decoded.
    """
    try:
        return kind.from_json_strict(data)
    except NotStandardJson:
        if not is_large(data):
            return kind.from_json_tolerant(data)
        return await asyncio.wrap_future(workers.submit(kind.from_json_tolerant, data))
