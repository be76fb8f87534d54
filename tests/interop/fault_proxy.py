"""A proxy between a client and a broker that does to each send what a script says.

::

    client ──▶ frames ── a send, and the script has a fault for it ──▶ late, held, lost, cut off,
                 │                                                     answered
                 └────── anything else ──▶ broker ── frames, but for lost answers ──▶ client
"""

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import ANSWER_FLAG, Frame, FrameReader, Outgoing, encode_head

SENDS = {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
}


@dataclass(frozen=True)
class Late:
    """The send reaches the broker after some seconds."""

    seconds: float


@dataclass(frozen=True)
class Held:
    """The send waits at the proxy, until ``release`` lets it go on to the broker."""


@dataclass(frozen=True)
class Lost:
    """The send never reaches the broker; or it does, and its answer gets lost."""

    is_stored: bool = False


@dataclass(frozen=True)
class CutOff:
    """The connection is reset: at once, or when the broker has stored the send and answers."""

    is_stored: bool = False


@dataclass(frozen=True)
class Answered:
    """The proxy answers in the broker's place."""

    code: int
    remark: str = "by script"


Fault = Late | Held | Lost | CutOff | Answered


class FaultProxy:
    """Belongs to one loop; an async context manager, whose end closes all connections.

    Args:
        to: the broker.
        at: where to listen; by default on a free port.

    Attributes:
        at: where clients come in; known once it is entered.
        script: the faults of the next sends; none is left: they pass.
        always: the fault of each send beyond the script.
        seen: how many sends came.
        heard: how many requests came, by code.
        held: the sends that wait, each as what lets it go on.

    """

    def __init__(self, to: Address, at: Address | None = None) -> None:
        self._to = to
        self.at = at or Address("127.0.0.1", 0)
        self.script: deque[Fault | None] = deque()
        self.always: Fault | None = None
        self.seen = 0
        self.heard: Counter[int] = Counter()
        self.held: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        """Be gone: end all connections, and refuse new ones."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def come_back(self) -> None:
        """Listen where clients came in before."""
        self._server = await asyncio.start_server(self._serve, *self.at)
        self.at = Address(*self._server.sockets[0].getsockname())

    def release(self) -> None:
        """Let all that is held go on."""
        held, self.held = self.held, []
        for go_on in held:
            go_on()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(asyncio.CancelledError):  # the proxy leaves
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(*self._to)
        lost: dict[int, Fault] = {}  # what happens to answers, by the number of their request
        try:
            async with asyncio.TaskGroup() as both:
                answers = both.create_task(_pass_answers(from_broker, writer, lost))
                await self._pass_requests(reader, writer, to_broker, lost)
                answers.cancel()
        finally:
            for end in (writer, to_broker):
                end.close()

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_broker: asyncio.StreamWriter,
        lost: dict[int, Fault],
    ) -> None:
        async for raw, frame in _frames(reader):
            match fault := self._fault_of(frame):
                case Late(seconds):
                    asyncio.get_running_loop().call_later(seconds, to_broker.write, raw)
                case Held():
                    self.held.append(partial(to_broker.write, raw))
                case Lost(is_stored=True) | CutOff(is_stored=True):
                    lost[frame.opaque] = fault
                    to_broker.write(raw)
                case Lost():
                    pass
                case CutOff():
                    _reset(writer)
                    return
                case Answered(code, remark):
                    writer.write(_answer(frame, code, remark))
                case None:
                    to_broker.write(raw)

    def _fault_of(self, frame: Frame) -> Fault | None:
        self.heard[frame.code] += 1
        if frame.code not in SENDS:
            return None
        self.seen += 1
        return self.script.popleft() if self.script else self.always


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    # Linger for no time at all: the other side gets a reset, and no orderly end.
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _pass_answers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: dict[int, Fault]
) -> None:
    async for raw, frame in _frames(reader):
        match lost.get(frame.opaque) if frame.is_answer else None:
            case None:
                writer.write(raw)
            case CutOff():
                _reset(writer)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, Frame]]:
    """Yield each frame as it came, and read; end when the other side does."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            size = await reader.readexactly(4)
            raw = size + await reader.readexactly(int.from_bytes(size, "big"))
            (frame,) = FrameReader().feed(raw)
            yield raw, frame


def _answer(request: Frame, code: int, remark: str) -> bytes:
    answer = Outgoing(
        code=code,
        opaque=request.opaque,
        flag=ANSWER_FLAG,
        version=request.version,
        language="JAVA",
        remark=remark,
    )
    return bytes(encode_head(answer, body_size=0))
