"""Sends with default settings over a restart of the only broker: none of them fails."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import ConnectFailed, NameserversFailed, OrbitError, SendRefused
from orbitmq.message.model import Message, MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.listener import Listener
from tests.client.post import open_post, open_producer, refuse
from tests.client.producer.test_exchanges import Broker as TalkingBroker
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route

MESSAGE = Message("orders", b"paid")
QUEUE = MessageQueue("orders", "broker-a", 1)
OUTAGE_S = 2.0


async def in_a_transaction(producer: Producer) -> object:
    async with producer.transaction(MESSAGE) as transaction:
        return transaction.receipt


WAYS: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "send": lambda producer: producer.send(MESSAGE),
    "timeout": lambda producer: producer.send(MESSAGE, timeout_ms=3_000),
    "queue": lambda producer: producer.send(MESSAGE, queue=QUEUE),
    "sharding key": lambda producer: producer.send(MESSAGE, sharding_key="o-42"),
    "selector": lambda producer: producer.send(MESSAGE, selector=lambda queues, _: queues[0]),
    "send_many": lambda producer: producer.send_many([MESSAGE] * 3),
    "send_many to a queue": lambda producer: producer.send_many([MESSAGE] * 3, queue=QUEUE),
    "transaction": in_a_transaction,
    "request": lambda producer: producer.request(MESSAGE),
}


class Restarts:
    """Broker a, which goes away and comes back at the same address."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.post = TalkingBroker(scene)
        self._listener: Listener | None = None

    async def start(self) -> None:
        self._listener = await self.scene.listen(BROKER_A, self.post.hear)

    async def stop(self) -> None:
        assert self._listener is not None
        await self._listener.close()


async def opened(scene: Scene, **options: object) -> tuple[Restarts, Producer]:
    scene.routes["orders"] = route("a", queues=2)
    scene.routes["DefaultCluster_REPLY_TOPIC"] = route("a", queues=1)
    await scene.nameserver()
    broker = Restarts(scene)
    await broker.start()
    producer = await open_producer(scene, **options)
    await producer.send(MESSAGE)
    return broker, producer


@pytest.mark.parametrize("way", WAYS)
def test_sends_of_every_kind_outlast_a_restart_of_two_seconds(way: str) -> None:
    async def story(scene: Scene) -> list[object]:
        broker, producer = await opened(scene)

        async def restart() -> None:
            await asyncio.sleep(0.21)  # when no send is in flight: one of those may be stored
            await broker.stop()
            await asyncio.sleep(OUTAGE_S)
            await broker.start()

        async def send(number: int) -> object:
            await asyncio.sleep(number * 0.02)
            return await WAYS[way](producer)

        restarting = asyncio.create_task(restart())
        results = await asyncio.gather(*map(send, range(120)), return_exceptions=True)
        await restarting
        return [one for one in results if isinstance(one, BaseException)]

    assert play(story) == []


def test_each_message_is_stored_once_although_it_was_tried_often() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        await broker.stop()
        sending = asyncio.create_task(producer.send(MESSAGE, queue=QUEUE))
        await asyncio.sleep(OUTAGE_S)
        await broker.start()
        assert (await sending).queue == QUEUE
        assert [one.queue for one in broker.post.sent[1:]] == [("a", 1)]
        assert 'retries_total{group="billing"} 0' not in producer.statistics.prometheus()

    play(story)


def test_failures_that_never_left_use_up_no_tries() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        await broker.stop()
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(1.0)
        broker.post.scripts["a"] = [refuse(2), refuse(2), refuse(2)]
        await broker.start()
        with pytest.raises(SendRefused) as caught:  # after three answers, as in Java
            await sending
        causes = [type(attempt.cause).__name__ for attempt in caught.value.attempts]
        assert causes.count("BrokerBusy") == 3
        assert causes.count("ConnectFailed") == len(causes) - 3 > 2
        assert len(broker.post.sent) == 1 + 3

    play(story)


def test_a_healthy_broker_is_tried_at_once() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        scene.routes["orders"] = route("a", "b", queues=1)
        producer = await open_producer(scene)
        await producer.queues("orders")
        for _ in range(4):
            began = scene.clock.monotonic_ms()
            assert (await producer.send(MESSAGE)).queue.broker_name == "broker-a"
            assert scene.clock.monotonic_ms() == began
        assert len(post.sent) == 4

    play(story)


def test_pauses_grow_and_the_send_ends_with_its_time() -> None:
    async def story(scene: Scene) -> OrbitError:
        broker, producer = await opened(scene)
        await broker.stop()
        began = scene.clock.monotonic_ms()
        with pytest.raises(OrbitError) as caught:
            await producer.send(MESSAGE)
        assert 2_900 <= scene.clock.monotonic_ms() - began <= 3_000
        return caught.value

    error = play(story)
    attempts = error.attempts  # type: ignore[attr-defined]
    assert len(attempts) < 15
    assert not error.may_be_stored  # type: ignore[attr-defined]
    began_ms = [one.began_ms for one in attempts if isinstance(one.cause, ConnectFailed)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(began_ms)]
    assert gaps[0] < 80 < max(gaps) <= 500


def test_a_route_that_is_lost_during_a_send_does_not_end_it() -> None:
    async def story(scene: Scene) -> None:
        broker, producer = await opened(scene)
        await asyncio.sleep(5)  # so that a failure looks the route up again
        scene.routes["orders"] = route("a", queues=0)  # as while a master is away
        await broker.stop()
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(OUTAGE_S)
        await broker.start()
        assert (await sending).queue.broker_name == "broker-a"

    play(story)


def test_a_broker_that_comes_back_elsewhere_is_found() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "b")
        scene.routes["orders"] = route("a", queues=2)
        producer = await open_producer(scene)
        await producer.queues("orders")
        await asyncio.sleep(5)
        sending = asyncio.create_task(producer.send(MESSAGE, queue=QUEUE))
        await asyncio.sleep(0.5)
        moved = route("b", queues=2)
        scene.routes["orders"] = type(moved)(
            broker_datas=tuple(
                type(one)(
                    broker_name="broker-a", cluster=one.cluster, broker_addrs={0: str(BROKER_B)}
                )
                for one in moved.broker_datas
            ),
            queue_datas=route("a", queues=2).queue_datas,
        )
        assert (await sending).queue == QUEUE
        assert post.brokers == ["b"]

    play(story)


def test_a_close_ends_sends_that_wait_for_a_broker() -> None:
    async def story(scene: Scene) -> int:
        broker, producer = await opened(scene, stop_timeout_ms=100, send_timeout_ms=60_000)
        await broker.stop()
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.3)
        await producer.close()
        began = scene.clock.monotonic_ms()
        with pytest.raises(OrbitError):
            await sending
        return scene.clock.monotonic_ms() - began

    assert play(story) <= 1_000


def test_missing_nameservers_fail_a_first_send_at_once() -> None:
    async def story(scene: Scene) -> int:
        producer = await open_producer(scene)
        with pytest.raises(NameserversFailed):
            await producer.send(MESSAGE)
        return scene.clock.monotonic_ms()

    assert play(story) == 0


def test_a_real_broker_restarts_under_sends() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            (broker,) = cluster._brokers
            (directory,) = cluster.directories
            port = Address.parse(cluster.brokers[0]).port
            producer = Producer("billing", nameserver=cluster.nameserver)
            async with producer:
                await producer.send(MESSAGE)
                stopped = asyncio.Event()

                async def keep_sending() -> int:
                    count = 0
                    while not stopped.is_set() or count < 50:
                        await producer.send(MESSAGE)
                        count += 1
                        await asyncio.sleep(0.002)
                    return count

                senders = [asyncio.create_task(keep_sending()) for _ in range(8)]
                await broker.close()
                await asyncio.sleep(0.4)  # the outage
                cluster._settings["listenPort"] = str(port)
                again = cluster._broker_settings("broker-a", directory)
                async with Broker(again, Machine()):
                    stopped.set()
                    sent = sum(await asyncio.gather(*senders))
                    assert producer.statistics.sent == sent + 1
                    assert producer.statistics.failed == 0

    asyncio.run(main())
