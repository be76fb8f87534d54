"""Answers of a consumer: from its own loop, and while user code blocks that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import pytest

from orbitmq.client.consumer import answers as module
from orbitmq.client.consumer.delivery.handler import MessageHandler, RetryLater
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.message import properties, record
from orbitmq.message.host import Host
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.net.connection import Connection, Outcome
from orbitmq.threads import Future
from orbitmq.wire.bodies.offsets import ConsumerStatus, OffsetReset
from orbitmq.wire.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.heartbeat import ConsumeMessageDirectly, GetConsumerRunningInfo
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response
from tests.client.consumer.harness import AnsweringConsumer, Loops
from tests.client.frames import request
from tests.client.scene import Scene, play
from tests.client.stored import a_stored_message

T = TypeVar("T")
QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)
HERE = Host.parse("127.0.0.1:10911")
INFO = GetConsumerRunningInfo(consumer_group="billing", client_id="c1")
DIRECTLY = ConsumeMessageDirectly(consumer_group="billing", client_id="c1", broker_name="broker-a")


def a_record(topic: str = "orders", **texts: str) -> bytes:
    return bytes(
        record.encode(
            record.Record(
                topic=topic.encode(),
                body=b"paid",
                properties=properties.encode(texts),
                queue_id=0,
                born_timestamp_ms=0,
                born_host=HERE,
                store_host=HERE,
            )
        )
    )


async def a_core(scene: Scene, **settings: object) -> ClientCore:
    await scene.nameserver()
    core = await ClientCore.acquire(scene.settings(keep_open_ms=0, **settings), scene.machine)
    scene.open.push_async_callback(core.release)
    return core


class Story:
    """A consumer on one loop, and what a broker asks of it."""

    def __init__(self, core: ClientCore, consumer: AnsweringConsumer) -> None:
        self.core = core
        self.consumer = consumer
        consumer.answers.listen()

    def ask(self, header: Header, body: bytes = b"", code: int | None = None) -> Outcome:
        connection = cast(Connection, PEER)
        return self.core.broker_requests(connection, request(header, body, code=code))

    async def answer(self, header: Header, body: bytes = b"", code: int | None = None) -> Response:
        outcome = await cast("Awaitable[Response | None]", self.ask(header, body, code))
        assert outcome is not None
        return outcome

    async def consume(self, body: bytes) -> ConsumeMessageDirectlyResult:
        answer = await self.answer(DIRECTLY, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return ConsumeMessageDirectlyResult.from_json(cast(bytes, answer.body))


class Peer:
    peer = "10.0.0.1:10911"


PEER = Peer()


def told(
    story: Callable[[Story], Awaitable[T]],
    function: MessageHandler | None = None,
    settings: ConsumerSettings | PullConsumerSettings | None = None,
    **client: object,
) -> T:
    async def main(scene: Scene) -> T:
        core = await a_core(scene, **client)
        made = settings or ConsumerSettings("billing")
        return await story(Story(core, AnsweringConsumer(core, Loops(), made, function)))

    return play(main)


# 220


def test_a_reset_moves_the_owned_queues_of_the_topic() -> None:
    async def story(told: Story) -> None:
        offsets = {QUEUE: 5, MessageQueue("orders", "broker-b", 0): 7}
        foreign = {MessageQueue("parcels", "broker-a", 0): 9}
        body = OffsetReset(offset_table=QueueMap(offsets | foreign)).to_json()
        header = ResetOffset(group="billing", topic="orders", timestamp=1)
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert told.ask(header, body, code) is None
        await asyncio.sleep(0.1)
        assert told.consumer.queues.resets == [{QUEUE: 5}]

    told(story)


# 221


def test_the_offsets_of_a_topic_are_answered() -> None:
    async def story(told: Story) -> None:
        told.consumer.offsets.update(QUEUE, 41)
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        for topic, expected in (("orders", {QUEUE: 41}), ("", {QUEUE: 41}), ("parcels", {})):
            header = GetConsumerStatus(topic=topic, group="billing")
            answer = await told.answer(header, code=code)
            assert (
                dict(ConsumerStatus.from_json(cast(bytes, answer.body)).message_queue_table)
                == expected
            )

    told(story)


# 307


def test_running_info_has_settings_queues_and_rates() -> None:
    async def story(told: Story) -> None:
        told.consumer.offsets.update(QUEUE, 7)
        told.consumer.queues.inboxes[QUEUE].put([a_stored_message(at=7), a_stored_message(at=9)])
        told.consumer.statistics.consumed("orders", 3, took_ms=12)
        answer = await told.answer(INFO)
        info = ConsumerRunningInfo.from_json(cast(bytes, answer.body))
        assert info.properties["PROP_NAMESERVER_ADDR"] == "names-1:9876;"
        assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 1_000_000
        assert info.properties["consumerGroup"] == "billing"
        assert [one.topic for one in info.subscription_set] == ["orders"]
        assert info.status_table == {"orders": ConsumeStatus(consume_rt=12.0, consume_ok_tps=3.0)}
        first, second = info.mq_table[QUEUE], info.mq_table[OTHER]
        assert (first.commit_offset, first.cached_msg_count) == (7, 2)
        assert (first.cached_msg_min_offset, first.cached_msg_max_offset) == (7, 9)
        assert (second.commit_offset, second.cached_msg_count) == (-1, 0)
        assert (info.jstack, info.user_consumer_info) == (None, {})

    told(story)


def test_running_info_has_stacks_on_request() -> None:
    async def story(told: Story) -> None:
        header = GetConsumerRunningInfo(
            consumer_group="billing", client_id="c1", jstack_enable=True
        )
        info = ConsumerRunningInfo.from_json(cast(bytes, (await told.answer(header)).body))
        assert info.jstack is not None
        assert ", the loop of the consumer" in info.jstack.splitlines()[0]
        assert 'task "heartbeats of ' in info.jstack

    told(story)


def block_the_loop(waiting: Future[Response]) -> Response:
    return waiting.result(timeout=60)


def test_a_blocked_loop_is_shown_with_the_stack_that_blocks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TABLES_MS", 50)

    async def main(scene: Scene) -> None:
        core = await a_core(scene)
        async with Loops.of_two_threads() as loops:
            consumer = AnsweringConsumer(core, loops, ConsumerSettings("billing"))
            consumer.queues.inboxes[QUEUE].put([a_stored_message(at=7)])
            consumer.offsets.update(QUEUE, 7)
            story = Story(core, consumer)
            answer = block_the_loop(
                asyncio.run_coroutine_threadsafe(story.answer(INFO), loops.second)
            )
            info = ConsumerRunningInfo.from_json(cast(bytes, answer.body))
            assert info.user_consumer_info["loop"].startswith("blocked: it ran nothing for 50 ms")
            assert info.jstack is not None
            assert "in block_the_loop" in info.jstack.split("\n\n")[0]
            assert info.mq_table[QUEUE].cached_msg_count == 1
            assert info.mq_table[QUEUE].commit_offset == 7

    play(main)


# 309


def test_a_message_is_consumed_directly() -> None:
    seen: list[StoredMessage] = []

    async def handler(message: StoredMessage) -> None:
        await asyncio.sleep(0.25)
        seen.append(message)

    async def story(told: Story) -> ConsumeMessageDirectlyResult:
        return await told.consume(a_record("%RETRY%billing", RETRY_TOPIC="orders"))

    result = told(story, handler)
    assert result == ConsumeMessageDirectlyResult(
        consume_result=CMResult.CR_SUCCESS, spent_time_mills=250
    )
    (message,) = seen
    assert (message.topic, message.body, message.broker_name) == ("orders", b"paid", "broker-a")


def test_a_plain_function_consumes_it_on_a_thread() -> None:
    bodies: list[bytes] = []

    def function(message: StoredMessage) -> None:
        bodies.append(message.body)

    async def main() -> ConsumeMessageDirectlyResult:
        core = ClientCore(ClientSettings(nameserver="127.0.0.1:9876"))  # never started
        consumer = AnsweringConsumer(core, Loops(), ConsumerSettings("billing"), function)
        with consumer.workers:
            return await Story(core, consumer).consume(a_record())

    result = asyncio.run(main())
    assert (result.consume_result, result.remark) == (CMResult.CR_SUCCESS, None)
    assert bodies == [b"paid"]


def test_a_handler_may_ask_for_a_retry_or_fail() -> None:
    async def handler(message: StoredMessage) -> None:
        if message.topic == "orders":
            raise RetryLater("the bank is closed")
        raise ValueError("no such order")

    async def story(
        told: Story,
    ) -> tuple[ConsumeMessageDirectlyResult, ConsumeMessageDirectlyResult]:
        return await told.consume(a_record()), await told.consume(a_record("parcels"))

    later, failed = told(story, handler, ConsumerSettings("billing", ordered=True))
    assert (later.consume_result, later.remark) == (CMResult.CR_LATER, "the bank is closed")
    assert later.order
    assert failed.consume_result is CMResult.CR_THROW_EXCEPTION
    assert failed.remark is not None
    assert failed.remark.startswith("ValueError: no such order, in handler at ")


def test_a_handler_that_takes_long_is_a_timeout_and_goes_on() -> None:
    ended = []

    async def handler(_message: StoredMessage) -> None:
        await asyncio.sleep(60)
        ended.append(True)

    async def story(told: Story) -> Response:
        answer = await told.answer(DIRECTLY, a_record())
        await asyncio.sleep(60)
        return answer

    answer = told(story, handler)
    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert answer.remark is not None
    assert "has not returned after 9000 ms" in answer.remark
    assert ended == [True]


def test_a_message_that_was_not_begun_in_time_is_never_consumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_HANDLER_MS", 50)
    seen: list[StoredMessage] = []

    async def handler(message: StoredMessage) -> None:
        seen.append(message)

    async def main(scene: Scene) -> None:
        core = await a_core(scene)
        async with Loops.of_two_threads() as loops:
            consumer = AnsweringConsumer(core, loops, ConsumerSettings("billing"), handler)
            asking = Story(core, consumer).answer(DIRECTLY, a_record())
            answer = block_the_loop(asyncio.run_coroutine_threadsafe(asking, loops.second))
            assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
            await asyncio.sleep(1)
            assert seen == []

    play(main)


def test_a_consumer_without_handler_refuses_as_java_does() -> None:
    async def story(told: Story) -> Response:
        return await told.answer(DIRECTLY, a_record())

    answer = told(story, settings=PullConsumerSettings("billing"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert answer.remark.startswith("The Consumer Group <billing> not exist in this consumer")


def test_a_close_cancels_what_runs_for_an_operator() -> None:
    async def handler(_message: StoredMessage) -> None:
        await asyncio.Event().wait()

    async def story(told: Story) -> None:
        asking = asyncio.ensure_future(told.answer(DIRECTLY, a_record()))
        await asyncio.sleep(0.1)
        await told.consumer.answers.close()
        assert (await asking).code == ResponseCode.CONSUME_MSG_TIMEOUT

    told(story, handler)
