"""Our consensus store on a real etcd: what elections rely on, also over its restarts."""

import asyncio
from collections.abc import Iterator

import pytest

from orbitmq.errors import ConsensusFailed
from orbitmq.failover.consensus import Change
from orbitmq.failover.etcd import EtcdStore
from orbitmq.net.address import Address
from orbitmq.net.event_loop import new_event_loop
from tests.interop.etcd import Etcd
from tests.interop.java_server import free_port

TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory, needs_etcd: None) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


async def _agreed(etcd: Etcd) -> None:
    store = EtcdStore([etcd.address], timeout_s=TIMEOUT_S)
    other = EtcdStore([etcd.address], timeout_s=TIMEOUT_S)
    try:
        assert await store.change({"g/a": 0}, [Change("g/a", b"1"), Change("h/a", b"1")])
        assert not await other.change({"g/a": 0}, [Change("g/a", b"2")])
        seen = await other.read("g/")
        assert {key: one.value for key, one in seen.values.items()} == {"g/a": b"1"}
        revision = seen.values["g/a"].revision
        assert await other.change({"g/a": revision, "g/b": 0}, [Change("g/a", None)])
        assert not (await store.read("g/")).values
    finally:
        await store.close()
        await other.close()


async def _leased(etcd: Etcd) -> None:
    store = EtcdStore([etcd.address], timeout_s=TIMEOUT_S)
    try:
        lease = await store.grant(2)
        await store.change({}, [Change("l/a", b"", lease)])
        assert await store.keep_alive(lease)
        seen = await store.read("l/")
        assert seen.values
        while (await store.read("l/")).values:
            await store.wait("l/", seen.revision, 5)
        assert not await store.keep_alive(lease)
        assert not await store.change({}, [Change("l/a", b"", lease)])
        await store.revoke(lease)
        lease = await store.grant(60)
        await store.change({}, [Change("l/a", b"", lease)])
        await store.revoke(lease)
        assert not (await store.read("l/")).values
    finally:
        await store.close()


async def _awaited(etcd: Etcd) -> None:
    store = EtcdStore([etcd.address], timeout_s=TIMEOUT_S)
    writer = EtcdStore([etcd.address], timeout_s=TIMEOUT_S)
    try:
        revision = (await store.read("w/")).revision
        waiting = asyncio.create_task(store.wait("w/", revision, 60))
        await writer.change({}, [Change("elsewhere", b"")])
        await writer.change({}, [Change("w/a", b"")])
        await waiting
        for number in range(3):
            await writer.change({}, [Change("w/a", b"%d" % number)])
        assert writer._client is not None
        await writer._client.compact((await store.read("w/")).revision)
        await store.wait("w/", revision, 60)  # that history is gone, so it can't know
        await store.wait("w/", (await store.read("w/")).revision, 0.2)
    finally:
        await store.close()
        await writer.close()


async def _read_on(store: EtcdStore) -> None:
    while True:
        await store.read("s/")


async def _survived(etcd: Etcd) -> None:
    nobody = Address("127.0.0.1", free_port())
    store = EtcdStore([nobody, etcd.address], timeout_s=TIMEOUT_S)
    try:
        with pytest.raises(ConsensusFailed, match=str(nobody.port)):
            await store.read("s/")
        assert await store.change({}, [Change("s/a", b"kept")])
        waiting = asyncio.create_task(store.wait("s/", (await store.read("s/")).revision, 60))
        await asyncio.to_thread(etcd.kill)
        with pytest.raises(ConsensusFailed):
            await _read_on(store)
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.to_thread(etcd.start)
        while True:
            try:
                assert (await store.read("s/")).values["s/a"].value == b"kept"
                break
            except ConsensusFailed:
                continue
    finally:
        await store.close()


@pytest.mark.parametrize("story", [_agreed, _leased, _awaited, _survived])
def test_what_elections_rely_on(etcd: Etcd, story: object) -> None:
    assert callable(story)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(story(etcd))
