"""The producer as its users see it: life, sends of every kind, and what it refuses."""

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from orbitmq import embedded
from orbitmq.client.producer import producer as producer_module
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.queue_choice import QueueSelector, by_hash
from orbitmq.client.producer.start_rate import StartRate
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.errors import (
    InvalidInput,
    InvalidTopic,
    MessageTooLarge,
    NoRoute,
    NotDurable,
    SendTimeout,
)
from orbitmq.message import properties
from orbitmq.message.compression import CompressionType
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.connection import Connection, Outcome
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage
from tests.client.post import later, open_post, open_producer, reset, say_nothing, status
from tests.client.scene import BROKER_A, Scene, play, route

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


def always(queue: MessageQueue) -> QueueSelector:
    return lambda _queues, _message: queue


# Sends


def test_a_send_returns_the_receipt_and_leaves_the_message_alone() -> None:
    async def story(scene: Scene) -> tuple[SendReceipt, dict[str, str]]:
        post = await open_post(scene)
        producer = await open_producer(scene)
        receipt = await producer.send(MESSAGE)
        again = await producer.send(MESSAGE)
        assert again.message_id != receipt.message_id
        return receipt, post.sent[0].properties

    receipt, told = play(story)
    assert receipt.status is SendStatus.SEND_OK
    assert (receipt.queue.topic, receipt.queue_offset, receipt.region) == ("orders", 0, "eu")
    assert told == {"TAGS": "paid", "KEYS": "o-42", "WAIT": "true", "UNIQ_KEY": receipt.message_id}
    assert MESSAGE.message_id is None


def test_sends_go_round_all_queues() -> None:
    async def story(scene: Scene) -> set[MessageQueue]:
        await open_post(scene)
        producer = await open_producer(scene)
        return {(await producer.send(MESSAGE)).queue for _ in range(4)}

    assert len(play(story)) == 4


def test_what_is_no_message_is_refused() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        text: Any = "paid"
        for attempt in (
            lambda: producer.send(text),
            lambda: producer.send_oneway(text),
            lambda: producer.send_many([MESSAGE, text]),
            lambda: producer.request(text),
            lambda: producer.send_in_transaction(text),
        ):
            with pytest.raises(InvalidInput, match="a str can't be sent"):
                await attempt()
        with pytest.raises(InvalidInput, match="a str can't be sent"):
            producer.transaction(text)

    play(story)


@pytest.mark.parametrize("topic", ["", "a b", "\ud800", "x" * 128, None, 5])
def test_no_topic_has_queues_that_no_message_can_be_sent_to(topic: str) -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        scene.routes["TBW102"] = route("a", queues=8, perm=7)
        producer = await open_producer(scene)
        for must_exist in (True, False):
            with pytest.raises(InvalidTopic):
                await producer.queues(topic, must_exist=must_exist)
        assert scene.asked == []

    play(story)


def test_queues_of_a_topic_that_a_send_would_make_are_none_yet() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        scene.routes["TBW102"] = route("a", queues=8, perm=7)
        producer = await open_producer(scene)
        for _ in range(2):  # the second time with the planned ones known
            with pytest.raises(NoRoute, match="topic bills is missing") as caught:
                await producer.queues("bills")
            assert caught.value.is_missing
            planned = await producer.queues("bills", must_exist=False)
            assert [queue.queue_id for queue in planned] == [0, 1, 2, 3]
        scene.routes["bills"] = route("a", queues=1)
        assert len(await producer.queues("bills")) == 1

    play(story)


def test_a_detector_asks_brokers_that_failed() -> None:
    async def story(scene: Scene, *, detector: bool) -> list[int]:
        post = await open_post(scene, "b")
        scene.routes["orders"] = route("a", "b", queues=2)
        post.always["a"] = reset
        codes: list[int] = []

        def noting(connection: Connection, request: Frame) -> Outcome:
            codes.append(request.code)
            return post.serve(BROKER_A)(connection, request)

        await scene.listen(BROKER_A, noting)
        producer = await open_producer(scene, fault_tolerance="java5", detector=detector)
        for _ in range(4):
            await producer.send(MESSAGE)
        await asyncio.sleep(60)
        return codes

    assert RequestCode.GET_MAX_OFFSET in play(partial(story, detector=True))
    assert RequestCode.GET_MAX_OFFSET not in play(partial(story, detector=False))


def test_queues_are_listed() -> None:
    async def story(scene: Scene) -> tuple[MessageQueue, ...]:
        await open_post(scene)
        return await (await open_producer(scene)).queues("orders")

    assert [(queue.broker_name, queue.queue_id) for queue in play(story)] == [
        ("broker-a", 0),
        ("broker-a", 1),
        ("broker-b", 0),
        ("broker-b", 1),
    ]


def test_a_queue_a_selector_or_a_key_may_be_chosen() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        queues = await producer.queues("orders")
        for queue in queues:
            assert (await producer.send(MESSAGE, queue=queue)).queue == queue
            selected = await producer.send(MESSAGE, selector=always(queue))
            assert selected.queue == queue
        hashed = {(await producer.send(MESSAGE, selector=by_hash("o-42"))).queue for _ in range(4)}
        assert len(hashed) == 1
        keyed = {(await producer.send(MESSAGE, sharding_key="o-42")).queue for _ in range(4)}
        assert len(keyed) == 1
        assert post.sent[-1].properties[properties.SHARDING_KEY] == "o-42"
        own = await producer.send(MESSAGE.replace(sharding_key="o-42"))
        assert {own.queue} == keyed

    play(story)


def test_two_choices_at_once_are_refused() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        queue = MessageQueue("orders", "broker-a", 0)
        with pytest.raises(InvalidInput, match="give one of them"):
            await producer.send(MESSAGE, queue=queue, sharding_key="k")
        with pytest.raises(InvalidInput, match="queue belongs to topic bills"):
            await producer.send(MESSAGE, queue=MessageQueue("bills", "broker-a", 0))
        with pytest.raises(InvalidInput, match="one of stored, flushed, replicated"):
            await producer.send(MESSAGE, require="safe")

    play(story)


def test_sends_of_a_key_are_stored_in_the_order_of_the_calls() -> None:
    async def story(scene: Scene) -> list[bytes]:
        post = await open_post(scene)
        # Whatever comes later is faster: only one at a time keeps the order.
        for name in "ab":
            post.scripts[name] = [later(seconds, post.store) for seconds in (0.8, 0.4, 0.2, 0.1)]
        producer = await open_producer(scene)
        await asyncio.gather(
            *(
                producer.send(
                    Message("orders", (b"%d" % number) * (20_000 if number == 0 else 1)),
                    sharding_key="o-42",
                )
                for number in range(6)
            )
        )
        assert len({one.queue for one in post.sent}) == 1
        return [one.body for one in post.sent[1:]]

    assert play(story) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_large_body_is_refused_before_anything_is_sent() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, max_message_bytes=100)
        with pytest.raises(MessageTooLarge):
            await producer.send(Message("orders", b"x" * 101))
        assert post.sent == []

    play(story)


def test_large_bodies_are_compressed_as_the_settings_say() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, compression_type=CompressionType.ZSTD)
        for size in (5_000, 50_000):
            await producer.send(Message("orders", b"x" * size))
            assert post.sent[-1].header.sys_flag == CompressionType.ZSTD.sys_flag
            assert len(post.sent[-1].body) < 100

    play(story)


def test_a_receipt_that_is_too_weak_is_an_error_with_the_receipt() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", status(post, ResponseCode.FLUSH_DISK_TIMEOUT))
        producer = await open_producer(scene, require="flushed")
        for sending in (producer.send(MESSAGE), producer.send(MESSAGE, require="replicated")):
            with pytest.raises(NotDurable) as caught:
                await sending
            assert caught.value.receipt.status is SendStatus.FLUSH_DISK_TIMEOUT
        relaxed = await producer.send(MESSAGE, require="stored")
        assert relaxed.status is SendStatus.FLUSH_DISK_TIMEOUT

    play(story)


def test_a_oneway_send_wants_no_answer() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene)
        await producer.send_oneway(MESSAGE)
        await producer.send_oneway(MESSAGE, queue=MessageQueue("orders", "broker-a", 1))
        await asyncio.sleep(0.1)
        assert len(post.sent) == 2
        assert post.sent[1].queue == ("a", 1)
        figures = {sample.name: sample.value for sample in producer.statistics.samples()}
        assert figures["orbitmq_producer_oneway_messages_total"] == 2

    play(story)


def test_oneway_sends_wait_for_a_broker_that_does_not_read() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        links: list[asyncio.ReadTransport] = []

        def stop_reading(connection: Connection, _request: Frame) -> None:
            assert isinstance(connection._transport, asyncio.ReadTransport)
            connection._transport.pause_reading()
            links.append(connection._transport)

        post.scripts["a"] = [stop_reading]
        producer = await open_producer(scene, topics=["orders"])
        message = Message("orders", bytes(4_000))

        async def flood() -> None:
            while True:
                await producer.send_oneway(message)

        with pytest.raises(SendTimeout, match="3000 ms waiting for the broker") as caught:
            await flood()
        assert not caught.value.may_be_stored
        links[0].resume_reading()
        await producer.send_oneway(message)

    play(story)


def test_many_oneway_sends_leave_the_loop_its_turns() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, topics=["orders"])
        for _ in range(1_000):
            await producer.send_oneway(MESSAGE)
        assert len(post.sent) > 800  # what brokers got while we never waited for them

    play(story)


def test_namespaces_are_the_client_s_business() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, topic="ns%orders")
        client = scene.settings(namespace="ns", keep_open_ms=0)
        producer = Producer("billing", client=client, machine=scene.machine)
        async with producer:
            receipt = await producer.send(MESSAGE)
        assert receipt.queue.topic == "orders"
        assert post.sent[0].header.topic == "ns%orders"
        assert post.sent[0].header.producer_group == "ns%billing"

    play(story)


# Settings, shown and refused


def test_options_and_settings_go_together() -> None:
    producer = Producer(
        settings=ProducerSettings("billing", retries=7),
        client=ClientSettings(nameserver="ns-1:9876", unit_name="u"),
        retries=1,
        nameserver="ns-2:9876",
    )
    assert (producer.settings.group, producer.settings.retries) == ("billing", 1)
    assert producer.client_settings.nameserver == "ns-2:9876"
    assert producer.client_settings.unit_name == "u"
    assert repr(producer) == "<Producer billing just created>"


def test_producers_started_for_each_message_are_pointed_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "_starts", StartRate())

    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        for _ in range(15):
            async with Producer("billing", client=scene.settings(), machine=scene.machine) as one:
                await one.send(MESSAGE)
        assert len(post.sent) == 15
        assert len(scene.callers.get(BROKER_A, [])) <= 1  # connections are kept in between

    with caplog.at_level(logging.WARNING, logger="orbitmq.client"):
        play(story)
    assert len(caplog.messages) == 1
    assert "test_producer.py" in caplog.messages[0]


# Our own broker


def test_what_is_sent_is_read_back_by_a_pull() -> None:
    body = b"spam" * 5_000
    messages = [
        Message("orders", b"paid", tags="paid", keys=["o-42"], properties={"farbe": "blau"}),
        Message("orders", body, flag=7),
    ]

    async def main(nameserver: str) -> list[SendReceipt]:
        async with Producer("billing", nameserver=nameserver) as producer:
            single = [await producer.send(message) for message in messages]
            return single + await producer.send_many(messages)

    with embedded.start() as cluster:
        receipts = asyncio.run(main(cluster.nameserver))
        for receipt, message in zip(receipts, messages * 2, strict=True):
            header = PullMessage(
                consumer_group="readers",
                topic="orders",
                queue_id=receipt.queue.queue_id,
                queue_offset=receipt.queue_offset,
                max_msg_nums=1,
                sys_flag=SUBSCRIPTION,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            with BlockingConnection(Address.parse(cluster.brokers[0])) as connection:
                answer = connection.request(header)
            (read,) = decode_all(answer.body)
            assert (read.body, read.tags, read.keys) == (message.body, message.tags, message.keys)
            assert read.user_properties == message.properties
            assert (read.message_id, read.flag) == (receipt.message_id, message.flag)
            assert read.offset_message_id == receipt.offset_message_id


def test_a_broker_that_accepts_and_never_answers_is_survived() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always["a"] = say_nothing
        producer = await open_producer(scene, fault_tolerance="adaptive", in_flight_max=10)
        outcomes = []
        for _ in range(100):
            outcomes += await asyncio.gather(
                *(producer.send(MESSAGE) for _ in range(5)), return_exceptions=True
            )
            await asyncio.sleep(0.05)
        failed = [one for one in outcomes if isinstance(one, SendTimeout)]
        assert len(failed) < len(outcomes) / 10

    play(story)
