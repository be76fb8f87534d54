"""A listener and a dialer over loopback: plain and TLS on one port, and peers that misbehave."""

import asyncio
import ssl

import pytest

from orbitmq.errors import ConnectFailed, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.network import TlsMode
from orbitmq.net.transport.tls import TlsFiles, client_context, server_context
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.session import Response, Session
from tests.net.conftest import Certificates
from tests.net.loopback import ASK, LOOPBACK, closed_by_peer, dial_raw, echo, on_both_loops, run_on

TLS_HELLO = b"\x16\x03\x01\x00\x05hello"


@on_both_loops
def test_a_request_goes_there_and_back(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            assert listener.address.port
            answers = await asyncio.gather(
                *(dialer.request(listener.address, ASK, b"%d" % i) for i in range(500))
            )
            assert [bytes(one.body) for one in answers] == [b"%d" % i for i in range(500)]

    run_on(loop, scenario())


@on_both_loops
def test_bodies_of_all_sizes_arrive_whole(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            for size in (0, 1, 4096, 65_536, 1_000_003, 15_000_000):
                body = bytes(range(256)) * (size // 256) + bytes(size % 256)
                answer = await dialer.request(listener.address, ASK, body, timeout_ms=20_000)
                assert answer.body == body

    run_on(loop, scenario())


@on_both_loops
def test_plain_and_tls_are_served_on_one_port(loop: str, certificates: Certificates) -> None:
    async def scenario() -> None:
        tls = server_context(certificates.of_server)
        secure = Dialer(tls=client_context(certificates.of_client))
        async with Listener(LOOPBACK, echo, tls=tls) as listener, Dialer() as plain, secure:
            for dialer in (plain, secure, plain, secure):
                answer = await dialer.request(listener.address, ASK, bytes(300_000))
                assert len(answer.body) == 300_000
            assert len(listener.connections) == 2

    run_on(loop, scenario())


@on_both_loops
def test_an_enforcing_port_closes_plain_peers(loop: str, certificates: Certificates) -> None:
    async def scenario() -> None:
        tls = server_context(certificates.of_server)
        listener = Listener(LOOPBACK, echo, tls=tls, mode=TlsMode.ENFORCING)
        async with listener, Dialer(tls=client_context(certificates.of_client)) as secure:
            raw = dial_raw(listener.address)
            raw.sendall(b"\x00")
            assert await closed_by_peer(raw) == b""
            raw.close()
            assert (await secure.request(listener.address, ASK, b"x")).body == b"x"

    run_on(loop, scenario())


@on_both_loops
def test_a_tls_peer_on_a_plain_port_is_named_in_the_log(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener:
            raw = dial_raw(listener.address)
            raw.sendall(TLS_HELLO)
            await closed_by_peer(raw)
            raw.close()

    run_on(loop, scenario())
    assert "looks like a TLS handshake" in caplog.text


@on_both_loops
def test_a_client_does_not_talk_to_a_server_it_cannot_verify(
    loop: str, certificates: Certificates
) -> None:
    async def scenario() -> None:
        tls = server_context(certificates.of_server)
        async with Listener(LOOPBACK, echo, tls=tls) as listener:
            async with Dialer(tls=client_context()) as stranger:
                with pytest.raises(ConnectFailed, match="CERTIFICATE_VERIFY_FAILED"):
                    await stranger.connection(listener.address)
            async with Dialer(tls=client_context(verify=False)) as careless:
                assert (await careless.request(listener.address, ASK)).code == 0

    run_on(loop, scenario())


@on_both_loops
def test_mutual_tls_admits_clients_with_a_certificate(
    loop: str, certificates: Certificates
) -> None:
    known = TlsFiles(ca_file=str(certificates.ca), cert_file=str(certificates.client))

    async def scenario() -> None:
        tls = server_context(certificates.of_server, require_client_cert=True)
        async with Listener(LOOPBACK, echo, tls=tls) as listener:
            async with Dialer(tls=client_context(known)) as alice:
                assert (await alice.request(listener.address, ASK)).code == 0
            context = client_context(certificates.of_client)
            context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 tells a client only later
            async with Dialer(tls=context) as stranger:
                with pytest.raises(ConnectFailed):
                    await stranger.connection(listener.address)

    run_on(loop, scenario())


@on_both_loops
@pytest.mark.parametrize("first", [b"", b"\x16"])
def test_a_peer_that_stays_silent_is_let_go(
    loop: str, first: bytes, certificates: Certificates
) -> None:
    settings = NetSettings(handshake_timeout_ms=50)

    async def scenario() -> None:
        tls = server_context(certificates.of_server)
        async with Listener(LOOPBACK, echo, tls=tls, settings=settings) as listener:
            raw = dial_raw(listener.address)
            raw.sendall(first)
            assert await closed_by_peer(raw) == b""
            raw.close()

    run_on(loop, scenario())


@on_both_loops
def test_a_peer_that_disconnects_immediately_does_no_harm(
    loop: str, certificates: Certificates
) -> None:
    async def scenario() -> None:
        tls = server_context(certificates.of_server)
        async with Listener(LOOPBACK, echo, tls=tls) as listener, Dialer() as dialer:
            for first in (b"", b"\x00", b"\x16", TLS_HELLO):
                raw = dial_raw(listener.address)
                raw.sendall(first)
                raw.close()
            assert (await dialer.request(listener.address, ASK, b"ok")).body == b"ok"

    run_on(loop, scenario())


@on_both_loops
@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x04\x00\x00\x00\x00"],
)
def test_a_peer_that_sends_garbage_is_closed_and_others_are_served(
    loop: str, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            raw = dial_raw(listener.address)
            raw.sendall(garbage)
            assert await closed_by_peer(raw) == b""
            raw.close()
            assert (await dialer.request(listener.address, ASK, b"ok")).body == b"ok"

    run_on(loop, scenario())
    assert "byte" in caplog.text


@on_both_loops
def test_good_frames_before_garbage_are_served(loop: str) -> None:
    seen: list[int] = []

    def note(connection: Connection, request: Frame) -> Response:
        seen.append(request.opaque)
        return Response()

    async def scenario() -> None:
        session: Session[None] = Session()
        heads = [session.request(ASK, waiter=None, now=0, timeout=1)[1] for _ in range(3)]
        async with Listener(LOOPBACK, note) as listener:
            raw = dial_raw(listener.address)
            raw.sendall(b"".join(heads) + b"\xff" * 8)
            await closed_by_peer(raw)
            raw.close()

    run_on(loop, scenario())
    assert seen == [0, 1, 2]


@on_both_loops
def test_a_slow_reader_gets_everything_and_delays_no_other_peer(loop: str) -> None:
    def big(connection: Connection, request: Frame) -> Response:
        return Response(body=bytes(1_000_000))

    async def scenario() -> None:
        session: Session[None] = Session()
        heads = [session.request(ASK, waiter=None, now=0, timeout=1)[1] for _ in range(20)]
        async with Listener(LOOPBACK, big) as listener, Dialer() as dialer:
            raw = dial_raw(listener.address)
            raw.sendall(b"".join(heads))
            answer = await dialer.request(listener.address, ASK)  # while 20 MB wait for the other
            assert len(answer.body) == 1_000_000
            received = 0
            reader = FrameReader()
            while received < 20:
                data = await asyncio.to_thread(raw.recv, 1_000_000)
                received += len(list(reader.feed(data)))
            raw.close()

    run_on(loop, scenario())


@on_both_loops
def test_over_the_bound_a_connection_is_closed_as_it_comes(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        settings = NetSettings(connections_max=1)
        async with Listener(LOOPBACK, echo, settings=settings) as listener, Dialer() as first:
            await first.request(listener.address, ASK)
            raw = dial_raw(listener.address)
            assert await closed_by_peer(raw) == b""
            raw.close()
            assert (await first.request(listener.address, ASK)).code == 0

    run_on(loop, scenario())
    assert "connections_max" in caplog.text


@on_both_loops
def test_a_refused_connection_is_a_connect_failure(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener:
            free = listener.address
        async with Dialer() as dialer:
            with pytest.raises(ConnectFailed, match=f"no connection to {free}"):
                await dialer.connection(free)

    run_on(loop, scenario())


@on_both_loops
def test_an_unknown_host_is_a_connect_failure(loop: str) -> None:
    async def scenario() -> None:
        async with Dialer() as dialer:
            with pytest.raises(ConnectFailed, match="no connection to no-such-host.invalid:1"):
                await dialer.connection(Address("no-such-host.invalid", 1))

    run_on(loop, scenario())


@on_both_loops
def test_a_port_in_use_is_an_error(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener:
            with pytest.raises(OSError, match="[Aa]ddress already in use"):
                await Listener(listener.address, echo).start()

    run_on(loop, scenario())


@on_both_loops
def test_ipv6_works_as_well(loop: str) -> None:
    async def scenario() -> None:
        async with Listener(Address("::1", 0), echo) as listener, Dialer() as dialer:
            assert str(listener.address).startswith("[::1]:")
            assert (await dialer.request(listener.address, ASK, b"6")).body == b"6"
            (server_side,) = listener.connections
            assert server_side.peer.startswith("[::1]:")

    run_on(loop, scenario())


@on_both_loops
def test_requests_that_expire_immediately_do_not_affect_the_next(loop: str) -> None:
    """uvloop's timer for what is due at once is none: it can't be asked when it is due."""

    async def scenario() -> None:
        async with Listener(LOOPBACK, echo) as listener, Dialer() as dialer:
            connection = await dialer.connection(listener.address)
            for timeout_ms in (0, 1, 0):
                connection.oneway(ASK)  # which waits to leave with it
                hurried = [connection.start_request(ASK, timeout_ms=timeout_ms) for _ in range(20)]
                outcomes = await asyncio.gather(*hurried, return_exceptions=True)
                assert {type(one) for one in outcomes} <= {Frame, RequestTimeout}
                answer = await connection.request(ASK, b"next", timeout_ms=5_000)
                assert answer.body == b"next"

    run_on(loop, scenario())
