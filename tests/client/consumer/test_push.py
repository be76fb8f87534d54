"""The consumer as users meet it, on an embedded cluster."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq import Consumer, Message, Producer, RetryLater, Sql, StoredMessage
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import AlreadyStarted, InvalidInput, NotRunning
from tests.interop.waiting import until_async

SETTINGS = {"messageDelayLevel": " ".join(["1s"] * 18), "defaultTopicQueueNums": "4"}


class World:
    """A cluster, a producer and consumers of one group."""

    def __init__(self, cluster: EmbeddedCluster, producer: Producer) -> None:
        self.cluster = cluster
        self.nameserver = cluster.nameserver
        self._producer = producer

    async def send(self, *bodies: str, topic: str = "orders", **options: Any) -> None:
        for body in bodies:
            await self._producer.send(Message(topic, body.encode(), **options))

    def consumer(self, group: str = "billing", topic: str = "orders", **options: Any) -> Consumer:
        given: dict[str, Any] = {
            "subscribe": {topic: "*"},
            "consume_from": "first",
            "nameserver": self.nameserver,
            # Retry and dead letter topics come into being while consumers run.
            "poll_nameserver_interval_ms": 200,
            "rebalance_interval_ms": 200,
            **options,
        }
        return Consumer(group, **given)


@asynccontextmanager
async def world(**settings: str) -> AsyncIterator[World]:
    async with EmbeddedCluster(settings=SETTINGS | settings) as cluster:
        async with Producer("shop", nameserver=cluster.nameserver) as producer:
            yield World(cluster, producer)


def play(story: Callable[[World], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with world(**settings) as one:
            await story(one)

    asyncio.run(main())


async def until_seen(seen: list[str], *wanted: str) -> None:
    await until_async(lambda: set(wanted) <= set(seen), what=f"{wanted} in {seen}")


def test_a_coroutine_gets_each_message_and_a_restart_goes_on() -> None:
    async def story(world: World) -> None:
        await world.send("a", "b", "c")
        seen: list[str] = []
        for number in range(2):
            consumer = world.consumer()

            @consumer.on_message
            async def bill(message: StoredMessage) -> None:
                seen.append(message.body.decode())

            async with consumer:
                wanted = ["a", "b", "c"] if number == 0 else ["a", "b", "c", "d"]
                await until_seen(seen, *wanted)
            await world.send("d")
        assert sorted(seen) == ["a", "b", "c", "d"]

    play(story)


def test_a_function_runs_on_threads_and_may_block() -> None:
    async def story(world: World) -> None:
        await world.send(*map(str, range(8)))
        threads: set[int] = set()
        all_in_hand = threading.Barrier(4)
        seen: list[str] = []
        consumer = world.consumer(concurrency=4)

        @consumer.on_message
        def bill(message: StoredMessage) -> None:
            all_in_hand.wait(30)  # passes only if four run at once
            threads.add(threading.get_ident())
            seen.append(message.body.decode())

        async with consumer:
            await until_seen(seen, *map(str, range(8)))
        assert len(threads) == 4
        assert threading.get_ident() not in threads

    play(story)


def test_a_failure_is_delivered_again_and_ends_as_a_dead_letter() -> None:
    async def story(world: World) -> None:
        await world.send("bad", "good")
        seen: list[tuple[str, str, int]] = []
        consumer = world.consumer(max_reconsume_times=2)

        @consumer.on_message
        async def bill(message: StoredMessage) -> None:
            seen.append((message.topic, message.body.decode(), message.reconsume_times))
            if message.body == b"bad":
                raise ValueError("no such customer")

        dead: list[str] = []
        async with consumer, world.consumer("mourners", "%DLQ%billing") as mourner:
            async for message in mourner:
                dead.append(message.body.decode())
                break
        assert dead == ["bad"]
        assert [one for one in seen if one[1] == "bad"] == [("orders", "bad", n) for n in range(3)]
        assert [one for one in seen if one[1] == "good"] == [("orders", "good", 0)]

    play(story)


def test_retry_later_returns_some_of_a_batch() -> None:
    async def story(world: World) -> None:
        await world.send("a", "b", "c", sharding_key="one")
        sizes: list[int] = []
        seen: list[tuple[str, int]] = []
        consumer = world.consumer(batch_max=8)

        @consumer.on_message
        async def bill(messages: list[StoredMessage]) -> None:
            sizes.append(len(messages))
            seen.extend((one.body.decode(), one.reconsume_times) for one in messages)
            if refused := [one for one in messages if one.body == b"b" and not one.reconsume_times]:
                raise RetryLater("not yet", messages=refused, delay_level=1)

        async with consumer:
            await until_async(lambda: ("b", 1) in seen, what="b comes again")
        assert sorted(seen) == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]
        assert max(sizes) > 1

    play(story)


def test_iteration_acknowledges_with_the_next_step() -> None:
    async def story(world: World) -> None:
        await world.send(*"abc", sharding_key="one")
        taken: list[str] = []
        async with world.consumer() as consumer:
            async for message in consumer:
                taken.append(message.body.decode())
                if len(taken) == 2:
                    break  # b is not acknowledged
        async with world.consumer() as consumer:
            async for message in consumer:
                taken.append(message.body.decode())
                if message.body == b"c":
                    break
        assert taken == ["a", "b", "b", "c"]

    play(story)


def test_an_ordered_consumer_waits_and_tries_again() -> None:
    async def story(world: World) -> None:
        await world.send(*"abc", sharding_key="one")
        seen: list[str] = []
        consumer = world.consumer(ordered=True, suspend_ms=10)

        @consumer.on_message
        async def bill(message: StoredMessage) -> None:
            seen.append(message.body.decode())
            if message.body == b"b" and seen.count("b") < 3:
                raise RetryLater("wait")

        async with consumer:
            await until_seen(seen, "c")
        assert seen == ["a", "b", "b", "b", "c"]

    play(story)


def test_broadcasting_gives_each_member_everything(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.send("a")
        seen: list[list[str]] = [[], []]
        options: dict[str, Any] = {"broadcasting": True}
        first, second = (
            world.consumer(local_offset_directory=str(tmp_path / name), **options) for name in "xy"
        )
        for consumer, own in zip((first, second), seen, strict=True):
            consumer.on_message(lambda message, own=own: own.append(message.body.decode()))
        async with first, second:
            await until_seen(seen[0], "a")
            await until_seen(seen[1], "a")
        again = world.consumer(local_offset_directory=str(tmp_path / "x"), **options)
        again.on_message(lambda message: seen[0].append(message.body.decode()))
        async with again:
            await world.send("b")
            await until_seen(seen[0], "b")
        assert seen[0] == ["a", "b"]

    play(story)
    assert len(list(tmp_path.glob("x/*/billing/offsets.json"))) == 1


@pytest.mark.parametrize("selection", ["red || blue", Sql("size > 5")])
def test_tags_and_sql_select(selection: str | Sql) -> None:
    async def story(world: World) -> None:
        await world.send("small-red", tags="red", properties={"size": "6"})
        await world.send("no", tags="green", properties={"size": "1"})
        await world.send("large-blue", tags="blue", properties={"size": "7"})
        seen: list[str] = []
        consumer = world.consumer(subscribe={"orders": selection})
        consumer.on_message(lambda message: seen.append(message.body.decode()))
        async with consumer:
            await until_seen(seen, "small-red", "large-blue")
        assert "no" not in seen

    play(story)


def test_a_close_finishes_what_is_in_hand_and_gives_back_the_rest() -> None:
    async def story(world: World) -> None:
        await world.send(*map(str, range(6)))
        begun: list[str] = []
        ended: list[str] = []
        go_on = asyncio.Event()
        consumer = world.consumer(concurrency=2)

        @consumer.on_message
        async def bill(message: StoredMessage) -> None:
            begun.append(message.body.decode())
            await go_on.wait()
            ended.append(message.body.decode())

        await consumer.start()
        await until_async(lambda: len(begun) == 2, what="two are in hand")
        closing = asyncio.create_task(consumer.close())
        await until_async(lambda: consumer.state.name == "CLOSING", what="it is closing")
        go_on.set()
        await closing
        assert sorted(ended) == sorted(begun)
        assert len(ended) == 2
        rest: list[str] = []
        other = world.consumer()
        other.on_message(lambda message: rest.append(message.body.decode()))
        async with other:
            await until_async(lambda: len(rest) == 4, what="the others come")
        assert sorted(ended + rest) == sorted(map(str, range(6)))

    play(story)


def test_two_members_share_and_one_takes_over() -> None:
    async def story(world: World) -> None:
        await world.send("first")
        async with world.consumer() as one:
            async with world.consumer() as two:
                await until_async(
                    lambda: len(one.queues) == len(two.queues) == 2, what="each has two queues"
                )
                assert not one.queues & two.queues
            await until_async(lambda: len(one.queues) == 4, what="one has all queues")

    play(story)


def test_pause_and_resume() -> None:
    async def story(world: World) -> None:
        await world.send("a")
        seen: list[str] = []
        consumer = world.consumer()
        consumer.on_message(lambda message: seen.append(message.body.decode()))
        async with consumer:
            await until_seen(seen, "a")
            consumer.pause()
            await until_async(lambda: len(consumer.queues) == 4, what="all queues are taken")
            await world.send("b", topic="other")  # a turn of the whole cluster
            consumer.resume()
            await world.send("c")
            await until_seen(seen, "c")

    play(story)


def test_wrong_uses_say_what_is_wrong() -> None:
    async def story(world: World) -> None:
        consumer = Consumer("billing", nameserver=world.nameserver)
        with pytest.raises(InvalidInput, match="has no topic; give subscribe="):
            await consumer.start()
        consumer = world.consumer()
        with pytest.raises(NotRunning, match="start it first"):
            consumer.pause()
        consumer.on_message(print)
        with pytest.raises(InvalidInput, match="has a handler already"):
            consumer.on_message(print)
        with pytest.raises(InvalidInput, match="give a function"):
            world.consumer().on_message("bill")  # type: ignore[type-var]
        async with consumer:
            with pytest.raises(AlreadyStarted):
                consumer.on_message(print)
            with pytest.raises(InvalidInput, match="has a handler, which gets the messages"):
                async for _message in consumer:
                    pass
        with pytest.raises(InvalidInput, match="did you mean concurrency"):
            Consumer("billing", concurency=3)  # type: ignore[call-arg]

    play(story)


def test_subscriptions_made_at_once_are_all_consumed() -> None:
    async def story(world: World) -> None:
        for topic in "abcd":
            await world.send(topic, topic=topic)
        seen: list[str] = []
        consumer = world.consumer(topic="a", rebalance_interval_ms=20_000)

        @consumer.on_message
        async def bill(message: StoredMessage) -> None:
            seen.append(message.body.decode())

        async with consumer:
            await asyncio.gather(*(consumer.subscribe(topic) for topic in "bcd"))
            await until_seen(seen, *"abcd")

    play(story)


def test_the_first_failure_of_a_new_group_is_retried_soon() -> None:
    """The retry topic comes into being while the consumer starts; the next round is in 20 s."""

    async def story(world: World) -> None:
        await world.send("a")
        seen: list[str] = []
        consumer = world.consumer(rebalance_interval_ms=20_000, poll_nameserver_interval_ms=30_000)

        @consumer.on_message
        async def bill(message: StoredMessage) -> None:
            seen.append(message.body.decode())
            if len(seen) == 1:
                raise RetryLater

        async with consumer:
            await until_async(lambda: len(seen) == 2, what="it is retried", seconds=10)

    play(story)
