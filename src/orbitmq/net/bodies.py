"""Reading a JSON body without holding up the loop.

Standard JSON is read at C speed, where it stands. What fastjson wrote in its own dialect takes a
scanner in Python, which for a large table costs milliseconds: that is a worker's job.
"""

import asyncio
from typing import TypeVar

from orbitmq.threads import Workers
from orbitmq.wire.json.body import Body, NotStandardJson, is_large

__all__ = ["read_body"]

B = TypeVar("B", bound=Body)


async def read_body(kind: type[B], data: bytes | memoryview, workers: Workers) -> B:
    """Return the body of an answer or a request as the given type.

    Args:
        kind: what the body should be.
        data: its bytes, as a frame holds them.
        workers: where a large body in fastjson's dialect is read.

    Raises:
        InvalidBody: it is not what it should be; the message tells where and why.

    """
    try:
        return kind.from_json_strict(data)
    except NotStandardJson:
        if not is_large(data):
            return kind.from_json_tolerant(data)
        return await asyncio.wrap_future(workers.submit(kind.from_json_tolerant, data))
