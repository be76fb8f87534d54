"""The queues of a topic, asked of nameservers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.broker import routes
from orbitmq.broker.routes import TopicQueues
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.handlers import Handlers
from orbitmq.net.listener import Listener
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.route import QueueData, TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

FRESH_MS = 30_000
NAMESERVER = Address("nameserver", 9876)
ROUTE = TopicRouteData(
    queue_datas=(
        QueueData(broker_name="broker-b", perm=6, read_queue_nums=1, write_queue_nums=9),
        QueueData(broker_name="broker-a", perm=4, read_queue_nums=2),
        QueueData(broker_name="broker-c", perm=2, read_queue_nums=5),
    )
)
QUEUES = (
    MessageQueue("orders", "broker-a", 0),
    MessageQueue("orders", "broker-a", 1),
    MessageQueue("orders", "broker-b", 0),
)


class Scene:
    """A nameserver that answers as set, and what a broker remembers of it."""

    def __init__(self, network: MemoryNetwork, dialer: Dialer, clock: VirtualClock) -> None:
        self.network = network
        self.clock = clock
        self.answer = Response(body=ROUTE.to_json())
        self.asked = 0
        gone = Address("gone", 9876)
        self.queues = TopicQueues([gone, NAMESERVER], dialer, clock, lambda: FRESH_MS)

    def serve(self, _connection: Connection, _request: Frame) -> Response:
        self.asked += 1
        return self.answer


def play(script: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Dialer(network=network) as dialer:
            scene = Scene(network, dialer, clock)
            handlers = Handlers({RequestCode.GET_ROUTEINFO_BY_TOPIC: scene.serve})
            async with Listener(NAMESERVER, handlers, network=network):
                await script(scene)

    run_virtual(main)


def test_readable_queues_of_all_brokers_are_remembered_for_a_while() -> None:
    async def script(scene: Scene) -> None:
        for _ in range(2):
            assert await scene.queues.of("orders") == QUEUES
        assert scene.asked == 1
        await asyncio.sleep(FRESH_MS / 1000)
        assert await scene.queues.of("orders") == QUEUES
        assert scene.asked == 2

    play(script)


def test_a_topic_that_is_gone_has_none() -> None:
    async def script(scene: Scene) -> None:
        assert await scene.queues.of("orders") == QUEUES
        await asyncio.sleep(FRESH_MS / 1000)
        scene.answer = Response(ResponseCode.TOPIC_NOT_EXIST)
        assert await scene.queues.of("orders") is None

    play(script)


@pytest.mark.parametrize(
    "answer", [Response(ResponseCode.SYSTEM_ERROR, remark="not now"), Response(body=b"[")]
)
def test_the_last_route_holds_while_there_is_no_other(answer: Response) -> None:
    async def script(scene: Scene) -> None:
        assert await scene.queues.of("orders") == QUEUES
        await asyncio.sleep(FRESH_MS / 1000)
        scene.answer = answer
        assert await scene.queues.of("orders") == QUEUES
        assert await scene.queues.of("bills") is None

    play(script)


def test_the_topic_looked_up_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_TOPICS_MAX", 2)

    async def script(scene: Scene) -> None:
        for topic in ("a", "b", "c", "b", "a"):
            await scene.queues.of(topic)
        assert scene.asked == 4

    play(script)
