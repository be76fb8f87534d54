"""Many producers, many topics, and a nameserver that is gone for long; in virtual time."""

import asyncio

from orbitmq.client.producer.producer import Producer
from orbitmq.message.model import Message
from tests.client.post import Post, open_post, open_producer
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route


def test_a_hundred_producers_send_at_once() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producers = [
            await scene.open.enter_async_context(
                Producer(
                    f"billing-{number}",
                    client=scene.settings(keep_open_ms=0, instance_name=f"i{number}"),
                    machine=scene.machine,
                )
            )
            for number in range(100)
        ]
        receipts = await asyncio.gather(
            *(
                producer.send(Message("orders", b"%d" % number))
                for producer in producers
                for number in range(10)
            )
        )
        assert len({receipt.message_id for receipt in receipts}) == 1_000
        assert len({(one.queue, one.queue_offset) for one in receipts}) == 1_000
        groups = {sent.header.producer_group for sent in post.sent}
        assert groups == {f"billing-{number}" for number in range(100)}

    play(story)


def test_one_producer_sends_to_ten_thousand_topics() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        topics = [f"topic-{number}" for number in range(10_000)]
        both = route("a", "b", queues=2)
        scene.routes.update(dict.fromkeys(topics, both))
        producer = await open_producer(scene)
        for start in range(0, len(topics), 500):
            some = topics[start : start + 500]
            await asyncio.gather(*(producer.send(Message(topic, b"x")) for topic in some))
        asked = len(scene.asked)
        for start in range(0, len(topics), 500):
            some = topics[start : start + 500]
            await asyncio.gather(*(producer.send(Message(topic, b"y")) for topic in some))
        assert len(scene.asked) == asked, "each was looked up once"
        assert len(post.sent) == 20_000

    play(story)


def test_sends_go_on_while_the_nameserver_is_gone_for_an_hour() -> None:
    async def story(scene: Scene) -> None:
        post = Post(scene)
        for address in (BROKER_A, BROKER_B):
            await scene.listen(address, post.serve(address))
        scene.routes["orders"] = route("a", "b", queues=2)
        nameserver = await scene.nameserver()
        producer = await open_producer(scene)
        await producer.send(Message("orders", b"before"))
        await nameserver.close()
        for _ in range(60):
            await asyncio.sleep(60)
            await producer.send(Message("orders", b"during"))
        await scene.nameserver()
        scene.routes["orders"] = route("b", queues=1)
        await asyncio.sleep(31)
        receipt = await producer.send(Message("orders", b"after"))
        assert receipt.queue.broker_name == "broker-b"
        assert [sent.body for sent in post.sent].count(b"during") == 60

    play(story)
