"""Sends behind others that are kept: what is kept too, what is sent, what can't be either."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.errors import (
    InvalidInput,
    MessageTooLarge,
    PartlySent,
    SendKept,
    SendUnreachable,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from tests.client.post import (
    later,
    open_producer,
    reset,
)
from tests.client.producer.outbox.test_send_or_keep import break_down, drained, opened
from tests.client.scene import Scene, play, route


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "outbox")


LARGE = b"x" * 1_001


@pytest.mark.parametrize(
    ("message", "options", "told"),
    [
        (Message("orders", LARGE, sharding_key="o-42"), {}, "the limit is 1000"),
        (
            Message("orders", b"2", sharding_key="o-42", properties={"a": "b" * 40_000}),
            {},
            "properties take",
        ),
        (
            Message("orders", b"2", sharding_key="o-42"),
            {"queue": MessageQueue("bills", "broker-a", 0)},
            "queue belongs to topic bills",
        ),
        (
            Message("orders", b"2", sharding_key="o-42", wait_stored=False),
            {"require": "flushed"},
            "contradict each other",
        ),
    ],
    ids=["body", "properties", "queue", "require"],
)
def test_behind_others_of_its_key_it_is_refused_as_ever(
    path: str, message: Message, options: dict[str, object], told: str
) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, max_message_bytes=1_000)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        with pytest.raises(InvalidInput, match=told):
            await producer.send(message, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=told):
            await producer.send_many([message], **options)  # type: ignore[arg-type]
        assert len(read_contents(path).waiting) == 1
        assert producer.outbox is not None
        post.always = {}
        await drained(producer)
        assert producer.outbox.refused == []

    play(story)


def test_without_a_route_it_is_refused_too(path: str) -> None:
    async def story(scene: Scene) -> None:
        producer = await open_producer(scene, outbox_path=path, max_message_bytes=1_000)
        keyed = [Message("orders", body, sharding_key="o-42") for body in (b"1", LARGE, b"2")]
        with pytest.raises(PartlySent) as raised:
            await producer.send_many(keyed)
        kinds = [type(raised.value.errors[index]) for index in range(3)]
        assert kinds == [SendKept, MessageTooLarge, SendKept]
        assert len(read_contents(path).waiting) == 2

    play(story)


# Many messages, of which some are behind others


def test_of_many_only_those_behind_others_are_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, max_message_bytes=1_000)
        scene.routes["bills"] = route("a")
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        post.always = {}
        del post.sent[:]
        with pytest.raises(PartlySent, match="3 of 5 messages failed; 2 of them are kept") as told:
            await producer.send_many(
                [
                    Message("orders", b"2", sharding_key="o-42"),
                    Message("bills", b"none"),
                    Message("orders", b"other", sharding_key="o-43"),
                    Message("orders", LARGE),
                    Message("orders", b"3", sharding_key="o-42"),
                ]
            )
        error = told.value
        assert {index: type(one) for index, one in error.errors.items()} == {
            0: SendKept,
            3: MessageTooLarge,
            4: SendKept,
        }
        assert [receipt is not None for receipt in error.receipts] == [
            index in (1, 2) for index in range(5)
        ]
        await drained(producer)
        assert [body for body in post.bodies if body in b"123"] == [b"1", b"2", b"3"]

    play(story)


def test_of_many_each_may_have_a_queue_that_others_wait_for(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        held, free = (MessageQueue("orders", "broker-a", number) for number in range(2))
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1"), queue=held)
        post.always = {}
        del post.sent[:]
        orders = [Message("orders", b"2"), Message("orders", b"3"), Message("orders", b"4")]
        with pytest.raises(PartlySent) as raised:
            await producer.send_many(orders, queues=[held, free, None])
        (kept,) = raised.value.errors.values()
        assert "older messages of queue 0 of broker-a are in the outbox" in str(kept)
        assert raised.value.receipts[0] is None
        await drained(producer)
        assert [(sent.body, sent.queue) for sent in post.sent if sent.body in b"12"] == [
            (b"1", ("a", 0)),
            (b"2", ("a", 0)),
        ]

    play(story)


def test_of_many_those_behind_others_come_before_a_later_send(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, topics=["orders"])
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        post.always = dict.fromkeys("ab", later(5, post.store))
        del post.sent[:]
        pair = [Message("orders", b"free"), Message("orders", b"2", sharding_key="o-42")]
        many = asyncio.create_task(producer.send_many(pair, timeout_ms=30_000))
        await asyncio.sleep(0.1)
        assert len(read_contents(path).waiting) == 2, "while the other one is on its way"
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"3", sharding_key="o-42"))
        with pytest.raises(PartlySent):
            await many
        post.always = {}
        await drained(producer)
        last = {body: place for place, body in enumerate(post.bodies) if body in b"123"}
        assert sorted(last, key=last.__getitem__) == [b"1", b"2", b"3"]

    play(story)


def test_an_error_of_a_selector_notes_which_messages_were_kept(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1", sharding_key="o-42"))
        pair = [Message("orders", b"2", sharding_key="o-42"), Message("orders", b"free")]
        with pytest.raises(ZeroDivisionError) as raised:
            await producer.send_many(pair, selector=lambda queues, _message: queues[1 // 0])
        assert "1 messages of the call were kept" in raised.value.__notes__[0]
        await asyncio.sleep(0.1)
        assert len(read_contents(path).waiting) == 2

    play(story)


def test_nothing_is_kept_of_nothing(path: str) -> None:
    async def story(scene: Scene) -> None:
        _post, producer = await opened(scene, path)
        assert await producer.send_many([]) == []

    play(story)


def test_what_can_not_be_kept_has_the_cause_that_it_had(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, outbox_bytes_max=1024 * 1024)
        break_down(post)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"x" * 900_000))
        with pytest.raises(SendUnreachable) as raised:
            await producer.send(Message("orders", b"x" * 900_000))
        assert raised.value.__cause__ is not raised.value

    play(story)


def test_a_send_goes_behind_those_of_its_key_that_are_still_in_line(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, topics=["orders"], retries=0)
        post.scripts = {"a": [later(0.2, reset)], "b": [later(0.2, reset)]}
        assert producer.outbox is not None
        keep = producer.outbox.keep
        third: list[asyncio.Task[SendReceipt]] = []

        def keep_and_send_another(*kept: Any, **options: Any) -> Awaitable[int]:
            number = keep(*kept, **options)
            if not third:  # the first is kept, and the second has not had its turn yet
                third.append(asyncio.create_task(producer.send(keyed(b"3"))))
            return number

        producer.outbox.keep = keep_and_send_another  # type: ignore[method-assign, assignment]
        sends = [asyncio.create_task(producer.send(keyed(body))) for body in (b"1", b"2")]
        errors = await asyncio.gather(*sends, return_exceptions=True)
        errors += await asyncio.gather(*third, return_exceptions=True)
        assert [type(error) for error in errors] == [SendKept] * 3
        await drained(producer)
        assert post.bodies == [b"1", b"1", b"2", b"3"]

    play(story)


def keyed(body: bytes) -> Message:
    return Message("orders", body, sharding_key="o-42")
