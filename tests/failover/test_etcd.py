"""The store on etcd without an etcd; with one, it is in the tests of interop."""

import asyncio
import builtins

import pytest

from orbitmq.errors import ConsensusFailed, MissingExtra
from orbitmq.failover.etcd import EtcdStore
from orbitmq.net.address import Address


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name == "aetcd":
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"orbitmq\[failover\]"):
        EtcdStore([Address("127.0.0.1", 1)], timeout_s=1)


def test_after_a_failure_the_next_server_is_asked() -> None:
    async def main() -> None:
        closed = [Address("127.0.0.1", 1), Address("127.0.0.1", 2)]
        store = EtcdStore(closed, timeout_s=10)
        for address in (*closed, closed[0]):
            assert store.endpoint == address
            with pytest.raises(ConsensusFailed, match=f"etcd at {address}") as failure:
                await store.read("/")
            assert failure.value.address == str(address)
        await store.close()

    asyncio.run(main())


class ClosedClient:
    """A client of which another call has closed the channel; gRPC then raises CancelledError."""

    def __init__(self, **_options: object) -> None:
        self.asked = asyncio.Event()

    async def refresh_lease(self, lease: int) -> None:
        self.asked.set()
        if lease == 7:
            raise asyncio.CancelledError
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not lease:
                raise

    async def close(self) -> None:
        raise asyncio.CancelledError


def test_a_channel_that_another_call_closed_is_a_failure_and_no_cancellation() -> None:
    async def main() -> None:
        store = EtcdStore([Address("127.0.0.1", 1)], timeout_s=10)
        store._new_client = ClosedClient
        with pytest.raises(ConsensusFailed, match="the connection was closed"):
            await store.keep_alive(7)
        for lease in (0, 1):  # 1: the client swallows the cancellation
            asking = asyncio.create_task(store.keep_alive(lease))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(main())


class WatchedClient:
    """A client whose watch, as that of aetcd, has no watcher any more when the client is closed."""

    def __init__(self, **_options: object) -> None:
        self.is_closed = asyncio.Event()

    async def watch_prefix_once(self, _prefix: bytes, **_options: object) -> None:
        try:
            await self.is_closed.wait()
        finally:
            watcher = None
            watcher.cancel()  # type: ignore[attr-defined]

    async def refresh_lease(self, _lease: int) -> None:
        raise TimeoutError

    async def close(self) -> None:
        self.is_closed.set()


def test_a_watch_whose_client_another_call_closed_is_a_failure_and_no_fault_of_ours() -> None:
    async def main() -> None:
        store = EtcdStore([Address("127.0.0.1", 1)], timeout_s=10)
        store._new_client = WatchedClient
        watch = asyncio.create_task(store.wait("/", 1, 60))
        stopped = asyncio.create_task(store.wait("/", 1, 60))
        await asyncio.sleep(0)
        with pytest.raises(ConsensusFailed):
            await store.keep_alive(7)
        stopped.cancel()
        with pytest.raises(ConsensusFailed, match="the connection was closed"):
            await watch
        with pytest.raises(asyncio.CancelledError):
            await stopped

    asyncio.run(main())
