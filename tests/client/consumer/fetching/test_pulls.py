import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.fetching.pulls import (
    _INNER_BATCH,
    Pulls,
    PullStatus,
    _moved,
    _unpack,
)
from orbitmq.client.consumer.subscriptions import Sql, subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.errors import BrokerError, NoRoute
from orbitmq.message import batch, flags, properties
from orbitmq.message.compression import CompressionType, compress
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
)
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.headers.heartbeat import Heartbeat
from orbitmq.wire.headers.send import SendMessageV2
from tests.client.consumer.world import TOPIC, World, bodies, play
from tests.client.stored import a_stored_message

ALL = subscription_data(TOPIC, "*")


def test_messages_are_found_in_order_with_the_ends_of_the_queue() -> None:
    async def story(world: World) -> None:
        await world.send("a", "b", "c")
        pulled = await world.pulls(batch=2).pull(world.queue, 0, ALL)
        assert pulled.status is PullStatus.FOUND
        assert bodies(pulled.messages) == ["a", "b"]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (2, 0, 3)
        first = pulled.messages[0]
        assert (first.broker_name, first.queue_offset) == ("broker-a", 0)
        assert first.properties["MIN_OFFSET"] == "0"
        assert first.properties["MAX_OFFSET"] == "3"
        rest = await world.pulls().pull(world.queue, 1, ALL, count=1)
        assert bodies(rest.messages) == ["b"]

    play(story)


def test_a_pull_at_the_end_is_held_until_a_message_comes_or_the_time_is_over() -> None:
    async def story(world: World) -> None:
        nothing = await world.pulls(suspend_ms=50).pull(world.queue, 0, ALL)
        assert (nothing.status, nothing.next_offset) == (PullStatus.NO_NEW, 0)
        held = asyncio.create_task(world.pulls(suspend_ms=5_000).pull(world.queue, 0, ALL))
        await world.send("a")
        assert bodies((await held).messages) == ["a"]
        at_once = await world.pulls(suspend_ms=5_000).pull(world.queue, 1, ALL, hold=False)
        assert at_once.status is PullStatus.NO_NEW

    play(story)


def test_an_offset_that_the_queue_lacks_is_illegal() -> None:
    async def story(world: World) -> None:
        await world.send("a")
        pulled = await world.pulls().pull(world.queue, 7, ALL)
        assert (pulled.status, pulled.next_offset) == (PullStatus.OFFSET_ILLEGAL, 1)

    play(story)


def test_tags_are_compared_by_text_since_brokers_compare_hashes() -> None:
    async def story(world: World) -> None:
        await world.send("1", tags="Aa")
        await world.send("2", tags="BB")  # the hash of Aa
        await world.send("3", tags="C")
        wanted = subscription_data(TOPIC, "Aa || D")
        pulled = await world.pulls().pull(world.queue, 0, wanted)
        assert (pulled.status, bodies(pulled.messages)) == (PullStatus.FOUND, ["1"])
        others = await world.pulls().pull(world.queue, 1, wanted)
        assert (others.status, others.messages) == (PullStatus.FOUND, [])
        none = await world.pulls().pull(world.queue, 2, wanted)
        assert (none.status, none.next_offset) == (PullStatus.NO_MATCH, 3)

    play(story)


def test_brokers_evaluate_sql() -> None:
    async def story(world: World) -> None:
        for amount in ("5", "50"):
            message = Message(TOPIC, amount.encode(), properties={"amount": amount})
            await world.producer.send(message)
        wanted = subscription_data(TOPIC, Sql("amount > 10"))
        pulled = await world.pulls().pull(world.queue, 0, wanted)
        assert bodies(pulled.messages) == ["50"]

    play(story)


def test_a_group_that_brokers_know_pulls_by_its_heartbeat_and_commits() -> None:
    async def story(world: World) -> None:
        await world.send("a", "b")
        pulls = Pulls(
            world.core, "billing", batch=32, batch_bytes=9_999, suspend_ms=100, timeout_ms=5_000
        )
        with pytest.raises(BrokerError):
            await pulls.pull(world.queue, 0, ALL)
        group = ConsumerData(
            group_name="billing",
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=(ALL,),
        )
        beat = HeartbeatData(client_id=world.core.client_id, consumer_data_set=(group,))
        address = world.core.routes.published[TOPIC].addresses["broker-a"]
        await world.core.request(address, Heartbeat(), beat.to_json())
        pulled = await pulls.pull(world.queue, 1, ALL, commit=1)
        assert bodies(pulled.messages) == ["b"]
        broker = world.cluster._brokers[0]
        assert broker.state.offsets.query("billing", TOPIC, 0) == 1
        pulls.forget(world.queue)

    play(story)


async def send_raw(
    world: World,
    body: bytes,
    sys_flag: int,
    topic: str = TOPIC,
    texts: Mapping[str, str] = MappingProxyType({"WAIT": "true"}),
    *,
    is_batch: bool = False,
) -> None:
    header = SendMessageV2(
        producer_group="shop",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1,
        flag=0,
        properties=properties.encode(texts).decode(),
        batch=is_batch,
    )
    await world.core.routes.publish_route(TOPIC)
    address = world.core.routes.published[TOPIC].addresses["broker-a"]
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else None
    answer = await world.core.request(address, header, body, code=code)
    assert answer.code == 0


@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_bodies_are_decompressed_large_ones_on_a_worker(size: int) -> None:
    async def story(world: World) -> None:
        body = bytes(range(256)) * (size // 256)
        packed = compress(body, CompressionType.ZLIB, level=0)  # as large as before
        await send_raw(world, packed, CompressionType.ZLIB.sys_flag)
        await world.send("plain")
        pulled = await world.pulls().pull(world.queue, 0, ALL)
        assert pulled.messages[0].body == body
        assert not pulled.messages[0].sys_flag & flags.COMPRESSED

    play(story)


def test_a_body_that_cannot_be_decompressed_does_not_stop_the_queue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        await send_raw(world, b"no zlib", CompressionType.ZLIB.sys_flag)
        await world.send("next")
        pulled = await world.pulls().pull(world.queue, 0, ALL)
        assert bodies(pulled.messages) == ["no zlib", "next"]
        assert pulled.messages[0].sys_flag & flags.COMPRESSED

    play(story)
    assert "delivered as it is stored" in caplog.text


def test_a_batch_that_is_stored_as_one_record_is_split() -> None:
    async def story(world: World) -> None:
        topic = "batches"
        async with Admin(client=world.core.settings) as admin:
            await admin.create_topic(topic, queues=1, attributes={"queue.type": "BatchCQ"})
        await world.core.routes.publish_route(topic)
        body = batch.encode([(0, one.encode(), b"TAGS\x01t\x02") for one in "abc"])
        await send_raw(world, body, _INNER_BATCH, topic, {"INNER_NUM": "3"}, is_batch=True)
        queue, everything = MessageQueue(topic, "broker-a", 0), subscription_data(topic, "t")
        pulled = await world.pulls().pull(queue, 1, everything)
        assert bodies(pulled.messages) == ["b", "c"]
        assert [one.queue_offset for one in pulled.messages] == [1, 2]
        assert pulled.messages[0].properties["MAX_OFFSET"] == "3"
        assert pulled.next_offset == 3

    play(story)


def test_a_damaged_batch_does_not_stop_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"MIN_OFFSET": "0", "MAX_OFFSET": "1"}
    damaged = replace(a_stored_message(), sys_flag=_INNER_BATCH, properties=properties)
    assert _unpack([damaged]) == [damaged]
    assert "delivered as it is stored" in caplog.text


def test_messages_of_a_static_topic_have_the_offsets_of_the_logic_queue() -> None:
    (moved,) = _moved([a_stored_message(at=7)], queue_id=5, delta=100)
    assert (moved.queue_id, moved.queue_offset) == (5, 107)


def test_a_broker_that_does_not_know_lite_pulls_gets_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[object] = []
    real = ClientCore.request

    async def as_4x(core: ClientCore, *args: Any, code: int | None = None, **options: Any) -> Any:
        codes.append(code)
        unknown = 999_999  # no broker knows it
        asked = unknown if code == RequestCode.LITE_PULL_MESSAGE else code
        return await real(core, *args, code=asked, **options)

    async def story(world: World) -> None:
        await world.send("a")
        monkeypatch.setattr(ClientCore, "request", as_4x)
        pulls = world.pulls()
        for _ in range(2):
            assert bodies((await pulls.pull(world.queue, 0, ALL)).messages) == ["a"]
        lite, plain = RequestCode.LITE_PULL_MESSAGE, RequestCode.PULL_MESSAGE
        assert codes == [lite, plain, plain]

    play(story)


def test_a_queue_without_a_broker_has_no_route() -> None:
    async def story(world: World) -> None:
        with pytest.raises(NoRoute, match="broker-z"):
            await world.pulls().pull(MessageQueue(TOPIC, "broker-z", 0), 0, ALL)

    play(story)
