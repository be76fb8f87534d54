import asyncio

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.targets import TopicTargets, destination_of
from orbitmq.errors import InvalidInput, SendUnreachable
from orbitmq.message.model import Message, MessageQueue
from tests.client.post import open_post, open_producer
from tests.client.scene import Scene, play, route

MESSAGE = Message("orders", b"paid")


def lanes_of(producer: Producer) -> TopicTargets:
    assert producer._sender is not None
    return producer._sender.targets


def test_a_lane_is_made_once_for_a_route() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        targets = lanes_of(await open_producer(scene))
        assert targets.ready("orders") is None
        topic_target = await targets.find("orders")
        assert targets.ready("orders") is topic_target
        assert await targets.find("orders") is topic_target
        scene.routes["orders"] = route("a", queues=1)
        await asyncio.sleep(31)
        assert targets.ready("orders") is None
        changed = await targets.find("orders")
        assert [len(one.queues) for one in (topic_target, changed)] == [4, 1]

    play(story)


def test_a_queue_that_the_route_does_not_have_is_left_to_the_broker() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        hidden = MessageQueue("orders", "broker-a", 9)
        assert (await producer.send(MESSAGE, queue=hidden)).queue == hidden

    play(story)


def test_a_queue_of_an_unknown_broker_can_t_be_reached() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        with pytest.raises(SendUnreachable, match="broker broker-z has no master now"):
            await producer.send(MESSAGE, queue=MessageQueue("orders", "broker-z", 0))

    play(story)


def test_what_a_selector_does_wrong_is_told() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        with pytest.raises(InvalidInput, match="the selector returned"):
            await producer.send(MESSAGE, selector=lambda _queues, _message: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(ZeroDivisionError):
            await producer.send(MESSAGE, selector=lambda queues, _message: queues[1 // 0])

    play(story)


def test_a_text_is_no_selector() -> None:
    for text in ("random", "hash", ""):
        with pytest.raises(InvalidInput, match="it must be a function") as raised:
            destination_of(None, text)  # type: ignore[arg-type]
        assert raised.value.field == "selector"
    with pytest.raises(InvalidInput, match="queue is 3; it must be a MessageQueue"):
        destination_of(3)  # type: ignore[arg-type]


def test_an_ordered_topic_keeps_queues_whose_broker_is_away() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        scene.routes["orders"] = route("a", order_topic_conf="broker-a:1;broker-b:1")
        producer = await open_producer(scene)
        assert len(await producer.queues("orders")) == 2
        receipts = [await producer.send(MESSAGE) for _ in range(4)]
        assert {receipt.queue.broker_name for receipt in receipts} == {"broker-a"}
        assert len(post.sent) == 4

    play(story)


def test_every_topic_has_a_lane() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a", queues=1)
        topics = [f"topic-{number}" for number in range(200)]
        scene.routes |= dict.fromkeys(topics, route("a", queues=1))
        producer = await open_producer(scene)
        for topic in topics:
            assert (await producer.send(Message(topic, b"x"))).queue.topic == topic
        assert repr(lanes_of(producer)) == "<TopicTargets of 200 topics>"

    play(story)
