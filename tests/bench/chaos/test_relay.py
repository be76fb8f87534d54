"""A link that can be cut, slowed down and reset."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from bench.chaos.relay import Relay, Slow
from orbitmq.net.address import Address
from tests.interop.java_server import free_port

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def an_echo_behind_a_relay() -> AsyncIterator[tuple[Relay, Ends]]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        to = Address(*server.sockets[0].getsockname())
        async with Relay(Address("127.0.0.2", free_port()), to) as relay:
            reader, writer = await asyncio.open_connection(*relay.at)
            yield relay, (reader, writer)
            writer.close()


async def said(ends: Ends, data: bytes) -> bytes:
    ends[1].write(data)
    return await ends[0].readexactly(len(data))


def test_what_was_said_while_it_was_cut_arrives_when_it_is_mended() -> None:
    async def main() -> None:
        async with an_echo_behind_a_relay() as (relay, ends):
            assert await said(ends, b"before") == b"before"
            relay.cut()
            waiting = asyncio.create_task(said(ends, b"meanwhile"))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert not done
            relay.mend()
            assert await waiting == b"meanwhile"

    asyncio.run(main())


def test_a_slow_link_delays_both_ways() -> None:
    async def main() -> None:
        async with an_echo_behind_a_relay() as (relay, ends):
            relay.slow = Slow(delay_s=0.1, bytes_per_s=100)
            began = monotonic()
            assert await said(ends, b"x" * 10) == b"x" * 10
            assert monotonic() - began > 0.3  # twice the delay, and twice ten bytes: less can't be
            relay.mend()
            assert relay.slow is None

    asyncio.run(main())


def test_a_reset_ends_connections_and_new_ones_come_in() -> None:
    async def main() -> None:
        async with an_echo_behind_a_relay() as (relay, ends):
            assert await said(ends, b"before") == b"before"
            await relay.reset()
            assert await ends[0].read() == b""
            again = await asyncio.open_connection(*relay.at)
            assert await said(again, b"after") == b"after"
            again[1].close()

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_comes_in_while_it_closes_is_not_left_open(turns: int) -> None:
    """Python warns of a transport that is not closed, and pytest makes that an error."""

    async def main() -> None:
        relay = Relay(Address("127.0.0.2", free_port()), Address("127.0.0.1", free_port()))
        await relay.open()
        client.connect(relay.at)
        for _ in range(turns):
            await asyncio.sleep(0)
        await relay.close()

    with socket.socket() as client:
        asyncio.run(main())
        gc.collect()


def test_a_closed_relay_refuses_until_it_is_opened() -> None:
    async def main() -> None:
        async with an_echo_behind_a_relay() as (relay, _ends):
            await relay.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*relay.at)
            await relay.open()
            again = await asyncio.open_connection(*relay.at)
            assert await said(again, b"after") == b"after"
            again[1].close()

    asyncio.run(main())
