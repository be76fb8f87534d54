import asyncio

import pytest

from orbitmq.errors import (
    InvalidInput,
    MessageTooLarge,
    NotDurable,
    PartlySent,
    SendIllegal,
    SendRefused,
    SendTimeout,
)
from orbitmq.message import batch
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.wire.codes import RequestCode, ResponseCode
from tests.client.post import later, open_post, open_producer, refuse, say_nothing, status
from tests.client.scene import NAMES, Scene, play, route


def numbered(count: int, topic: str = "orders", **others: object) -> list[Message]:
    return [Message(topic, b"%d" % number, **others) for number in range(count)]  # type: ignore[arg-type]


def test_messages_of_a_topic_travel_in_one_frame() -> None:
    async def story(scene: Scene) -> list[SendReceipt]:
        post = await open_post(scene)
        receipts = await (await open_producer(scene)).send_many(numbered(5))
        (sent,) = post.sent
        assert sent.code == RequestCode.SEND_BATCH_MESSAGE
        assert [bytes(part.body) for part in batch.split(sent.body)] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]
        return receipts

    receipts = play(story)
    assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2, 3, 4]
    assert len({receipt.message_id for receipt in receipts}) == 5
    assert len({receipt.offset_message_id for receipt in receipts}) == 5


def test_nothing_is_sent_for_nothing() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        assert await (await open_producer(scene)).send_many([]) == []
        assert post.sent == []

    play(story)


def test_frames_are_split_by_topic_size_and_kind() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        scene.routes["bills"] = route("a", queues=1)
        producer = await open_producer(scene, max_message_bytes=10_000)
        messages = [
            *(Message("orders", b"x" * 3_000) for _ in range(4)),
            Message("bills", b"one"),
            Message("orders", b"later", delay_level=1),
        ]
        receipts = await producer.send_many(messages)
        assert [receipt.queue.topic for receipt in receipts] == ["orders"] * 4 + ["bills", "orders"]
        sizes = sorted(
            len(list(batch.split(one.body)))
            for one in post.sent
            if one.code == RequestCode.SEND_BATCH_MESSAGE
        )
        assert sizes == [2, 2]
        assert len(post.sent) == 4

    play(story)


def test_a_call_is_one_frame_up_to_the_limit_as_brokers_count_it() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        messages = numbered(3, properties={"note": "x" * 200})
        await producer.send_many(messages)
        most = len(post.sent[0].body) + 3 * (400 + len("orders"))
        for limit, frames in ((most, 1), (most - 1, 3)):
            post.sent.clear()
            receipts = await producer.send_many(messages, frame_bytes=limit)
            assert len(post.sent) == frames
            assert len({receipt.message_id for receipt in receipts}) == 3

    play(story)


def test_messages_that_go_alone_keep_their_place_in_the_order_of_a_queue() -> None:
    async def story(scene: Scene) -> list[int]:
        post = await open_post(scene)
        for name in "ab":
            post.scripts[name] = [later(0.5, post.store), post.store, post.store]
        producer = await open_producer(scene, topics=["orders"])
        queue = (await producer.queues("orders"))[0]
        plain, long = Message("orders", b"x"), {"note": "x" * 20_000}
        unusual = [plain.replace(delay_level=1), plain.replace(properties=long)]
        receipts = await producer.send_many(
            [plain, plain, unusual[0], plain, unusual[1], plain, plain], queue=queue
        )
        assert [sent.code == RequestCode.SEND_BATCH_MESSAGE for sent in post.sent] == [
            *(True, False, False, False, True)
        ]
        return [receipt.queue_offset for receipt in receipts]

    assert play(story) == list(range(7))


def test_keys_keep_to_their_queues_and_their_order() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        for name in "ab":
            post.scripts[name] = [later(0.5, post.store)]
        producer = await open_producer(scene, max_message_bytes=1_000)
        messages = [
            Message("orders", b"%d" % number, sharding_key=f"k{number % 3}") for number in range(30)
        ]
        receipts = await producer.send_many(messages)
        for key in range(3):
            mine = receipts[key::3]
            assert len({receipt.queue for receipt in mine}) == 1
            offsets = [receipt.queue_offset for receipt in mine]
            assert offsets == sorted(offsets)
            alone = await producer.send(messages[key])
            assert alone.queue == mine[0].queue

    play(story)


def test_a_send_of_the_same_key_does_not_overtake() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, topics=["orders"])
        first, second, third = numbered(3, sharding_key="o-42")
        await asyncio.gather(producer.send_many([first, second]), producer.send(third))
        assert [sent.code for sent in post.sent] == [
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
        ]

    play(story)


def test_a_later_send_of_a_key_waits_for_all_frames_of_a_call() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        for name in "ab":
            post.scripts[name] = [later(0.2, post.store)] * 3
        # The route is not known yet, and those behind the call could take all the permits.
        producer = await open_producer(scene, max_message_bytes=1_500, in_flight_max=10)
        many = [Message("orders", b"%03d" % n * 100, sharding_key="o-42") for n in range(8)]
        after = [Message("orders", b"later %02d" % n, sharding_key="o-42") for n in range(20)]
        call = asyncio.create_task(producer.send_many(many))
        sends = [asyncio.create_task(producer.send(one)) for one in after]
        receipts = [*await call, *[await one for one in sends]]
        assert len([one for one in post.sent if one.code == RequestCode.SEND_BATCH_MESSAGE]) > 1
        assert [one.queue_offset for one in receipts] == list(range(28))

    play(story)


def test_a_call_waits_for_earlier_sends_of_its_keys_and_others_pass_by() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, topics=["orders"])
        for name in "ab":
            post.scripts[name] = [later(0.5, post.store)]
        slow = asyncio.create_task(producer.send(Message("orders", b"1", sharding_key="k1")))
        await asyncio.sleep(0.1)
        call = asyncio.create_task(
            producer.send_many([Message("orders", b"2", sharding_key=key) for key in ("k1", "k2")])
        )
        await asyncio.sleep(0)
        behind = asyncio.create_task(producer.send(Message("orders", b"3", sharding_key="k2")))
        free = await producer.send(Message("orders", b"x", sharding_key="k3"))
        assert free.queue_offset >= 0
        assert not call.done()
        assert not behind.done()
        await asyncio.gather(slow, call, behind)
        bodies = [one.body for one in post.sent]
        assert bodies.index(b"3") == len(bodies) - 1

    play(story)


def test_a_call_that_is_cancelled_lets_the_next_one_in() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = {"a": say_nothing, "b": say_nothing}
        producer = await open_producer(scene)
        call = asyncio.create_task(producer.send_many(numbered(3, sharding_key="k")))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        post.always.clear()
        assert (await producer.send(Message("orders", b"4", sharding_key="k"))).queue_offset == 0

    play(story)


def test_a_queue_or_a_selector_holds_for_all() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        queues = await producer.queues("orders")
        chosen = await producer.send_many(numbered(3), queue=queues[2])
        assert {receipt.queue for receipt in chosen} == {queues[2]}
        spread = await producer.send_many(
            numbered(4), selector=lambda queues, message: queues[int(message.body) % 2]
        )
        assert [receipt.queue for receipt in spread] == [queues[0], queues[1]] * 2

    play(story)


def test_each_may_have_a_queue_of_its_own() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        there = await producer.queues("orders")
        messages = [*numbered(3), Message("orders", b"keyed", sharding_key="k")]
        receipts = await producer.send_many(messages, queues=[there[1], None, there[1], None])
        assert [receipts[0].queue, receipts[2].queue] == [there[1], there[1]]
        assert receipts[2].queue_offset == receipts[0].queue_offset + 1
        assert receipts[3].queue == (await producer.send(messages[3])).queue

    play(story)


def test_where_messages_go_is_said_once_and_of_each() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        (first, *_) = await producer.queues("orders")
        with pytest.raises(InvalidInput, match="at most one of queue, queues and selector"):
            await producer.send_many(numbered(1), queue=first, queues=[first])
        with pytest.raises(InvalidInput, match="queues has 1 entries for 2 messages"):
            await producer.send_many(numbered(2), queues=[first])

    play(story)


def test_small_frames_spread() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        await producer.send_many(
            [Message("orders", b"x" * 3_000) for _ in range(6)], frame_bytes=8_000
        )
        assert [len(list(batch.split(one.body))) for one in post.sent] == [2, 2, 2]
        with pytest.raises(InvalidInput, match="frame_bytes is 0"):
            await producer.send_many(numbered(1), frame_bytes=0)

    play(story)


def test_behind_a_failed_frame_nothing_of_its_queue_is_sent() -> None:
    async def story(scene: Scene) -> PartlySent:
        post = await open_post(scene)
        producer = await open_producer(scene)
        first, other, *_ = await producer.queues("orders")
        post.scripts["a"] = [refuse(13)]
        with pytest.raises(PartlySent) as caught:
            await producer.send_many(
                [Message("orders", b"x" * 3_000) for _ in range(3)] + numbered(1),
                queues=[first, first, first, other],
                frame_bytes=4_000,
            )
        assert len(post.sent) == 2
        return caught.value

    error = play(story)
    assert [receipt is None for receipt in error.receipts] == [True, True, True, False]
    assert "not sent, since messages before it in its queue failed" in str(error.errors[2])
    assert isinstance(error.errors[2], SendIllegal)
    assert not error.errors[2].may_be_stored


@pytest.mark.parametrize(
    "unfit",
    [
        Message("orders", b"x" * 5_000_000),
        Message("orders", b"x", properties={"note": "x" * 32_760}),
    ],
)
def test_a_message_over_a_limit_fails_alone(unfit: Message) -> None:
    async def story(scene: Scene) -> PartlySent:
        await open_post(scene)
        producer = await open_producer(scene)
        with pytest.raises(PartlySent) as caught:
            await producer.send_many([*numbered(2), unfit])
        return caught.value

    error = play(story)
    assert set(error.errors) == {2}
    assert isinstance(error.errors[2], MessageTooLarge)


def test_the_error_of_the_only_frame_is_raised_as_it_is() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", refuse(13))
        producer = await open_producer(scene)
        with pytest.raises(SendIllegal):
            await producer.send_many(numbered(3))

    play(story)


def test_of_several_frames_those_that_failed_are_told() -> None:
    async def story(scene: Scene) -> PartlySent:
        post = await open_post(scene, "a")
        scene.routes["bills"] = route("a", queues=1)
        producer = await open_producer(scene)
        post.scripts["a"] = [refuse(13)]
        messages = [*numbered(2), *numbered(2, "bills")]
        with pytest.raises(PartlySent) as caught:
            await producer.send_many(messages)
        return caught.value

    error = play(story)
    assert [receipt is None for receipt in error.receipts] == [True, True, False, False]
    assert set(error.errors) == {0, 1}
    assert all(isinstance(one, SendRefused) for one in error.errors.values())
    assert error.topic == "orders"
    assert "2 of 4 messages" in str(error)


def test_each_message_is_held_to_what_is_required() -> None:
    async def story(scene: Scene) -> PartlySent:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", status(post, ResponseCode.SLAVE_NOT_AVAILABLE))
        producer = await open_producer(scene)
        with pytest.raises(PartlySent) as caught:
            await producer.send_many(numbered(2), require="replicated")
        return caught.value

    error = play(story)
    assert all(isinstance(one, NotDurable) for one in error.errors.values())
    assert error.may_be_stored


def test_a_cancelled_call_gives_its_permits_back() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", later(2.0, post.store))
        producer = await open_producer(scene)
        sending = asyncio.create_task(
            producer.send_many([*numbered(3), *numbered(3, wait_stored=False)])
        )
        await asyncio.sleep(0.5)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert producer._sender is not None
        assert producer._sender.permits.in_flight == 0
        queue = MessageQueue("orders", "broker-a", 0)
        assert (await producer.send(Message("orders", b"x"), queue=queue)).queue == queue

    play(story)


def test_a_silent_nameserver_ends_with_the_call() -> None:
    async def story(scene: Scene) -> None:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        producer = await open_producer(scene)
        for sending in (
            producer.send_many(numbered(2, sharding_key="k"), timeout_ms=300),
            producer.send_many(numbered(2), timeout_ms=300),
        ):
            with pytest.raises(SendTimeout) as caught:
                await sending
            assert caught.value.spent.route_ms == 300

    play(story)
