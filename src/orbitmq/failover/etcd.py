"""The consensus store on etcd, by ``aetcd``: the extra ``failover``.

One attempt per call: whoever elects asks again in a moment anyway. After a failure the next call
goes to the next endpoint, over a new connection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from orbitmq.errors import ConsensusFailed, MissingExtra
from orbitmq.failover.consensus import Change, Snapshot, StoredValue
from orbitmq.net.address import Address

if TYPE_CHECKING:
    from aetcd import Client

__all__ = ["EtcdStore"]

log = logging.getLogger("orbitmq.failover")

T = TypeVar("T")

_CLOSE_S: Final = 1.0
_NO_LEASE: Final = "requested lease not found"
"""The words of etcd, for which ``aetcd`` has no error of its own."""


class EtcdStore:
    """A cluster of etcd servers; any of them answers. ``timeout_s`` bounds each call.

    Raises:
        MissingExtra: ``aetcd`` is not installed.
    """

    def __init__(self, endpoints: Sequence[Address], *, timeout_s: float) -> None:
        try:
            import aetcd  # noqa: PLC0415 - gRPC is heavy, and needed by elected brokers alone
        except ImportError as error:
            raise MissingExtra(
                "a group with elections (etcdEndpoints)", extra="failover"
            ) from error
        self._new_client = aetcd.Client
        self._failures: tuple[type[BaseException], ...] = (
            *(aetcd.exceptions.ClientError, OSError, TimeoutError, asyncio.InvalidStateError),
            asyncio.CancelledError,  # also of a channel that another call has closed
        )
        self._gone = (aetcd.exceptions.RevisionCompactedError, aetcd.exceptions.WatchTimeoutError)
        self._endpoints = tuple(endpoints)
        self._next = 0
        self._timeout_s = timeout_s
        self._client: Client | None = None

    def __repr__(self) -> str:
        return f"<EtcdStore {self.endpoint}>"

    @property
    def endpoint(self) -> Address:
        """The server that is asked next."""
        return self._endpoints[self._next % len(self._endpoints)]

    async def grant(self, ttl_s: int) -> int:
        """Begin a lease."""
        lease = await self._call(lambda client: client.lease(ttl_s))
        return int(lease.id)

    async def keep_alive(self, lease: int) -> bool:
        """Keep a lease alive; return False if it has ended."""
        reply = await self._call(lambda client: client.refresh_lease(lease))
        return reply is not None and reply.TTL > 0

    async def revoke(self, lease: int) -> None:
        """End a lease and remove its keys."""

        async def revoke(client: "Client") -> None:
            with self._unless_lease_ended():
                await client.revoke_lease(lease)

        await self._call(revoke)

    async def read(self, prefix: str) -> Snapshot:
        """Return the keys that begin with ``prefix``."""
        found = await self._call(lambda client: client.get_prefix(prefix.encode()))
        values = {
            one.key.decode(errors="replace"): StoredValue(one.value, one.mod_revision)
            for one in found
        }
        return Snapshot(found.header.revision, values)

    async def change(self, expected: Mapping[str, int], changes: Sequence[Change]) -> bool:
        """Make all changes if each expected key still has its revision, and no lease has ended."""

        async def transaction(client: "Client") -> bool:
            make = client.transactions
            succeeded = False
            with self._unless_lease_ended():
                succeeded, _ = await client.transaction(
                    compare=[make.mod(key.encode()) == one for key, one in expected.items()],
                    success=[
                        make.delete(one.key.encode())
                        if one.value is None
                        else make.put(one.key.encode(), one.value, lease=one.lease or None)
                        for one in changes
                    ],
                    failure=[],
                )
            return bool(succeeded)

        return await self._call(transaction)

    async def wait(self, prefix: str, revision: int, timeout_s: float) -> None:
        """Return when a key with ``prefix`` may have changed after ``revision``, or time is up."""

        async def watch(client: "Client") -> None:
            with suppress(*self._gone):
                await client.watch_prefix_once(
                    prefix.encode(), timeout=timeout_s, start_revision=revision + 1
                )

        await self._call(watch, more_s=timeout_s)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()

    @contextmanager
    def _unless_lease_ended(self) -> Iterator[None]:
        """Do nothing if etcd says that a lease has ended, which is an answer and no failure."""
        try:
            yield
        except self._failures as error:
            if _NO_LEASE not in str(error):
                raise

    async def _call(self, operation: Callable[["Client"], Awaitable[T]], *, more_s: float = 0) -> T:
        endpoint = self.endpoint
        client = self._client
        if client is None:
            # Its own timeouts are longer, so that ours decide.
            client = self._client = self._new_client(
                host=endpoint.host, port=endpoint.port, timeout=2 * (self._timeout_s + more_s)
            )
        try:
            async with asyncio.timeout(self._timeout_s + more_s):
                result = await operation(client)
        except AttributeError as error:
            # A watch of aetcd fails so when another call has closed its client meanwhile.
            if client is self._client:
                raise
            if _is_cancelled():
                raise asyncio.CancelledError from error
            why = "the connection was closed"
            raise ConsensusFailed(f"etcd at {endpoint}: {why}", address=str(endpoint)) from error
        except self._failures as error:
            if _is_cancelled():
                raise
            if client is self._client:  # another call may have replaced it
                self._next += 1
                await self._drop()
            why = str(error) or "no answer in time, or the connection was closed"
            raise ConsensusFailed(f"etcd at {endpoint}: {why}", address=str(endpoint)) from error
        if _is_cancelled():
            # The wait_for of Python 3.11 returns a result that comes in that moment all the same.
            raise asyncio.CancelledError
        return result

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await client.close()
        except self._failures as error:
            if _is_cancelled():
                raise
            log.debug("closing the connection to etcd: %s", error)


def _is_cancelled() -> bool:
    """Return whether somebody cancelled this task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
