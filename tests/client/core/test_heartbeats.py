import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.client.core.heartbeats import INNER_GROUP, Heartbeats
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from orbitmq.wire.codes import VERSION_5_4_0, RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import Heartbeat, UnregisterClient
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, BROKER_B, Scene, play

HEARTBEAT, UNREGISTER = RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT
Story = Callable[[Scene, Heartbeats, Dialer], Awaitable[None]]


def with_membership(story: Story, *masters: Address) -> Scene:
    """Run a story with a client whose routes have these masters; they are not up by themselves."""

    async def whole(scene: Scene) -> Scene:
        async with Dialer(network=scene.network) as dialer:
            heartbeats = Heartbeats(
                client_id="10.0.0.9@1",
                dialer=dialer,
                masters=lambda: masters,
                timeout_ms=3_000,
                fields={"ns": "eu", "nsd": "true"},
            )
            await story(scene, heartbeats, dialer)
            await heartbeats.close()
        return scene

    return play(whole)


def groups(request: Frame) -> set[str]:
    body = HeartbeatData.from_json(request.body)
    assert body.client_id == "10.0.0.9@1"
    return {data.group_name for data in body.producer_data_set}


def test_masters_hear_of_a_group_at_once_and_then_all_the_time() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        await scene.broker(BROKER_B)
        running = asyncio.create_task(heartbeats.run(30_000))
        await scene.clock.sleep(5)
        heartbeats.join("billing")
        await scene.clock.sleep(60)
        running.cancel()

    scene = with_membership(story, BROKER_A, BROKER_B)
    for address in (BROKER_A, BROKER_B):
        assert scene.codes(address) == [HEARTBEAT] * 3
    assert [at for at, _, _ in scene.heard[::2]] == [5_000, 30_000, 60_000]
    assert all(groups(request) == {INNER_GROUP, "billing"} for _, _, request in scene.heard)
    assert scene.heard[0][2].read(Heartbeat).namespace == "eu"


def test_a_client_without_groups_sends_no_heartbeat() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        heartbeats.announce(BROKER_A)
        heartbeats.announce_on(BROKER_A, await dialer.connection(BROKER_A))
        await heartbeats.beat_all()

    assert with_membership(story, BROKER_A).heard == []


def test_a_group_is_left_when_the_last_of_it_goes() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        for group in ("billing", "billing", "audit"):
            heartbeats.join(group)
        await heartbeats.announce_all([BROKER_A])
        scene.heard.clear()
        await heartbeats.leave("billing")
        assert scene.heard == []
        await heartbeats.leave("billing")
        await heartbeats.leave("audit")

    scene = with_membership(story, BROKER_A)
    left = [request.read(UnregisterClient) for _, _, request in scene.heard]
    assert scene.codes(BROKER_A) == [UNREGISTER] * 3
    assert [header.producer_group for header in left] == ["billing", "audit", INNER_GROUP]
    assert {header.client_id for header in left} == {"10.0.0.9@1"}


def test_a_farewell_waits_for_no_broker_that_is_silent_or_gone() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        heartbeats.join("billing")
        await heartbeats.announce_all([BROKER_A])
        scene.answer = lambda _request: None
        began = scene.clock.monotonic_ms()
        await heartbeats.leave("billing")
        assert scene.clock.monotonic_ms() - began == 1_000  # both groups at once

    scene = with_membership(story, BROKER_A, BROKER_B)
    assert scene.codes(BROKER_B) == []  # never dialled for a farewell


@pytest.mark.parametrize("timeout_ms", [0, 300])
def test_a_farewell_to_all_takes_no_longer_than_it_may(timeout_ms: int) -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        for address in (BROKER_A, BROKER_B):
            await scene.broker(address)
        heartbeats.join("billing")
        await heartbeats.announce_all([BROKER_A, BROKER_B])
        scene.heard.clear()
        scene.answer = lambda _request: None
        began = scene.clock.monotonic_ms()
        await heartbeats.leave("billing", timeout_ms)
        assert scene.clock.monotonic_ms() - began == timeout_ms
        await scene.clock.sleep(1)

    scene = with_membership(story, BROKER_A, BROKER_B)
    for address in (BROKER_A, BROKER_B):  # told all the same
        assert scene.codes(address) == [UNREGISTER] * 2


def test_a_broker_that_knows_the_groups_gets_no_second_heartbeat() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        heartbeats.join("billing")
        for _ in range(3):
            await heartbeats.announce_all([BROKER_A])
        heartbeats.announce(BROKER_A)
        heartbeats.announce_on(BROKER_A, await dialer.connection(BROKER_A))
        await scene.clock.sleep(1)
        assert len(scene.heard) == 1
        heartbeats.join("audit")
        await heartbeats.announce_all([BROKER_A])
        assert groups(scene.heard[1][2]) == {INNER_GROUP, "billing", "audit"}
        assert len(scene.heard) == 2

    with_membership(story, BROKER_A)


def test_the_release_of_a_broker_is_known_from_its_answer() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        heartbeats.join("billing")
        assert heartbeats.release_of(BROKER_A) == heartbeats.release_of(None) == 0
        await heartbeats.announce_all([BROKER_A])
        assert heartbeats.release_of(BROKER_A) == VERSION_5_4_0

    with_membership(story, BROKER_A)


def test_a_new_connection_is_acknowledged_once() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        heartbeats.join("billing")
        await heartbeats.announce_all([BROKER_A])
        scene.network.cut()
        await scene.clock.sleep(1)
        connection = await dialer.connection(BROKER_A)
        for _ in range(10):
            heartbeats.announce_on(BROKER_A, connection)
        await scene.clock.sleep(1)
        heartbeats.announce_on(BROKER_A, connection)
        await scene.clock.sleep(1)
        assert len(scene.heard) == 2

    with_membership(story, BROKER_A)


@pytest.mark.parametrize("answer", [None, Response(1, remark="no")])
def test_a_failing_broker_does_not_delay_the_others(
    answer: Response | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.listen(BROKER_A, lambda _connection, _request: answer)
        await scene.broker(BROKER_B)
        running = asyncio.create_task(heartbeats.run(30_000))
        heartbeats.join("billing")
        await scene.clock.sleep(91)
        running.cancel()
        assert len([at for at, at_b, _ in scene.heard if at_b == BROKER_B]) >= 3

    with caplog.at_level(logging.INFO):
        with_membership(story, BROKER_A, BROKER_B)
    assert sum("does not answer heartbeats" in line for line in caplog.messages) == 1


def test_a_broker_that_is_back_hears_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        running = asyncio.create_task(heartbeats.run(30_000))
        heartbeats.join("billing")
        await scene.clock.sleep(100)
        await scene.broker(BROKER_A)
        await scene.clock.sleep(30)
        running.cancel()
        assert scene.codes(BROKER_A) == [HEARTBEAT]

    with caplog.at_level(logging.INFO):
        with_membership(story, BROKER_A)
    assert caplog.messages[-1].endswith("answers heartbeats again")


def consumer_groups(request: Frame) -> set[str]:
    body = HeartbeatData.from_json(request.body)
    return {data.group_name for data in body.consumer_data_set}


def test_consumers_are_in_heartbeats_and_changes_are_sent_at_once() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        await scene.broker(BROKER_B)
        heartbeats.slaves = lambda: [BROKER_B]
        heartbeats.subscribe(ConsumerData(group_name="billing"))
        await heartbeats.announced()
        heartbeats.subscribe(ConsumerData(group_name="billing", unit_mode=True))
        await heartbeats.announced()
        assert await heartbeats.beat(BROKER_A)

    scene = with_membership(story, BROKER_A)
    assert scene.codes(BROKER_A) == [HEARTBEAT] * 3
    assert scene.codes(BROKER_B) == [HEARTBEAT] * 2  # a slave hears of consumers
    assert all(consumer_groups(request) == {"billing"} for _, _, request in scene.heard)


def test_a_consumer_group_that_is_left_is_unregistered_everywhere() -> None:
    async def story(scene: Scene, heartbeats: Heartbeats, _dialer: Dialer) -> None:
        await scene.broker(BROKER_A)
        await scene.broker(BROKER_B)
        heartbeats.slaves = lambda: [BROKER_B]
        heartbeats.subscribe(ConsumerData(group_name="billing"))
        await heartbeats.announced()
        scene.heard.clear()
        await heartbeats.unsubscribe("billing")

    scene = with_membership(story, BROKER_A)
    left = [request.read(UnregisterClient) for _, told, request in scene.heard if told == BROKER_B]
    assert [(one.consumer_group, one.producer_group) for one in left] == [
        ("billing", None),
        (None, INNER_GROUP),
    ]
    assert scene.codes(BROKER_A) == [UNREGISTER] * 2
