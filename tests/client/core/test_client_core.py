import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.client.core import client_core
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import (
    ConnectionClosed,
    InvalidGroup,
    InvalidInput,
    NameserversFailed,
    NoNameserver,
    RequestTimeout,
)
from orbitmq.net.listener import Listener
from orbitmq.net.transport.tls import server_context
from orbitmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.heartbeat import GetConsumerRunningInfo, Heartbeat
from orbitmq.wire.headers.offset import GetMaxOffset
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, BROKER_B, NAMES, REPLY, Scene, play, route
from tests.net.conftest import Certificates
from tests.net.loopback import LOOPBACK
from tests.net.test_fork import said_in_a_fork

HEARTBEAT = RequestCode.HEART_BEAT
UNREGISTER = RequestCode.UNREGISTER_CLIENT


async def acquired(scene: Scene, **settings: object) -> ClientCore:
    return await ClientCore.acquire(scene.settings(**settings), scene.machine)


async def closed(core: ClientCore) -> None:
    """Release a core and wait until it is closed."""
    await core.release()
    await asyncio.sleep(core.settings.keep_open_ms / 1000 + 1)


async def whole(scene: Scene) -> None:
    """Start a nameserver and two brokers that have a topic."""
    scene.routes["orders"] = route("a", "b")
    await scene.nameserver()
    await scene.broker(BROKER_A)
    await scene.broker(BROKER_B)


# Sharing


def test_the_same_settings_share_a_core() -> None:
    async def story(scene: Scene) -> None:
        first, second = await acquired(scene), await acquired(scene)
        other = await acquired(scene, unit_name="u")
        assert first is second
        assert first is not other
        assert first.client_id.startswith("10.0.0.9@4711#")
        assert first.client_id != other.client_id.removesuffix("@u")
        for core in (first, second, other):
            await core.release()

    play(story)


def test_an_instance_has_one_kind_of_settings() -> None:
    async def story(scene: Scene) -> None:
        core = await acquired(scene, instance_name="one")
        assert core.client_id == "10.0.0.9@one"
        assert await acquired(scene, instance_name="one") is core
        with pytest.raises(InvalidInput, match="one is running with a different vip_channel"):
            await acquired(scene, instance_name="one", vip_channel=True)
        elsewhere = await acquired(scene, instance_name="one", namespace="ns")
        assert elsewhere is not core
        for used in (core, core, elsewhere):
            await used.release()

    play(story)


def test_it_lingers_for_the_next_and_then_closes() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene)
        connection = await core.connection(BROKER_A)
        for _ in range(100):  # made and closed for each message
            await core.release()
            await scene.clock.sleep(1)
            assert await acquired(scene) is core
        assert core.open_connection(BROKER_A) is connection
        await core.release()
        await scene.clock.sleep(4.9)
        assert connection.is_open
        await scene.clock.sleep(0.2)
        assert not connection.is_open
        again = await acquired(scene)
        assert again is not core
        await closed(again)
        with pytest.raises(ConnectionClosed):
            await core.connection(BROKER_A)

    play(story)


def test_without_a_linger_it_closes_at_once() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene, keep_open_ms=0)
        connection = await core.connection(BROKER_A)
        await core.release()
        assert not connection.is_open
        assert len(asyncio.all_tasks()) <= 1 + len(scene.callers) * 2

    play(story)


def test_a_loop_that_ends_closes_what_lingers() -> None:
    closed_by: list[str] = []

    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene, keep_open_ms=600_000)
        connection = await core.connection(BROKER_A)
        connection.when_closed(lambda one: closed_by.append(one.close_reason))
        await core.release()
        scene.open.pop_all()  # the broker stays until the loop ends

    play(story)
    assert closed_by == ["the client stops"]


def test_a_core_that_was_never_released_is_dropped_after_its_loop() -> None:
    loops = []

    async def story(scene: Scene) -> None:
        loops.append(asyncio.get_running_loop())
        await scene.nameserver()
        await ClientCore.acquire(scene.settings(), scene.machine)

    play(story)
    assert loops[0] in client_core._cores
    play(story)
    assert loops[0] not in client_core._cores


def test_the_lingering_cores_of_a_loop_are_forgotten_after_it() -> None:
    loops = []

    async def story(scene: Scene) -> None:
        loops.append(asyncio.get_running_loop())
        await scene.nameserver()
        await (await acquired(scene)).release()

    play(story)
    assert loops[0] in client_core._lingerings
    play(story)
    assert loops[0] not in client_core._lingerings


@pytest.mark.parametrize("keep_open_ms", [1_000, 600_000], ids=["is being closed", "lingers"])
def test_unused_cores_can_be_closed_before_the_loop_ends(keep_open_ms: int) -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        unused, used = await acquired(scene, keep_open_ms=keep_open_ms), await acquired(scene)
        connections = [await core.connection(BROKER_A) for core in (unused, used)]
        await unused.release()
        await scene.clock.sleep(1)
        await asyncio.sleep(0)
        await ClientCore.close_unused()
        assert [one.is_open for one in connections] == [False, True]
        await ClientCore.close_unused()
        await closed(used)

    play(story)


def test_a_start_that_fails_leaves_nothing() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(2):
            with pytest.raises(NoNameserver):
                await acquired(scene, nameserver="", nameserver_url="http://web:80/")
        with pytest.raises(NoNameserver):
            await acquired(scene, nameserver="")
        await scene.clock.sleep(1)
        assert len(asyncio.all_tasks()) == 1

    play(story)


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async def story(scene: Scene) -> None:
        scene.network.carries = False  # the list is never answered
        settings = scene.settings(nameserver="", nameserver_url="http://web:80/")
        starts = [
            asyncio.create_task(ClientCore.acquire(settings, scene.machine)) for _ in range(2)
        ]
        await scene.clock.sleep(1)
        for start in starts:
            start.cancel()
        await asyncio.wait(starts)
        await scene.clock.sleep(1)
        assert len(asyncio.all_tasks()) == 1

    play(story)


# Groups


def test_a_group_is_heard_of_left_and_may_be_shared_without_a_name() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene)
        first, second = object(), object()
        core.register_producer("billing", first)
        core.register_producer("billing", second)
        await core.routes.publish_route("orders")
        await scene.clock.sleep(1)
        assert scene.codes(BROKER_A) == scene.codes(BROKER_B) == [HEARTBEAT]
        await core.unregister_producer("billing", first)
        await core.unregister_producer("billing", first)  # was not there any more
        assert scene.codes(BROKER_A) == [HEARTBEAT]
        await core.unregister_producer("billing", second)
        assert scene.codes(BROKER_A) == [HEARTBEAT, UNREGISTER, UNREGISTER]
        await core.release()

    play(story)


def test_a_group_comes_once_in_an_instance_with_a_name() -> None:
    async def story(scene: Scene) -> None:
        core = await acquired(scene, instance_name="one")
        core.register_producer("billing", self := object())
        with pytest.raises(InvalidGroup, match="one already has a producer of group billing"):
            core.register_producer("billing", object())
        await core.unregister_producer("billing", self)
        core.register_producer("billing", object())
        await core.release()

    play(story)


def test_heartbeats_go_on_and_follow_the_routes() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        scene.routes["orders"] = route("a")
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.routes.publish_route("orders")
        await scene.clock.sleep(61)
        assert len(scene.codes(BROKER_A)) == 3
        assert scene.codes(BROKER_B) == []
        scene.routes["orders"] = route("b")
        await scene.clock.sleep(28)  # the poll at 90 s has not come
        assert scene.codes(BROKER_B) == []
        await scene.clock.sleep(2)
        assert scene.codes(BROKER_B) != []
        count = len(scene.codes(BROKER_A))
        await scene.clock.sleep(120)
        assert len(scene.codes(BROKER_A)) <= count + 1
        await core.release()

    play(story)


def test_a_new_connection_starts_with_a_heartbeat() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.announce("orders")
        scene.network.cut()
        await scene.clock.sleep(1)
        assert core.open_connection(BROKER_A) is None
        await asyncio.gather(*(core.connection(BROKER_A) for _ in range(10)))
        await scene.clock.sleep(1)
        assert scene.codes(BROKER_A) == [HEARTBEAT, HEARTBEAT]
        body = HeartbeatData.from_json(scene.heard[-1][2].body)
        assert body.client_id == core.client_id
        await core.release()

    play(story)


def test_with_vip_channels_both_ports_hear_heartbeats() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        second = BROKER_A._replace(port=BROKER_A.port - 2)
        await scene.broker(second)
        core = await acquired(scene, vip_channel=True)
        core.register_producer("billing", core)
        found = await core.routes.publish_route("orders")
        assert found.addresses["broker-a"] == second
        await scene.clock.sleep(31)
        assert HEARTBEAT in scene.codes(second)
        assert HEARTBEAT in scene.codes(BROKER_A)
        await core.release()

    play(story)


# What brokers ask, and are asked


def test_brokers_can_ask_back() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.announce("orders")
        (caller,) = scene.callers[BROKER_A]
        answer = await caller.request(GetConsumerRunningInfo(consumer_group="g", client_id="c"))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await caller.request(REPLY, b"late")).code == ResponseCode.SUCCESS
        assert core.requests.late == 1
        await core.release()

    play(story)


def test_requests_are_signed_and_carry_the_namespace() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(
            scene, access_key="alice", secret_key="sesame", namespace_v2="eu", keep_open_ms=0
        )
        await core.request(BROKER_A, GetMaxOffset(topic="orders", queue_id=0))
        (_, _, request) = scene.heard[0]
        assert request.read(GetMaxOffset).namespace == "eu"
        assert b"alice" in bytes(request.raw_fields)  # type: ignore[arg-type]
        assert b"Signature" in bytes(request.raw_fields)  # type: ignore[arg-type]
        await core.oneway(BROKER_A, GetMaxOffset(topic="bills", queue_id=0))
        await core.request(BROKER_A, GetMaxOffset(topic="orders", queue_id=0))
        (_, _, request) = scene.heard[1]
        assert request.is_oneway
        assert request.read(GetMaxOffset).namespace == "eu"
        await core.release()

    play(story)


def test_a_request_has_the_time_of_the_settings() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        scene.answer = lambda _request: None
        core = await acquired(scene, request_timeout_ms=700)
        with pytest.raises(RequestTimeout, match="within 700 ms"):
            await core.request(BROKER_A, Heartbeat())
        await core.release()

    play(story)


def test_nothing_waits_for_the_code_of_users() -> None:
    async def story(scene: Scene) -> None:
        """A broker's question that a listener is slow to answer delays no heartbeat."""
        await whole(scene)
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.announce("orders")

        async def slow() -> Response:
            await asyncio.sleep(3_600)
            return Response()

        core.broker_requests.listen(
            RequestCode.GET_CONSUMER_RUNNING_INFO, lambda _, __: slow(), group="g"
        )
        (caller,) = scene.callers[BROKER_A]
        header = GetConsumerRunningInfo(consumer_group="g", client_id="c")
        asking = asyncio.create_task(caller.request(header, timeout_ms=4_000_000))
        await scene.clock.sleep(301)
        assert len(scene.codes(BROKER_A)) == 11
        asking.cancel()
        await core.release()

    play(story)


def test_a_nameserver_that_is_gone_for_an_hour_and_back() -> None:
    async def story(scene: Scene) -> None:
        listener = await scene.nameserver()
        scene.routes["orders"] = route("a")
        await scene.broker(BROKER_A)
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.announce("orders")
        await listener.close()
        await scene.clock.sleep(3_601)
        assert (await core.routes.publish_route("orders")).queues
        assert len(scene.codes(BROKER_A)) == 121  # heartbeats went on
        scene.routes["orders"] = route("a", "b")
        await scene.broker(BROKER_B)
        await scene.nameserver()
        await scene.clock.sleep(31)
        assert len(core.routes.published["orders"].queues) == 8
        assert scene.codes(BROKER_B) == [HEARTBEAT]
        await core.release()

    play(story)


def test_a_hundred_clients_in_one_process() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        cores = await asyncio.gather(
            *(acquired(scene, instance_name=f"i{number}") for number in range(100))
        )
        for core in cores:
            core.register_producer("billing", core)
            await core.announce("orders")
        assert len({core.client_id for core in cores}) == 100
        assert len(scene.callers[BROKER_A]) == 100
        for core in cores:
            await core.unregister_producer("billing", core)
            await core.release()
        await scene.clock.sleep(6)
        assert not any(caller.is_open for caller in scene.callers[BROKER_A])

    play(story)


def test_a_fault_of_ours_stops_neither_polls_nor_heartbeats(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        await whole(scene)
        core = await acquired(scene)
        core.register_producer("billing", core)
        await core.announce("orders")
        with monkeypatch.context() as patch:
            for part, name in ((core.heartbeats, "beat_all"), (core.routes, "refresh")):
                patch.setattr(part, name, broken)
            await scene.clock.sleep(31)
        heard, asked = len(scene.heard), len(scene.asked)
        await scene.clock.sleep(30)
        assert len(scene.heard) == heard + 2
        assert len(scene.asked) == asked + 1
        await core.release()

    async def broken() -> None:
        raise RuntimeError("a fault of ours")

    with caplog.at_level(logging.ERROR):
        play(story)
    assert len(caplog.messages) == 2


def test_connections_are_verified_by_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def main() -> None:
        context = server_context(certificates.of_server)
        body = route("a").to_standard_json()
        async with Listener(
            LOOPBACK, lambda _connection, _request: Response(body=body), tls=context
        ) as listener:
            names = str(listener.address)
            strict = ClientSettings(nameserver=names, tls=True, keep_open_ms=0)
            core = await ClientCore.acquire(strict)
            with pytest.raises(NameserversFailed, match="certificate verify failed"):
                await core.routes.publish_route("orders")
            await core.release()
            trusting = replace(strict, tls_ca_file=str(certificates.ca))
            core = await ClientCore.acquire(trusting)
            assert (await core.routes.publish_route("orders")).queues
            await core.release()

    asyncio.run(main())


def test_a_fork_gets_a_clear_error_and_can_start_afresh() -> None:
    settings = ClientSettings(nameserver=str(NAMES[0]), keep_open_ms=0)

    def start_anew() -> None:
        async def start() -> None:
            await (await ClientCore.acquire(settings)).release()

        asyncio.run(start())

    async def parent() -> None:
        core = await ClientCore.acquire(settings)
        for use in (
            lambda: core.connection(BROKER_A).send(None),
            lambda: core.release().send(None),
        ):
            assert "was forked and belongs to the parent" in said_in_a_fork(use)
        assert said_in_a_fork(start_anew) == "nothing was raised"
        await core.release()

    asyncio.run(parent())


def test_a_core_that_is_not_shared_has_an_id_of_its_own_and_closes_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.nameserver()
        shared = await ClientCore.acquire(scene.settings(), scene.machine)
        own = await ClientCore.acquire(scene.settings(), scene.machine, is_shared=False)
        assert own.client_id != shared.client_id
        assert await ClientCore.acquire(scene.settings(), scene.machine) is shared
        await own.release()
        assert own._is_closed
        await shared.release()
        await shared.release()
        await ClientCore.close_unused()

    play(story)


def test_a_consumer_group_has_one_owner() -> None:
    async def story(scene: Scene) -> None:
        await scene.nameserver()
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        core.register_consumer(ConsumerData(group_name="billing"), "one")
        core.register_consumer(ConsumerData(group_name="billing", unit_mode=True), "one")
        with pytest.raises(InvalidGroup, match="already has a consumer of group billing"):
            core.register_consumer(ConsumerData(group_name="billing"), "two")
        await core.unregister_consumer("billing", "two")
        await core.unregister_consumer("billing", "one")
        core.register_consumer(ConsumerData(group_name="billing"), "two")
        await core.release()

    play(story)


def test_the_end_of_a_loop_closes_cores_that_were_not_released() -> None:
    async def story(scene: Scene) -> None:
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        await ClientCore.close_unused()
        assert not core._is_closed
        await ClientCore.close_unused(close_used=True)
        assert core._is_closed

    play(story)
