"""The store on etcd without an etcd; with one, it is in the tests of interop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from orbitmq.errors import ConsensusFailed, InvalidInput
from orbitmq.failover import etcd
from orbitmq.failover.etcd import EtcdStore
from orbitmq.failover.etcd_client import EtcdClient
from orbitmq.failover.settings import FailoverSettings
from orbitmq.net.address import Address


def store_of(*endpoints: Address, **more: Any) -> EtcdStore:
    text = ";".join(map(str, endpoints))
    return EtcdStore(FailoverSettings(etcd_endpoints=text, etcd_timeout_ms=10_000, **more))


def test_after_a_failure_the_next_server_is_asked() -> None:
    async def main() -> None:
        closed = [Address("127.0.0.1", 1), Address("127.0.0.1", 2)]
        store = store_of(*closed)
        for address in (*closed, closed[0]):
            assert store.endpoint == address
            with pytest.raises(ConsensusFailed, match=f"etcd at {address}") as failure:
                await store.read("/")
            assert failure.value.address == str(address)
        await store.close()

    asyncio.run(main())


def test_a_file_that_is_missing_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"pw can't be read: No such file"):
        store_of(Address("127.0.0.1", 1), etcd_user="a", etcd_password_file=f"{tmp_path}/pw")


def test_a_file_that_vanishes_later_is_a_failure_until_it_is_back(tmp_path: Path) -> None:
    async def main() -> None:
        store = store_of(
            Address("127.0.0.1", 1), etcd_user="a", etcd_password_file=str(password_file)
        )
        password_file.unlink()
        with pytest.raises(ConsensusFailed, match="etcdPasswordFile: .*can't be read"):
            await store.read("/")
        password_file.write_text("open sesame\n")
        with pytest.raises(ConsensusFailed, match="refused"):  # and now it connects
            await store.read("/")
        await store.close()

    password_file = tmp_path / "password"
    password_file.write_text("open sesame\n")
    asyncio.run(main())


class ClosedClient:
    """A client of which another call has closed the channel; gRPC then raises CancelledError."""

    def __init__(self, _address: Address, _settings: FailoverSettings) -> None:
        self.attempts = 0

    async def ask(self, _call: Callable[..., Awaitable[object]]) -> object:
        self.attempts += 1
        if self.attempts == 1:
            raise asyncio.CancelledError
        await asyncio.sleep(60)
        return None

    async def close(self) -> None:
        raise asyncio.CancelledError


def test_a_channel_that_another_call_closed_is_a_failure_and_no_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        store = store_of(Address("127.0.0.1", 1))
        with pytest.raises(ConsensusFailed, match="the connection was closed"):
            await store.keep_alive(7)
        client = ClosedClient(store.endpoint, store._settings)
        client.attempts = 1
        store._client = cast(EtcdClient, client)
        asking = asyncio.create_task(store.keep_alive(7))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    monkeypatch.setattr(etcd, "EtcdClient", ClosedClient)
    asyncio.run(main())
