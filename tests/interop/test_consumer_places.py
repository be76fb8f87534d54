"""Our consumer on Java's brokers, in each of its ways."""

import asyncio
from pathlib import Path
from typing import Any

from orbitmq import Admin, Consumer, Message, Producer, RetryLater, Sql, StoredMessage
from orbitmq.client.admin.dead_letters import DeadLetter
from tests.client.admin_story import soon
from tests.interop.java_cluster import JavaCluster
from tests.interop.waiting import until_async


class Shop:
    """A topic of a Java cluster that has six messages, and consumers of it."""

    def __init__(self, cluster: JavaCluster) -> None:
        self.cluster = cluster
        self.nameserver = str(cluster.nameserver.address)
        self.topic = cluster.create_topic("places", queues=2)

    async def send(self) -> None:
        async with Producer("shop", nameserver=self.nameserver) as producer:
            queues = await producer.queues(self.topic)
            for number in range(6):
                message = Message(
                    self.topic,
                    b"%d" % number,
                    tags="odd" if number % 2 else "even",
                    properties={"number": str(number)},
                )
                await producer.send(message, queue=queues[number // 3])

    def consumer(self, group: str, **options: Any) -> Consumer:
        given: dict[str, Any] = {
            "subscribe": {self.topic: "*"},
            "nameserver": self.nameserver,
            "consume_from": "first",
            "poll_nameserver_interval_ms": 200,
            "rebalance_interval_ms": 200,
            **options,
        }
        return Consumer(f"{group}-of-{self.topic}", **given)

    async def taken(self, *wanted: int, group: str, **options: Any) -> list[int]:
        """Return the numbers that a consumer takes until it has all that are wanted."""
        seen: list[int] = []
        consumer = self.consumer(group, **options)
        consumer.on_message(lambda message: seen.append(int(message.body)))
        async with consumer:
            await until_async(lambda: set(wanted) <= set(seen), what=f"{group}: {wanted}")
        return seen


async def by_tags(shop: Shop) -> None:
    odd = {shop.topic: "odd || none"}
    assert sorted(await shop.taken(1, 3, 5, group="tags", subscribe=odd)) == [1, 3, 5]


async def by_sql(shop: Shop) -> None:
    over_two = {shop.topic: Sql("number > 2 AND TAGS = 'odd'")}
    assert sorted(await shop.taken(3, 5, group="sql", subscribe=over_two)) == [3, 5]


async def in_order(shop: Shop) -> None:
    """A message that fails holds up those behind it, and a restart goes on."""
    seen: list[int] = []
    consumer = shop.consumer("ordered", ordered=True, suspend_ms=10)

    @consumer.on_message
    async def take(message: StoredMessage) -> None:
        seen.append(int(message.body))
        if message.body == b"1" and seen.count(1) < 3:
            raise RetryLater("wait")

    async with consumer:
        await until_async(lambda: len(seen) == 8, what=f"all in order: {seen}")
    assert [one for one in seen if one < 3] == [0, 1, 1, 1, 2]
    assert [one for one in seen if one >= 3] == [3, 4, 5]


async def to_each(shop: Shop, directory: Path) -> None:
    """Both members get all; one that comes back gets nothing twice."""
    options = [
        {"broadcasting": True, "local_offset_directory": str(directory / name)} for name in "xy"
    ]
    both = await asyncio.gather(*(shop.taken(*range(6), group="each", **one) for one in options))
    assert [sorted(one) for one in both] == [list(range(6))] * 2


async def until_dead(shop: Shop) -> None:
    """One message fails until it is a dead letter; the group's offsets are at the end."""
    seen: list[tuple[str, int]] = []
    consumer = shop.consumer("failing", max_reconsume_times=2)

    @consumer.on_message
    def take(message: StoredMessage) -> None:
        if message.body == b"4":
            seen.append((message.topic, message.reconsume_times))
            raise RetryLater("never", delay_level=1)

    group = consumer.settings.group
    async with consumer, Admin(nameserver=shop.nameserver, keep_open_ms=0) as admin:

        async def dead_letters() -> list[DeadLetter]:
            return [one async for one in admin.dead_letters(group)]

        (dead,) = await soon(dead_letters, "the dead letter")

        async def is_at_the_end() -> bool:
            return (await admin.progress(group, shop.topic)).lag == 0

        await soon(is_at_the_end, "the offsets of the group")
    assert (dead.message.body, dead.message.reconsume_times) == (b"4", 3)
    assert seen == [(shop.topic, times) for times in range(3)]


def test_our_consumer_on_javas_broker(java_cluster: JavaCluster, tmp_path: Path) -> None:
    async def main() -> None:
        shop = Shop(java_cluster)
        await shop.send()
        async with Admin(nameserver=shop.nameserver, keep_open_ms=0) as admin:
            broker = java_cluster.broker.name
            await admin.set_broker_config({"enablePropertyFilter": "true"}, on=broker)
            try:
                await asyncio.gather(
                    by_tags(shop),
                    by_sql(shop),
                    in_order(shop),
                    to_each(shop, tmp_path),
                    until_dead(shop),
                )
            finally:
                await admin.set_broker_config({"enablePropertyFilter": "false"}, on=broker)

    asyncio.run(main())
