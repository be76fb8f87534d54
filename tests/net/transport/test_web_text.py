import asyncio

import pytest

from orbitmq.errors import ConnectFailed, InvalidInput, RemoteProtocolError, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.transport.network import Network, OpenPort, TlsMode
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.net.transport.tls import client_context, server_context
from orbitmq.net.transport.web_text import fetch_text
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from tests.net.conftest import Certificates

WEB = Address("web", 8080)


class WebServer:
    """Answers each request with the same bytes, and closes, unless told to keep it open."""

    def __init__(self, answer: bytes, *, closes: bool = True) -> None:
        self.answer = answer
        self.closes = closes
        self.requests: list[bytes] = []
        self.whole: list[bytes] = []
        self.port: OpenPort | None = None

    async def listen(self, network: Network, address: Address, **options: object) -> Address:
        self.port = await network.listen(
            lambda: _Visit(self),
            address,
            tls=options.get("tls"),  # type: ignore[arg-type]
            mode=TlsMode.PERMISSIVE,
            handshake_timeout_ms=1_000,
        )
        return self.port.address


class _Visit(asyncio.Protocol):
    def __init__(self, server: WebServer) -> None:
        self.server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.server.requests.append(data.split(b"\r\n")[0])
        self.server.whole.append(data)
        self.transport.write(self.server.answer)  # type: ignore[attr-defined]
        if self.server.closes:
            self.transport.close()


def fetched(answer: bytes, url: str = f"http://{WEB}/list?a=1", *, closes: bool = True) -> str:
    async def main(_clock: VirtualClock) -> str:
        network = MemoryNetwork()
        await WebServer(answer, closes=closes).listen(network, WEB)
        return await fetch_text(url, network=network, timeout_ms=3_000)

    return run_virtual(main)


def test_the_text_of_an_answer() -> None:
    assert fetched(b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n 10.0.0.7:9876 \n") == "10.0.0.7:9876"


def test_a_named_length_is_enough() -> None:
    assert fetched(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na:1", closes=False) == "a:1"


def test_what_is_asked() -> None:
    async def main(_clock: VirtualClock) -> bytes:
        network = MemoryNetwork()
        server = WebServer(b"HTTP/1.1 200 OK\r\n\r\n")
        await server.listen(network, WEB)
        await fetch_text("http://web:8080", network=network, timeout_ms=3_000)
        return server.whole[0]

    lines = run_virtual(main).split(b"\r\n")
    assert lines[:2] == [b"GET / HTTP/1.0", b"Host: web:8080"]
    assert lines[-2:] == [b"", b""]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\nno",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n\xff",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 70_000,
    ],
    ids=["refused", "not the web", "nothing", "not text", "too long"],
)
def test_any_other_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        fetched(answer)


def test_silence_is_an_error_after_its_time() -> None:
    with pytest.raises(RequestTimeout, match="3000 ms"):
        fetched(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na:1", closes=False)


def test_an_unreachable_server_is_an_error() -> None:
    with pytest.raises(ConnectFailed, match="no listener"):
        fetched(b"", "http://elsewhere:80/")


@pytest.mark.parametrize(
    "url",
    [
        "names",
        "ftp://web/",
        "http://",
        "http://web:0/",
        "http://web:x/",
        "http://a b/",
        "http://é/",
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="not a URL"):
        fetched(b"", url)


def test_https_is_verified(certificates: Certificates) -> None:
    async def main() -> str:
        network = TcpNetwork()
        server = WebServer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na:1")
        at = await server.listen(
            network, Address("127.0.0.1", 0), tls=server_context(certificates.of_server)
        )
        trusting = client_context(certificates.of_client)
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await fetch_text(f"https://{at}/", network=network, timeout_ms=3_000)
        text = await fetch_text(f"https://{at}/", network=network, timeout_ms=3_000, tls=trusting)
        assert server.port is not None
        await server.port.close()
        return text

    assert asyncio.run(main()) == "a:1"
