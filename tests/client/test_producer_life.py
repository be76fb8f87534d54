"""The life of a producer: start, close, loops and processes."""

import asyncio
import logging

import pytest

from orbitmq import embedded
from orbitmq.client.life import ClientState
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import (
    AlreadyStarted,
    NoNameserver,
    NoRoute,
    NotRunning,
    ProducerClosed,
    WrongLoop,
)
from orbitmq.message.model import Message, SendStatus
from tests.client.post import later, open_post, open_producer, say_nothing
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route
from tests.net.test_fork import said_in_a_fork

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


def test_a_producer_lives_from_its_start_to_its_end() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = Producer("billing", client=scene.settings(keep_open_ms=0), machine=scene.machine)
        states = [producer.state]
        with pytest.raises(NotRunning, match="start it first"):
            await producer.send(MESSAGE)
        await producer.start()
        states.append(producer.state)
        assert producer.client_id.startswith("10.0.0.9@4711#")
        with pytest.raises(AlreadyStarted, match="is running"):
            await producer.start()
        await producer.send(MESSAGE)
        await producer.close()
        await producer.close()
        states.append(producer.state)
        assert [state.name for state in states] == ["CREATED", "RUNNING", "CLOSED"]
        for use in (producer.send, producer.send_oneway):
            with pytest.raises(ProducerClosed, match="make a new one"):
                await use(MESSAGE)
        with pytest.raises(AlreadyStarted, match="is closed"):
            await producer.start()
        assert producer.statistics.sent == 1

    play(story)


def test_a_start_that_fails_says_why_and_stays_so() -> None:
    async def story(scene: Scene) -> None:
        producer = Producer("billing", machine=scene.machine)
        with pytest.raises(NoNameserver, match="NAMESRV_ADDR"):
            await producer.start()
        assert producer.state is ClientState.START_FAILED
        with pytest.raises(NotRunning, match="start failed"):
            await producer.send(MESSAGE)
        with pytest.raises(AlreadyStarted):
            await producer.start()
        await producer.close()

    play(story)


def test_one_that_was_never_started_is_closed_all_the_same() -> None:
    async def story(scene: Scene) -> None:
        producer = Producer("billing", client=scene.settings(), machine=scene.machine)
        await producer.close()
        assert producer.state is ClientState.CLOSED
        with pytest.raises(NotRunning):
            _ = producer.statistics

    play(story)


def test_a_close_during_the_start_closes_what_has_started() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        scene.network.delay_s = 0.1
        client = scene.settings(keep_open_ms=0)
        producer = Producer("billing", client=client, machine=scene.machine, topics=["orders"])
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0.05)
        assert repr(producer) == "<Producer billing starting>"
        with pytest.raises(AlreadyStarted, match="billing is starting; wait until it has started"):
            await producer.start()
        with pytest.raises(NotRunning, match="billing is starting; wait until it has started"):
            await producer.send(MESSAGE)
        await producer.close()
        assert starting.done()
        assert producer.state is ClientState.CLOSED
        with pytest.raises(ProducerClosed):
            await producer.send(MESSAGE)

    play(story)


def test_a_close_during_a_start_that_fails_has_nothing_to_close() -> None:
    async def story(scene: Scene) -> None:
        await scene.nameserver()
        scene.network.delay_s = 0.1
        client = scene.settings(keep_open_ms=0)
        producer = Producer("billing", client=client, machine=scene.machine, topics=["orders"])
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0.05)
        await producer.close()
        assert producer.state is ClientState.START_FAILED
        with pytest.raises(NoRoute):
            await starting

    play(story)


def test_a_second_close_waits_for_the_first() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = later(1.0, post.store)
        producer = await open_producer(scene)
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.1)
        first = asyncio.create_task(producer.close())
        await asyncio.sleep(0.1)
        assert repr(producer) == "<Producer billing closing>"
        await producer.close()
        assert first.done()
        assert producer.state is ClientState.CLOSED
        assert (await sending).status is SendStatus.SEND_OK

    play(story)


def test_topics_that_are_named_are_met_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        scene.routes["orders"] = route("a", "b", queues=4)
        producer = await open_producer(scene, topics=["orders"])
        asked = len(scene.asked)
        assert producer._sender is not None
        begun = [producer._sender.begin(MESSAGE) for _ in range(8)]
        # Every queue of the broker that is there is connected, without another look-up.
        assert sum(one.answer is not None for one in begun) == 4
        assert len(scene.asked) == asked
        await asyncio.gather(*map(producer._sender.finish, begun))

    with caplog.at_level(logging.WARNING, logger="orbitmq.client"):
        play(story)
    warned = [line for line in caplog.messages if "can't be reached at the start" in line]
    assert len(warned) == 1  # not once for each queue


def test_a_close_waits_for_sends_in_flight() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = later(1.0, post.store)
        producer = Producer("billing", client=scene.settings(keep_open_ms=0), machine=scene.machine)
        await producer.start()
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.1)
        await producer.close()
        assert sending.done()
        assert (await sending).status is SendStatus.SEND_OK

    play(story)


def test_a_close_waits_no_longer_than_it_may() -> None:
    async def story(scene: Scene) -> int:
        post = await open_post(scene, "a")
        post.always["a"] = say_nothing
        producer = await open_producer(scene, stop_timeout_ms=500, send_timeout_ms=60_000)
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.1)
        began = scene.clock.monotonic_ms()
        await producer.close()
        took_ms = scene.clock.monotonic_ms() - began
        await asyncio.gather(sending, return_exceptions=True)
        return took_ms

    # What comes on top is the goodbye to a broker that doesn't answer.
    assert 500 <= play(story) < 8_000


def test_the_farewell_is_part_of_the_time_of_a_close() -> None:
    async def story(scene: Scene) -> int:
        scene.routes["orders"] = route("a", "b")
        await scene.nameserver()
        for address in (BROKER_A, BROKER_B):
            await scene.broker(address)
        producer = await open_producer(scene, topics=["orders"], stop_timeout_ms=300)
        await asyncio.sleep(0.1)
        scene.answer = lambda _request: None
        began = scene.clock.monotonic_ms()
        await producer.close()
        return scene.clock.monotonic_ms() - began

    assert play(story) == 300


def test_all_parts_of_a_close_share_one_time() -> None:
    async def story(scene: Scene) -> int:
        post = await open_post(scene, "a")
        post.always["a"] = say_nothing
        producer = await open_producer(
            scene, stop_timeout_ms=500, send_timeout_ms=60_000, auto_batch=True, trace=True
        )
        alone = Message("orders", b"paid", sharding_key="o-42")
        sending = [asyncio.create_task(producer.send(one)) for one in (MESSAGE, alone)]
        await asyncio.sleep(0.1)
        began = scene.clock.monotonic_ms()
        await producer.close()
        took_ms = scene.clock.monotonic_ms() - began
        await asyncio.gather(*sending, return_exceptions=True)
        return took_ms

    assert play(story) == 500


def test_another_loop_is_refused() -> None:
    async def start(nameserver: str) -> Producer:
        producer = Producer("billing", nameserver=nameserver)
        await producer.start()
        return producer

    async def use(producer: Producer) -> None:
        with pytest.raises(WrongLoop, match=r"orbitmq\.blocking"):
            await producer.send(MESSAGE)

    with embedded.start() as cluster, asyncio.Runner() as first:
        producer = first.run(start(cluster.nameserver))
        with asyncio.Runner() as second:
            second.run(use(producer))
        first.run(producer.close())


def test_a_fork_gets_a_clear_error() -> None:
    async def main() -> tuple[str, str]:
        async with embedded.EmbeddedCluster() as cluster:
            async with Producer("billing", nameserver=cluster.nameserver) as producer:
                await producer.send(MESSAGE)
                anew = said_in_a_fork(lambda: asyncio.run(producer.send(MESSAGE)))
                # The child goes on with the coroutine, whose loop is the parent's.
                here = said_in_a_fork(lambda: producer.send(MESSAGE).send(None))
                return anew, here

    for said in asyncio.run(main()):
        assert "was opened before this process was forked" in said
