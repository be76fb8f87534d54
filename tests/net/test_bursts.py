"""Requests that a connection sends together, under virtual time."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from orbitmq.errors import ConnectionClosed, RequestTimeout
from orbitmq.net.connection import Connection, Side
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.auth import Credentials
from orbitmq.wire.burst import Burst
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Buffer, Frame, pack_lead
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.session import Identity, Response
from tests.client.scene import stand_still
from tests.net.test_connection import ASK, joined, silent, virtual

STORED = SendMessageAnswer(msg_id="OID", queue_id=3, queue_offset=12)


class Sends(Burst[asyncio.Future[Frame]]):
    """Sends with their position as body."""

    __slots__ = ("_connection", "settled", "waiters")

    def __init__(self, connection: Connection, count: int) -> None:
        super().__init__(310, count)
        self._connection = connection
        self.settled: list[int] = []
        self.waiters: dict[int, asyncio.Future[Frame]] = {}

    def frames(self) -> Sequence[Buffer]:
        assert self._connection.form is not None
        form = self._connection.form.of(310, b"{}")
        headers = [form % (self.first + position) for position in range(self.count)]
        return [
            pack_lead(5 + len(header), len(header)) + header + b"%d" % position
            for position, header in enumerate(headers)
        ]

    def settle(self, positions: Sequence[int], answers: Sequence[SendMessageAnswer]) -> None:
        self.settled += positions

    def waiter(self, position: int) -> asyncio.Future[Frame]:
        self.waiters[position] = waiter = asyncio.get_running_loop().create_future()
        return waiter


def store(_connection: Connection, _request: Frame) -> Response:
    return Response(header=STORED)


def started(connection: Connection, count: int = 3, timeout: float = 3.0) -> Sends:
    burst = Sends(connection, count)
    connection.start_burst(burst, now=asyncio.get_running_loop().time(), timeout=timeout)
    return burst


@virtual
async def test_a_burst_is_one_write_at_once(clock: VirtualClock) -> None:
    network = MemoryNetwork()
    writes: list[int] = []
    network.watch = lambda _from, _to, data: writes.append(len(data))
    async with joined(store, network=network) as (connection, _):
        burst = started(connection)
        assert writes == [sum(map(len, burst.frames()))]
        assert connection.in_flight == 3
        await connection.request(ASK)
        assert burst.settled == [0, 1, 2]
        assert connection.in_flight == 0


@virtual
async def test_other_answers_and_silence_go_to_waiters(clock: VirtualClock) -> None:
    def serve(_connection: Connection, request: Frame) -> Response | None:
        if request.body == b"1":
            return Response(ResponseCode.SYSTEM_BUSY, remark="busy")
        return None if request.body == b"2" else Response(header=STORED)

    async with joined(serve) as (connection, _):
        burst = started(connection)
        await clock.sleep(3)
        assert burst.settled == [0]
        assert burst.waiters[1].result().remark == "busy"
        with pytest.raises(RequestTimeout, match=r"did not answer SEND_MESSAGE_V2 \(request 2\)"):
            await burst.waiters[2]


@virtual
async def test_a_burst_that_expired_before_it_was_written_is_not_sent(clock: VirtualClock) -> None:
    served: list[bytes] = []

    def note(_connection: Connection, request: Frame) -> Response:
        served.append(bytes(request.body))
        return Response(header=STORED)

    async with joined(note) as (connection, _):
        burst, began = Sends(connection, 2), asyncio.get_running_loop().time()
        stand_still(4)
        connection.start_burst(burst, now=began, timeout=3)
        for waiter in burst.waiters.values():
            with pytest.raises(RequestTimeout, match="was not sent within 3000 ms"):
                await waiter
        await clock.sleep(1)
        assert (served, burst.settled, len(burst.waiters)) == ([], [], 2)


@virtual
async def test_a_close_ends_each_request_of_a_burst(clock: VirtualClock) -> None:
    async with joined(silent) as (connection, listener):
        burst = started(connection)
        await clock.sleep(0.1)
        for one in listener.connections:
            one.abort("by the test")
        await clock.sleep(0.1)
        for waiter in burst.waiters.values():
            with pytest.raises(ConnectionClosed, match="has no answer"):
                await waiter
        assert len(burst.waiters) == 3
        with pytest.raises(ConnectionClosed):
            started(connection)


@virtual
async def test_a_connection_that_leaves_closes_after_its_bursts(clock: VirtualClock) -> None:
    async def serve(_connection: Connection, request: Frame) -> Response:
        if request.body == b"0":
            return Response(ResponseCode.GO_AWAY)
        await asyncio.sleep(1)
        return Response(header=STORED)

    async with joined(serve) as (connection, _):
        burst = started(connection)
        await clock.sleep(0.5)
        assert burst.waiters[0].result().code == ResponseCode.GO_AWAY
        assert not connection.is_open
        await clock.sleep(1)
        assert sorted(burst.settled) == [1, 2]
        assert connection.close_reason == "the peer is about to stop (GO_AWAY)"


def test_a_debug_log_has_every_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with joined(store) as (connection, _):
            burst = started(connection)
            await clock.sleep(0.1)
            assert not burst.settled
            answers = [burst.waiters[position].result() for position in range(3)]
            assert [one.read(SendMessageAnswer) for one in answers] == [STORED] * 3

    with caplog.at_level(logging.DEBUG, "orbitmq.net"):
        run_virtual(scenario)
    assert sum("answer SUCCESS" in record.getMessage() for record in caplog.records) == 3


@virtual
async def test_signed_requests_have_no_form(clock: VirtualClock) -> None:
    for credentials in (None, Credentials("alice", "open sesame")):
        connection = Connection(side=Side.CLIENT, identity=Identity(credentials=credentials))
        assert (connection.form is None) == (credentials is not None)
