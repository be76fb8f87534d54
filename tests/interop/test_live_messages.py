"""Messages through a live Java broker: what we send, and what it has made of it when we pull."""

import socket
import zlib
from collections.abc import Iterator

import pytest

from orbitmq.clock import SystemClock
from orbitmq.message import batch, compression, ids, properties, scan
from orbitmq.message.compression import CompressionType
from orbitmq.message.flags import COMPRESSED
from orbitmq.message.host import Host
from orbitmq.message.model import Message, StoredMessage
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import VERSION_5_4_0, RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, FrameReader, HeaderEncoding, Outgoing, encode_head
from orbitmq.wire.headers.pull import SUBSCRIPTION, SUSPEND, PullMessage, PullMessageAnswer
from orbitmq.wire.headers.query import ViewMessage
from orbitmq.wire.headers.send import SendMessageAnswer
from tests.interop.java_cluster import JavaCluster
from tests.interop.sending import BORN_MS, send_header

UNIQUE_ID = "7F00000104D218B4AAC247B760000000"
UNICODE = {"colour": "grün", "city": "東京", "mood": "🚀"}


@pytest.fixture
def broker(java_cluster_540: JavaCluster) -> Iterator[BlockingConnection]:
    with java_cluster_540.broker.connect() as connection:
        yield connection


def send(
    connection: BlockingConnection,
    message: Message,
    *,
    sys_flag: int = 0,
    reconsume_times: int = 0,
) -> SendMessageAnswer:
    header = send_header(
        message.topic,
        properties=properties.encode(message.wire_properties()).decode(),
        flag=message.flag,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
    )
    return stored(connection.request(header, message.body))


def stored(answer: Frame) -> SendMessageAnswer:
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer.read(SendMessageAnswer)


def pull_header(topic: str, *, sys_flag: int = SUBSCRIPTION, offset: int = 0) -> PullMessage:
    return PullMessage(
        consumer_group="pullers",
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=sys_flag,
        commit_offset=0,
        suspend_timeout_millis=5_000,
        subscription="*",
        sub_version=0,
    )


def messages_in(answer: Frame) -> list[StoredMessage]:
    assert answer.code == ResponseCode.SUCCESS, answer
    return scan.decode_all(answer.body, broker_name="java-a")


def pull(connection: BlockingConnection, topic: str, count: int) -> list[StoredMessage]:
    """Return the first messages of queue 0; a send may be answered before it can be pulled."""
    found: list[StoredMessage] = []
    while len(found) < count:
        held = pull_header(topic, sys_flag=SUBSCRIPTION | SUSPEND, offset=len(found))
        answer = connection.request(held)
        if answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY:
            found += messages_in(answer)
    return found


def user_part(message: StoredMessage) -> dict[str, str]:
    """The properties without those that a broker adds."""
    added = {"MSG_REGION", "TRACE_ON", "CLUSTER", "MIN_OFFSET", "MAX_OFFSET"}
    return {name: text for name, text in message.properties.items() if name not in added}


def test_every_field_arrives_as_it_was_sent(
    java_cluster_540: JavaCluster, broker: BlockingConnection
) -> None:
    topic = java_cluster_540.create_topic("fields")
    message = Message(
        *(topic, b"paid\0"),
        tags="paid",
        keys=["k1", "k2"],
        properties=UNICODE,
        flag=-7,
        message_id=UNIQUE_ID,
    )
    before_ms = SystemClock().now_ms()
    receipt = send(broker, message, reconsume_times=3)
    (read,) = pull(broker, topic, 1)
    after_ms = SystemClock().now_ms()
    assert (read.topic, read.body, read.flag, read.sys_flag) == (topic, message.body, -7, 0)
    assert user_part(read) == message.wire_properties()
    assert (read.tags, read.keys) == ("paid", ("k1", "k2"))
    assert (read.queue_id, read.queue_offset) == (receipt.queue_id, receipt.queue_offset) == (0, 0)
    assert read.born_timestamp_ms == BORN_MS
    assert before_ms <= read.store_timestamp_ms <= after_ms
    assert (read.reconsume_times, read.prepared_transaction_offset) == (3, 0)
    assert read.body_crc == zlib.crc32(message.body) & 0x7FFF_FFFF
    assert read.born_host.ip == bytes((127, 0, 0, 1))
    assert read.store_host == Host.parse(str(java_cluster_540.broker.address))
    assert receipt.msg_id == read.offset_message_id
    assert receipt.msg_id == ids.offset_id(read.store_host, read.commit_log_offset)


def test_a_message_is_found_by_its_id(
    java_cluster_540: JavaCluster, broker: BlockingConnection
) -> None:
    topic = java_cluster_540.create_topic("by-id")
    receipt = send(broker, Message(topic, b"find me", properties=UNICODE))
    _, offset = ids.parse_offset_id(receipt.msg_id)
    (read,) = messages_in(broker.request(ViewMessage(offset=offset)))
    (pulled,) = pull(broker, topic, 1)
    assert (read.body, user_part(read)) == (b"find me", user_part(pulled))
    assert read.commit_log_offset == offset


def test_a_batch_becomes_messages_of_their_own(
    java_cluster_540: JavaCluster, broker: BlockingConnection
) -> None:
    topic = java_cluster_540.create_topic("batch")
    sent = [Message(topic, b"%d" % i, keys=[f"k{i}"], properties=UNICODE, flag=i) for i in range(5)]
    body = batch.encode(
        (one.flag, one.body, properties.encode(one.wire_properties())) for one in sent
    )
    header = send_header(topic, batch=True)
    receipt = stored(broker.request(header, body, code=RequestCode.SEND_BATCH_MESSAGE))
    read = pull(broker, topic, len(sent))
    assert [(one.body, one.flag, user_part(one)) for one in read] == [
        (one.body, one.flag, one.wire_properties()) for one in sent
    ]
    assert [one.queue_offset for one in read] == [*range(receipt.queue_offset, len(sent))]
    assert receipt.msg_id.split(",") == [one.offset_message_id for one in read]


@pytest.mark.parametrize("kind", CompressionType)
def test_a_compressed_body_comes_back_open(
    java_cluster_540: JavaCluster, broker: BlockingConnection, kind: CompressionType
) -> None:
    topic = java_cluster_540.create_topic("compressed")
    body = b"the same again and " * 500
    packed = compression.compress(body, kind)
    send(broker, Message(topic, packed), sys_flag=COMPRESSED | kind.sys_flag)
    answer = broker.request(pull_header(topic, sys_flag=SUBSCRIPTION | SUSPEND))
    (kept,) = scan.Scan(answer.body)
    assert kept.body == packed
    assert [one.body for one in messages_in(answer)] == [body]


def test_both_header_encodings_mix_on_one_connection(java_cluster_540: JavaCluster) -> None:
    topic = java_cluster_540.create_topic("encodings")
    message = Message(topic, b"message", tags="t", properties=UNICODE, message_id=UNIQUE_ID)
    texts = properties.encode(message.wire_properties()).decode()
    header = send_header(topic, properties=texts)
    encodings = [*HeaderEncoding] * 3
    sends = b"".join(
        frame(header, b"message %d" % opaque, opaque, encoding)
        for opaque, encoding in enumerate(encodings)
    )
    with socket.create_connection(java_cluster_540.broker.address, timeout=10) as raw:
        raw.sendall(sends)
        answers = read_frames(raw, len(encodings))
    offsets = {answer.opaque: stored(answer).queue_offset for answer in answers}
    with java_cluster_540.broker.connect() as connection:
        read = {one.queue_offset: one for one in pull(connection, topic, len(encodings))}
    for opaque in range(len(encodings)):
        assert read[offsets[opaque]].body == b"message %d" % opaque
        assert user_part(read[offsets[opaque]]) == message.wire_properties()
    # A server writes in its own encoding, whatever it was asked in.
    assert {answer.encoding for answer in answers} == {HeaderEncoding.JSON}


def frame(header: Header, body: bytes, opaque: int, encoding: HeaderEncoding) -> bytes:
    """A request under a number of our choice, in an encoding of our choice."""
    outgoing = Outgoing(
        code=header.code,
        opaque=opaque,
        flag=0,
        version=VERSION_5_4_0,
        language="PYTHON",
        ext_fields=header.to_texts(),
    )
    return encode_head(outgoing, body_size=len(body), encoding=encoding) + body


def read_frames(raw: socket.socket, count: int) -> list[Frame]:
    reader = FrameReader()
    frames: list[Frame] = []
    while len(frames) < count:
        received = raw.recv(65_536)
        assert received, f"closed after {len(frames)} of {count} frames"
        frames += reader.feed(received)
    return frames


def test_a_held_pull_is_answered_when_a_message_comes(
    java_cluster_540: JavaCluster, broker: BlockingConnection
) -> None:
    topic = java_cluster_540.create_topic("held")
    number = broker.start(pull_header(topic, sys_flag=SUBSCRIPTION | SUSPEND))
    send(broker, Message(topic, b"at last"))
    assert [one.body for one in messages_in(broker.result(number))] == [b"at last"]


def test_an_empty_queue_says_so(java_cluster_540: JavaCluster, broker: BlockingConnection) -> None:
    topic = java_cluster_540.create_topic("empty")
    answer = broker.request(pull_header(topic))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert answer.read(PullMessageAnswer) == PullMessageAnswer(
        suggest_which_broker_id=0,
        next_begin_offset=0,
        min_offset=0,
        max_offset=0,
        topic_sys_flag=0,
        group_sys_flag=0,
    )
    assert not answer.body


@pytest.mark.parametrize("size", [1, 65_536, 4 * 1024 * 1024 - 1])
def test_bodies_up_to_the_limit_arrive_whole(
    java_cluster_540: JavaCluster, broker: BlockingConnection, size: int
) -> None:
    topic = java_cluster_540.create_topic("sizes")
    body = bytes(i % 251 for i in range(size))
    send(broker, Message(topic, body))
    assert [one.body for one in pull(broker, topic, 1)] == [body]


def test_a_message_without_an_id_is_given_one(
    java_cluster_540: JavaCluster, broker: BlockingConnection
) -> None:
    topic = java_cluster_540.create_topic("nameless")
    send(broker, Message(topic, b"who am I"))
    (read,) = pull(broker, topic, 1)
    assert ids.parse_unique_id(read.properties[properties.UNIQUE_KEY]).pid == (
        java_cluster_540.broker.pid & 0xFFFF
    )
