"""Our consensus store on a real etcd: what elections rely on, also over its restarts.

Each story is told of an etcd in plain text, and of one with TLS, client certificates and users.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trustme
from aetcd import rpc

from orbitmq.clock import SystemClock
from orbitmq.errors import ConsensusFailed
from orbitmq.failover.consensus import Change
from orbitmq.failover.etcd import EtcdStore
from orbitmq.failover.identity import Identity
from orbitmq.failover.member import LogPlace, Member, Standing
from orbitmq.failover.settings import FAILOVER_NAMES, FailoverSettings
from orbitmq.net.address import Address
from orbitmq.net.event_loop import new_event_loop
from orbitmq.randomness import SystemRandomness
from orbitmq.settings import build, from_arguments
from tests.failover.test_member import Files
from tests.interop.etcd import Etcd
from tests.interop.java_server import free_port
from tests.interop.waiting import until_async
from tests.net.conftest import Certificates

TIMEOUT_MS = "10000"
PREFIX = "/o/"
"""The keys that the user of the secured server may use begin with it."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, needs_etcd: None) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, needs_etcd: None
) -> Iterator[Etcd]:
    directory = tmp_path_factory.mktemp("secured-etcd")
    with Etcd(directory, certificates=certificates, token_ttl_s=1) as running:
        run(running.enable_users(PREFIX))
        yield running


@pytest.fixture(params=["plain", "secured"])
def etcd(request: pytest.FixtureRequest) -> Etcd:
    found: Etcd = request.getfixturevalue(request.param)
    return found


def run(story: Awaitable[None]) -> None:
    async def main() -> None:
        await story

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def settings_of(etcd: Etcd, **more: str) -> FailoverSettings:
    user = etcd.user_keys() if etcd.has_users else {}
    given = {**etcd.keys, **user, "etcdTimeoutMillis": TIMEOUT_MS, **more}
    texts = [f"{name}={value}" for name, value in given.items()]
    return build(FailoverSettings, from_arguments(texts), FAILOVER_NAMES)


@contextlib.asynccontextmanager
async def stores(*settings: FailoverSettings) -> AsyncIterator[list[EtcdStore]]:
    opened = [EtcdStore(one) for one in settings]
    try:
        yield opened
    finally:
        for store in opened:
            await store.close()


async def _agreed(etcd: Etcd) -> None:
    async with stores(settings_of(etcd), settings_of(etcd)) as (store, other):
        assert await store.change({"/o/g/a": 0}, [Change("/o/g/a", b"1"), Change("/o/h/a", b"1")])
        assert not await other.change({"/o/g/a": 0}, [Change("/o/g/a", b"2")])
        seen = await other.read("/o/g/")
        assert {key: one.value for key, one in seen.values.items()} == {"/o/g/a": b"1"}
        revision = seen.values["/o/g/a"].revision
        assert await other.change({"/o/g/a": revision, "/o/g/b": 0}, [Change("/o/g/a", None)])
        assert not (await store.read("/o/g/")).values


async def _leased(etcd: Etcd) -> None:
    async with stores(settings_of(etcd)) as (store,):
        lease = await store.grant(2)
        await store.change({}, [Change("/o/l/a", b"", lease)])
        assert await store.keep_alive(lease)
        seen = await store.read("/o/l/")
        assert seen.values
        while (await store.read("/o/l/")).values:
            await store.wait("/o/l/", seen.revision, 5)
        assert not await store.keep_alive(lease)
        assert not await store.change({}, [Change("/o/l/a", b"", lease)])
        await store.revoke(lease)
        lease = await store.grant(60)
        await store.change({}, [Change("/o/l/a", b"", lease)])
        await store.revoke(lease)
        assert not (await store.read("/o/l/")).values


async def _awaited(etcd: Etcd) -> None:
    async with stores(settings_of(etcd), settings_of(etcd)) as (store, writer):
        revision = (await store.read("/o/w/")).revision
        waiting = asyncio.create_task(store.wait("/o/w/", revision, 60))
        await writer.change({}, [Change("/o/elsewhere", b"")])
        await writer.change({}, [Change("/o/w/a", b"")])
        await waiting
        for number in range(3):
            await writer.change({}, [Change("/o/w/a", b"%d" % number)])
        client, revised = writer._client, (await store.read("/o/w/")).revision
        assert client is not None
        compaction = rpc.CompactionRequest(revision=revised)
        await client.ask(lambda said: client.kv.Compact(compaction, metadata=said))
        await store.wait("/o/w/", revision, 60)  # that history is gone, so it can't know
        await store.wait("/o/w/", (await store.read("/o/w/")).revision, 0.2)


async def _read_on(store: EtcdStore) -> None:
    while True:
        await store.read("/o/s/")


async def _survived(etcd: Etcd) -> None:
    nobody = Address("127.0.0.1", free_port())
    endpoints = f"{nobody};{etcd.address}"
    async with stores(settings_of(etcd, etcdEndpoints=endpoints)) as (store,):
        with pytest.raises(ConsensusFailed, match=str(nobody.port)):
            await store.read("/o/s/")
        assert await store.change({}, [Change("/o/s/a", b"kept")])
        revision = (await store.read("/o/s/")).revision
        tasks = asyncio.all_tasks()
        waiting = asyncio.create_task(store.wait("/o/s/", revision, 60))
        assert await store.change({}, [Change("/o/other", b"")])  # the watch has begun
        await asyncio.to_thread(etcd.kill)
        with pytest.raises(ConsensusFailed):
            await _read_on(store)
        await asyncio.gather(waiting, return_exceptions=True)
        await until_async(lambda: asyncio.all_tasks() <= tasks, what="no task of gRPC is left")
        await asyncio.to_thread(etcd.start)
        while True:
            try:
                assert (await store.read("/o/s/")).values["/o/s/a"].value == b"kept"
                break
            except ConsensusFailed:
                continue


@pytest.mark.parametrize("story", [_agreed, _leased, _awaited, _survived])
def test_what_elections_rely_on(etcd: Etcd, story: Callable[[Etcd], Awaitable[None]]) -> None:
    run(story(etcd))


def _token(store: EtcdStore) -> object:
    return None if store._client is None else store._client._metadata


def test_a_token_that_has_ended_is_replaced_within_the_call(secured: Etcd) -> None:
    async def main() -> None:
        async with stores(settings_of(secured)) as (store,):
            revision = (await store.read(PREFIX)).revision
            client, first = store._client, _token(store)
            while _token(store) == first:  # it ends a second after it was last used
                await store.wait(f"{PREFIX}nothing/", revision, 3)
                await store.read(PREFIX)
            await secured.change_password()  # which ends all tokens
            second = _token(store)
            answers = await asyncio.gather(
                *(store.read(PREFIX) for _ in range(3)),
                store.change({}, [Change(f"{PREFIX}t", b"")]),
            )
            assert all(answers)
            assert _token(store) != second
            assert store._client is client  # over one connection

    run(main())


async def _another_token(store: EtcdStore, before: object) -> None:
    await until_async(lambda: _token(store) not in (None, before), what="it has another token")


@contextlib.asynccontextmanager
async def a_member(store: EtcdStore, settings: FailoverSettings) -> AsyncIterator[Member]:
    """Run the one broker of a group, which leads it."""
    heard: list[Standing] = []
    member = Member(
        store=store,
        group=Identity("shop", "tokens", 0),
        settings=lambda: settings,
        files=Files(),
        clock=SystemClock(),
        randomness=SystemRandomness(),
        place=lambda: LogPlace("host:1", "host:2", 0, 0),
        on_standing=heard.append,
    )
    await member.join()
    running = asyncio.create_task(member.run())
    try:
        await until_async(member.holds, what="it leads")
        yield member
        assert len([one for one in heard if one.leads]) == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await member.leave()


def test_a_master_goes_on_in_its_epoch_when_tokens_end(
    secured: Etcd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orbitmq.failover")

    async def main() -> None:
        settings = settings_of(
            secured,
            etcdKeyPrefix=f"{PREFIX}tokens",
            controllerHeartBeatTimeoutMills="2000",
            brokerHeartbeatInterval="100",
        )
        store = EtcdStore(settings)
        async with a_member(store, settings) as member:
            for _ in range(3):
                before = _token(store)
                await secured.change_password()
                await _another_token(store, before)
                assert member.holds()

    run(main())
    assert [one for one in caplog.messages if "is elected" in one][1:] == []
    assert "can't be read" not in caplog.text


def _other_authority(directory: Path) -> Path:
    file = directory / "other.pem"
    trustme.CA().cert_pem.write_to_path(file)
    return file


def _other_client(directory: Path) -> Path:
    file = directory / "stranger.pem"
    trustme.CA().issue_cert("mallory@example.org").private_key_and_cert_chain_pem.write_to_path(
        file
    )
    return file


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("etcdTlsTrustCertPath", _other_authority, "of no authority in etcdTlsTrustCertPath"),
        ("etcdTlsServerName", "etcd.example.org", "for another name; etcdTlsServerName"),
        ("etcdTlsCertPath", _other_client, r"refuses the certificate of this broker \(etcdTlsCert"),
        ("etcdTlsCertPath", "", "or demands one"),
        ("etcdUser", "nobody", "has no such user, or the password is another"),
        ("etcdKeyPrefix", "/elsewhere", "may not read and write all keys below etcdKeyPrefix"),
    ],
)
def test_a_way_in_that_is_wrong_is_named(
    secured: Etcd, tmp_path: Path, key: str, value: str | Callable[[Path], Path], cause: str
) -> None:
    given = value if isinstance(value, str) else str(value(tmp_path))

    async def main() -> None:
        settings = settings_of(secured, **{key: given})
        async with stores(settings) as (store,):
            with pytest.raises(ConsensusFailed, match=cause) as failure:
                await store.read(f"{settings.etcd_key_prefix}/")
            assert failure.value.address == str(secured.address)

    run(main())


def test_plain_text_and_tls_that_meet_are_told_apart(plain: Etcd, secured: Etcd) -> None:
    async def main() -> None:
        to_tls = settings_of(plain, etcdEndpoints=str(secured.address))
        to_plain = settings_of(secured, etcdEndpoints=str(plain.address))
        async with stores(to_tls, to_plain) as (store, other):
            with pytest.raises(ConsensusFailed, match=r"may want TLS \(etcdTlsEnable\)"):
                await store.read(PREFIX)
            with pytest.raises(ConsensusFailed, match="it does not speak TLS"):
                await other.read(PREFIX)

    run(main())


def test_users_may_be_enabled_later_and_a_mended_password_counts_at_once(
    tmp_path: Path, needs_etcd: None
) -> None:
    async def main(server: Etcd) -> None:
        user = settings_of(server, **server.user_keys())
        async with stores(user, settings_of(server)) as (store, nobody):
            assert not (await store.read(PREFIX)).values
            await server.enable_users(PREFIX)
            assert not (await store.read(PREFIX)).values
            with pytest.raises(ConsensusFailed, match=r"it wants a user \(etcdUser"):
                await nobody.read(PREFIX)
            server.user_keys("another")
            await server.change_password()
            with pytest.raises(ConsensusFailed, match="the password is another"):
                await store.read(PREFIX)
            server.user_keys()
            assert not (await store.read(PREFIX)).values

    with Etcd(tmp_path) as server:
        run(main(server))
