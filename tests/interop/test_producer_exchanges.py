"""Requests to a Java responder and replies to a Java requester, traces that Java reads, recalls."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import BrokerError, NoReply, SendFailed
from orbitmq.message.ids import recall_handle
from orbitmq.message.model import Message, SendReceipt, StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.pull import PullMessage
from tests.interop import counterparts
from tests.interop.clients import consuming, producing
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import Settings
from tests.interop.operations import (
    ASK,
    CLOSE_RESPONDER,
    DECODE_TRACE,
    OPEN_RESPONDER,
    Asking,
    ConsumerOptions,
    ProducerOptions,
    Received,
)

# Requests


def test_a_java_consumer_replies_to_our_requests(java: Java, java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("requests")
    nameserver = str(java_cluster.nameserver.address)
    options = ConsumerOptions(nameserver=nameserver, group=f"responders-{topic}", topic=topic)
    (responder,) = java.ask(OPEN_RESPONDER, [options])

    async def main() -> None:
        async with Producer("askers", nameserver=nameserver) as producer:
            reply = await producer.request(Message(topic, b"abc"), timeout_ms=20_000)
            assert reply.body == b"cba"
            asked = [b"%d" % number for number in range(100, 150)]
            replies = await asyncio.gather(
                *(producer.request(Message(topic, body), timeout_ms=20_000) for body in asked)
            )
            assert [one.body for one in replies] == [body[::-1] for body in asked]
            large = bytes(range(256)) * 100  # compressed, both ways
            reply = await producer.request(Message(topic, large), timeout_ms=20_000)
            assert reply.body == large[::-1]

    try:
        asyncio.run(main())
    finally:
        java.ask(CLOSE_RESPONDER, [responder])


def test_nobody_replies(java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("silence")

    async def main() -> None:
        nameserver = str(java_cluster.nameserver.address)
        async with Producer("askers", nameserver=nameserver) as producer:
            with pytest.raises(NoReply, match="was stored"):
                await producer.request(Message(topic, b"hello?"), timeout_ms=500)

    asyncio.run(main())


def test_we_reply_to_a_java_requester(java: Java, java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("questions", queues=1)
    nameserver = str(java_cluster.nameserver.address)

    async def answer() -> StoredMessage:
        core = await ClientCore.acquire(ClientSettings(nameserver=nameserver, keep_open_ms=0))
        try:
            (asked,) = await pull(core, topic)
            async with Producer("answerers", nameserver=nameserver) as producer:
                await producer.reply(asked, b"forty-two")
                # It has its reply, and waits no more; the broker still knows it.
                await producer.reply(asked, b"and more")
        finally:
            await core.release()
        return asked

    async def both(number: int) -> Received:
        answering = asyncio.create_task(answer())
        asking = Asking(producer=number, topic=topic, body=b"the question")
        (reply,) = await asyncio.to_thread(java.ask, ASK, [asking])
        assert (await answering).body == b"the question"
        return reply

    with producing(java, ProducerOptions(nameserver=nameserver, group="questioners")) as producer:
        reply = asyncio.run(both(producer.number))
    assert reply.body == b"forty-two"


async def pull(core: ClientCore, topic: str) -> list[StoredMessage]:
    """Return the messages of queue 0; the broker waits for the first one."""
    route = await core.routes.publish_route(topic)
    header = PullMessage(
        consumer_group="readers",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=2 | 4,  # hold it, and here is the subscription
        commit_offset=0,
        suspend_timeout_millis=15_000,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    (address,) = route.addresses.values()
    answer = await core.request(address, header, timeout_ms=20_000)
    assert answer.code == ResponseCode.SUCCESS
    return decode_all(answer.body)


def test_a_reply_to_nobody_is_refused(java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("gone", queues=1)
    nameserver = str(java_cluster.nameserver.address)

    async def main() -> None:
        core = await ClientCore.acquire(ClientSettings(nameserver=nameserver, keep_open_ms=0))
        async with Producer("askers-gone", nameserver=nameserver) as producer:
            with pytest.raises(NoReply):
                await producer.request(Message(topic, b"hello?"), timeout_ms=300)
            (asked,) = await pull(core, topic)
            orphan = replace(
                asked, properties={**asked.properties, "REPLY_TO_CLIENT": "10.9.9.9@gone"}
            )
            with pytest.raises(SendFailed, match="10.9.9.9@gone"):
                await producer.reply(orphan, b"too late")
        await core.release()

    asyncio.run(main())


# Traces


def test_java_reads_our_traces(java: Java, java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("traced")
    trace_topic = java_cluster.create_topic("traces")
    nameserver = str(java_cluster.nameserver.address)

    async def main() -> list[str]:
        async with Producer(
            "traced-billing", nameserver=nameserver, trace=True, trace_topic=trace_topic
        ) as producer:
            single = await producer.send(Message(topic, b"paid", tags="paid", keys=["o-42", "o"]))
            many = await producer.send_many([Message(topic, b"1"), Message(topic, b"22")])
            delayed = await producer.send(Message(topic, b"later", delay_level=1))
            async with producer.transaction(Message(topic, b"half")) as begun:
                pass
            ids = [one.message_id for one in (single, *many, delayed)]
        assert producer.tracer is not None
        assert (producer.tracer.sent, producer.tracer.failed, producer.tracer.dropped) == (6, 0, 0)
        return [*ids, begun.message_id]

    ids = asyncio.run(main())
    options = ConsumerOptions(nameserver=nameserver, group=f"tracers-{topic}", topic=trace_topic)
    with consuming(java, options) as consumer:
        messages = consumer.wait_for(1)
    records = [
        one for body in java.ask(DECODE_TRACE, [one.body for one in messages]) for one in body
    ]
    published = {one.message_id: one for one in records if one.kind == "Pub"}
    assert list(published) == ids
    first = published[ids[0]]
    assert (first.group, first.topic, first.tags, first.keys) == (
        "traced-billing",
        topic,
        "paid",
        "o-42 o",
    )
    assert (first.body_length, first.success) == (4, True)
    assert first.store_host == str(java_cluster.broker.address)
    assert [published[one].message_kind for one in ids] == [
        "Normal_Msg",
        "Normal_Msg",
        "Normal_Msg",
        "Delay_Msg",
        "Trans_Msg_Half",
    ]
    (end,) = [one for one in records if one.kind == "EndTransaction"]
    assert (end.message_id, end.transaction_state, end.from_check) == (
        ids[-1],
        "COMMIT_MESSAGE",
        False,
    )
    keys = " ".join(one.properties["KEYS"] for one in messages).split()
    assert {*ids, "o-42", "o"} <= set(keys)


# Delays and recalls


def test_a_timed_message_is_called_back(tmp_path: Path, java_540: Java) -> None:
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    settings: Settings = {
        "timerWheelEnable": "true",
        "recallMessageEnable": "true",
        "timerPrecisionMs": 100,
    }
    with JavaCluster("5.4.0", tmp_path, broker_settings=settings) as cluster:
        topic = cluster.create_topic("recalls")
        nameserver = str(cluster.nameserver.address)

        async def main() -> None:
            async with Producer("recallers", nameserver=nameserver) as producer:
                soon = timedelta(seconds=3)
                recalled = await producer.send(Message(topic, b"recalled", delay=soon))
                await producer.send(Message(topic, b"delivered", delay=soon))
                assert recalled.recall_handle is not None
                message_id = await producer.recall(topic, recalled.recall_handle)
                assert message_id == recalled.message_id
                other = cluster.create_topic("others")
                with pytest.raises(BrokerError, match="topic not match"):
                    await producer.recall(other, recalled.recall_handle)

        asyncio.run(main())
        options = ConsumerOptions(nameserver=nameserver, group="recall-readers", topic=topic)
        with consuming(java_540, options) as consumer:
            consumer.wait_for(1)
            assert consumer.bodies() == [b"delivered"]


def test_a_release_without_timers_delivers_at_once(
    java_cluster_497: JavaCluster, java_497: Java, caplog: pytest.LogCaptureFixture
) -> None:
    """4.9 takes no notice of the time: a warning says so, and there is nothing to call back."""
    topic = java_cluster_497.create_topic("no-timers")
    nameserver = str(java_cluster_497.nameserver.address)
    broker = java_cluster_497.broker.name

    async def main(topics: list[str]) -> SendReceipt:
        async with Producer("timers-of-old", nameserver=nameserver, topics=topics) as producer:
            receipt = await producer.send(Message(topic, b"now", delay=timedelta(hours=1)))
            assert receipt.recall_handle is None
            made_up = recall_handle(topic, broker, 1_700_000_000_000, receipt.message_id)
            with pytest.raises(BrokerError, match="not supported") as caught:
                await producer.recall(topic, made_up)
            assert caught.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return receipt

    # Where a topic is known beforehand, sends take a shorter way.
    receipts = [asyncio.run(main(topics)) for topics in ([], [topic])]
    warnings = [one for one in caplog.messages if "has no timers" in one]
    assert len(warnings) == 2
    assert "release 4.9.7," in warnings[0]
    options = ConsumerOptions(nameserver=nameserver, group="no-timers-readers", topic=topic)
    with consuming(java_497, options) as consumer:
        read = consumer.wait_for(2)
    assert {one.message_id for one in read} == {one.message_id for one in receipts}
