"""Operations of RocketMQ's own producers; the Java host imports this. Each is known by a number."""

import itertools
import threading

import jpype

from tests.interop.java_remoting import override
from tests.interop.java_types import HEARTBEAT_MS, ByteArray, Java, java_class
from tests.interop.operations import (
    Load,
    Loaded,
    Outgoing,
    ProducerOptions,
    Recalling,
    Sending,
    Sent,
)

ArrayList = jpype.JClass("java.util.ArrayList")
CompletableFuture = jpype.JClass("java.util.concurrent.CompletableFuture")
SECONDS = jpype.JClass("java.util.concurrent.TimeUnit").SECONDS
Message = java_class("Message")
MessageQueue = java_class("MessageQueue")

CALLBACK_SECONDS = 60
FAILED_PAUSE_S = 0.05
"""Between a failed send and the next: a producer without a broker must not take the processor."""

numbers = itertools.count(1)
producers: dict[int, Java] = {}
loads: dict[int, "Stream"] = {}


def open_producer(options: ProducerOptions) -> int:
    """Start a producer and return its number."""
    producer = java_class("DefaultMQProducer")(options.group, options.trace, "")
    producer.setNamesrvAddr(options.nameserver)
    producer.setVipChannelEnabled(options.vip)
    producer.setSendMsgTimeout(options.timeout_ms)
    producer.setCompressMsgBodyOverHowmuch(options.compress_over)
    producer.setMaxMessageSize(options.message_bytes_max)
    producer.setRetryTimesWhenSendFailed(options.retries)
    producer.setPollNameServerInterval(options.poll_routes_ms)
    producer.setHeartbeatBrokerInterval(HEARTBEAT_MS)
    if options.compression is not None:
        producer.setCompressType(getattr(java_class("CompressionType"), options.compression))
    producer.start()
    number = next(numbers)
    producers[number] = producer
    return number


def close_producer(number: int) -> None:
    """Have a producer shut down; it takes seconds over it, so nobody waits."""
    threading.Thread(target=producers.pop(number).shutdown, daemon=True).start()


def send(sending: Sending) -> list[Sent]:
    """Send messages one way or another; nothing is known of what was sent one way."""
    producer = producers[sending.producer]
    messages = [to_message(one) for one in sending.messages]
    if sending.way == "batch":
        return [from_result(producer.send(ArrayList(messages)))]
    if sending.way == "oneway":
        for message in messages:
            producer.sendOneway(message)
        return []
    if sending.way == "async":
        waiting = [CompletableFuture() for _ in messages]
        for message, future in zip(messages, waiting, strict=True):
            producer.send(message, Callback(future))
        return [from_result(future.get(CALLBACK_SECONDS, SECONDS)) for future in waiting]
    if sending.way == "queue":
        return [from_result(producer.send(one, queue_of(sending, one))) for one in messages]
    if sending.way == "selector":
        by_hash = java_class("SelectMessageQueueByHash")()
        shard = jpype.JString(sending.shard)
        return [from_result(producer.send(one, by_hash, shard)) for one in messages]
    return [from_result(producer.send(one)) for one in messages]


def queue_of(sending: Sending, message: Java) -> Java:
    """Return the queue that a send is meant for."""
    return MessageQueue(message.getTopic(), sending.broker, sending.queue_id)


def to_message(message: Outgoing) -> Java:
    """Make Java's message of ours."""
    made = Message(message.topic, message.tags, message.keys, ByteArray(message.body))
    for name, value in message.properties.items():
        made.putUserProperty(name, value)
    if message.delay_level:
        made.setDelayTimeLevel(message.delay_level)
    if message.delay_ms:
        made.setDelayTimeMs(message.delay_ms)
    if message.deliver_ms:
        made.setDeliverTimeMs(message.deliver_ms)
    return made


def from_result(result: Java) -> Sent:
    """Read what a producer was told."""
    return Sent(
        status=str(result.getSendStatus()),
        message_id=str(result.getMsgId()),
        offset_id=str(result.getOffsetMsgId()),
        broker=str(result.getMessageQueue().getBrokerName()),
        queue_id=int(result.getMessageQueue().getQueueId()),
        queue_offset=int(result.getQueueOffset()),
        recall_handle=_recall_handle(result),
    )


def _recall_handle(result: Java) -> str:
    # Releases before 5.3 have none.
    found = result.getRecallHandle() if hasattr(result, "getRecallHandle") else None
    return "" if found is None else str(found)


def recall(recalling: Recalling) -> str:
    """Take a message back; return its id."""
    producer = producers[recalling.producer]
    return str(producer.recallMessage(recalling.topic, recalling.handle))


@jpype.JImplements(java_class("SendCallback"))
class Callback:
    """Completes a future with what came of a send."""

    def __init__(self, future: Java) -> None:
        self._future = future

    @override
    def onSuccess(self, result: Java) -> None:  # noqa: N802
        """Take the result."""
        self._future.complete(result)

    @override
    def onException(self, cause: Java) -> None:  # noqa: N802
        """Take the reason why there is none."""
        self._future.completeExceptionally(cause)


class Stream:
    """Sends numbers, one after another, until it is told to end."""

    def __init__(self, producer: Java, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._ended = threading.Event()
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._ended.is_set():
                return
            message = to_message(Outgoing(topic=self._topic, body=b"%d" % number))
            try:
                if str(self._producer.send(message).getSendStatus()) == "SEND_OK":
                    self.acknowledged.append(number)
            except jpype.JException as thrown:
                self.failures.append(str(thrown))
                self._ended.wait(FAILED_PAUSE_S)

    def end(self) -> None:
        """Return when the last send is over."""
        self._ended.set()
        self._thread.join()


def start_load(load: Load) -> None:
    """Have a producer send numbers to a topic until it is told to end."""
    loads[load.producer] = Stream(producers[load.producer], load.topic)


def loaded(number: int) -> Loaded:
    """Return what became of a load so far."""
    stream = loads[number]
    return Loaded(list(stream.acknowledged), list(stream.failures))


def end_load(number: int) -> Loaded:
    """End a load and return what became of it."""
    loads[number].end()
    return loaded(number)
