"""A link between two processes that can be cut, slowed down and reset."""

import asyncio
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
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Relay {self.at} to {self._to}, {len(self._tasks)} connections>"

    async def open(self) -> None:
        """Listen, unless it does."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, *self.at)

    async def close(self) -> None:
        """Refuse connections, as the port of a dead process does, and reset the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(asyncio.CancelledError, OSError):
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
