"""Operations on messages, carried out by RocketMQ's own classes; the Java host imports this."""

import jpype

from tests.interop.java_types import (
    ByteArray,
    Java,
    buffer,
    bytes_or_none,
    from_map,
    java_class,
    text_or_none,
    to_map,
    to_string,
)
from tests.interop.operations import (
    Address,
    Batched,
    Compressed,
    OffsetId,
    Stored,
    UniqueId,
    Utf16,
)

COMPRESSED = 1
"""The bit of a system flag that says that the body is (to be) compressed."""

ArrayList = jpype.JClass("java.util.ArrayList")
InetAddress = jpype.JClass("java.net.InetAddress")
InetSocketAddress = jpype.JClass("java.net.InetSocketAddress")
Message = java_class("Message")
MessageAccessor = java_class("MessageAccessor")
MessageDecoder = java_class("MessageDecoder")
MessageExt = java_class("MessageExt")
MessageExtBrokerInner = java_class("MessageExtBrokerInner")
MessageClientIDSetter = java_class("MessageClientIDSetter")
SINGLE_TAG = java_class("TopicFilterType").SINGLE_TAG
UtilAll = java_class("UtilAll")


def tag_hash(tags: Utf16) -> int:
    """Return the tags code a broker would index a message under."""
    return int(MessageExtBrokerInner.tagsString2tagsCode(SINGLE_TAG, to_string(tags)))


def encode_stored(message: Stored) -> bytes:
    """Encode a stored message; a body marked as compressed is given plain."""
    made = MessageExt()
    made.setTopic(message.topic)
    made.setBody(None if message.body is None else ByteArray(message.body))
    made.setFlag(message.flag)
    MessageAccessor.setProperties(made, to_map(message.properties))
    made.setQueueId(message.queue_id)
    made.setQueueOffset(message.queue_offset)
    made.setCommitLogOffset(message.physical_offset)
    made.setSysFlag(message.sys_flag)
    made.setBornTimestamp(message.born_timestamp_ms)
    made.setBornHost(to_address(message.born_host))
    made.setStoreTimestamp(message.store_timestamp_ms)
    made.setStoreHost(to_address(message.store_host))
    made.setReconsumeTimes(message.reconsume_times)
    made.setPreparedTransactionOffset(message.prepared_offset)
    made.setBodyCRC(message.body_crc)
    return bytes(MessageDecoder.encode(made, bool(message.sys_flag & COMPRESSED)))


def decode_stored(records: bytes) -> list[Stored]:
    """Decode stored messages that follow each other, as a consumer does with a pull's body."""
    return [from_stored(one) for one in MessageDecoder.decodes(buffer(records))]


def from_stored(message: Java) -> Stored:
    """Read all fields of a MessageExt."""
    return Stored(
        topic=str(message.getTopic()),
        body=bytes_or_none(message.getBody()),
        flag=int(message.getFlag()),
        properties=from_map(message.getProperties()),
        queue_id=int(message.getQueueId()),
        queue_offset=int(message.getQueueOffset()),
        physical_offset=int(message.getCommitLogOffset()),
        sys_flag=int(message.getSysFlag()),
        born_timestamp_ms=int(message.getBornTimestamp()),
        born_host=from_address(message.getBornHost()),
        store_timestamp_ms=int(message.getStoreTimestamp()),
        store_host=from_address(message.getStoreHost()),
        reconsume_times=int(message.getReconsumeTimes()),
        prepared_offset=int(message.getPreparedTransactionOffset()),
        body_crc=int(message.getBodyCRC()),
        size=int(message.getStoreSize()),
        message_id=text_or_none(message.getMsgId()),
    )


def to_address(address: Address) -> Java:
    """Make a Java socket address; no name is looked up."""
    return InetSocketAddress(InetAddress.getByAddress(ByteArray(address.ip)), address.port)


def from_address(address: Java) -> Address:
    """Read a Java socket address."""
    return Address(bytes(address.getAddress().getAddress()), int(address.getPort()))


def write_properties(properties: dict[str, str]) -> str:
    """Write properties as the text that is stored."""
    return str(MessageDecoder.messageProperties2String(to_map(properties)))


def read_properties(text: str) -> dict[str, str]:
    """Read properties out of the text that is stored."""
    return from_map(MessageDecoder.string2messageProperties(text))


def encode_batch(messages: list[Batched]) -> bytes:
    """Encode messages as the body of a batch request."""
    batch = ArrayList()
    for message in messages:
        made = Message()
        made.setFlag(message.flag)
        made.setBody(ByteArray(message.body))
        MessageAccessor.setProperties(made, to_map(message.properties))
        batch.add(made)
    return bytes(MessageDecoder.encodeMessages(batch))


def decode_batch(body: bytes) -> list[Batched]:
    """Decode the body of a batch request."""
    return [
        Batched(int(one.getFlag()), bytes(one.getBody()), from_map(one.getProperties()))
        for one in MessageDecoder.decodeMessages(buffer(body))
    ]


def create_offset_id(parts: OffsetId) -> str:
    """Write the id a broker gives a message by its place."""
    return str(MessageDecoder.createMessageId(to_address(parts.host), parts.physical_offset))


def read_offset_id(text: str) -> OffsetId:
    """Take an offset id apart."""
    parts = MessageDecoder.decodeMessageId(text)
    return OffsetId(from_address(parts.getAddress()), int(parts.getOffset()))


def create_unique_id(_: None) -> str:
    """Make the next id of this process, as a producer does."""
    return str(MessageClientIDSetter.createUniqID())


def read_unique_id(text: str) -> UniqueId:
    """Take a unique id apart as far as Java does."""
    return UniqueId(
        ip=str(MessageClientIDSetter.getIPStrFromID(text)),
        pid=int(MessageClientIDSetter.getPidFromID(text)),
        timestamp_ms=int(MessageClientIDSetter.getNearlyTimeFromID(text).getTime()),
    )


def body_crc(body: bytes) -> int:
    """Return the checksum that is stored with a body."""
    return int(UtilAll.crc32(ByteArray(body)))


def compressor(kind: str) -> Java:
    """Return the compressor of a kind."""
    return java_class("CompressorFactory").getCompressor(java_class("CompressionType").of(kind))


def compress(plain: Compressed) -> bytes:
    """Compress a body as a producer does."""
    return bytes(compressor(plain.kind).compress(ByteArray(plain.data), plain.level))


def decompress(packed: Compressed) -> bytes:
    """Open a compressed body as a consumer does."""
    return bytes(compressor(packed.kind).decompress(ByteArray(packed.data)))
