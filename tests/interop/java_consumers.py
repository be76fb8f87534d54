"""Operations of RocketMQ's own consumers; the Java host imports this. Each is known by a number.

What a consumer is given, on threads of its own, is kept until it is asked for.
"""

import itertools
import threading
import time
from collections.abc import Callable

import jpype

from tests.interop.java_remoting import override
from tests.interop.java_types import (
    HEARTBEAT_MS,
    Java,
    bytes_or_none,
    from_map,
    in_haste,
    java_class,
)
from tests.interop.operations import ConsumerOptions, Pull, Pulled, Received

MessageQueue = java_class("MessageQueue")
MessageSelector = java_class("MessageSelector")
FROM_FIRST = java_class("ConsumeFromWhere").CONSUME_FROM_FIRST_OFFSET
Concurrently = java_class("ConsumeConcurrentlyStatus")
Orderly = java_class("ConsumeOrderlyStatus")

POLL_MS = 200
REFUSED_PAUSE_MS = 100
"""How soon an orderly consumer is given again what it refused; Java's own is a second."""

numbers = itertools.count(1)


class Consumer:
    """A consumer that runs, and what it was given."""

    def __init__(self, options: ConsumerOptions) -> None:
        self.received: list[Received] = []
        self.ended = threading.Event()
        self.client = java_class(CLASSES[options.kind])(options.group)
        self.client.setNamesrvAddr(options.nameserver)
        self.client.setVipChannelEnabled(False)
        self.client.setPollNameServerInterval(options.poll_routes_ms)
        self.client.setHeartbeatBrokerInterval(HEARTBEAT_MS)
        if options.namespace_v2:
            self.client.setNamespaceV2(options.namespace_v2)
        START[options.kind](self, options)

    def take(self, message: Java) -> None:
        """Keep a message."""
        self.received.append(from_message(message))

    def poll(self) -> None:
        """Take what a lite pull consumer has and commit it, until the end."""
        while not self.ended.is_set():
            for message in self.client.poll(POLL_MS):
                self.take(message)
            self.client.commitSync()


def selector(options: ConsumerOptions) -> Java:
    """Return what a consumer subscribes by."""
    return MessageSelector.bySql(options.expression) if options.sql else options.expression


def push(consumer: Consumer, options: ConsumerOptions) -> None:
    """Start a push consumer."""
    client = consumer.client
    client.setConsumeFromWhere(FROM_FIRST)
    client.setConsumeThreadMin(4)
    client.setConsumeThreadMax(4)
    client.setMaxReconsumeTimes(options.max_reconsume_times)
    if not options.client_rebalance:
        client.setClientRebalance(False)
    if options.broadcasting:
        client.setMessageModel(java_class("MessageModel").BROADCASTING)
        # Only consumers that share give themselves a name of their own.
        client.setInstanceName(options.instance_name or f"broadcasting-{next(numbers)}")
    orderly = options.kind == "orderly"
    listener = OrderlyListener if orderly else ConcurrentListener
    client.registerMessageListener(listener(consumer, options.refusals))
    client.subscribe(options.topic, selector(options))
    client.start()


def lite_pull(consumer: Consumer, options: ConsumerOptions) -> None:
    """Start a lite pull consumer, and a thread that polls it."""
    consumer.client.setConsumeFromWhere(FROM_FIRST)
    consumer.client.setAutoCommit(False)
    consumer.client.subscribe(options.topic, selector(options))
    consumer.client.start()
    threading.Thread(target=consumer.poll, daemon=True).start()


def old_pull(consumer: Consumer, options: ConsumerOptions) -> None:
    """Start the consumer of old, which only does what it is told."""
    consumer.client.start()


CLASSES = {
    "concurrent": "DefaultMQPushConsumer",
    "orderly": "DefaultMQPushConsumer",
    "lite": "DefaultLitePullConsumer",
    "pull": "DefaultMQPullConsumer",
}
START: dict[str, Callable[[Consumer, ConsumerOptions], None]] = {
    "concurrent": push,
    "orderly": push,
    "lite": lite_pull,
    "pull": old_pull,
}
consumers: dict[int, Consumer] = {}


def open_consumer(options: ConsumerOptions) -> int:
    """Start a consumer and return its number."""
    number = next(numbers)
    consumers[number] = Consumer(options)
    return number


def close_consumer(number: int) -> None:
    """Shut a consumer down, which commits its offsets and leaves its group."""
    consumer = consumers[number]  # what it received by its end can still be asked for
    consumer.ended.set()
    with in_haste():
        consumer.client.shutdown()


def client_id(number: int) -> str:
    """Return the id by which brokers know a consumer."""
    return str(consumers[number].client.buildMQClientId())


def received(number: int) -> list[Received]:
    """Return all that a consumer was given so far, in that order."""
    return list(consumers[number].received)


def pull_once(pull: Pull) -> Pulled:
    """Have the consumer of old pull once, without waiting at the broker."""
    client = consumers[pull.consumer].client
    queue = MessageQueue(pull.topic, pull.broker, pull.queue_id)
    result = client.pull(queue, pull.expression, pull.offset, pull.count)
    found = result.getMsgFoundList()
    return Pulled(
        status=str(result.getPullStatus()),
        next_offset=int(result.getNextBeginOffset()),
        min_offset=int(result.getMinOffset()),
        max_offset=int(result.getMaxOffset()),
        messages=[] if found is None else [from_message(one) for one in found],
    )


def from_message(message: Java) -> Received:
    """Read a message as a consumer sees it."""
    return Received(
        topic=str(message.getTopic()),
        body=bytes_or_none(message.getBody()) or b"",
        properties=from_map(message.getProperties()),
        queue_id=int(message.getQueueId()),
        queue_offset=int(message.getQueueOffset()),
        message_id=str(message.getMsgId()),
        reconsume_times=int(message.getReconsumeTimes()),
        born_ms=int(message.getBornTimestamp()),
        stored_ms=int(message.getStoreTimestamp()),
        record_bytes=int(message.getStoreSize()),
        taken_ns=time.monotonic_ns(),
    )


@jpype.JImplements(java_class("MessageListenerConcurrently"))
class ConcurrentListener:
    """Keeps what it is given; refuses each message so often."""

    def __init__(self, consumer: Consumer, refusals: int) -> None:
        self._consumer = consumer
        self._refusals = refusals

    @override
    def consumeMessage(self, messages: Java, context: Java) -> Java:  # noqa: N802
        """Take a batch of messages, which has one by default."""
        for message in messages:
            self._consumer.take(message)
        if any(int(message.getReconsumeTimes()) < self._refusals for message in messages):
            return Concurrently.RECONSUME_LATER
        return Concurrently.CONSUME_SUCCESS


@jpype.JImplements(java_class("MessageListenerOrderly"))
class OrderlyListener:
    """Keeps what it is given; has its queue wait for each message so often."""

    def __init__(self, consumer: Consumer, refusals: int) -> None:
        self._consumer = consumer
        self._refusals = refusals

    @override
    def consumeMessage(self, messages: Java, context: Java) -> Java:  # noqa: N802
        """Take a batch of messages, which has one by default."""
        for message in messages:
            self._consumer.take(message)
        if any(int(message.getReconsumeTimes()) < self._refusals for message in messages):
            context.setSuspendCurrentQueueTimeMillis(REFUSED_PAUSE_MS)
            return Orderly.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return Orderly.SUCCESS
