"""Sends and pulls of a test client, over any kind of connection."""

from collections.abc import Awaitable, Callable

from orbitmq.message import scan
from orbitmq.message.model import StoredMessage
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import SUBSCRIPTION, SUSPEND, PullMessage, PullMessageAnswer
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2

Ask = Callable[[Header, bytes], Awaitable[Frame]]


def send_header(topic: str, *, queue_id: int = 0, properties: str = "") -> SendMessageV2:
    return SendMessageV2(
        producer_group="senders",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
    )


def pull_header(
    topic: str, offset: int, *, queue_id: int = 0, group: str = "pullers", hold_ms: int = 0
) -> PullMessage:
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION | (SUSPEND if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
    )


def sent(connection: BlockingConnection, topic: str, body: bytes) -> int:
    """Send a message, and return its queue offset."""
    answer = connection.request(send_header(topic), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.read(SendMessageAnswer).queue_offset


def pulled(
    connection: BlockingConnection, topic: str, offset: int = 0, *, queue_id: int = 0
) -> list[StoredMessage]:
    """Return all messages of a queue from an offset on."""
    found: list[StoredMessage] = []
    while True:
        answer = connection.request(pull_header(topic, offset, queue_id=queue_id))
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += scan.decode_all(bytes(answer.body), broker_name="broker-a")
        offset = answer.read(PullMessageAnswer).next_begin_offset
