"""One connection to a server of etcd: in plain text or by TLS, as a user or as nobody.

::

    a call ──▶ has a token? ── no ──▶ Authenticate ──▶ the call, with the token ──▶ answer
                                           ▲                     │
                                           └── once, forget it ──┴── etcd does not know the token

A token ends with its time, and with the server that gave it out, so this is a matter of course and
no failure. Certificates, keys and passwords are read from their files for each connection: renewed
ones count without a restart. ``aetcd`` has etcd's messages; its own client has no TLS.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

import grpc
from aetcd import rpc

from orbitmq.failover.settings import FailoverSettings
from orbitmq.net.address import Address
from orbitmq.net.transport.tls import TlsFiles, client_context
from orbitmq.settings import content

__all__ = ["FAILURES", "EtcdClient", "Metadata", "check_files", "only", "why"]

T = TypeVar("T")
Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""What goes with each call: the token, if there is one."""

FAILURES: Final[tuple[type[BaseException], ...]] = (
    grpc.RpcError,
    grpc.aio.BaseError,
    asyncio.InvalidStateError,
)
"""What calls raise."""

_STALE: Final = (
    "invalid auth token",
    "revision of auth store is old",
    "user name is empty",  # since authentication was enabled
)
"""How etcd says that it does not know a token (any more), and has done nothing."""
_NO_AUTHENTICATION: Final = "authentication is not enabled"
_CAUSES: Final = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is of no authority in etcdTlsTrustCertPath, or out of date",
    ),
    (
        "Hostname Verification",
        "its certificate is for another name; etcdTlsServerName says for which",
    ),
    (
        "TSI_DATA_CORRUPTED",  # gRPC's word for an alert after the handshake
        "it refuses the certificate of this broker (etcdTlsCertPath), or demands one",
    ),
    ("Handshake read failed", "it does not speak TLS, and etcdTlsEnable is true"),
    ("authentication failed", "it has no such user, or the password is another (etcdUser)"),
    ("user name is empty", "it wants a user (etcdUser, etcdPasswordFile)"),
    (
        "permission denied",  # without a user etcd takes the name in the certificate
        "etcdUser may not read and write all keys below etcdKeyPrefix",
    ),
)
"""What etcd and gRPC say, and what it means here."""
_CLOSED: Final = ("failed to connect", "Socket closed")


class EtcdClient:
    """A connection to the server at ``address``; ``close`` it.

    Calls raise one of ``FAILURES``. Raise InvalidInput if a file can't be read.
    """

    def __init__(self, address: Address, settings: FailoverSettings) -> None:
        self._settings = settings
        self._channel = _channel(address, settings)
        self.kv = rpc.KVStub(self._channel)
        self.leases = rpc.LeaseStub(self._channel)
        self.watches = rpc.WatchStub(self._channel)
        self._auth = rpc.AuthStub(self._channel)
        self._metadata: Metadata | None = None if settings.etcd_user else ()
        self._authenticating = asyncio.Lock()

    async def ask(self, call: Callable[[Metadata], Awaitable[T]]) -> T:
        """Return the answer to a call, which is repeated once if etcd does not know its token."""
        metadata = await self._authenticated()
        try:
            return await call(metadata)
        except grpc.RpcError as error:
            if not self.is_stale(metadata, str(error)):
                raise
        return await call(await self._authenticated())

    def is_stale(self, metadata: Metadata, said: str) -> bool:
        """Return whether etcd said that it does not know the token; the next call gets another."""
        if not self._settings.etcd_user or not any(words in said for words in _STALE):
            return False
        if metadata is self._metadata:  # another call may have renewed it
            self._metadata = None
        return True

    async def close(self) -> None:
        """Close the connection; calls that wait for answers fail."""
        await self._channel.close()

    async def _authenticated(self) -> Metadata:
        async with self._authenticating:
            if self._metadata is None:
                self._metadata = await self._authenticate()
            return self._metadata

    async def _authenticate(self) -> Metadata:
        asked = rpc.AuthenticateRequest(
            name=self._settings.etcd_user, password=_password(self._settings)
        )
        try:
            answer = await self._auth.Authenticate(asked)
        except grpc.RpcError as error:
            if _NO_AUTHENTICATION in str(error):  # it may be enabled any time
                return ()
            raise
        return (("token", str(answer.token)),)


@contextmanager
def only(request: object) -> Iterator[AsyncIterator[object]]:
    """Yield the requests of a stream, of which there is one; they end with the block.

    The task by which gRPC takes them is not ended by a server that ends the stream, and would be
    logged when it is collected.
    """
    is_over = asyncio.Event()

    async def requests() -> AsyncIterator[object]:
        yield request
        await is_over.wait()

    try:
        yield requests()
    finally:
        is_over.set()


def why(error: BaseException, settings: FailoverSettings) -> str:
    """Return why a call failed: what it means here, and what was said."""
    said = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
    said = said or "no answer in time, or the connection was closed"
    for words, meaning in _CAUSES:
        if words in said:
            return f"{meaning}: {said}"
    if not settings.etcd_tls_enable and all(words in said for words in _CLOSED):
        return f"it closes connections in plain text, so it may want TLS (etcdTlsEnable): {said}"
    return said


def check_files(settings: FailoverSettings) -> None:
    """Raise InvalidInput if a file that the settings name is missing or has something else."""
    if settings.etcd_user:
        _password(settings)
    if settings.etcd_tls_enable:
        _pem(settings)
        client_context(
            TlsFiles(
                ca_file=settings.etcd_tls_trust_cert_path or None,
                cert_file=settings.etcd_tls_cert_path or None,
                key_file=settings.etcd_tls_key_path or None,
            )
        )


def _password(settings: FailoverSettings) -> str:
    if not settings.etcd_password_file:
        return settings.etcd_password
    found = content(settings.etcd_password_file, "etcdPasswordFile")
    return found.decode(errors="replace").rstrip("\r\n")


def _pem(settings: FailoverSettings) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Return the authorities, the key and the certificate."""
    certificate = settings.etcd_tls_cert_path
    files = {
        "etcdTlsTrustCertPath": settings.etcd_tls_trust_cert_path,
        "etcdTlsKeyPath": settings.etcd_tls_key_path or certificate,
        "etcdTlsCertPath": certificate,
    }
    authorities, key, chain = (content(path, by) if path else None for by, path in files.items())
    return authorities, key, chain


def _channel(address: Address, settings: FailoverSettings) -> grpc.aio.Channel:
    if not settings.etcd_tls_enable:
        return grpc.aio.insecure_channel(str(address))
    name = settings.etcd_tls_server_name
    return grpc.aio.secure_channel(
        str(address),
        grpc.ssl_channel_credentials(*_pem(settings)),
        options=[("grpc.ssl_target_name_override", name)] if name else None,
    )
