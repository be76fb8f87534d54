import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from orbitmq.broker.registration import BrokerIdentity, Registration
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.registration import (
    BrokerRegistration,
    TopicConfigAndMappingTable,
    body_crc32,
)
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import RegisterBroker, UnregisterBroker
from orbitmq.wire.session import Response

FIRST, SECOND = Address("names-1", 9876), Address("names-2", 9876)
WHO = BrokerIdentity(
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    broker_id=0,
    address="10.0.0.1:10911",
    ha_address="10.0.0.1:10912",
)


class Scene:
    """Two nameservers that record registrations, and a broker that registers."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.network = MemoryNetwork()
        self.received: dict[Address, list[tuple[int, int]]] = {FIRST: [], SECOND: []}
        """When, and which request."""
        self.frames: list[Frame] = []
        self.answer: Response | None = Response()
        self.topics = {"orders": TopicConfig(topic_name="orders")}
        self.may_register = True
        self.ordered: list[Sequence[str]] = []
        self.dialer = Dialer(network=self.network)
        self.registration = Registration(
            WHO,
            (FIRST, SECOND),
            self.table,
            dialer=self.dialer,
            period_ms=30_000,
            timeout_ms=24_000,
            on_ordered=self.ordered.append,
        )

    def table(self) -> TopicConfigAndMappingTable | None:
        if not self.may_register:
            return None
        return TopicConfigAndMappingTable(topic_config_table=dict(self.topics))

    def nameserver(self, address: Address) -> Listener:
        def serve(_connection: Connection, request: Frame) -> Response | None:
            self.received[address].append((self.clock.monotonic_ms(), request.code))
            self.frames.append(request)
            return self.answer

        return Listener(address, serve, network=self.network)


def play(story: Callable[[Scene], Awaitable[None]], *, second: bool = True) -> Scene:
    """Run a story with the first nameserver, and the second unless it is down; return the scene."""

    async def main(clock: VirtualClock) -> Scene:
        scene = Scene(clock)
        async with scene.nameserver(FIRST), scene.dialer:
            if second:
                async with scene.nameserver(SECOND):
                    await story(scene)
            else:
                await story(scene)
        return scene

    return run_virtual(main)


def test_every_nameserver_gets_the_identity_and_the_topics() -> None:
    async def story(scene: Scene) -> None:
        assert await scene.registration.register() == 2

    scene = play(story)
    for frame in scene.frames:
        header = frame.read(RegisterBroker)
        assert (header.broker_name, header.broker_addr) == ("broker-a", "10.0.0.1:10911")
        assert (header.ha_server_addr, header.cluster_name) == ("10.0.0.1:10912", "DefaultCluster")
        assert header.body_crc32 == body_crc32(frame.body)
        body = BrokerRegistration.from_json(frame.body)
        assert list(body.topics.topic_config_table) == ["orders"]
    assert len(scene.frames) == 2


def test_nothing_is_registered_while_another_may_have_its_id() -> None:
    async def story(scene: Scene) -> None:
        scene.may_register = False
        assert await scene.registration.register() == 0
        scene.may_register = True
        assert await scene.registration.register() == 2

    assert len(play(story).frames) == 2


def test_it_registers_every_period_and_soon_after_a_change() -> None:
    async def story(scene: Scene) -> None:
        running = asyncio.create_task(scene.registration.run())
        await scene.clock.sleep(61)
        for number in range(3):  # a client that starts makes several topics in a row
            scene.topics[f"topic-{number}"] = TopicConfig(topic_name=f"topic-{number}")
            scene.registration.changed()
        await scene.clock.sleep(1)
        running.cancel()

    scene = play(story)
    register = RequestCode.REGISTER_BROKER
    assert scene.received[FIRST] == [(30_000, register), (60_000, register), (61_010, register)]
    last = BrokerRegistration.from_json(scene.frames[-1].body)
    assert len(last.topics.topic_config_table) == 4


def test_a_nameserver_that_is_restarted_knows_the_broker_within_seconds() -> None:
    async def story(scene: Scene) -> None:
        running = asyncio.create_task(scene.registration.run())
        async with scene.nameserver(SECOND):
            await scene.registration.register()
            await scene.clock.sleep(5)
        await scene.clock.sleep(2.5)
        async with scene.nameserver(SECOND):
            await scene.clock.sleep(2)
            assert len(scene.received[SECOND]) == 2
            await scene.clock.sleep(20)
        running.cancel()

    scene = play(story, second=False)
    assert [at_ms for at_ms, _ in scene.received[SECOND]] == [0, 8_010]  # lost at 5 s: 1 s, 2 s
    assert [at_ms for at_ms, _ in scene.received[FIRST]] == [0, 5_010]


def test_one_that_cannot_be_reached_is_tried_less_and_less_until_the_next_round() -> None:
    async def story(scene: Scene) -> None:
        dialled: list[int] = []
        connect = scene.network.connect

        async def counted(*arguments: Any, **options: Any) -> None:
            if arguments[1] == SECOND:
                dialled.append(scene.clock.monotonic_ms())
            await connect(*arguments, **options)

        scene.network.connect = counted  # type: ignore[method-assign]
        running = asyncio.create_task(scene.registration.run())
        await scene.clock.sleep(0)
        assert await scene.registration.register() == 1
        await scene.clock.sleep(62)
        running.cancel()
        assert dialled == [
            *(0, 1_000, 3_000, 7_000, 15_000),
            *(30_000, 31_000, 33_000, 37_000, 45_000),
            *(60_000, 61_000),
        ]

    play(story, second=False)


def test_calls_during_a_round_share_the_next_one() -> None:
    async def story(scene: Scene) -> None:
        scene.network.delay_s = 0.1
        first = asyncio.create_task(scene.registration.register())
        await scene.clock.sleep(0.05)
        scene.topics["payments"] = TopicConfig(topic_name="payments")
        later = [scene.registration.register() for _ in range(100)]
        assert await asyncio.gather(first, *later) == [2] * 101

    scene = play(story)
    assert len(scene.received[FIRST]) == 2
    last = BrokerRegistration.from_json(scene.frames[-1].body)
    assert "payments" in last.topics.topic_config_table


def test_a_connection_that_went_silent_is_given_up() -> None:
    async def story(scene: Scene) -> None:
        await scene.registration.register()
        await scene.clock.sleep(1)
        scene.network.carries = False
        assert await scene.registration.register() == 0
        assert scene.dialer.connections == {}
        scene.network.carries = True
        assert await scene.registration.register() == 2

    play(story)


def test_a_stop_takes_the_broker_out() -> None:
    async def story(scene: Scene) -> None:
        await scene.registration.close()

    scene = play(story)
    assert [frame.read(UnregisterBroker).broker_addr for frame in scene.frames] == [WHO.address] * 2
    assert scene.received[SECOND] == [(0, RequestCode.UNREGISTER_BROKER)]


def test_one_that_is_down_costs_the_other_nothing_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.registration.register() == 1
        assert await scene.registration.register() == 1
        async with scene.nameserver(SECOND):
            assert await scene.registration.register() == 2

    with caplog.at_level(logging.INFO, logger="orbitmq.broker"):
        scene = play(story, second=False)
    assert len(scene.received[FIRST]) == 3
    said = [message for message in caplog.messages if str(SECOND) in message]
    assert len(said) == 2
    assert f"registration with nameserver {SECOND} failed" in said[0]
    assert said[1] == f"nameserver {SECOND} accepts registrations again"


def test_a_nameserver_that_refuses_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.answer = Response(ResponseCode.SYSTEM_ERROR, remark="crc32 not match")
        assert await scene.registration.register() == 0

    play(story)
    assert "it answered with code 1: crc32 not match" in caplog.messages[0]


def test_a_stop_waits_for_no_nameserver_long() -> None:
    async def story(scene: Scene) -> None:
        scene.answer = None  # it never answers
        await scene.registration.close()
        assert scene.clock.monotonic_ms() == 3_000

    play(story)


def test_topics_that_a_nameserver_calls_ordered_are_handed_on() -> None:
    async def story(scene: Scene) -> None:
        scene.answer = Response(
            body=KVTable(table={"b": "broker-a:4", "a": "broker-a:1"}).to_json()
        )
        await scene.registration.register()

    assert play(story).ordered == [["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("body", [b"", b'{"table":{}}', b"[]"])
def test_an_answer_without_order_marks_nothing(body: bytes) -> None:
    async def story(scene: Scene) -> None:
        scene.answer = Response(body=body)
        assert await scene.registration.register() == 2

    assert not any(play(story).ordered)


@pytest.mark.parametrize(("period_ms", "first_ms"), [(1, 10_000), (10**9, 60_000)])
def test_the_period_has_java_s_bounds(period_ms: int, first_ms: int) -> None:
    async def story(scene: Scene) -> None:
        registration = Registration(
            WHO,
            (FIRST,),
            TopicConfigAndMappingTable,
            dialer=scene.dialer,
            period_ms=period_ms,
            timeout_ms=1_000,
        )
        running = asyncio.create_task(registration.run())
        await scene.clock.sleep(61)
        running.cancel()
        assert scene.received[FIRST][0][0] == first_ms

    play(story)
