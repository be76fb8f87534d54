"""Traces of a whole producer: what reaches the trace topic, and that sends never notice."""

import pytest

from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.client.producer.producer import Producer
from orbitmq.message import trace
from orbitmq.message.model import Message, SendStatus
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.message.trace import EndTransaction, Publish, TraceRecord
from orbitmq.net.connection import Connection, Outcome
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageV2
from tests.client.post import (
    Post,
    Script,
    open_post,
    open_producer,
    refuse,
    reset,
    say_nothing,
)
from tests.client.scene import Scene, play, route

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


async def opened(scene: Scene, **options: object) -> tuple[Post, Producer]:
    post = await open_post(scene)
    scene.routes[TRACE_TOPIC] = route("a", queues=1)
    return post, await open_producer(scene, trace=True, **options)


def traced(post: Post, topic: str = TRACE_TOPIC) -> list[TraceRecord]:
    bodies = [sent.body for sent in post.sent if sent.header.topic == topic]
    return [record for body in bodies for record in trace.decode(body)]


def test_sends_are_reported_when_the_producer_stops_at_the_latest() -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene)
        single = await producer.send(MESSAGE)
        many = await producer.send_many([MESSAGE, MESSAGE])
        await producer.close()
        records = [one for one in traced(post) if isinstance(one, Publish)]
        assert [one.message_id for one in records] == [one.message_id for one in (single, *many)]
        assert {one.region for one in records} == {"eu"}
        assert {one.store_host for one in records} <= {"10.0.0.1:10911", "10.0.0.2:10911"}
        assert producer.tracer is not None
        assert producer.tracer.sent == 3
        reports = [sent.header for sent in post.sent if sent.header.topic == TRACE_TOPIC]
        assert {one.producer_group for one in reports} == {"_INNER_TRACE_PRODUCER-billing-PRODUCE"}

    play(story)


def test_the_end_of_a_transaction_is_reported() -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene)
        async with producer.transaction(MESSAGE) as begun:
            pass
        await producer.close()
        (end,) = [one for one in traced(post) if isinstance(one, EndTransaction)]
        assert (end.message_id, end.transaction_state) == (begun.message_id, "COMMIT_MESSAGE")

    play(story)


def test_a_topic_of_choice_takes_the_reports() -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, trace_topic="my-traces", trace_batch_max=1)
        scene.routes["my-traces"] = route("b", queues=1)
        await producer.send(MESSAGE)
        await scene.clock.sleep(1)
        assert len(traced(post, "my-traces")) == 1

    play(story)


def test_reports_go_into_the_namespace_of_the_sends() -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(
            scene, namespace="shop", trace_topic="my-traces", trace_batch_max=1
        )
        scene.routes["shop%orders"] = route("a", queues=1)
        scene.routes["shop%my-traces"] = route("b", queues=1)
        await producer.send(MESSAGE)
        await scene.clock.sleep(1)
        (record,) = traced(post, "shop%my-traces")
        assert isinstance(record, Publish)
        assert record.topic == "orders"

    play(story)


def for_traces_alone(post: Post, trouble: Script) -> Script:
    """Return what a broker does that takes everything but traces."""

    def script(connection: Connection, request: Frame) -> Outcome:
        is_trace = request.read(SendMessageV2).topic == TRACE_TOPIC
        return (trouble if is_trace else post.store)(connection, request)

    return script


@pytest.mark.parametrize("trouble", [refuse(ResponseCode.SYSTEM_ERROR), say_nothing, reset, None])
def test_sends_do_not_notice_traces_that_can_not_be_sent(
    trouble: Script | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene)
        if trouble is None:
            del scene.routes[TRACE_TOPIC]
        else:
            post.always = {"a": for_traces_alone(post, trouble)}
        receipts = [await producer.send(MESSAGE) for _ in range(20)]
        await scene.clock.sleep(60)
        await producer.close()
        assert {receipt.status for receipt in receipts} == {SendStatus.SEND_OK}
        assert producer.tracer is not None
        assert (producer.tracer.failed, producer.tracer.sent) == (20, 0)

    play(story)
    assert caplog.text.count("trace reports are lost (messages are not affected)") == 1


def test_hooks_of_the_application_see_no_trace_messages() -> None:
    class Watch(SendHook):
        def __init__(self) -> None:
            self.topics: list[str] = []

        def before(self, context: SendContext) -> None:
            self.topics.append(context.message.topic)

    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, trace_batch_max=1)
        watch = Watch()
        producer.add_hook(watch)
        await producer.send(MESSAGE)
        await scene.clock.sleep(1)
        assert len(traced(post)) == 1
        assert watch.topics == ["orders"]

    play(story)


def test_without_trace_there_is_none() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        assert producer.tracer is None

    play(story)
