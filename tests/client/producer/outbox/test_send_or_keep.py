"""A producer with an outbox: what its senders are told, and what brokers get in the end."""

import asyncio
from pathlib import Path

import pytest

from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.queue_choice import sharded
from orbitmq.errors import (
    BackPressure,
    InvalidInput,
    NotDurable,
    OutboxFull,
    PartlySent,
    ProducerClosed,
    SendHeldBack,
    SendIllegal,
    SendKept,
    SendRefused,
    SendUnreachable,
    StoreLocked,
)
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.codes import ResponseCode
from tests.client.post import (
    Post,
    later,
    open_post,
    open_producer,
    refuse,
    reset,
    say_nothing,
    status,
)
from tests.client.scene import Scene, play


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "outbox")


async def opened(scene: Scene, path: str | Path, **options: object) -> tuple[Post, Producer]:
    post = await open_post(scene)
    return post, await open_producer(scene, outbox_path=path, **options)


def break_down(post: Post) -> None:
    post.always = {"a": reset, "b": reset}


async def drained(producer: Producer) -> None:
    assert producer.outbox is not None
    async with asyncio.timeout(600):
        await producer.outbox.drained()


def stored(post: Post) -> list[bytes]:
    """Return what brokers have stored, in their order."""
    return [sent.body for sent in post.sent if sent.broker not in post.always]


def test_a_send_that_works_needs_no_outbox(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        receipt = await producer.send(Message("orders", b"paid"))
        assert post.sent[0].properties["UNIQ_KEY"] == receipt.message_id
        assert read_contents(path).waiting == ()

    play(story)


def test_what_no_broker_took_is_sent_when_they_return(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        with pytest.raises(SendKept, match="don't send it again") as raised:
            await producer.send(Message("orders", b"paid"))
        kept = raised.value
        assert isinstance(kept.__cause__, SendUnreachable)
        assert (kept.path, kept.number, kept.topic) == (path, 1, "orders")
        assert kept.may_be_stored
        (entry,) = read_contents(path).waiting
        assert entry.message_id == kept.send_id
        await scene.clock.sleep(600)
        post.always = {}
        await drained(producer)
        assert {sent.properties["UNIQ_KEY"] for sent in post.sent} == {kept.send_id}
        assert stored(post)[-1] == b"paid"

    play(story)


def test_the_next_producer_sends_what_the_last_one_left(path: str) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        break_down(post)
        client = scene.settings(keep_open_ms=0)
        async with Producer(
            "billing", client=client, machine=scene.machine, outbox_path=path
        ) as producer:
            with pytest.raises(SendKept):
                await producer.send(Message("orders", b"paid"))
        post.always = {}
        producer = await open_producer(scene, outbox_path=path)
        await drained(producer)
        assert stored(post)[-1] == b"paid"

    play(story)


def test_a_keys_sends_keep_their_order_although_the_first_ones_fail(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, retries=0)
        numbers = range(20)
        post.scripts = {name: [reset] * 3 for name in "ab"}  # and then they are there again
        outcomes = await asyncio.gather(
            *(
                producer.send(Message("orders", b"%d" % number, sharding_key="o-42"))
                for number in numbers
            ),
            return_exceptions=True,
        )
        assert any(isinstance(one, SendKept) for one in outcomes)
        await drained(producer)
        # Of a message that was tried again, the last try was stored.
        taken = {body: place for place, body in enumerate(post.bodies)}
        assert [*sorted(taken, key=taken.__getitem__)] == [b"%d" % number for number in numbers]
        assert (await producer.send(Message("orders", b"new", sharding_key="o-42"))).message_id

    play(story)


def test_a_message_kept_behind_older_ones_of_its_key_says_so(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        post.always = {}
        with pytest.raises(SendKept, match="older messages of sharding key 'o-42'") as raised:
            await producer.send(Message("orders", b"2"), sharding_key="o-42")
        assert raised.value.__cause__ is None
        assert not raised.value.may_be_stored
        await producer.send(Message("orders", b"other", sharding_key="o-43"))
        await drained(producer)
        assert [body for body in stored(post) if body in b"12"][-2:] == [b"1", b"2"]

    play(story)


def test_a_chosen_queue_stays_the_one(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        queue = MessageQueue("orders", "broker-b", 1)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1"), queue=queue)
        with pytest.raises(SendKept):
            await producer.send(
                Message("orders", b"2"), selector=lambda queues, _message: queues[0]
            )
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert {sent.body: sent.queue for sent in post.sent} == {b"1": ("b", 1), b"2": ("a", 0)}

    play(story)


def test_gathered_sends_are_kept_one_by_one(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, auto_batch=True)
        break_down(post)
        outcomes = await asyncio.gather(
            *(producer.send(Message("orders", b"%d" % number)) for number in range(5)),
            return_exceptions=True,
        )
        assert [type(one) for one in outcomes] == [SendKept] * 5
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert sorted(stored(post)) == [b"%d" % number for number in range(5)]

    play(story)


def test_of_many_those_that_fail_are_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, retries=0)
        orders = [Message("orders", b"%d" % number) for number in range(3)]
        break_down(post)
        with pytest.raises(
            PartlySent, match="3 of 3 messages failed; 3 of them are kept"
        ) as raised:
            await producer.send_many(orders)
        assert {type(error) for error in raised.value.errors.values()} == {SendKept}
        assert raised.value.receipts == (None, None, None)
        with pytest.raises(SendKept):
            await producer.send_many(orders[:1])
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert sorted(stored(post)) == [b"0", b"0", b"1", b"2"]

    play(story)


def test_of_a_key_those_sent_together_are_kept_before_a_later_one(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, topics=["orders"])
        orders = [Message("orders", b"%d" % number, sharding_key="o-42") for number in range(4)]
        break_down(post)
        outcomes = await asyncio.gather(
            producer.send_many(orders[:3]), producer.send(orders[3]), return_exceptions=True
        )
        assert [type(one) for one in outcomes] == [PartlySent, SendKept]
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert stored(post) == [b"0", b"1", b"2", b"3"]

    play(story)


def test_no_message_of_a_frame_overtakes_one_of_its_key_that_is_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, topics=["orders"], retries=0)
        queues = await producer.queues("orders")
        of_first = sharded(queues, "o-42")
        other = next(f"k{n}" for n in range(99) if sharded(queues, f"k{n}") == of_first)
        for name in "ab":
            post.scripts[name] = [later(0.2, reset)]
        first = asyncio.create_task(producer.send(Message("orders", b"first", sharding_key="o-42")))
        await asyncio.sleep(0.1)
        pair = [
            Message("orders", b"other", sharding_key=other),
            Message("orders", b"second", sharding_key="o-42"),
        ]
        outcomes = await asyncio.gather(first, producer.send_many(pair), return_exceptions=True)
        assert [type(one) for one in outcomes] == [SendKept, PartlySent]
        del post.sent[:]
        await drained(producer)
        assert [body for body in stored(post) if body != b"other"] == [b"first", b"second"]

    play(story)


def test_of_many_by_a_selector_the_queues_stay(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, retries=0)
        break_down(post)
        orders = [Message("orders", b"%d" % number) for number in range(4)]
        with pytest.raises(PartlySent):
            await producer.send_many(
                orders, selector=lambda queues, message: queues[int(message.body) % 2]
            )
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert {sent.body: sent.queue for sent in post.sent} == {
            b"0": ("a", 0),
            b"1": ("a", 1),
            b"2": ("a", 0),
            b"3": ("a", 1),
        }

    play(story)


def test_what_was_not_begun_at_a_close_is_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(
            scene, path, stop_timeout_ms=100, send_timeout_ms=60_000, in_flight_max=10
        )
        post.always = {"a": say_nothing, "b": say_nothing}
        sends = [
            asyncio.create_task(producer.send(Message("orders", b"%d" % number)))
            for number in range(12)
        ]
        await asyncio.sleep(0.1)
        await producer.close()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(one) for one in outcomes[10:]] == [SendKept, SendKept]
        with pytest.raises(SendKept) as raised:
            await sends[10]
        assert isinstance(raised.value.__cause__, ProducerClosed)
        assert len(read_contents(path).waiting) == 2

    play(story)


def test_what_can_not_be_kept_does_not_overtake(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        half = Message("orders", b"2", sharding_key="o-42")
        with pytest.raises(SendHeldBack, match="older messages of sharding key 'o-42'") as raised:
            async with producer.transaction(half):
                pytest.fail("the block ran")
        assert raised.value.topic == "orders"
        assert not raised.value.may_be_stored
        with pytest.raises(SendHeldBack):
            await producer.request(half)

    play(story)


# What is not kept


def test_what_a_close_leaves_unsent_fails_as_without_an_outbox(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, stop_timeout_ms=100, send_timeout_ms=60_000)
        post.always = {"a": say_nothing, "b": say_nothing}
        sending = asyncio.create_task(producer.send(Message("orders", b"paid")))
        await asyncio.sleep(0.1)
        await producer.close()
        with pytest.raises(SendUnreachable) as raised:
            await sending
        assert raised.value.may_be_stored
        assert "could not be kept in the outbox either" in raised.value.__notes__[0]

    play(story)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        (ResponseCode.SYSTEM_ERROR, True),
        (ResponseCode.SYSTEM_BUSY, True),
        (ResponseCode.SERVICE_NOT_AVAILABLE, True),
        (ResponseCode.MESSAGE_ILLEGAL, False),
        (ResponseCode.NO_PERMISSION, False),
    ],
)
def test_what_brokers_will_never_take_is_an_error_as_ever(
    path: str, code: ResponseCode, kept: bool
) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, retries=0)
        post.always = {"a": refuse(code), "b": refuse(code)}
        with pytest.raises(SendKept if kept else SendRefused):
            await producer.send(Message("orders", b"paid"))
        assert len(read_contents(path).waiting) == kept

    play(story)


def test_a_message_that_can_not_be_sent_is_not_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        _post, producer = await opened(scene, path, max_message_bytes=10)
        with pytest.raises(InvalidInput, match="the limit is 10"):
            await producer.send(Message("orders", b"x" * 11))
        assert read_contents(path).waiting == ()

    play(story)


def test_what_is_stored_less_safely_is_stored(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, require="flushed")
        answer = status(post, ResponseCode.FLUSH_DISK_TIMEOUT)
        post.always = {"a": answer, "b": answer}
        with pytest.raises(NotDurable):
            await producer.send(Message("orders", b"paid"))
        assert read_contents(path).waiting == ()

    play(story)


def test_back_pressure_is_no_reason_to_keep(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, in_flight_max=10, send_timeout_ms=1_000)
        slow = later(0.9, post.store)
        post.always = {"a": slow, "b": slow}
        outcomes = await asyncio.gather(
            *(producer.send(Message("orders", b"paid")) for _ in range(40)), return_exceptions=True
        )
        assert BackPressure in {type(one) for one in outcomes}
        for entry in read_contents(path).waiting:
            assert "BackPressure" not in entry.reason

    play(story)


def test_a_full_outbox_leaves_the_error_as_it_was(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, outbox_bytes_max=1024 * 1024)
        break_down(post)
        large = b"x" * 900_000
        with pytest.raises(SendKept):
            await producer.send(Message("orders", large, sharding_key="a"))
        with pytest.raises(SendUnreachable) as raised:
            await producer.send(Message("orders", large))
        assert "could not be kept in the outbox either" in raised.value.__notes__[0]
        with pytest.raises(OutboxFull):  # it may not overtake, and there is no room to wait
            await producer.send(Message("orders", large, sharding_key="a"))

    play(story)


def test_what_a_broker_refuses_later_is_set_aside(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"paid"))
        refusal = refuse(ResponseCode.MESSAGE_ILLEGAL, "too large for us")
        post.always = {"a": refusal, "b": refusal}
        await drained(producer)
        assert producer.outbox is not None
        (entry,) = producer.outbox.refused
        assert "too large for us" in entry.reason
        assert SendIllegal.__name__ not in entry.reason

    play(story)


def test_two_producers_can_not_have_one_outbox(path: str) -> None:
    async def story(scene: Scene) -> None:
        await opened(scene, path)
        with pytest.raises(StoreLocked):
            await open_producer(scene, outbox_path=path)

    play(story)


def test_texts_of_other_types_can_be_kept(path: str) -> None:
    class Text(str):
        __slots__ = ()

    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, Path(path))
        break_down(post)
        odd = Text("odd")
        message = Message(
            Text("orders"), b"1", tags=odd, keys=[odd], sharding_key=odd, properties={odd: odd}
        )
        with pytest.raises(SendKept) as raised:
            await producer.send(message)
        assert raised.value.path == path
        post.always = {}
        await drained(producer)
        assert post.sent[-1].properties["odd"] == "odd"

    play(story)
