"""The consensus store on etcd, by gRPC; it needs the extra ``failover``.

One attempt per call: whoever elects asks again in a moment anyway. After a failure the next call
goes to the next endpoint, over a new connection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from aetcd import rpc
from aetcd.utils import prefix_range_end

from orbitmq.errors import ConsensusFailed, InvalidInput
from orbitmq.failover.consensus import Change, Snapshot, StoredValue
from orbitmq.failover.etcd_client import FAILURES, EtcdClient, Metadata, check_files, only, why
from orbitmq.failover.settings import FailoverSettings
from orbitmq.net.address import Address

__all__ = ["EtcdStore"]

log = logging.getLogger("orbitmq.failover")

T = TypeVar("T")

_CLOSE_S: Final = 1.0
_FAILURES: Final[tuple[type[BaseException], ...]] = (
    *(*FAILURES, OSError, TimeoutError),
    InvalidInput,  # a file of a certificate or a password
    asyncio.CancelledError,  # also of a channel that another call has closed
)
_NO_LEASE: Final = "requested lease not found"


class EtcdStore:
    """The cluster of etcd servers that settings name; any of them answers.

    Raises:
        InvalidInput: a certificate, a key or a password can't be read from its file.
    """

    def __init__(self, settings: FailoverSettings) -> None:
        check_files(settings)
        self._settings = settings
        self._endpoints = settings.endpoints()
        self._next = 0
        self._client: EtcdClient | None = None

    def __repr__(self) -> str:
        return f"<EtcdStore {self.endpoint}>"

    @property
    def endpoint(self) -> Address:
        """The server that is asked next."""
        return self._endpoints[self._next % len(self._endpoints)]

    async def grant(self, ttl_s: int) -> int:
        """Begin a lease."""
        asked = rpc.LeaseGrantRequest(TTL=ttl_s)
        answer = await self._ask(lambda etcd, said: etcd.leases.LeaseGrant(asked, metadata=said))
        return int(answer.ID)

    async def keep_alive(self, lease: int) -> bool:
        """Keep a lease alive; return False if it has ended."""

        async def beat(etcd: EtcdClient, said: Metadata) -> bool:
            with only(rpc.LeaseKeepAliveRequest(ID=lease)) as requests:
                stream = etcd.leases.LeaseKeepAlive(requests, metadata=said)
                try:
                    async for answer in stream:
                        return bool(answer.TTL > 0)
                    raise _failed(self.endpoint, "it ended a stream without an answer")
                finally:
                    stream.cancel()

        return await self._ask(beat)

    async def revoke(self, lease: int) -> None:
        """End a lease and remove its keys."""

        async def revoke(etcd: EtcdClient, said: Metadata) -> None:
            with _unless_lease_ended():
                await etcd.leases.LeaseRevoke(rpc.LeaseRevokeRequest(ID=lease), metadata=said)

        await self._ask(revoke)

    async def read(self, prefix: str) -> Snapshot:
        """Return the keys that begin with ``prefix``."""
        asked = rpc.RangeRequest(**_below(prefix))
        answer = await self._ask(lambda etcd, said: etcd.kv.Range(asked, metadata=said))
        values = {
            one.key.decode(errors="replace"): StoredValue(one.value, one.mod_revision)
            for one in answer.kvs
        }
        return Snapshot(answer.header.revision, values)

    async def change(self, expected: Mapping[str, int], changes: Sequence[Change]) -> bool:
        """Make all changes if each expected key still has its revision, and no lease has ended."""
        asked = rpc.TxnRequest(
            compare=[
                rpc.Compare(
                    result=rpc.Compare.EQUAL,
                    target=rpc.Compare.MOD,
                    key=key.encode(),
                    mod_revision=revision,
                )
                for key, revision in expected.items()
            ],
            success=[_operation(one) for one in changes],
        )

        async def transaction(etcd: EtcdClient, said: Metadata) -> bool:
            with _unless_lease_ended():
                return bool((await etcd.kv.Txn(asked, metadata=said)).succeeded)
            return False

        return await self._ask(transaction)

    async def wait(self, prefix: str, revision: int, timeout_s: float) -> None:
        """Return when a key with ``prefix`` may have changed after ``revision``, or time is up."""
        create = rpc.WatchCreateRequest(**_below(prefix), start_revision=revision + 1)
        asked = rpc.WatchRequest(create_request=create)

        async def watch(etcd: EtcdClient, said: Metadata) -> None:
            with only(asked) as requests:
                stream = etcd.watches.Watch(requests, metadata=said)
                try:
                    async for answer in stream:
                        if answer.events or answer.compact_revision:
                            return
                        if answer.canceled and not etcd.is_stale(said, answer.cancel_reason):
                            raise _failed(self.endpoint, f"no watch: {answer.cancel_reason}")
                        if answer.canceled:
                            return  # the next call gets another token
                finally:
                    stream.cancel()

        async def watch_for_a_time(etcd: EtcdClient, said: Metadata) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await watch(etcd, said)

        await self._ask(watch_for_a_time, more_s=timeout_s)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()

    async def _ask(
        self, call: Callable[[EtcdClient, Metadata], Awaitable[T]], *, more_s: float = 0
    ) -> T:
        """Return the answer to a call; raise ConsensusFailed if there is none in time."""
        endpoint, etcd = self.endpoint, self._client
        try:
            if etcd is None:
                etcd = self._client = EtcdClient(endpoint, self._settings)
            async with asyncio.timeout(self._settings.etcd_timeout_ms / 1_000 + more_s):
                return await etcd.ask(lambda said: call(etcd, said))
        except _FAILURES as error:
            if _is_cancelled():
                raise asyncio.CancelledError from error
            if etcd is self._client:  # another call may have replaced it
                self._next += 1
                await self._drop()
            raise _failed(endpoint, why(error, self._settings)) from error

    async def _drop(self) -> None:
        etcd, self._client = self._client, None
        if etcd is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await etcd.close()
        except _FAILURES as error:
            if _is_cancelled():
                raise
            log.debug("closing the connection to etcd: %s", error)


def _below(prefix: str) -> dict[str, bytes]:
    return {"key": prefix.encode(), "range_end": prefix_range_end(prefix.encode())}


def _operation(change: Change) -> Any:
    key = change.key.encode()
    if change.value is None:
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
    return rpc.RequestOp(
        request_put=rpc.PutRequest(key=key, value=change.value, lease=change.lease)
    )


@contextmanager
def _unless_lease_ended() -> Iterator[None]:
    """Do nothing if etcd says that a lease has ended, which is an answer and no failure."""
    try:
        yield
    except FAILURES as error:
        if _NO_LEASE not in str(error):
            raise


def _failed(endpoint: Address, reason: str) -> ConsensusFailed:
    return ConsensusFailed(f"etcd at {endpoint}: {reason}", address=str(endpoint))


def _is_cancelled() -> bool:
    """Return whether somebody cancelled this task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
