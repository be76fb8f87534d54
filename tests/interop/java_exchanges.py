"""Operations of RocketMQ's own requests, replies and traces; the Java host imports this."""

import jpype

from tests.interop.java_consumers import FROM_FIRST, Concurrently, from_message, numbers
from tests.interop.java_producers import Message, producers
from tests.interop.java_remoting import override
from tests.interop.java_types import ByteArray, Java, in_haste, java_class, text_or_none
from tests.interop.operations import Asking, ConsumerOptions, Received, Traced

MessageUtil = java_class("MessageUtil")
TraceDataEncoder = java_class("TraceDataEncoder")

REPLY_MS = 5_000
responders: dict[int, tuple[Java, Java]] = {}


def open_responder(options: ConsumerOptions) -> int:
    """Start a consumer that replies to every request with its body, turned round."""
    producer = java_class("DefaultMQProducer")(f"{options.group}-replies")
    producer.setNamesrvAddr(options.nameserver)
    producer.start()
    consumer = java_class("DefaultMQPushConsumer")(options.group)
    consumer.setNamesrvAddr(options.nameserver)
    consumer.setConsumeFromWhere(FROM_FIRST)
    consumer.setPollNameServerInterval(options.poll_routes_ms)
    consumer.subscribe(options.topic, "*")
    consumer.registerMessageListener(Responder(producer))
    consumer.start()
    number = next(numbers)
    responders[number] = consumer, producer
    return number


def close_responder(number: int) -> None:
    """Shut a responder down."""
    consumer, producer = responders.pop(number)
    with in_haste():
        consumer.shutdown()
        producer.shutdown()


@jpype.JImplements(java_class("MessageListenerConcurrently"))
class Responder:
    """Replies to what it is given."""

    def __init__(self, producer: Java) -> None:
        self._producer = producer

    @override
    def consumeMessage(self, messages: Java, context: Java) -> Java:  # noqa: N802
        """Reply to each request."""
        for message in messages:
            body = ByteArray(bytes(message.getBody())[::-1])
            self._producer.send(MessageUtil.createReplyMessage(message, body), REPLY_MS)
        return Concurrently.CONSUME_SUCCESS


def ask(asking: Asking) -> Received:
    """Have a producer send a request, and return the reply; it throws if none comes."""
    message = Message(asking.topic, "", "", ByteArray(asking.body))
    return from_message(producers[asking.producer].request(message, asking.timeout_ms))


def decode_trace(body: bytes) -> list[Traced]:
    """Read the records of a trace message."""
    contexts = TraceDataEncoder.decoderFromTraceDataString(body.decode())
    return [from_context(context) for context in contexts]


def from_context(context: Java) -> Traced:
    """Read one record, which Java keeps as a context and a bean."""
    bean = context.getTraceBeans().get(0)
    return Traced(
        kind=str(context.getTraceType()),
        timestamp_ms=int(context.getTimeStamp()),
        region=str(context.getRegionId()),
        group=str(context.getGroupName()),
        topic=str(bean.getTopic()),
        message_id=str(bean.getMsgId()),
        tags=text_or_none(bean.getTags()),
        keys=text_or_none(bean.getKeys()),
        store_host=text_or_none(bean.getStoreHost()),
        body_length=int(bean.getBodyLength()),
        cost_ms=int(context.getCostTime()),
        success=bool(context.isSuccess()),
        message_kind=text_or_none(bean.getMsgType()),
        offset_message_id=text_or_none(bean.getOffsetMsgId()),
        transaction_id=text_or_none(bean.getTransactionId()),
        transaction_state=text_or_none(bean.getTransactionState()),
        from_check=bool(bean.isFromTransactionCheck()),
    )
