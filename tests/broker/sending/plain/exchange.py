"""Bytes given to a broker's connection, and all that comes of them: answers and files."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from orbitmq.net.connection import Connection, Side
from orbitmq.net.handlers import Handlers
from orbitmq.net.settings import NetSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import ONEWAY_FLAG, FrameReader
from orbitmq.wire.session import Session
from tests.broker.send_world import SendWorld


class CapturingTransport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 50_000) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close


def frame(header: Header, body: bytes = b"", opaque: int = 0, **more: Any) -> bytes:
    """Return a request as bytes, with its number."""
    session = Session[None](more.pop("identity", None))
    session._next_opaque = opaque
    if more.pop("oneway", False):
        return session.oneway(header, body, **more) + body
    _, head = session.request(header, body, waiter=None, now=0, timeout=1, **more)
    return head + body


def connect(
    world: SendWorld, settings: NetSettings | None = None
) -> tuple[Connection, CapturingTransport]:
    """Return the broker's end of a connection from a producer."""
    handler = Handlers(world.handlers.table())
    connection = Connection(side=Side.SERVER, handler=handler, settings=settings)
    transport = CapturingTransport()
    connection.connection_made(transport)
    if world.takes_plain_sends:
        connection.take_leading = world.handlers.plain.of(connection)
    return connection, transport


def exchange(
    world: SendWorld, reads: Sequence[bytes], settings: NetSettings | None = None
) -> dict[int, list[bytes]]:
    """Give reads to one connection; return the answers to each request number, as bytes."""

    async def conversation(_clock: VirtualClock) -> bytes:
        connection, transport = connect(world, settings)
        for data in reads:
            connection.data_received(data)
            await asyncio.sleep(0)
        while world.inbox.waiting:
            world.store.tick()
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.abort("the test is over")
        return bytes(transport.written)

    written = run_virtual(conversation)
    answers: dict[int, list[bytes]] = {}
    reader, begin = FrameReader(), 0
    for answer in reader.feed(written):
        assert not answer.flag & ONEWAY_FLAG
        answers.setdefault(answer.opaque, []).append(written[begin : reader.position])
        begin = reader.position
    assert not reader.held
    return answers


def files(world: SendWorld) -> dict[str, bytes]:
    """Close the store; return the bytes of its log, queues and index, by path."""
    disk = world.disk
    world.store.close()
    found: dict[str, bytes] = {}
    folders = [f"{world.store.directory}/{name}" for name in ("commitlog", "consumequeue", "index")]
    while folders:
        path = folders.pop()
        if disk.is_directory(path):
            folders += [f"{path}/{name}" for name in disk.list(path)]
        elif disk.exists(path):
            file = disk.open(path)
            found[path] = file.read(disk.size(path), 0)
            file.close()
    return found
