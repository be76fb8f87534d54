"""Nameservers and brokers by script, in memory and virtual time, and a machine for clients."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from orbitmq.client.core.machine import Machine
from orbitmq.client.settings import ClientSettings
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Outcome
from orbitmq.net.listener import Listener
from orbitmq.randomness import SeededRandomness
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, VirtualLoop, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import ReplyMessage
from orbitmq.wire.session import Response

T = TypeVar("T")

NAMES = tuple(Address(f"names-{number}", 9876) for number in (1, 2, 3))
BROKER_A, BROKER_B = Address("10.0.0.1", 10911), Address("10.0.0.2", 10911)

REPLY = ReplyMessage(
    producer_group="g",
    topic="t",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
    born_host="10.0.0.1:1",
    store_host="10.0.0.1:2",
)
"""A reply that nobody waits for."""


def route(*brokers: str, queues: int = 4, perm: int = 6, **others: object) -> TopicRouteData:
    """Return a route over brokers named a, b, …; each has a master at 10.0.0.<its number>."""
    addresses = {"a": str(BROKER_A), "b": str(BROKER_B)}
    return TopicRouteData(
        broker_datas=tuple(
            BrokerData(broker_name=f"broker-{name}", cluster="c", broker_addrs={0: addresses[name]})
            for name in brokers
        ),
        queue_datas=tuple(
            QueueData(
                broker_name=f"broker-{name}",
                perm=perm,
                read_queue_nums=queues,
                write_queue_nums=queues,
            )
            for name in brokers
        ),
        **others,  # type: ignore[arg-type]
    )


class Scene:
    """What a client meets.

    Attributes:
        routes: what nameservers know, by topic.
        asked: which nameserver was asked for which topic, and when.
        heard: what brokers were sent, and when.
        answer: what brokers answer; None: nothing at all.

    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.network = MemoryNetwork()
        self.machine = Machine(
            network=self.network,
            clock=clock,
            workers=lambda _name: InlineWorkers(),
            randomness=SeededRandomness(7),
            environment=lambda _name: "",
            host="10.0.0.9",
            pid=4711,
        )
        self.routes: dict[str, TopicRouteData] = {}
        self.asked: list[tuple[int, Address, str]] = []
        self.heard: list[tuple[int, Address, Frame]] = []
        self.callers: dict[Address, list[Connection]] = {}
        self.answer: Callable[[Frame], Outcome] = lambda _request: Response()
        self.open = AsyncExitStack()

    async def nameserver(self, address: Address = NAMES[0]) -> Listener:
        """Start one, and return it to be closed before the end if need be."""

        def serve(_connection: Connection, request: Frame) -> Response:
            assert request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            topic = request.read(GetRouteInfo).topic
            self.asked.append((self.clock.monotonic_ms(), address, topic))
            if topic not in self.routes:
                return Response(ResponseCode.TOPIC_NOT_EXIST, remark=f"no {topic} here")
            return Response(body=self.routes[topic].to_standard_json())

        return await self.listen(address, serve)

    async def broker(self, address: Address = BROKER_A) -> Listener:
        """Start one that notes what it is sent, and answers as ``answer`` says."""

        def serve(connection: Connection, request: Frame) -> Outcome:
            self.heard.append((self.clock.monotonic_ms(), address, request))
            callers = self.callers.setdefault(address, [])
            if connection not in callers:
                callers.append(connection)
            return self.answer(request)

        return await self.listen(address, serve)

    async def listen(
        self, address: Address, serve: Callable[[Connection, Frame], Outcome]
    ) -> Listener:
        listener = Listener(address, serve, network=self.network)
        return await self.open.enter_async_context(listener)

    def settings(self, **others: object) -> ClientSettings:
        """Return settings of a client that asks the first nameserver."""
        return ClientSettings(**{"nameserver": str(NAMES[0]), **others})  # type: ignore[arg-type]

    def codes(self, address: Address) -> list[int]:
        """Return which requests a broker was sent."""
        return [request.code for _, told, request in self.heard if told == address]

    def topics_asked(self) -> list[str]:
        return [topic for _, _, topic in self.asked]


def play(story: Callable[[Scene], Awaitable[T]]) -> T:
    """Run a story in virtual time; what it has opened is closed in the end."""

    async def main(clock: VirtualClock) -> T:
        scene = Scene(clock)
        async with scene.open:
            return await story(scene)

    return run_virtual(main)


def stand_still(seconds: float) -> None:
    """Let time pass while the loop runs nothing, as a long callback does."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._jumping.now_ns += round(seconds * 1e9)
