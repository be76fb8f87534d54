"""Closes, cancellations and floods at the worst moment."""

import array
import asyncio
import contextlib

import pytest

from orbitmq.errors import (
    ConnectFailed,
    ConnectionClosed,
    InvalidInput,
    LocalProtocolError,
    RequestTimeout,
    WrongProcess,
)
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Side
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.network import TlsMode
from orbitmq.net.transport.tls import server_context
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response, Session
from tests.net.conftest import Certificates
from tests.net.loopback import ASK, LOOPBACK, dial_raw, echo, on_both_loops, run_on

BROKER = Address("broker-a", 10911)
MEGABYTE = bytes(1_000_000)


@on_both_loops
def test_a_flood_of_large_answers_reaches_a_client_that_reads(loop: str) -> None:
    def big(connection: Connection, request: Frame) -> Response:
        return Response(body=MEGABYTE)

    async def scenario() -> None:
        async with Listener(LOOPBACK, big) as listener, Dialer() as dialer:
            answers = await asyncio.gather(
                *(dialer.request(listener.address, ASK, timeout_ms=60_000) for _ in range(80))
            )
            assert {len(answer.body) for answer in answers} == {len(MEGABYTE)}

    run_on(loop, scenario())


@on_both_loops
def test_a_peer_that_asks_and_does_not_read_costs_a_bounded_amount(loop: str) -> None:
    served = 0

    def big(connection: Connection, request: Frame) -> Response:
        nonlocal served
        served += 1
        return Response(body=MEGABYTE)

    async def scenario() -> None:
        session: Session[None] = Session()
        heads = [session.request(ASK, waiter=None, now=0, timeout=1)[1] for _ in range(400)]
        async with Listener(LOOPBACK, big) as listener, Dialer() as dialer:
            raw = dial_raw(listener.address)
            raw.sendall(b"".join(heads))
            await dialer.request(listener.address, ASK)  # a turn of the loop later
            (server_side,) = (one for one in listener.connections if one._unsent())
            assert server_side._unsent() < 10_000_000
            assert served < 50
            raw.close()

    run_on(loop, scenario())


@on_both_loops
def test_nothing_waits_in_the_transport_after_an_empty_body(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            connection = await dialer.connection(listener.address)
            await connection.request(ASK)
            assert connection._unsent() == 0

    run_on(loop, scenario())


@on_both_loops
def test_a_listener_closes_whatever_a_new_peer_is_about(
    loop: str, certificates: Certificates
) -> None:
    async def scenario() -> None:
        for turns in range(14):
            listener = Listener(LOOPBACK, echo, tls=server_context(certificates.of_server))
            await listener.start()
            dialer = Dialer(settings=NetSettings(request_timeout_ms=2_000))
            task = asyncio.create_task(dialer.request(listener.address, ASK))
            for _ in range(turns):
                await asyncio.sleep(0)
            await listener.close()
            assert listener.connections == set()
            with contextlib.suppress(ConnectFailed, ConnectionClosed):
                await task
            await dialer.close()

    run_on(loop, scenario())


@on_both_loops
@pytest.mark.parametrize("bad", ["text", memoryview(b"abcdef")[::2], 7])
def test_an_invalid_body_fails_only_its_caller(loop: str, bad: bytes) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            connection = await dialer.connection(listener.address)
            good = asyncio.create_task(connection.request(ASK, b"good"))
            with pytest.raises(LocalProtocolError, match="a body must"):
                await connection.request(ASK, bad)
            with pytest.raises(LocalProtocolError, match="a body must"):
                connection.oneway(ASK, bad)
            assert (await good).body == b"good"

    run_on(loop, scenario())


@on_both_loops
def test_a_view_of_wide_items_is_sent_as_its_bytes(loop: str) -> None:
    wide = memoryview(array.array("I", range(1000)))

    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            answers = [
                await dialer.request(listener.address, ASK, body) for body in (wide, b"next")
            ]
            assert [bytes(answer.body) for answer in answers] == [wide.tobytes(), b"next"]

    run_on(loop, scenario())


def test_a_child_may_not_close_what_its_parent_opened() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            mine, connection._process = connection._process, object()  # as after a fork
            with pytest.raises(WrongProcess):
                connection.abort("by the child")
            with pytest.raises(WrongProcess):
                await connection.close()
            connection._process = mine
            assert (await connection.request(ASK)).code == 0

    run_virtual(scenario)


@on_both_loops
def test_a_peer_that_ended_is_not_handed_out_again(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            before = await dialer.connection(listener.address)
            await before.request(ASK)
            (server_side,) = listener.connections
            closed: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            before.when_closed(closed.set_result)
            await server_side.close()
            await closed
            assert before.close_reason == "the peer closed it"
            assert (await dialer.request(listener.address, ASK, b"new")).body == b"new"

    run_on(loop, scenario())


def test_requests_that_wait_for_a_slow_peer_fail_at_the_close() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network) as listener:
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                await connection.request(ASK)
                (server_side,) = listener.connections
                assert server_side._transport is not None
                server_side._transport.pause_reading()
                connection.oneway(ASK, bytes(100_000))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                waiting = asyncio.create_task(connection.request(ASK, timeout_ms=60_000))
                await asyncio.sleep(0)
                closing = asyncio.create_task(connection.close("enough"))
                with pytest.raises(ConnectionClosed, match="enough"):
                    await waiting
                assert clock.monotonic_ms() == 0
                await closing

    run_virtual(scenario)


def test_a_timeout_names_the_whole_time_and_not_what_was_left() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, lambda *_: None, network=network) as listener:
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                connection.oneway(ASK)
                await clock.sleep(0.1)
                (server_side,) = listener.connections
                assert server_side._transport is not None
                server_side._transport.pause_reading()
                connection.oneway(ASK, bytes(100_000))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                waiting = asyncio.create_task(connection.request(ASK, timeout_ms=1000))
                await clock.sleep(0.6)
                server_side._transport.resume_reading()
                with pytest.raises(RequestTimeout, match="within 1000 ms") as caught:
                    await waiting
                assert caught.value.timeout_ms == 1000
                assert clock.monotonic_ms() == 1100

    run_virtual(scenario)


def test_a_cancelled_awaitable_of_a_handler_is_answered_and_counted_down() -> None:
    async def scenario(clock: VirtualClock) -> None:
        forever: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        network = MemoryNetwork()
        async with Listener(BROKER, lambda *_: forever, network=network) as listener:
            async with Dialer(network=network) as dialer:
                asking = asyncio.create_task(dialer.request(BROKER, ASK))
                await clock.sleep(0.1)
                forever.cancel()
                answer = await asking
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert "was cancelled" in str(answer.remark)
                (server_side,) = listener.connections
                assert server_side._serving == 0

    run_virtual(scenario)


def test_one_way_requests_are_bounded_too(caplog: pytest.LogCaptureFixture) -> None:
    started = 0

    async def scenario(clock: VirtualClock) -> None:
        async def slowly(connection: Connection, request: Frame) -> Response:
            nonlocal started
            started += 1
            await clock.sleep(10)
            return Response()

        network = MemoryNetwork()
        settings = NetSettings(serving_max=10, close_timeout_ms=20_000)
        async with Listener(BROKER, slowly, network=network, settings=settings):
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                for _ in range(50):
                    connection.oneway(ASK)
                await clock.sleep(0.1)

    run_virtual(scenario)
    assert started == 10
    assert "is dropped: 10 are being served" in caplog.text


@pytest.mark.parametrize("which", ["listener", "dialer"])
def test_a_cancelled_close_closes_all_the_same(which: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        listener = Listener(BROKER, lambda *_: None, network=network)
        await listener.start()
        dialer = Dialer(network=network)
        connection = await dialer.connection(BROKER)
        asking = asyncio.create_task(connection.request(ASK, timeout_ms=60_000))
        await clock.sleep(0.1)
        closing = asyncio.create_task(listener.close() if which == "listener" else dialer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ConnectionClosed):
            await asking
        await dialer.close()
        await listener.close()
        await listener.close()

    run_virtual(scenario)


def test_a_connection_that_comes_while_the_listener_closes_is_not_admitted() -> None:
    async def scenario(clock: VirtualClock) -> None:
        listener = Listener(BROKER, echo, network=MemoryNetwork())
        await listener.start()
        late = listener._accept()
        await listener.close()
        listener._admit(late)
        assert listener.connections == set()
        assert not late.is_open

    run_virtual(scenario)


def test_a_caller_that_is_cancelled_while_the_dialer_closes_is_cancelled() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        network.carries = False
        dialer = Dialer(network=network)
        asking = asyncio.create_task(dialer.connection(BROKER))
        await clock.sleep(0.1)
        asking.cancel()
        await dialer.close()
        with pytest.raises(asyncio.CancelledError):
            await asking

    run_virtual(scenario)


def test_a_transport_that_arrives_too_late_is_aborted() -> None:
    class Late(asyncio.Transport):
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    async def scenario(clock: VirtualClock) -> None:
        connection = Connection(side=Side.CLIENT)
        connection.abort("given up")
        transport = Late()
        connection.connection_made(transport)
        assert transport.aborted
        assert not connection.is_open

    run_virtual(scenario)


def test_a_transport_that_says_nothing_to_an_abort_is_given_up() -> None:
    class Silent(asyncio.Transport):
        def is_closing(self) -> bool:
            return True

        def close(self) -> None:
            pass

        def abort(self) -> None:
            pass

    async def scenario(clock: VirtualClock) -> None:
        connection = Connection(side=Side.CLIENT)
        connection.connection_made(Silent())
        await connection.close()
        assert clock.monotonic_ms() == 6_000  # the close timeout, then once more after the abort

    run_virtual(scenario)


def test_a_close_without_a_word_closes() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            await connection.close("")
            with pytest.raises(ConnectionClosed) as caught:
                await connection.request(ASK)
            assert caught.value.address == "broker-a:10911"

    run_virtual(scenario)


@on_both_loops
@pytest.mark.parametrize(
    "address",
    [Address("a..b", 1), Address("x" * 64 + ".org", 1), Address("\ud800", 1), Address("a\0b", 1),
     Address("127.0.0.1", 70_000)],
    ids=["empty label", "long label", "surrogate", "nul", "port"],
)  # fmt: skip
def test_an_invalid_address_is_a_connect_failure(loop: str, address: Address) -> None:
    async def scenario() -> None:
        async with Dialer() as dialer:
            with pytest.raises(ConnectFailed, match="no connection to"):
                await dialer.connection(address)

    run_on(loop, scenario())


def test_enforcing_tls_needs_a_certificate() -> None:
    with pytest.raises(InvalidInput, match="needs a certificate"):
        Listener(LOOPBACK, echo, mode=TlsMode.ENFORCING)
