"""Sends of a loop that is held up: their timeouts say so."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from orbitmq import embedded
from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import SendTimeout
from orbitmq.message.model import Message, MessageQueue
from orbitmq.net.address import Address
from tests.client.post import open_post, open_producer, say_nothing
from tests.client.scene import Scene, play, stand_still
from tests.interop.fault_proxy import FaultProxy, Lost
from tests.net.loopback import on_both_loops, run_on

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])
BLOCK_S = 0.5


def test_a_timeout_tells_that_a_function_of_the_user_s_held_the_loop_up() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, topics=["orders"])
        post.always["a"] = say_nothing
        loop = asyncio.get_running_loop()
        loop.call_later(0.25, stand_still, 5.0)
        with pytest.raises(SendTimeout, match="our own loop stood still for 4950 ms") as caught:
            await producer.send(MESSAGE)
        spent = caught.value.spent
        assert (spent.answer_ms, spent.loop_stall_ms) == (5_250, 4_950)  # a tick was due at 0.3 s
        # What was over before a send began is none of its business.
        await asyncio.sleep(1)
        with pytest.raises(SendTimeout) as caught:
            await producer.send(MESSAGE)
        assert caught.value.spent.loop_stall_ms == 0
        assert "stood still" not in str(caught.value)

    play(story)


def test_a_hook_that_blocks_is_what_the_time_was_spent_on() -> None:
    class Slow(SendHook):
        def before(self, context: SendContext) -> None:
            stand_still(5.0)

    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, topics=["orders"])
        producer.add_hook(Slow())
        with pytest.raises(SendTimeout, match="our own loop stood still for 4900 ms") as caught:
            await producer.send(MESSAGE)
        assert caught.value.spent.loop_stall_ms == 4_900
        assert not caught.value.may_be_stored
        assert post.sent == []

    play(story)


def test_a_selector_that_blocks_is_what_the_time_was_spent_on() -> None:
    def slow(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        stand_still(5.0)
        return queues[0]

    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, topics=["orders"])
        with pytest.raises(SendTimeout, match="our own loop stood still for 4900 ms") as caught:
            await producer.send(MESSAGE, selector=slow)
        assert caught.value.spent.loop_stall_ms == 4_900
        assert not caught.value.may_be_stored
        assert post.sent == []

    play(story)


def test_a_send_whose_time_passed_before_it_left_never_leaves() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, topics=["orders"])
        sending = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(3)]
        asyncio.get_running_loop().call_soon(stand_still, 5.0)  # before what they wrote is flushed
        for one in sending:
            with pytest.raises(SendTimeout, match="was not sent within 3000 ms") as caught:
                await one
            assert not caught.value.may_be_stored
        await asyncio.sleep(1)
        assert post.sent == []

    play(story)


def test_a_try_that_never_left_is_followed_by_one_that_does() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, topics=["orders"], per_try_timeout_ms=500)
        sending = asyncio.create_task(producer.send(MESSAGE))
        asyncio.get_running_loop().call_soon(stand_still, 0.7)
        await sending
        await asyncio.sleep(1)
        assert len(post.sent) == 1
        assert 'retries_total{group="billing"} 1' in producer.statistics.prometheus()

    play(story)


@on_both_loops
def test_what_never_left_a_real_loop_is_not_stored(loop: str) -> None:
    """uvloop runs due timers before the flush, the standard loop after it."""

    async def main(nameserver: str) -> tuple[SendTimeout, int]:
        async with Producer("billing", nameserver=nameserver) as producer:
            await producer.send(MESSAGE)
            sending = asyncio.create_task(producer.send(MESSAGE, timeout_ms=200))
            asyncio.get_running_loop().call_soon(time.sleep, BLOCK_S)
            with pytest.raises(SendTimeout) as caught:
                await sending
            queues = await producer.queues("orders")
            ends = [(await producer.send(MESSAGE, queue=one)).queue_offset for one in queues]
            return caught.value, sum(ends)

    with embedded.start() as cluster:
        error, stored = run_on(loop, main(cluster.nameserver))
    assert not error.may_be_stored
    assert stored == 1  # before the last round, which was one to each queue


@pytest.mark.parametrize("way", ["callback", "hook", "selector"])
@on_both_loops
def test_what_holds_a_real_loop_up_is_told(loop: str, way: str) -> None:
    """uvloop reads the time once a turn, so that a stall shows in the next one."""

    class Slow(SendHook):
        def before(self, context: SendContext) -> None:
            time.sleep(BLOCK_S)

    def slow(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        time.sleep(BLOCK_S)
        return queues[0]

    async def main(cluster: embedded.RunningCluster) -> SendTimeout:
        broker = cluster.brokers[0]
        async with FaultProxy(Address.parse(broker)) as proxy:
            proxy.always = Lost()
            async with Producer(
                "billing",
                nameserver=cluster.nameserver,
                address_map={broker: str(proxy.at)},
                topics=["TBW102"],
            ) as producer:
                if way == "hook":
                    producer.add_hook(Slow())
                if way == "callback":
                    asyncio.get_running_loop().call_later(0.05, time.sleep, BLOCK_S)
                with pytest.raises(SendTimeout, match="our own loop stood still") as caught:
                    await producer.send(
                        MESSAGE, timeout_ms=200, selector=slow if way == "selector" else None
                    )
                return caught.value

    with embedded.start() as cluster:
        error = run_on(loop, main(cluster))
    assert error.spent.loop_stall_ms > 500 * BLOCK_S, "a tick was due soon after it began"
