import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.dead_letters import DeadLetter
from orbitmq.client.core.client_core import ClientCore
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import InvalidInput, MessageRefused, NoRoute, OrbitError
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from orbitmq.net.address import Address
from orbitmq.wire.bodies.locks import LockRequest
from orbitmq.wire.headers.heartbeat import LockBatchMq
from orbitmq.wire.headers.query import QueryMessage
from orbitmq.wire.headers.send import ConsumerSendMsgBack
from tests.client.admin import message_story
from tests.client.admin_story import send, soon


def test_messages_members_dead_letters_and_traces_of_a_cluster() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            answers = await message_story.tell(cluster.nameserver, "orders")
        assert [one[1] for one in answers["between"]] == list(range(40))
        assert answers["tagged"] == list(range(1, 40, 2))
        assert answers["tracks"] == [
            (2, "CONSUMED", ""),
            (3, "CONSUMED_BUT_FILTERED", ""),
            (4, "NOT_CONSUME_YET", ""),
        ]
        assert answers["redriven"] == [
            ("paid", ("SEND_OK", 0, 0), False, 0),
            ("open", ("SEND_OK", 0, 1), False, 0),
        ]
        assert answers["again"] == [("paid", ("SEND_OK", 0, 2), True, 1)]
        assert [one[1:] for one in answers["dead"]] == [(True, 1, 0)] * 3
        assert answers["trace"] == [
            ("sent", -2, None, "billing", True),
            ("stored", 0, 2, "", True),
            ("delivered", 10, 10, "payers", True),
            ("consumed", 30, 20, "payers", False),
        ]
        assert answers["cleaned"] == [True] * 6

    asyncio.run(main())


def with_dead_letters(
    story: Callable[[Admin, list[DeadLetter], ClientCore], Awaitable[None]], **settings: str
) -> None:
    """Run a story with two dead letters of the group billing."""

    async def main() -> None:
        async with (
            EmbeddedCluster(settings=settings) as cluster,
            Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin,
        ):
            await admin.create_topic("orders", queues=1)
            queue = (await admin.queues("orders"))[0]
            core = admin._core
            address = await admin._master_of(queue)
            for body in (b"a", b"b"):
                sent = await send(core, queue, Message("orders", body, message_id=f"id-{body!r}"))
                stored = await admin.view_message("orders", sent.msg_id)
                back = ConsumerSendMsgBack(
                    offset=stored.commit_log_offset, group="billing", delay_level=-1
                )
                assert (await core.request(address, back)).code == 0
            letters = await soon(lambda: _letters(admin), "the dead letters")
            await soon(lambda: _has(admin, "%RETRY%billing"), "the route of the retry topic")
            await story(admin, letters, core)

    asyncio.run(main())


async def _letters(admin: Admin) -> list[DeadLetter]:
    found = [one async for one in admin.dead_letters("billing")]
    return found if len(found) == 2 else []


async def _has(admin: Admin, topic: str) -> bool:
    return topic in await admin.topics()


def test_a_re_drive_that_fails_midway_goes_on_when_it_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(admin: Admin, letters: list[DeadLetter], _core: ClientCore) -> None:
        publish = admin._publish

        async def fail_on_b(message: Any, *rest: Any) -> Any:
            if message.body == b"b":
                raise OrbitError("the cable is cut")
            return await publish(message, *rest)

        monkeypatch.setattr(admin, "_publish", fail_on_b)
        with pytest.raises(OrbitError, match="the cable is cut") as caught:
            await admin.redrive_dead_letters(letters)
        (note,) = caught.value.__notes__
        assert note.startswith(f"1 of 2 dead letters were re-driven before {letters[1].id}")
        monkeypatch.undo()
        await soon(lambda: admin._copies("%RETRY%billing", letters[0].message.message_id), "copy")
        (copy,) = await admin.redriven_copies(letters[0])
        assert (copy.topic, copy.body) == ("%RETRY%billing", b"a")
        assert await admin.redriven_copies(letters[1]) == ()
        assert await admin.redriven_copies(letters[0], to="origin") == ()
        done = await admin.redrive_dead_letters(letters)
        assert [one.is_repeated for one in done] == [True, False]
        copies = [one.body async for one in admin.messages_between("%RETRY%billing")]
        assert copies == [b"a", b"b"]
        assert len(await _letters(admin)) == 2

    with_dead_letters(story)


def test_a_copy_is_found_behind_many_retries_and_only_if_all_brokers_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(admin: Admin, letters: list[DeadLetter], _core: ClientCore) -> None:
        await admin.redrive_dead_letters(letters[:1])
        unique_id = letters[0].message.message_id
        (copy,) = await soon(lambda: admin._all_copies("%RETRY%billing", unique_id), "the copy")
        # Each retry is another message with the same unique id: three deaths make about fifty.
        retries = [
            replace(
                copy,
                commit_log_offset=copy.commit_log_offset + number,
                store_timestamp_ms=copy.store_timestamp_ms + number,
                properties={"UNIQ_KEY": unique_id},
            )
            for number in range(1, 50)
        ]

        async def newest(_name: str, _at: Address, header: QueryMessage) -> list[StoredMessage]:
            stored = [copy, *retries]
            fitting = [one for one in stored if one.store_timestamp_ms <= header.end_timestamp]
            return fitting[: -header.max_num - 1 : -1]

        monkeypatch.setattr(admin, "_query_one", newest)
        (done,) = await admin.redrive_dead_letters(letters[:1])
        assert [done.is_repeated, done.receipt] == [True, None]

        async def two(_topic: str) -> dict[str, Address]:
            return {"broker-a": Address("127.0.0.1", 1), "broker-b": Address("127.0.0.1", 2)}

        async def one_is_down(name: str, _at: Address, _header: QueryMessage) -> list[Any]:
            if name == "broker-b":
                raise OrbitError("broker-b is down")
            return []

        monkeypatch.setattr(admin, "_brokers_of_topic", two)
        monkeypatch.setattr(admin, "_query_one", one_is_down)
        with pytest.raises(OrbitError, match="broker-b is down"):
            await admin.redrive_dead_letters(letters[:1])

    with_dead_letters(story)


def test_a_re_drive_says_if_the_broker_made_another_dead_letter_of_it() -> None:
    async def story(admin: Admin, letters: list[DeadLetter], core: ClientCore) -> None:
        queue = MessageQueue("orders", "broker-a", 0)
        lock = LockRequest(client_id="x", consumer_group="billing", mq_set=(queue,))
        address = await admin._master_of(queue)
        assert (await core.request(address, LockBatchMq(), lock.to_json())).code == 0
        with pytest.raises(MessageRefused, match="%DLQ%billing: the group consumes in order"):
            await admin.redrive_dead_letters(letters)
        done = await admin.redrive_dead_letters(letters, to="origin")
        assert [one.topic for one in done] == ["orders", "orders"]

    with_dead_letters(story)


def test_a_re_drive_says_if_the_broker_took_it_for_a_repeated_send() -> None:
    async def story(admin: Admin, letters: list[DeadLetter], _core: ClientCore) -> None:
        with pytest.raises(MessageRefused, match="sendDeduplicationEnable"):
            await admin.redrive_dead_letters(letters, to="origin")

    with_dead_letters(story, sendDeduplicationEnable="true")


def test_what_can_not_be_re_driven_is_refused() -> None:
    async def story(admin: Admin, letters: list[DeadLetter], _core: ClientCore) -> None:
        target: Any = "moon"
        with pytest.raises(InvalidInput, match="it must be retry or origin"):
            await admin.redrive_dead_letters(letters, to=target)
        lost = [
            DeadLetter(
                group="billing",
                message=letters[0].message,
                origin_topic="",
                reconsume_times=1,
                age_ms=0,
                redrive_times=0,
            )
        ]
        with pytest.raises(InvalidInput, match="does not say which topic it came from"):
            await admin.redrive_dead_letters(lost, to="origin")
        gone = [
            DeadLetter(
                group="elsewhere",
                message=letters[0].message,
                origin_topic="orders",
                reconsume_times=1,
                age_ms=0,
                redrive_times=0,
            )
        ]
        with pytest.raises(NoRoute):
            await admin.redrive_dead_letters(gone)

    with_dead_letters(story)


def test_a_letter_by_its_id_knows_its_broker() -> None:
    """Copies go to the same broker: else one could be on a broker that nobody can ask."""

    async def story(admin: Admin, letters: list[DeadLetter], _core: ClientCore) -> None:
        letter = await admin.dead_letter("billing", letters[0].id)
        assert letter.message == letters[0].message
        assert letter.message.broker_name == "broker-a"

    with_dead_letters(story)
