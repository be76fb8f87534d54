"""Connections by address: opened when first needed, and again after they were lost."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import TlsContext, TlsFiles, client_context
from orbitmq.spark.options.options import Access
from orbitmq.wire.auth import Credentials
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Identity

__all__ = ["Connections"]

_AT_ONCE: Final = 256
"""Requests in flight at once. Nothing is read while requests are sent, so with many more, client
and server could block each other."""


class Connections:
    """Connections by address, for one thread at a time."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._identity = Identity(credentials=_credentials(access))
        self._settings = NetSettings(
            connect_timeout_ms=access.request_timeout_ms,
            request_timeout_ms=access.request_timeout_ms,
        )
        self._tls: TlsContext | None = None
        self._open: dict[Address, BlockingConnection] = {}

    def __repr__(self) -> str:
        return f"<Connections to {', '.join(map(str, self._open)) or 'none'}>"

    def to(self, address: Address) -> BlockingConnection:
        """Return the connection to an address; open one if there is none or the peer closed it."""
        known = self._open.get(address)
        if known is not None and known.poll():
            return known
        if self._access.tls and self._tls is None:
            self._tls = _tls_context(self._access)
        self._open[address] = BlockingConnection(
            address,
            identity=self._identity,
            settings=self._settings,
            tls=self._tls,
            clock=self._clock,
        )
        return self._open[address]

    def ask(
        self, address: Address, headers: Iterable[Header], *, code: int | None = None
    ) -> list[Frame]:
        """Return the answers to some requests, in order, whatever their codes.

        If one is not answered, raise NetworkError and close the connection: late answers may still
        arrive on it.
        """
        left = iter(headers)
        answers: list[Frame] = []
        connection = self.to(address)
        try:
            while some := list(islice(left, _AT_ONCE)):
                numbers = [connection.start(header, code=code) for header in some]
                answers += [connection.result(number) for number in numbers]
        except OrbitError as error:
            self.drop(address, f"a request failed: {error}")
            raise
        return answers

    def drop(self, address: Address, reason: str = "no longer needed") -> None:
        """Close the connection to an address, if there is one."""
        known = self._open.pop(address, None)
        if known is not None:
            known.close(reason)

    def close(self) -> None:
        """Close all connections; later requests open new ones."""
        for address in list(self._open):
            self.drop(address)


def _credentials(access: Access) -> Credentials | None:
    if not access.access_key:
        return None
    return Credentials(access.access_key, access.secret_key, access.security_token or None)


def _tls_context(access: Access) -> TlsContext:
    files = TlsFiles(
        ca_file=access.tls_ca_file or None,
        cert_file=access.tls_cert_file or None,
        key_file=access.tls_key_file or None,
        key_password=access.tls_key_password or None,
    )
    return client_context(files, verify=access.tls_verify)
