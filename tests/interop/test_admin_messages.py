"""Messages, members, dead letters and traces: the same answers of our broker and of Java's."""

import asyncio
from contextlib import ExitStack
from functools import partial

from orbitmq import blocking
from orbitmq.client.observe.trace_timeline import TraceStep
from orbitmq.embedded import RunningCluster
from orbitmq.errors import NotFound
from orbitmq.wire.bodies.running import CMResult
from tests.client.admin import message_story
from tests.interop.clients import consuming, producing
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import ConsumerOptions, Outgoing, ProducerOptions
from tests.interop.waiting import until

TOPIC, GROUP = "admin-running", "admin-running-group"


def test_our_broker_and_javas_answer_alike(
    java_cluster_540: JavaCluster, our_cluster: RunningCluster
) -> None:
    ours, javas = (
        asyncio.run(message_story.tell(nameserver, "admin-story"))
        for nameserver in (our_cluster.nameserver, str(java_cluster_540.nameserver.address))
    )
    assert ours.keys() == javas.keys()
    for name, answer in ours.items():
        assert answer == javas[name], name


def test_java_consumers_are_asked_through_both_brokers(
    java_cluster_540: JavaCluster, our_cluster: RunningCluster, java_540: Java
) -> None:
    with ExitStack() as stack:
        asked = [
            (admin, _asked(admin, java_540, stack))
            for admin in (
                stack.enter_context(blocking.Admin(nameserver=nameserver, keep_open_ms=0))
                for nameserver in (
                    our_cluster.nameserver,
                    str(java_cluster_540.nameserver.address),
                )
            )
        ]
        for admin, message_id in asked:  # Java commits offsets after ten seconds
            until(partial(_is_consumed, admin, message_id), what="the committed offset")


def _asked(admin: blocking.Admin, java: Java, stack: ExitStack) -> str:
    """Ask about a message that a Java consumer has consumed; return its id."""
    nameserver = admin.client_settings.nameserver
    admin.create_topic(TOPIC, queues=2)
    until(lambda: TOPIC in admin.topics(), what="the route")
    options = ConsumerOptions(nameserver=nameserver, group=GROUP, topic=TOPIC)
    consumer = stack.enter_context(consuming(java, options))
    with producing(java, ProducerOptions(nameserver=nameserver, trace=True)) as producer:
        message = Outgoing(topic=TOPIC, body=b"paid", tags="t", keys="o-42")
        (sent,) = producer.send(message)
        consumer.wait_for(1)
        (client,) = admin.consumer_connections(GROUP).clients
        assert (client.client_id, client.language) == (consumer.client_id, "JAVA")
        assert client.version == "5.4.0"
        (sender,) = admin.producer_connections("senders", TOPIC)
        assert (sender.language, sender.version) == ("JAVA", "5.4.0")
        info = admin.consumer_running_info(GROUP, client.client_id, stack=True)
        assert "ConsumeMessageThread" in (info.jstack or "")
        assert TOPIC in {one.topic for one in info.mq_table}
        result = admin.resend_message(TOPIC, sent.message_id, group=GROUP)
        assert (result.result, result.is_ordered) == (CMResult.CR_SUCCESS, False)
        assert len(consumer.wait_for(2)) == 2
        status = admin.consumer_status(TOPIC, GROUP)[client.client_id]
        assert {queue.topic for queue in status} == {TOPIC}
        if "RMQ_SYS_TRACE_TOPIC" in admin.topics():
            until(lambda: _is_traced(admin, sent.message_id), what="the trace of Java's send")
    return sent.message_id


def _is_consumed(admin: blocking.Admin, message_id: str) -> bool:
    tracks = admin.message_track(TOPIC, message_id)
    return {one.group: one.type.value for one in tracks} == {GROUP: "CONSUMED"}


def _is_traced(admin: blocking.Admin, message_id: str) -> bool:
    try:
        trace = admin.message_trace(message_id)
    except NotFound:
        return False
    assert [one.step for one in trace.events] == [TraceStep.SENT, TraceStep.STORED]
    assert (trace.keys, trace.tags, trace.events[0].group) == (("o-42",), "t", "senders")
    assert not trace.events[1].is_estimated
    return True
