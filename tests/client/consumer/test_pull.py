"""The pull consumer as its users see it, against an embedded cluster."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orbitmq import embedded
from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.pull import PullConsumer
from orbitmq.client.consumer.subscriptions import Sql
from orbitmq.client.life import ClientState
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import SystemClock
from orbitmq.embedded import EmbeddedCluster, RunningCluster
from orbitmq.errors import (
    AlreadyStarted,
    BrokerError,
    InvalidInput,
    NoRoute,
    NotAssigned,
    NotRunning,
    OrbitError,
)
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup
from tests.client.consumer.world import next_ms

SECONDS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with embedded.start() as running:
        yield running


class World:
    """A topic of its own in the cluster, a producer, and pull consumers of one group."""

    def __init__(self, nameserver: str, topic: str, **options: Any) -> None:
        self.nameserver = nameserver
        self.topic = topic
        self.options = options
        self.producer: Producer

    def consumer(self, **options: Any) -> PullConsumer:
        given: dict[str, Any] = (
            {"consume_from": "first", "keep_open_ms": 0} | self.options | options
        )
        return PullConsumer(f"{self.topic}-group", nameserver=self.nameserver, **given)

    @asynccontextmanager
    async def reading(self, **options: Any) -> AsyncIterator[PullConsumer]:
        async with self.consumer(**options) as consumer:
            await consumer.subscribe(self.topic)
            yield consumer

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[None]:
        async with Producer("shop", nameserver=self.nameserver) as self.producer:
            yield

    async def send(self, *bodies: int, queue: int | None = None, **fields: Any) -> None:
        messages = [Message(self.topic, b"%d" % body, **fields) for body in bodies]
        await self.producer.send_many(messages, queue=self.queue(queue or 0))

    def queue(self, number: int) -> MessageQueue:
        return MessageQueue(self.topic, "broker-a", number)

    async def spread(self, count: int) -> None:
        for number in range(4):
            await self.send(*range(number, count, 4), queue=number)


def play(
    cluster: RunningCluster, story: Callable[[World], Awaitable[None]], **options: Any
) -> None:
    """Run a story with a topic of four queues."""
    name = re.sub(r"\W", "-", story.__qualname__.partition(".")[0])[-80:]

    async def main() -> None:
        world = World(cluster.nameserver, name, **options)
        async with Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin:
            await admin.create_topic(name, queues=4)
        async with asyncio.timeout(SECONDS), world.producing():
            await story(world)

    asyncio.run(main())


async def polled(consumer: PullConsumer, count: int, **options: Any) -> list[StoredMessage]:
    """Poll until there are as many messages."""
    messages: list[StoredMessage] = []
    while len(messages) < count:
        messages += await consumer.poll(timeout_ms=1_000, **options)
    return messages


def bodies(messages: list[StoredMessage]) -> list[int]:
    return sorted(int(one.body) for one in messages)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the story has a deadline."""
    while not holds():  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.01)


async def until_committed(world: World, queue: MessageQueue, offset: int) -> None:
    """Wait until the broker has an offset."""
    async with world.consumer() as other:
        while await other.committed(queue) != offset:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def broken(work: Awaitable[None]) -> None:
    """Await what ends with a ZeroDivisionError."""
    with pytest.raises(ZeroDivisionError):
        await work


# Polls and commits


def test_what_is_committed_is_not_read_again(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.spread(40)
        async with world.reading(auto_commit=False) as consumer:
            first = await polled(consumer, 24, max_messages=8)
            assert len(first) == 24
            await consumer.commit()
            more = await consumer.poll(max_messages=8)  # is not committed
        async with world.reading(auto_commit=False) as consumer:
            rest = await polled(consumer, 16)
        assert bodies(first + rest) == list(range(40))
        assert set(bodies(more)) <= set(bodies(rest))

    play(cluster, story)


def test_auto_commit_commits_what_earlier_polls_returned(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.send(*range(30), queue=1)
        queue = world.queue(1)
        async with world.reading(auto_commit_interval_ms=1_000) as consumer:
            await consumer.poll(max_messages=10)
            assert await consumer.position(queue) == 10
            await consumer.poll(max_messages=10)
            await until_committed(world, queue, 10)
            assert await consumer.position(queue) == 20
        async with world.reading() as consumer:  # the close has committed the last poll
            assert await consumer.committed(queue) == 20
            assert bodies(await polled(consumer, 10)) == list(range(20, 30))

    play(cluster, story)


def test_an_exception_leaves_the_last_poll_uncommitted(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.send(*range(30), queue=1)

        async def fail() -> None:
            async with world.reading() as consumer:
                await consumer.poll(max_messages=10)
                await consumer.poll(max_messages=10)
                raise ZeroDivisionError

        await broken(fail())
        async with world.reading() as consumer:
            assert bodies(await polled(consumer, 20)) == list(range(10, 30))

    play(cluster, story)


def test_other_offsets_are_committed_if_polls_returned_what_is_before(
    cluster: RunningCluster,
) -> None:
    async def story(world: World) -> None:
        await world.send(*range(30), queue=1)
        queue = world.queue(1)
        async with world.reading(auto_commit=False) as consumer:
            await polled(consumer, 20, max_messages=20)
            with pytest.raises(InvalidInput, match="offset 21 of .* can't be committed"):
                await consumer.commit({queue: 21})
            with pytest.raises(NotAssigned, match="is not in assigned list, may be rebalancing"):
                await consumer.commit({MessageQueue("others", "broker-a", 0): 1})
            await consumer.commit({queue: 7})
            assert await consumer.committed(queue) == 7
            await consumer.commit()
            assert await consumer.committed(queue) == 20
            consumer.commit_async({queue: 9})
            await until_committed(world, queue, 9)
        async with world.reading() as consumer:
            assert bodies(await polled(consumer, 21)) == list(range(9, 30))

    play(cluster, story)


def test_a_group_that_got_nothing_misses_nothing(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.send(*range(5), queue=1)
        async with world.reading(consume_from="last") as consumer:
            # Brokers say that a new group is at 0 while the first message is there, as Java's do.
            assert await consumer.position(world.queue(1)) == 0
            await consumer.seek_to_end()
            assert await consumer.poll(timeout_ms=100) == []
        await world.send(5, 6, queue=1)
        async with world.reading(consume_from="last") as consumer:
            assert bodies(await polled(consumer, 2)) == [5, 6]

    play(cluster, story)


def test_an_iteration_acknowledges_the_message_before(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.send(*range(10), queue=1)
        seen: list[StoredMessage] = []

        async def fail() -> None:
            async with world.reading() as consumer:
                async for message in consumer:
                    seen.append(message)
                    if len(seen) == 4:
                        raise ZeroDivisionError

        await broken(fail())
        async with world.reading() as consumer:
            async for message in consumer:
                seen.append(message)
                if len(seen) == 6:
                    await consumer.commit()
                    assert await consumer.committed(world.queue(1)) == 5
                    break
        assert bodies(seen) == [0, 1, 2, 3, 3, 4]

    play(cluster, story)


def test_a_close_ends_polls_and_iterations(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        async with world.reading() as consumer:
            poll = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            await asyncio.sleep(0)
        assert await poll == []
        async with world.reading() as consumer:
            step = asyncio.create_task(anext(aiter(consumer), None))
            await asyncio.sleep(0)
        assert await step is None

    play(cluster, story)


# Subscriptions and assignments


@pytest.mark.parametrize("selection", ["b || c", Sql("number >= 1")], ids=["tags", "sql"])
def test_a_selection_is_made_by_tags_or_sql(cluster: RunningCluster, selection: str | Sql) -> None:
    async def story(world: World) -> None:
        world.topic += "-sql" if isinstance(selection, Sql) else "-tags"
        for number, tag in enumerate("abc"):
            await world.producer.send(
                Message(world.topic, tag.encode(), tags=tag, properties={"number": str(number)})
            )
        async with world.consumer() as consumer:
            with pytest.raises(BrokerError, match="number >="):
                await consumer.subscribe(world.topic, Sql("number >="))
            with pytest.raises(NoRoute, match="not-there"):
                await consumer.assign([MessageQueue("not-there", "broker-a", 0)])
            await consumer.subscribe(world.topic, selection)
            messages = await polled(consumer, 2)
            assert sorted(one.body for one in messages) == [b"b", b"c"]
            await consumer.unsubscribe()
            assert not consumer.assignment
            await consumer.assign(await consumer.queues(world.topic), selection)
            await consumer.seek_to_begin()
            messages = await polled(consumer, 2)
            assert sorted(one.body for one in messages) == [b"b", b"c"]

    play(cluster, story)


def test_two_members_share_the_queues_and_hand_them_over(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        calls: list[tuple[int, int]] = []
        await world.spread(40)
        first = world.consumer(auto_commit=False)

        @first.on_assignment
        async def note(given: frozenset[MessageQueue], taken: frozenset[MessageQueue]) -> None:
            calls.append((len(given), len(taken)))

        async with first:
            await first.subscribe(world.topic)
            assert len(first.assignment) == 4
            before = await polled(first, 40)
            await first.commit()
            async with world.reading(auto_commit=False) as second:
                await until(lambda: len(first.assignment) == 2 == len(second.assignment))
                assert first.assignment | second.assignment == {*map(world.queue, range(4))}
                await world.spread(40)
                one, other = await asyncio.gather(polled(first, 20), polled(second, 20))
                for consumer, messages in ((first, one), (second, other)):
                    ids = {queue.queue_id for queue in consumer.assignment}
                    assert {message.queue_id for message in messages} == ids
                    await consumer.commit()
            await until(lambda: len(first.assignment) == 4)
            assert calls == [(4, 0), (0, 2), (2, 0)]
            await world.send(99, queue=3)
            assert bodies(await polled(first, 1)) == [99]
        assert bodies(before) == bodies(one + other) == list(range(40))

    play(cluster, story)


def test_queues_that_are_taken_away_are_committed_and_what_is_in_hand_is_read_again(
    cluster: RunningCluster,
) -> None:
    async def story(world: World) -> None:
        await world.spread(40)
        given_away = asyncio.Event()
        first, second = world.consumer(), world.consumer()

        @first.on_assignment
        async def note(_given: frozenset[MessageQueue], taken: frozenset[MessageQueue]) -> None:
            if taken:
                given_away.set()

        @second.on_assignment
        async def wait(_given: frozenset[MessageQueue], _taken: frozenset[MessageQueue]) -> None:
            await given_away.wait()

        async with first:
            await first.subscribe(world.topic)
            inboxes = first._check().queues.owned.inboxes
            await until(lambda: sum(one.waiting for one in inboxes.values()) == 40)
            for _ in range(20):
                await first.poll(max_messages=1)  # five of each queue
            assert len(await first.poll()) == 20  # in hand
            async with second:
                await second.subscribe(world.topic)
                messages = await polled(second, 10)
                assert sorted(one.queue_offset for one in messages) == sorted([*range(5, 10)] * 2)

    play(cluster, story)


def test_a_step_of_an_iteration_can_time_out(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        async with world.reading() as consumer:
            messages = aiter(consumer)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(messages)
            await world.send(1)
            assert (await anext(messages)).body == b"1"

    play(cluster, story)


def test_a_listener_may_seek_before_the_first_message(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.spread(40)
        consumer = world.consumer()

        @consumer.on_assignment
        async def seek(given: frozenset[MessageQueue], _taken: frozenset[MessageQueue]) -> None:
            for queue in given:
                await consumer.seek(queue, 8)

        async with consumer:
            await consumer.subscribe(world.topic)
            messages = await polled(consumer, 8)
        assert {one.queue_offset for one in messages} == {8, 9}

    play(cluster, story)


def test_queues_are_assigned_without_a_rebalance(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.spread(40)
        async with world.consumer() as consumer, world.consumer() as other:
            for one in (consumer, other):  # both read the same queues
                await one.assign([world.queue(1), world.queue(2)])
                assert one.assignment == {world.queue(1), world.queue(2)}
                messages = await polled(one, 20)
                assert {message.queue_id for message in messages} == {1, 2}
            await consumer.assign(world.queue(number) for number in (2, 3))
            assert {one.queue_id for one in await polled(consumer, 10)} == {3}
            with pytest.raises(InvalidInput, match="Subscribe and assign are mutually exclusive"):
                await consumer.subscribe(world.topic)
            with pytest.raises(InvalidInput, match="Message queues can not be null or empty"):
                await consumer.assign([])
        async with world.consumer() as consumer:
            await consumer.assign([world.queue(0)])  # the group has no offset of it
            assert await consumer.position(world.queue(0)) == 0
            await consumer.assign([world.queue(1)])
            assert await consumer.position(world.queue(1)) == 10

    play(cluster, story)


def test_a_group_that_assigns_is_seen_by_operators(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        async with world.consumer() as consumer:
            await consumer.assign([world.queue(1)])
            core = consumer._check().core
            address = (await core.routes.publish_route(world.topic)).addresses["broker-a"]
            header = GetConsumerListByGroup(consumer_group=f"{world.topic}-group")
            answer = await core.request(address, header)
            assert consumer.client_id in bytes(answer.body).decode()

    play(cluster, story)


def test_a_listener_gets_new_queues_of_a_topic(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        seen: list[tuple[str, frozenset[MessageQueue]]] = []
        async with world.consumer(topic_check_interval_ms=50) as consumer:
            await consumer.on_queues_changed(world.topic, lambda *given: seen.append(given))
            async with Admin(nameserver=world.nameserver, keep_open_ms=0) as admin:
                await admin.create_topic(world.topic, queues=5)
            await until(lambda: bool(seen))
        assert seen == [(world.topic, frozenset(map(world.queue, range(5))))]

    play(cluster, story)


# Positions


def test_a_poll_after_a_seek_returns_nothing_older(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        queue = world.queue(1)
        await world.send(*range(500), queue=1)
        sent = 500

        async def send_on() -> None:
            nonlocal sent
            while True:
                await world.send(*range(sent, sent + 10), queue=1)
                sent += 10

        async with world.reading(pull_batch=32) as consumer:
            sending = asyncio.create_task(send_on())
            for target in (400, 3, 250, 0, 499, 120):
                await consumer.seek_to_end()
                waiting = asyncio.create_task(consumer.poll(max_messages=1))  # may be before it
                await consumer.seek(queue, target)
                read = await polled(consumer, 40, max_messages=7)
                if (await waiting)[0].queue_offset == target:
                    read = [*waiting.result(), *read]
                offsets = [one.queue_offset for one in read]
                assert offsets == [*range(target, target + len(read))]
                await consumer.commit()
                assert await consumer.committed(queue) == target + len(read)
            sending.cancel()

    play(cluster, story)


def test_it_seeks_to_begin_end_and_times(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        queue = world.queue(1)
        await world.send(*range(10), queue=1)
        between_ms = await next_ms(SystemClock())
        await next_ms(SystemClock())
        await world.send(*range(10, 15), queue=1)
        async with world.reading() as consumer:
            assert await consumer.begin_offset(queue) == 0
            assert await consumer.end_offset(queue) == 15
            assert await consumer.offsets_for_time(queue, between_ms) == 10
            await consumer.seek_to_time(datetime.fromtimestamp(between_ms / 1_000, UTC))
            assert bodies(await polled(consumer, 5)) == list(range(10, 15))
            await consumer.seek_to_begin([queue])
            assert await consumer.position(queue) == 0
            assert bodies(await polled(consumer, 15)) == list(range(15))
            await consumer.seek(queue, 3)
            await consumer.seek_to_end()
            await world.send(15, queue=1)
            assert bodies(await polled(consumer, 1)) == [15]
            with pytest.raises(
                InvalidInput, match="offset = 17, min offset = 0, max offset = 16: seek within"
            ):
                await consumer.seek(queue, 17)
            with pytest.raises(InvalidInput, match="it must be a datetime with a time zone"):
                await consumer.seek_to_time(datetime(2026, 1, 1))  # noqa: DTZ001
            with pytest.raises(NotAssigned, match="may be rebalancing"):
                await consumer.seek(MessageQueue(world.topic, "broker-a", 7), 0)

    play(cluster, story)


def test_a_paused_queue_is_not_polled(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        await world.spread(40)
        async with world.reading() as consumer:
            consumer.pause([world.queue(1)])
            assert consumer.paused == {world.queue(1)}
            messages = await polled(consumer, 30)
            assert {one.queue_id for one in messages} == {0, 2, 3}
            assert await consumer.poll(timeout_ms=50) == []
            consumer.resume()
            assert {one.queue_id for one in await polled(consumer, 10)} == {1}
            consumer.pause()
            await world.send(99)
            assert await consumer.poll(timeout_ms=50) == []
            await consumer.unsubscribe()
            await consumer.subscribe(world.topic)
            assert not consumer.paused
            assert bodies(await polled(consumer, 1)) == [99]

    play(cluster, story)


# Broadcasting, names, restarts


def test_every_member_of_a_broadcasting_group_gets_all_messages(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    async def story(world: World) -> None:
        await world.spread(40)

        def member(number: int) -> dict[str, Any]:
            return {"broadcasting": True, "local_offset_directory": str(tmp_path / str(number))}

        async with world.reading(**member(1)) as one, world.reading(**member(2)) as other:
            for consumer in (one, other):
                assert len(consumer.assignment) == 4
                assert bodies(await polled(consumer, 40)) == list(range(40))
        await world.send(99)
        async with world.reading(**member(1)) as one:
            assert bodies(await polled(one, 1)) == [99]

    play(cluster, story)


def test_names_are_given_and_returned_without_the_namespace(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        async with Producer("p", nameserver=world.nameserver, namespace="shop") as producer:
            await producer.send(Message("paid", b"1"))
        async with world.consumer(namespace="shop") as consumer:
            await consumer.subscribe("paid")
            assert {queue.topic for queue in consumer.assignment} == {"paid"}
            (message,) = await polled(consumer, 1)
            assert message.topic == "paid"
            queue = MessageQueue("paid", message.broker_name, message.queue_id)
            await consumer.seek(queue, 0)
            await polled(consumer, 1)
            await consumer.commit()
            assert await consumer.committed(queue) == 1

    play(cluster, story)


def test_a_restart_of_the_broker_loses_nothing() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            broker, (directory,) = cluster._brokers[0], cluster.directories
            port = cluster.brokers[0].rpartition(":")[2]
            world = World(cluster.nameserver, "orders")
            async with Admin(nameserver=world.nameserver, keep_open_ms=0) as admin:
                await admin.create_topic("orders", queues=4)
            async with world.producing(), world.reading() as consumer:
                await world.spread(40)
                before = await polled(consumer, 40)
                await consumer.commit()
                poll = asyncio.create_task(polled(consumer, 40))
                await broker.close()
                for ask in (consumer.commit(), consumer.end_offset(world.queue(0))):
                    with pytest.raises(OrbitError):
                        await ask
                cluster._settings["listenPort"] = port
                again = cluster._broker_settings("broker-a", directory)
                async with Broker(again, Machine()):
                    await world.spread(40)
                    assert bodies(before) == bodies(await poll) == list(range(40))
                    await consumer.commit()
                    assert await consumer.committed(world.queue(0)) == 20

    asyncio.run(asyncio.wait_for(main(), SECONDS))


# Life


def test_it_says_what_to_do_when_it_is_not_running(cluster: RunningCluster) -> None:
    async def story(world: World) -> None:
        consumer = world.consumer()
        text = "The consumer not running, please start it first"
        for use in (
            consumer.poll,
            lambda: consumer.subscribe("orders"),
            lambda: consumer.assign([world.queue(0)]),
            consumer.commit,
            lambda: consumer.seek(world.queue(0), 0),
            lambda: consumer.committed(world.queue(0)),
        ):
            with pytest.raises(NotRunning, match=f"{text}.*just created; start it first, with"):
                await use()
        assert (consumer.assignment, consumer.paused) == (frozenset(), frozenset())
        async with consumer:
            with pytest.raises(InvalidInput, match="reads no queue; call subscribe"):
                await consumer.poll()
            with pytest.raises(AlreadyStarted):
                consumer.on_assignment(lambda _given, _taken: None)
            with pytest.raises(InvalidInput, match="max_messages is 0; it must be 1 or more"):
                await consumer.poll(max_messages=0)
            assert consumer.client_id
        assert consumer.state is ClientState.CLOSED
        with pytest.raises(NotRunning, match=f"{text}.*closed; make a new one"):
            await consumer.poll()

    play(cluster, story)
