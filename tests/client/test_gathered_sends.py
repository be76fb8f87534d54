"""Automatic batching as a producer's users see it: single sends that travel together."""

import asyncio

from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import Require
from orbitmq.errors import MessageTooLarge, NotDurable
from orbitmq.message import batch
from orbitmq.message.model import Message, SendReceipt, SendStatus
from orbitmq.wire.codes import RequestCode, ResponseCode
from tests.client.post import open_post, open_producer, say_nothing, status
from tests.client.scene import Scene, play

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


def test_single_sends_are_gathered() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, auto_batch=True)
        messages = [Message("orders", b"%d" % number) for number in range(5)]
        receipts = await asyncio.gather(*map(producer.send, messages))
        assert len(post.sent) == 1
        assert post.sent[0].code == RequestCode.SEND_BATCH_MESSAGE
        parts = [bytes(part.body) for part in batch.split(post.sent[0].body)]
        assert parts == [message.body for message in messages]
        assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2, 3, 4]
        assert len({receipt.message_id for receipt in receipts}) == 5
        delayed = await producer.send(Message("orders", b"later", delay_level=1))
        assert delayed.status is SendStatus.SEND_OK

    play(story)


def test_gathered_messages_with_long_properties_travel_in_several_frames() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, auto_batch=True, max_message_bytes=10_000)
        messages = [
            Message("orders", b"%d" % number, properties={"note": "x" * 4_000})
            for number in range(5)
        ]
        receipts = await asyncio.gather(*map(producer.send, messages))
        assert len(receipts) == 5
        assert len(post.sent) > 1
        assert all(len(one.body) <= 10_000 for one in post.sent)

    play(story)


def test_of_gathered_messages_each_gets_its_own_receipt_or_error() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", status(post, ResponseCode.FLUSH_DISK_TIMEOUT))
        producer = await open_producer(scene, auto_batch=True, require=Require.FLUSHED)
        sends = (producer.send(Message("orders", b"%d" % number)) for number in range(3))
        errors = await asyncio.gather(*sends, return_exceptions=True)
        assert len(post.sent) == 1
        told = {error.receipt.message_id for error in errors if isinstance(error, NotDurable)}
        assert len(told) == 3

    play(story)


def test_a_gathered_message_that_can_t_be_sent_fails_alone() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene, auto_batch=True)
        huge = Message("orders", b"huge", properties={"note": "x" * 32_760})
        sends = map(producer.send, [MESSAGE, huge.replace(tags="paid"), MESSAGE])
        first, error, last = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(error, MessageTooLarge)
        assert isinstance(first, SendReceipt)
        assert isinstance(last, SendReceipt)

    play(story)


def test_what_is_gathered_leaves_before_the_end() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = Producer(
            "billing",
            client=scene.settings(keep_open_ms=0),
            machine=scene.machine,
            auto_batch=True,
            linger_ms=5_000,
        )
        async with producer:
            sending = asyncio.create_task(producer.send(MESSAGE))
            await asyncio.sleep(0.1)
            assert post.sent == []
        assert (await sending).status is SendStatus.SEND_OK

    play(story)


def test_a_gathered_send_that_is_cancelled_is_not_tried_again() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, auto_batch=True, per_try_timeout_ms=300)
        post.always = dict.fromkeys("ab", say_nothing)
        sends = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)
        post.always = {}
        await asyncio.sleep(5)  # all the time that there would be for further tries
        assert len(post.sent) == 1
        assert producer._sender is not None
        assert producer._sender.permits.in_flight == 0

    play(story)


def test_a_batch_that_somebody_still_waits_for_is_tried_again() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, auto_batch=True, per_try_timeout_ms=300)
        post.always = dict.fromkeys("ab", say_nothing)
        gone, stays = (asyncio.create_task(producer.send(MESSAGE)) for _ in range(2))
        await asyncio.sleep(0.1)
        gone.cancel()
        post.always = {}
        assert (await stays).status is SendStatus.SEND_OK
        assert gone.cancelled()
        assert [one.code for one in post.sent] == [RequestCode.SEND_BATCH_MESSAGE] * 2

    play(story)
