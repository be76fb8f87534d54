"""Real sockets on loopback, on the standard loop and on uvloop."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import GetMaxOffset
from orbitmq.wire.session import Response

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

LOOPBACK = Address("127.0.0.1", 0)
ASK = GetMaxOffset(topic="orders", queue_id=0)

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
on_both_loops = pytest.mark.parametrize("loop", LOOPS)


def run_on(loop: str, main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(main)


def echo(connection: Connection, request: Frame) -> Response:
    return Response(body=request.body)


async def closed_by_peer(raw: socket.socket) -> bytes:
    """Return all that a raw peer is sent until the other side closes."""
    loop = asyncio.get_running_loop()
    received = b""
    raw.setblocking(False)
    while True:
        try:
            data = await loop.sock_recv(raw, 65536)
        except ConnectionResetError:
            return received
        if not data:
            return received
        received += data


def dial_raw(address: Address) -> socket.socket:
    return socket.create_connection(address, timeout=5)
