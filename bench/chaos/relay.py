"""A link between two processes that can be cut, slowed down and reset."""

import asyncio
import socket
from contextlib import suppress
from typing import Final, NamedTuple, Self

from orbitmq.net.address import Address

__all__ = ["Relay", "Slow"]

_CHUNK_BYTES: Final = 64 * 1024


class Slow(NamedTuple):
    """How slow a link is."""

    delay_s: float
    """Of each read."""
    bytes_per_s: float


class Relay:
    """Forwards connections to a server; belongs to one loop.

    A cut link keeps its connections and passes no byte, as when a cable is pulled; what was written
    meanwhile arrives afterwards.
    """

    def __init__(self, at: Address, to: Address) -> None:
        self.at = at
        """Where connections come in."""
        self.slow: Slow | None = None
        """How slow it is; None: as fast as it can be."""
        self._to = to
        self._passes = asyncio.Event()
        self._passes.set()
        self._listening: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Relay {self.at} to {self._to}, {len(self._tasks)} connections>"

    async def open(self) -> None:
        """Listen, unless it does."""
        if self._listening is None:
            self._listening = socket.create_server(self.at)
            self._listening.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def close(self) -> None:
        """Refuse connections, as the port of a dead process does, and reset the open ones."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        await self.reset()

    def cut(self) -> None:
        """Pass no byte until ``mend``."""
        self._passes.clear()

    def mend(self) -> None:
        """Pass bytes again, and fast."""
        self.slow = None
        self._passes.set()

    async def reset(self) -> None:
        """Reset all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def _accept(self, listening: socket.socket) -> None:
        """Accept a connection. A server of asyncio that is closed meanwhile would leave it open."""
        with suppress(OSError):  # it has ended already
            connection, _ = listening.accept()
            task = asyncio.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _done: connection.close())

    async def _serve(self, connection: socket.socket) -> None:
        with suppress(asyncio.CancelledError, OSError):
            connection.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=connection)
            try:
                await self._passes.wait()
                far_reader, far_writer = await asyncio.open_connection(*self._to)
                try:
                    await self._both(reader, writer, far_reader, far_writer)
                finally:
                    far_writer.transport.abort()
            finally:
                writer.transport.abort()

    async def _both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Return when one side has ended: TCP's half-open connections are not used by RocketMQ."""
        ways = [
            asyncio.create_task(self._pass(reader, far_writer)),
            asyncio.create_task(self._pass(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if slow := self.slow:
                    await asyncio.sleep(slow.delay_s + len(data) / slow.bytes_per_s)
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
