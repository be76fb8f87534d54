"""The network of a broker under test: each connection passes the faults on its way in and out.

::

    client ──▶ frames ── no fault ───────────────────────────▶ broker
                 ├────── late ── after some seconds ─────────▶
                 ├────── answered, lost, cut off
                 └────── answer lost ────────────────────────▶ ── its answer is taken out ──▶ client
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from orbitmq.message.buffer import Buffer
from orbitmq.net.address import Address
from orbitmq.net.transport.network import OpenPort, TlsMode
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.testing.broker.faults import Answered, AnswerLost, CutOff, Faults, Late, Lost
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    FRAME_BYTES_MAX,
    Frame,
    FrameReader,
    Outgoing,
    encode_head,
)

__all__ = ["GuardedNetwork"]

_LENGTH_BYTES: Final = 4


class GuardedNetwork:
    """TCP whose listening ends stand under ``faults``."""

    def __init__(self, faults: Faults) -> None:
        self._tcp = TcpNetwork()
        self._faults = faults
        self._open: dict[GuardedConnection, None] = {}  # a set in the order of arrival

    def __repr__(self) -> str:
        return f"<GuardedNetwork {len(self._open)} connections>"

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Connect ``protocol`` to the server at ``address``."""
        await self._tcp.connect(protocol, address, tls=tls)

    async def listen(
        self,
        accept: Callable[[], asyncio.Protocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None,
        mode: TlsMode,
        handshake_timeout_ms: int,
    ) -> OpenPort:
        """Listen at ``address``, and connect each peer to a protocol made by ``accept``."""
        return await self._tcp.listen(
            lambda: GuardedConnection(accept(), self._faults, self._open),
            address,
            tls=tls,
            mode=mode,
            handshake_timeout_ms=handshake_timeout_ms,
        )

    def cut_all(self) -> None:
        """Reset all connections."""
        for connection in list(self._open):
            connection.cut()


class GuardedConnection(asyncio.Protocol):
    """One connection: the protocol of a transport, and the transport of the broker's protocol."""

    def __init__(
        self,
        broker: asyncio.Protocol,
        faults: Faults,
        open_ones: dict["GuardedConnection", None],
    ) -> None:
        self._broker = broker
        self._faults = faults
        self._open_ones = open_ones
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()  # the beginning of a frame
        self._is_raw = False  # what comes are no frames: it is the broker's to refuse
        self._lost: set[int] = set()  # requests whose answers get lost

    def __repr__(self) -> str:
        return f"<GuardedConnection of {self._broker!r}>"

    def cut(self) -> None:
        """Reset the connection."""
        if self._transport is not None:
            self._transport.abort()

    # For the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the broker have the connection, unless it is unreachable."""
        wire = cast(asyncio.Transport, transport)
        if self._faults.is_unreachable:
            wire.abort()
            return
        self._transport = wire
        self._open_ones[self] = None
        self._broker.connection_made(_GuardedTransport(wire, self._kept))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the broker."""
        if self._transport is not None:
            self._transport = None
            del self._open_ones[self]
            self._broker.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass whole frames on to the broker, but for those that a fault strikes."""
        if self._transport is None:
            return
        if self._is_raw:
            self._broker.data_received(data)
            return
        self._held += data
        end = self._whole()
        if not end:
            return
        whole = bytes(self._held[:end])
        del self._held[:end]
        if self._faults.all:
            self._pass_some(whole)
        else:
            self._broker.data_received(whole)

    def eof_received(self) -> bool | None:
        """Tell the broker."""
        return self._broker.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        """Tell the broker."""
        self._broker.pause_writing()

    def resume_writing(self) -> None:
        """Tell the broker."""
        self._broker.resume_writing()

    # Requests

    def _whole(self) -> int:
        """Return where the last whole frame ends; all of it if these are no frames."""
        end, held = 0, self._held
        while len(held) >= end + _LENGTH_BYTES:
            size = int.from_bytes(held[end : end + _LENGTH_BYTES], "big")
            if size > FRAME_BYTES_MAX:
                self._is_raw = True
                return len(held)
            if len(held) < end + _LENGTH_BYTES + size:
                break
            end += _LENGTH_BYTES + size
        return end

    def _pass_some(self, whole: bytes) -> None:
        if self._is_raw:
            self._broker.data_received(whole)
            return
        for raw, frame in _frames(whole):
            if self._transport is None:
                return
            match None if frame.is_answer else self._faults.strike(frame):
                case None:
                    self._broker.data_received(raw)
                case Answered(code, remark):
                    if not frame.is_oneway:
                        self._transport.write(_answer(frame, code, remark))
                case Late(seconds):
                    asyncio.get_running_loop().call_later(seconds, self._pass_late, raw)
                case AnswerLost():
                    self._lost.add(frame.opaque)
                    self._broker.data_received(raw)
                case CutOff():
                    self.cut()
                case Lost():
                    pass

    def _pass_late(self, raw: bytes) -> None:
        if self._transport is not None:
            self._broker.data_received(raw)

    # Answers

    def _kept(self, written: Iterable[Buffer]) -> Iterable[Buffer]:
        """Return what the broker writes without the answers that get lost."""
        if not self._lost:
            return written
        kept = []
        for raw, frame in _frames(b"".join(written)):
            if frame.is_answer and frame.opaque in self._lost:
                self._lost.remove(frame.opaque)
            else:
                kept.append(raw)
        return kept


class _GuardedTransport(asyncio.Transport):
    """The transport that the broker writes to."""

    def __init__(
        self, wire: asyncio.Transport, kept: Callable[[Iterable[Buffer]], Iterable[Buffer]]
    ) -> None:
        super().__init__()
        self._wire = wire
        self._kept = kept

    def write(self, data: Buffer) -> None:
        self._wire.writelines(self._kept((data,)))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self._wire.writelines(self._kept(list_of_data))

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return self._wire.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._wire.is_closing()

    def close(self) -> None:
        self._wire.close()

    def abort(self) -> None:
        self._wire.abort()

    def pause_reading(self) -> None:
        self._wire.pause_reading()

    def resume_reading(self) -> None:
        self._wire.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._wire.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._wire.get_write_buffer_size()


def _frames(whole: bytes) -> Iterator[tuple[bytes, Frame]]:
    """Yield each of whole frames as its bytes, and read."""
    at = 0
    while at < len(whole):
        end = at + _LENGTH_BYTES + int.from_bytes(whole[at : at + _LENGTH_BYTES], "big")
        raw = whole[at:end]
        (frame,) = FrameReader().feed(raw)
        yield raw, frame
        at = end


def _answer(request: Frame, code: int, remark: str) -> bytes:
    answer = Outgoing(
        code=code,
        opaque=request.opaque,
        flag=ANSWER_FLAG,
        version=request.version,
        language="PYTHON",
        remark=remark,
    )
    return encode_head(answer, body_size=0, encoding=request.encoding)
