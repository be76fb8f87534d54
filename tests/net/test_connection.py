"""A connection under virtual time, over a network in memory."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from orbitmq.errors import (
    ConnectionClosed,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler, Side
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import NotifyConsumerIdsChanged
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Response, Session
from tests.client.scene import stand_still

T = TypeVar("T")
BROKER = Address("broker-a", 10911)
ASK = GetMaxOffset(topic="orders", queue_id=0)
NOTIFY = NotifyConsumerIdsChanged(consumer_group="g")


def virtual(test: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(test)

    run.__name__ = test.__name__
    return run


def echo(_connection: Connection, request: Frame) -> Response:
    return Response(header=GetMaxOffsetAnswer(offset=7), body=request.body)


def silent(_connection: Connection, _request: Frame) -> None:
    return None


@asynccontextmanager
async def joined(
    handler: Handler = echo,
    *,
    network: MemoryNetwork | None = None,
    settings: NetSettings | None = None,
    client_settings: NetSettings | None = None,
    client_handler: Handler | None = None,
) -> AsyncIterator[tuple[Connection, Listener]]:
    network = network or MemoryNetwork()
    async with Listener(BROKER, handler, network=network, settings=settings) as listener:
        dialer = Dialer(
            network=network, settings=client_settings or settings, handler=client_handler
        )
        async with dialer:
            yield await dialer.connection(BROKER), listener


@virtual
async def test_a_request_is_answered(clock: VirtualClock) -> None:
    async with joined() as (connection, _):
        answer = await connection.request(ASK, b"body")
        assert answer.read(GetMaxOffsetAnswer).offset == 7
        assert bytes(answer.body) == b"body"


@virtual
async def test_answers_may_come_in_any_order(clock: VirtualClock) -> None:
    held: list[tuple[Connection, Frame]] = []

    def hold(connection: Connection, request: Frame) -> None:
        held.append((connection, request))
        if len(held) == 3:
            for server_side, one in reversed(held):
                server_side.respond(one, Response(body=one.body))

    async with joined(hold) as (connection, _):
        answers = await asyncio.gather(
            *(connection.request(ASK, body) for body in (b"a", b"b", b"c"))
        )
        assert [bytes(answer.body) for answer in answers] == [b"a", b"b", b"c"]


@virtual
async def test_a_server_asks_its_client_on_the_same_connection(clock: VirtualClock) -> None:
    asked: list[int] = []

    def client_handler(_connection: Connection, request: Frame) -> Response:
        asked.append(request.code)
        return Response(body=b"from the client")

    async with joined(client_handler=client_handler) as (connection, listener):
        await connection.request(ASK)
        (server_side,) = listener.connections
        answer = await server_side.request(NOTIFY)
        assert bytes(answer.body) == b"from the client"
        server_side.oneway(NOTIFY)
        await connection.request(ASK)
        assert asked == [40, 40]


@virtual
async def test_without_a_handler_a_request_is_not_supported(clock: VirtualClock) -> None:
    async with joined() as (connection, listener):
        await connection.request(ASK)
        (server_side,) = listener.connections
        answer = await server_side.request(NOTIFY)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == " request type 40 not supported"


@virtual
async def test_an_hour_of_timeouts_passes_in_virtual_time(clock: VirtualClock) -> None:
    patient = NetSettings(idle_close_ms=10_000_000, request_timeout_ms=10_000_000)
    async with joined(silent, client_settings=patient) as (connection, _):
        for _ in range(1200):
            with pytest.raises(RequestTimeout, match="did not answer GET_MAX_OFFSET") as caught:
                await connection.request(ASK, timeout_ms=3000)
            assert caught.value.timeout_ms == 3000
    assert clock.monotonic_ms() == 3_600_000


@virtual
async def test_each_request_times_out_at_its_own_time(clock: VirtualClock) -> None:
    seen: list[tuple[int, int]] = []

    async def ask(connection: Connection, timeout_ms: int) -> None:
        with pytest.raises(RequestTimeout):
            await connection.request(ASK, timeout_ms=timeout_ms)
        seen.append((timeout_ms, clock.monotonic_ms()))

    async with joined(silent) as (connection, _):
        await asyncio.gather(*(ask(connection, wait) for wait in (3000, 1000, 2000, 1000)))
    assert seen == [(1000, 1000), (1000, 1000), (2000, 2000), (3000, 3000)]


@virtual
async def test_a_client_closes_the_connection_of_a_silent_peer(clock: VirtualClock) -> None:
    network = MemoryNetwork()
    async with joined(network=network) as (connection, _):
        await connection.request(ASK)
        await clock.sleep(10)
        network.carries = False  # a stopped process, or a cut cable
        other = asyncio.ensure_future(connection.request(ASK, timeout_ms=30_000))
        with pytest.raises(RequestTimeout):
            await connection.request(ASK)
        assert clock.monotonic_ms() == 13_000
        assert not connection.is_open
        with pytest.raises(ConnectionClosed, match=r"nothing was heard for 3\.0 s"):
            await other


@virtual
async def test_a_request_after_a_silence_has_another_connection(clock: VirtualClock) -> None:
    network = MemoryNetwork()
    async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
        before = await dialer.connection(BROKER)
        network.carries = False
        with pytest.raises(RequestTimeout):
            await dialer.request(BROKER, ASK)
        network.carries = True
        assert (await dialer.request(BROKER, ASK, b"again")).body == b"again"
        assert await dialer.connection(BROKER) is not before


@virtual
async def test_a_peer_that_answers_others_is_only_slow(clock: VirtualClock) -> None:
    def slow(_connection: Connection, request: Frame) -> Response | None:
        return None if request.body == b"slow" else Response()

    async with joined(slow) as (connection, _):
        request = asyncio.ensure_future(connection.request(ASK, b"slow"))
        await clock.sleep(1)
        await connection.request(ASK, b"quick")
        with pytest.raises(RequestTimeout):
            await request
        assert (await connection.request(ASK)).code == ResponseCode.SUCCESS


@virtual
async def test_short_timeouts_add_up_to_a_silence(clock: VirtualClock) -> None:
    async with joined(silent) as (connection, _):
        for _ in range(3):
            assert connection.is_open
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=1_000)
        assert not connection.is_open


@virtual
async def test_a_server_waits_for_a_silent_client_until_it_is_idle(clock: VirtualClock) -> None:
    async with joined(client_handler=silent) as (connection, listener):
        await connection.request(ASK)
        (server_side,) = listener.connections
        with pytest.raises(RequestTimeout):
            await server_side.request(NOTIFY, timeout_ms=10_000)
        assert server_side.is_open


@virtual
async def test_a_blocked_loop_is_no_silence(clock: VirtualClock) -> None:
    network = MemoryNetwork(delay_s=0.1)
    async with joined(network=network) as (connection, _):
        request = asyncio.ensure_future(connection.request(ASK))
        await clock.sleep(0.05)
        stand_still(10)  # the answer arrives, and is read after the timers
        with pytest.raises(RequestTimeout):
            await request
        assert connection.is_open
        await connection.request(ASK)


@virtual
async def test_a_late_answer_is_dropped_and_the_connection_goes_on(clock: VirtualClock) -> None:
    async with joined(network=MemoryNetwork(delay_s=0.2)) as (connection, _):
        with pytest.raises(RequestTimeout):
            await connection.request(ASK, timeout_ms=300)
        assert (await connection.request(ASK, b"next", timeout_ms=1000)).body == b"next"


@virtual
async def test_a_cancelled_request_gives_its_place_back(clock: VirtualClock) -> None:
    settings = NetSettings(in_flight_max=1)
    async with joined(silent, client_settings=settings) as (connection, _):
        task = asyncio.create_task(connection.request(ASK))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await connection.request(ASK)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RequestTimeout):
            await connection.request(ASK)


@virtual
async def test_what_is_written_in_one_turn_leaves_in_one_write(clock: VirtualClock) -> None:
    class Counting(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.writes: list[bytes] = []

        def write(self, data: Any) -> None:
            self.writes.append(data)

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            asyncio.get_running_loop().call_soon(connection.connection_lost, None)

    transport = Counting()
    connection = Connection(side=Side.CLIENT)
    connection.connection_made(transport)
    waiters = [connection.start_request(ASK, b"x", timeout_ms=1000) for _ in range(5)]
    connection.oneway(NOTIFY)
    assert transport.writes == []
    await asyncio.sleep(0)
    assert len(transport.writes) == 1
    await connection.close("the test ends")
    for waiter in waiters:
        with pytest.raises(ConnectionClosed, match="the test ends"):
            await waiter


@virtual
async def test_a_request_that_expires_before_it_is_written_is_not_sent(clock: VirtualClock) -> None:
    served: list[bytes] = []

    def note(_connection: Connection, request: Frame) -> Response:
        served.append(bytes(request.body))
        return Response()

    async with joined(note) as (connection, _):
        hasty = [connection.start_request(ASK, body, timeout_ms=500) for body in (b"a", b"b")]
        patient = connection.start_request(ASK, b"c", timeout_ms=3_000)
        connection.oneway(NOTIFY, b"d")
        stand_still(0.5)
        await patient
        for waiter in hasty:
            with pytest.raises(
                RequestTimeout, match="not sent within 500 ms.*event loop was blocked"
            ) as late:
                await waiter
            assert late.value.timeout_ms == 0
        assert served == [b"c", b"d"]
        assert repr(connection).endswith("0 in flight>")
        assert (await connection.request(ASK, b"e")).code == ResponseCode.SUCCESS


@virtual
async def test_a_timer_that_runs_before_the_flush_takes_back_what_has_expired(
    clock: VirtualClock,
) -> None:
    served: list[bytes] = []

    def note(_connection: Connection, request: Frame) -> None:
        served.append(bytes(request.body))

    async with joined(note) as (connection, _):
        left = connection.start_request(ASK, b"left", timeout_ms=500)
        await clock.sleep(0.4)
        kept = connection.start_request(ASK, b"kept", timeout_ms=100)
        stand_still(0.1)
        connection._expire()  # as uvloop does, which looks at timers first
        for waiter, timeout_ms in ((left, 500), (kept, 0)):
            with pytest.raises(RequestTimeout) as late:
                await waiter
            assert late.value.timeout_ms == timeout_ms
        await clock.sleep(1)
        assert served == [b"left"]


@virtual
async def test_an_answer_that_waits_to_be_read_is_read_although_more_is_to_be_sent(
    clock: VirtualClock,
) -> None:
    held: list[Frame] = []

    def hold(_connection: Connection, request: Frame) -> None:
        held.append(request)

    async with joined(hold) as (connection, _):
        answered = connection.start_request(ASK, timeout_ms=500)
        await clock.sleep(0.4)
        answer = b"".join(Session[None]().answer(held[0], Response(body=b"in time")))
        late = connection.start_request(ASK, timeout_ms=3_000)
        stand_still(0.1)
        # It is behind the flush of what was just written, and before the timers.
        asyncio.get_running_loop().call_soon(connection.data_received, answer)
        assert bytes((await answered).body) == b"in time"
        late.cancel()


@virtual
async def test_a_close_fails_what_is_pending_with_the_reason(clock: VirtualClock) -> None:
    async with joined(silent) as (connection, listener):
        waiters = [asyncio.create_task(connection.request(ASK)) for _ in range(3)]
        await clock.sleep(0.1)
        (server_side,) = listener.connections
        await server_side.close()
        for waiter in waiters:
            with pytest.raises(
                ConnectionClosed, match="the peer closed it; it may have been executed"
            ):
                await waiter
        assert not connection.is_open
        assert connection.close_reason == "the peer closed it"
        with pytest.raises(ConnectionClosed, match="the connection is closed: the peer closed it"):
            await connection.request(ASK)


@virtual
async def test_a_request_that_waits_for_its_turn_of_the_loop_never_leaves_a_closed_connection(
    clock: VirtualClock,
) -> None:
    heard: list[int] = []

    def hear(_connection: Connection, request: Frame) -> None:
        heard.append(request.opaque)

    async with joined(hear) as (connection, _):
        sent = connection.start_request(ASK, timeout_ms=3_000)
        await clock.sleep(0.1)
        unsent = connection.start_request(ASK, timeout_ms=3_000)
        connection.oneway(ASK)
        await connection.close("the test ends")
        await clock.sleep(0.1)
        for waiter, was_sent in ((sent, True), (unsent, False)):
            with pytest.raises(ConnectionClosed) as caught:
                await waiter
            assert caught.value.was_sent is was_sent
        assert len(heard) == 2  # the first, and the one that is not answered
        with pytest.raises(ConnectionClosed) as closed:
            connection.start_request(ASK, timeout_ms=3_000)
        assert not closed.value.was_sent


@virtual
async def test_a_broken_connection_says_so(clock: VirtualClock) -> None:
    network = MemoryNetwork()
    async with joined(silent, network=network) as (connection, _):
        waiter = asyncio.create_task(connection.request(ASK))
        await clock.sleep(0.1)
        network.cut()
        with pytest.raises(
            ConnectionClosed, match="the connection broke: the connection was reset"
        ):
            await waiter


@virtual
async def test_a_close_sends_what_was_written_before(clock: VirtualClock) -> None:
    seen: list[bytes] = []

    def note(_connection: Connection, request: Frame) -> None:
        seen.append(bytes(request.body))

    async with joined(note) as (connection, _):
        connection.oneway(NOTIFY, b"the last word")
        await connection.close()
        await clock.sleep(0.1)
    assert seen == [b"the last word"]


@virtual
async def test_close_listeners_are_called_once(clock: VirtualClock) -> None:
    told: list[Connection] = []
    async with joined() as (connection, _):
        connection.when_closed(told.append)
        await connection.close()
        await connection.close()
        connection.when_closed(told.append)  # already closed: told at once
    assert told == [connection, connection]


@virtual
async def test_a_peer_that_sends_us_away_may_still_answer_what_it_has(clock: VirtualClock) -> None:
    async def slow(_connection: Connection, request: Frame) -> Response:
        await asyncio.sleep(float(bytes(request.body)))
        return Response(ResponseCode.GO_AWAY if request.body == b"1" else ResponseCode.SUCCESS)

    async with joined(slow) as (connection, _):
        early, late, never = (
            asyncio.create_task(connection.request(ASK, body, timeout_ms=2_500))
            for body in (b"1", b"2", b"9")
        )
        assert (await early).code == ResponseCode.GO_AWAY
        assert not connection.is_open
        assert (await late).code == ResponseCode.SUCCESS
        assert connection.close_reason == ""
        with pytest.raises(RequestTimeout):
            await never
        assert connection.close_reason == "the peer is about to stop (GO_AWAY)"


@virtual
async def test_an_idle_connection_is_closed_after_two_minutes(clock: VirtualClock) -> None:
    async with joined() as (connection, listener):
        await clock.sleep(100)
        await connection.request(ASK)
        await clock.sleep(119)
        assert connection.is_open
        await clock.sleep(2)
        assert not connection.is_open
        assert "nothing was sent or received for 120 s" in connection.close_reason
        assert listener.connections == set()
    assert clock.monotonic_ms() == 221_000


@virtual
async def test_a_peer_that_vanished_is_noticed_by_timeout_then_idleness(
    clock: VirtualClock,
) -> None:
    network = MemoryNetwork()
    async with joined(network=network) as (connection, listener):
        network.carries = False
        with pytest.raises(RequestTimeout):
            await connection.request(ASK)
        await clock.sleep(125)
        assert not connection.is_open
        assert listener.connections == set()
        network.carries = True


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_failing_handler_is_an_answer_and_the_server_goes_on(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: Connection, request: Frame) -> Response:
        if request.body == b"boom":
            raise ZeroDivisionError("by zero")
        return Response()

    async def fail_later(connection: Connection, request: Frame) -> Response:
        return fail(connection, request)

    async def scenario(clock: VirtualClock) -> None:
        async with joined(fail if kind == "sync" else fail_later) as (connection, _):
            answer = await connection.request(ASK, b"boom")
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == "ZeroDivisionError: by zero"
            connection.oneway(ASK, b"boom")
            assert (await connection.request(ASK)).code == 0

    with caplog.at_level(logging.ERROR, "orbitmq.net"):
        run_virtual(scenario)
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 2
    assert "GET_MAX_OFFSET" in failures[0].getMessage()


@virtual
async def test_a_bad_header_is_an_answer_that_names_the_field(clock: VirtualClock) -> None:
    def read(_connection: Connection, request: Frame) -> Response:
        request.read(GetMaxOffset)
        return Response()

    async with joined(read) as (connection, _):
        answer = await connection.request(NOTIFY, code=30)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "GetMaxOffset: field topic: is missing"


@virtual
async def test_an_answer_that_cannot_be_written_is_an_error_answer(clock: VirtualClock) -> None:
    def too_much(_connection: Connection, _request: Frame) -> Response:
        return Response(body=bytes(17 * 1024 * 1024))

    async with joined(too_much) as (connection, _):
        answer = await connection.request(ASK)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "over the limit of 16777216" in str(answer.remark)


@virtual
async def test_more_requests_than_are_served_at_once_are_answered_busy(
    clock: VirtualClock,
) -> None:
    held: list[tuple[Connection, Frame]] = []

    def hold(connection: Connection, request: Frame) -> None:
        held.append((connection, request))

    async with joined(hold, settings=NetSettings(serving_max=2)) as (connection, _):
        first = [connection.start_request(ASK, timeout_ms=1000) for _ in range(2)]
        busy = await connection.request(ASK)
        assert busy.code == ResponseCode.SYSTEM_BUSY
        assert busy.remark == (
            "[OVERLOAD]system busy, start flow control for a while: 2 requests of this connection "
            "are being served, the limit is servingMax; try later"
        )
        for server_side, request in held:
            server_side.respond(request, Response())
        assert [(await waiter).code for waiter in first] == [0, 0]
        again = connection.start_request(ASK, timeout_ms=1000)
        await asyncio.sleep(0)
        await clock.sleep(0.1)
        held[-1][0].respond(held[-1][1], Response())
        assert (await again).code == 0


@virtual
async def test_garbage_closes_the_connection_with_the_reason(clock: VirtualClock) -> None:
    async with joined() as (connection, listener):
        await connection.request(ASK)
        connection._write((b"\xff" * 8,))
        await clock.sleep(0.1)
        assert not connection.is_open
        assert listener.connections == set()


@virtual
async def test_a_slow_reader_is_not_read_from_and_delays_no_other_peer(clock: VirtualClock) -> None:
    served: list[bytes] = []

    def big(_connection: Connection, request: Frame) -> Response:
        served.append(bytes(request.body))
        return Response(body=bytes(50_000))

    network = MemoryNetwork()
    async with joined(big, network=network) as (slow, _), Dialer(network=network) as others:
        assert slow._transport is not None
        slow._transport.pause_reading()
        answers = [slow.start_request(ASK, b"slow", timeout_ms=60_000) for _ in range(3)]
        await clock.sleep(0.1)
        late = [slow.start_request(ASK, b"late", timeout_ms=60_000) for _ in range(3)]
        await clock.sleep(0.1)
        assert served == [b"slow"] * 3  # the server stopped reading: nothing piles up
        assert (await others.request(BROKER, ASK, b"quick")).code == 0
        slow._transport.resume_reading()
        assert {(await answer).code for answer in (*answers, *late)} == {0}


@virtual
async def test_a_reader_that_never_reads_is_cut_at_the_bound(clock: VirtualClock) -> None:
    settings = NetSettings(unsent_bytes_max=1_000_000)

    def big(_connection: Connection, _request: Frame) -> Response:
        return Response(body=bytes(300_000))

    async with joined(big, settings=settings) as (slow, listener):
        assert slow._transport is not None
        slow._transport.pause_reading()
        waiters = [slow.start_request(ASK, timeout_ms=60_000) for _ in range(10)]
        await clock.sleep(0.1)
        assert listener.connections == set()
        for waiter in waiters:
            with pytest.raises(ConnectionClosed):
                await waiter


@virtual
async def test_a_client_waits_for_a_server_that_reads_slowly_within_its_timeout(
    clock: VirtualClock,
) -> None:
    async with joined() as (connection, listener):
        await connection.request(ASK)
        (server_side,) = listener.connections
        assert server_side._transport is not None
        server_side._transport.pause_reading()
        big = connection.start_request(ASK, bytes(100_000), timeout_ms=60_000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        before = clock.monotonic_ms()
        with pytest.raises(RequestTimeout, match="was not sent within 500 ms"):
            await connection.request(ASK, timeout_ms=500)
        assert clock.monotonic_ms() - before == 500
        waiting = asyncio.create_task(connection.request(ASK, b"after"))
        await clock.sleep(0.1)
        server_side._transport.resume_reading()
        assert bytes((await waiting).body) == b"after"
        assert len((await big).body) == 100_000


@virtual
async def test_a_client_may_not_pile_up_what_a_server_does_not_read(clock: VirtualClock) -> None:
    settings = NetSettings(unsent_bytes_max=200_000)
    async with joined(client_settings=settings) as (connection, listener):
        await connection.request(ASK)
        (server_side,) = listener.connections
        assert server_side._transport is not None
        server_side._transport.pause_reading()
        connection.oneway(NOTIFY, bytes(300_000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="broker-a:10911 does not read"):
            connection.oneway(NOTIFY)
        with pytest.raises(TooManyRequests):
            connection.start_request(ASK, timeout_ms=1)


@virtual
async def test_a_stopping_server_answers_what_it_is_serving(clock: VirtualClock) -> None:
    async def slowly(_connection: Connection, _request: Frame) -> Response:
        await clock.sleep(2)
        return Response(body=b"done")

    network = MemoryNetwork()
    listener = Listener(BROKER, slowly, network=network)
    await listener.start()
    async with Dialer(network=network) as dialer:
        waiter = asyncio.create_task(dialer.request(BROKER, ASK))
        await clock.sleep(1)
        await listener.close()
        assert bytes((await waiter).body) == b"done"


@virtual
async def test_a_stopping_server_does_not_wait_for_ever(clock: VirtualClock) -> None:
    network = MemoryNetwork()
    listener = Listener(BROKER, silent, network=network)
    await listener.start()
    async with Dialer(network=network) as dialer:
        waiter = asyncio.create_task(dialer.request(BROKER, ASK, timeout_ms=60_000))
        await clock.sleep(1)
        await listener.close()
        with pytest.raises(ConnectionClosed):
            await waiter
    assert clock.monotonic_ms() == 4_000


def test_unknown_fields_are_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with joined() as (connection, _):
            await connection.request(ASK, fields={"fromTheFuture": "42"})

    with caplog.at_level(logging.DEBUG, "orbitmq.net"):
        run_virtual(scenario)
    assert any('"fromTheFuture":"42"' in record.getMessage() for record in caplog.records)


@virtual
async def test_a_connection_introduces_itself(clock: VirtualClock) -> None:
    async with joined(silent) as (connection, _):
        waiter = connection.start_request(ASK, timeout_ms=1000)
        assert repr(connection) == "<Connection broker-a:10911 open, 1 in flight>"
        with pytest.raises(RequestTimeout):
            await waiter
