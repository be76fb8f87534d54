"""Frames on their way to and from a broker under test."""

import asyncio
from collections.abc import Callable

import pytest

from orbitmq.message.buffer import Buffer
from orbitmq.net.address import Address
from orbitmq.net.transport.network import TlsMode
from orbitmq.testing.broker.faults import (
    Answered,
    AnswerLost,
    Effect,
    Fault,
    Faults,
    Late,
    Lost,
    Unreachable,
    codes_of,
)
from orbitmq.testing.broker.network import GuardedConnection, GuardedNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import ANSWER_FLAG, FrameReader, HeaderEncoding, Outgoing, encode_head
from orbitmq.wire.headers.offset import GetMaxOffset
from orbitmq.wire.session import Identity, Session


class Broker(asyncio.Protocol):
    """What the broker's side of a connection gets."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.is_lost = False
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.wire = transport

    def data_received(self, data: bytes) -> None:
        self.got.append(data)

    def eof_received(self) -> None:
        self.has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Wire(asyncio.Transport):
    """What goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.out: list[bytes] = []
        self.is_aborted = False

    def write(self, data: Buffer) -> None:
        self.out.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True


def under(*effects: Effect) -> tuple[GuardedConnection, Broker, Wire, Faults]:
    faults = Faults()
    faults.all += [Fault(one, codes_of("any"), times=1, on_end=faults.remove) for one in effects]
    broker, wire = Broker(), Wire()
    connection = GuardedConnection(broker, faults, {})
    connection.connection_made(wire)
    return connection, broker, wire, faults


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come true")


def frames(count: int, encoding: HeaderEncoding = HeaderEncoding.JSON) -> list[bytes]:
    session: Session[None] = Session(Identity(encoding=encoding))
    asked = GetMaxOffset(topic="orders", queue_id=0)
    return [
        bytes(session.request(asked, b"body", waiter=None, now=0, timeout=3)[1]) + b"body"
        for _ in range(count)
    ]


def answer_to(raw: bytes) -> bytes:
    (frame,) = FrameReader().feed(raw)
    out = Outgoing(
        code=0, opaque=frame.opaque, flag=ANSWER_FLAG, version=frame.version, language="PYTHON"
    )
    return encode_head(out, body_size=0)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("effects", [(), (Lost(),)])
def test_whole_frames_arrive_however_they_were_cut(effects: tuple[Effect, ...], size: int) -> None:
    connection, broker, _, _ = under(*effects)
    sent = frames(3)
    together = b"".join(sent)
    for at in range(0, len(together), size):
        connection.data_received(together[at : at + size])
    assert b"".join(broker.got) == b"".join(sent[len(effects) :])
    for got in broker.got:
        assert [*FrameReader().feed(got)]  # nothing but whole frames


@pytest.mark.parametrize("effects", [(), (Lost(),)])
def test_what_are_no_frames_is_the_brokers_to_refuse(effects: tuple[Effect, ...]) -> None:
    connection, broker, _, _ = under(*effects)
    connection.data_received(b"GET / HT")
    connection.data_received(b"TP/1.1\r\n")
    assert b"".join(broker.got) == b"GET / HTTP/1.1\r\n"


@pytest.mark.parametrize("encoding", list(HeaderEncoding))
def test_a_lost_answer_is_taken_out_of_those_around_it(encoding: HeaderEncoding) -> None:
    connection, broker, wire, faults = under(AnswerLost())
    sent = frames(3, encoding)
    connection.data_received(b"".join(sent))
    assert b"".join(broker.got) == b"".join(sent)
    assert faults.all == []
    answers = [answer_to(one) for one in sent]
    broker.wire.writelines([answers[1], answers[0], answers[2]])
    assert b"".join(wire.out) == answers[1] + answers[2]
    broker.wire.write(answers[0])  # a number may come again
    assert wire.out[-1] == answers[0]


def test_a_late_request_of_a_closed_connection_never_arrives() -> None:
    async def main() -> None:
        connection, broker, _, _ = under(Late(0.0), Late(0.0))
        connection.data_received(frames(1)[0])
        assert broker.got == []
        await asyncio.sleep(0.01)
        assert len(broker.got) == 1
        connection.data_received(frames(1)[0])
        connection.connection_lost(None)
        await asyncio.sleep(0.01)
        assert len(broker.got) == 1
        assert broker.is_lost

    asyncio.run(main())


def test_an_end_is_passed_on() -> None:
    connection, broker, _, _ = under()
    connection.eof_received()
    assert broker.has_ended


def test_all_connections_can_be_cut_at_once() -> None:
    """Over TCP: the client gets a reset, or an end, and the broker is told."""

    async def main() -> None:
        brokers: list[Broker] = []

        def accept() -> Broker:
            brokers.append(Broker())
            return brokers[-1]

        network = GuardedNetwork(Faults())
        port = await network.listen(
            accept,
            Address("127.0.0.1", 0),
            tls=None,
            mode=TlsMode.DISABLED,
            handshake_timeout_ms=1_000,
        )
        client = Broker()
        await network.connect(client, port.address, tls=None)
        client.wire.write(frames(1)[0])
        await until(lambda: bool(brokers and brokers[0].got))
        network.cut_all()
        await until(lambda: client.is_lost and brokers[0].is_lost)
        await port.close()

    asyncio.run(main())


def test_answers_keep_the_encoding_of_the_request() -> None:
    connection, broker, wire, _ = under(Answered(ResponseCode.SYSTEM_BUSY, "busy"))
    (raw,) = frames(1, HeaderEncoding.ROCKETMQ)
    connection.data_received(raw)
    assert broker.got == []
    (answer,) = FrameReader().feed(wire.out[0])
    (request,) = FrameReader().feed(raw)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "busy")
    assert (answer.opaque, answer.is_answer) == (request.opaque, True)
    assert answer.encoding is HeaderEncoding.ROCKETMQ


def test_a_refused_connection_never_reaches_the_broker() -> None:
    connection, broker, wire, _ = under(Unreachable())
    assert wire.is_aborted
    connection.data_received(frames(1)[0])
    connection.connection_lost(ConnectionResetError())
    connection.cut()
    assert broker.got == []
    assert not broker.is_lost
