"""A short text from a URL: all the HTTP that a RocketMQ client needs.

A nameserver list can be served by a URL (``TopAddressing`` in Java). The request is HTTP/1.0, so
that the answer is not chunked and ends with the connection::

    GET /rocketmq/nsaddr HTTP/1.0        HTTP/1.1 200 OK
    Host: names.local                    Content-Length: 29

                                         10.0.0.7:9876;10.0.0.8:9876
"""

import asyncio
from typing import Final
from urllib.parse import SplitResult, urlsplit

from orbitmq.errors import (
    ConnectFailed,
    InvalidInput,
    NetworkError,
    RemoteProtocolError,
    RequestTimeout,
)
from orbitmq.net.address import Address
from orbitmq.net.transport.network import Network
from orbitmq.net.transport.tls import TlsContext, client_context

__all__ = ["fetch_text"]

_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Three times as much as a list of a thousand nameservers."""
_PORTS: Final = {"http": 80, "https": 443}
_OK: Final = b"200"


async def fetch_text(
    url: str, *, network: Network, timeout_ms: int, tls: TlsContext | None = None
) -> str:
    """Return the text at a URL, stripped.

    ``timeout_ms`` covers all of it; by default https uses the system's authorities. Raise
    InvalidInput for an invalid URL, NetworkError if the server doesn't answer in time, and
    RemoteProtocolError if the answer is not 200 with a short text.
    """
    parts = _split(url)
    assert parts.hostname is not None
    address = Address(parts.hostname, parts.port or _PORTS[parts.scheme])
    secured = (tls or client_context()) if parts.scheme == "https" else None
    exchange = _Exchange(_request(parts))
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await network.connect(exchange, address, tls=secured)
            answer = await exchange.answer
    except TimeoutError:
        raise RequestTimeout(
            f"{url} did not answer within {timeout_ms} ms",
            address=str(address),
            timeout_ms=timeout_ms,
        ) from None
    except OSError as error:
        raise ConnectFailed(
            f"no connection to {url}: {str(error) or type(error).__name__}", address=str(address)
        ) from error
    finally:
        exchange.close()
    return _text(url, answer)


def _split(url: str) -> SplitResult:
    if url.isascii() and url.split() == [url]:
        try:
            parts = urlsplit(url)
            if parts.scheme in _PORTS and parts.hostname and parts.port != 0:
                return parts
        except ValueError:  # unmatched brackets, or an invalid port
            pass
    raise InvalidInput(
        f"{url[:80]!r} is not a URL such as http://names.local:8080/list", field="url"
    )


def _request(parts: SplitResult) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = (f"GET {target} HTTP/1.0", f"Host: {host}", "Accept: text/plain", "", "")
    return "\r\n".join(lines).encode()


def _text(url: str, answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split()
    if len(status) < 2 or not status[0].startswith(b"HTTP/") or status[1] != _OK:
        first = head[:60].decode("ascii", "replace")
        raise RemoteProtocolError(f"{url} answered {first!r}, not 200 with a text")
    try:
        return body.decode().strip()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{url} answered with a text that is not UTF-8") from error


class _Exchange(asyncio.Protocol):
    """Sends a request and collects the answer, until it is complete or the peer closes."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # not the base class of uvloop's transports
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _ANSWER_BYTES_MAX:
            self._fail(
                RemoteProtocolError(
                    f"the answer has over {_ANSWER_BYTES_MAX} bytes, too many for a list"
                )
            )
        elif self._is_complete():
            self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._fail(NetworkError(f"the connection broke: {exc}"))
        else:
            self._settle()

    def close(self) -> None:
        self.answer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _is_complete(self) -> bool:
        """Return whether all bytes of the Content-Length have arrived."""
        head, separator, body = bytes(self._received).partition(b"\r\n\r\n")
        for line in head.split(b"\r\n")[1:] if separator else ():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                return len(body) >= int(value)
        return False

    def _settle(self) -> None:
        if not self.answer.done():
            self.answer.set_result(bytes(self._received))

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
