"""Registrations of brokers at nameservers: the table of their topics.

A registration is JSON, or, with ``compressed=true`` in the header, a zlib stream with the layout
shown at `BrokerRegistration.to_compressed` (``RegisterBrokerBody`` in Java).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import field

from orbitmq.errors import InvalidBody
from orbitmq.wire.bodies.static_topic import TopicQueueMappingDetail, TopicQueueMappingInfo
from orbitmq.wire.bodies.topic import DataVersion, TopicConfig
from orbitmq.wire.json.body import Body

__all__ = ["INFLATED_LIMIT", "BrokerRegistration", "TopicConfigAndMappingTable", "body_crc32"]

INFLATED_LIMIT = 64 * 1024 * 1024
"""The largest decompressed registration, some 500,000 topics; 16 MiB of zlib could be 16 GiB."""

INT = struct.Struct(
    ">i"  # a length in bytes, or a count
)
assert INT.size == 4


def body_crc32(body: bytes | memoryview) -> int:
    """Return the ``bodyCrc32`` of a registration's header: the checksum of the body as sent.

    The sign bit is cleared (``UtilAll.crc32`` in Java).

    >>> body_crc32(b"orders")
    1697644014
    """
    return zlib.crc32(body) & 0x7FFF_FFFF


class TopicConfigAndMappingTable(Body, frozen=True, kw_only=True):
    """All topics of a broker with static ones; Java: TopicConfigAndMappingSerializeWrapper.

    Part of a registration, and a broker's answer to GET_ALL_TOPIC_CONFIG.
    """

    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)


class BrokerRegistration(Body, frozen=True, kw_only=True):
    """The body of REGISTER_BROKER; Java: RegisterBrokerBody."""

    filter_server_list: tuple[str, ...] = ()
    topics: TopicConfigAndMappingTable = field(
        default=TopicConfigAndMappingTable(), name="topicConfigSerializeWrapper"
    )

    def to_compressed(self) -> bytes:
        """Return the compressed form, which omits sys flags, order and mapping details.

        Raises `LocalProtocolError` if a topic name holds a blank. Decompressed::

            int  length, then the DataVersion as JSON
            int  count, then for each topic:    int length, its text form
            int  length, then the filter servers, a JSON list of texts
            int  count, then for each mapping:  int length, TopicQueueMappingInfo as JSON
        """
        topics = [topic.to_text().encode() for topic in self.topics.topic_config_table.values()]
        mappings = [info.to_json() for info in self.topics.topic_queue_mapping_info_map.values()]
        plain = b"".join(
            (
                _with_length(self.topics.data_version.to_json()),
                _with_count(topics),
                _with_length(msgspec.json.encode(self.filter_server_list)),
                _with_count(mappings),
            )
        )
        return zlib.compress(plain, 9)

    @classmethod
    def from_compressed(cls, data: bytes | memoryview) -> "BrokerRegistration":
        """Decode the compressed form; brokers before 5.0 omit the mappings.

        Raises `InvalidBody`, also for more than `INFLATED_LIMIT` decompressed bytes.
        """
        parts = _Parts(_inflate(data))
        data_version = DataVersion.from_json(parts.bytes_())
        topics = (TopicConfig.from_text(text.decode()) for text in parts.counted())
        mappings: Iterable[TopicQueueMappingInfo] = ()
        try:
            topic_table = {topic.topic_name: topic for topic in topics}
            filter_servers = msgspec.json.decode(parts.bytes_(), type=tuple[str, ...])
        except (ValueError, RecursionError) as error:
            raise InvalidBody(
                f"BrokerRegistration: before byte {parts.position} of the inflated body, {error}",
                position=parts.position,
            ) from error
        if not parts.at_end:
            mappings = map(TopicQueueMappingInfo.from_json, parts.counted())
        table = TopicConfigAndMappingTable(
            data_version=data_version,
            topic_config_table=topic_table,
            topic_queue_mapping_info_map={info.topic: info for info in mappings},
        )
        return cls(filter_server_list=filter_servers, topics=table)


def _with_length(part: bytes) -> bytes:
    return INT.pack(len(part)) + part


def _with_count(parts: list[bytes]) -> bytes:
    return INT.pack(len(parts)) + b"".join(map(_with_length, parts))


def _inflate(data: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, INFLATED_LIMIT + 1)
    except zlib.error as error:
        raise InvalidBody(f"BrokerRegistration: {len(data)} bytes are not zlib: {error}") from error
    if len(plain) > INFLATED_LIMIT:
        raise InvalidBody(
            f"BrokerRegistration: {len(data)} bytes decompress to more than {INFLATED_LIMIT}"
        )
    if not inflater.eof:
        raise InvalidBody(f"BrokerRegistration: the zlib stream ends early, at byte {len(data)}")
    return plain


class _Parts:
    """Reads the decompressed bytes in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position == len(self._data)

    def _take(self, size: int) -> bytes:
        start, end = self.position, self.position + size
        if not start <= end <= len(self._data):
            raise InvalidBody(
                f"BrokerRegistration: {size} bytes expected at byte {start} of the inflated body,"
                f" which has {len(self._data)}",
                position=start,
            )
        self.position = end
        return self._data[start:end]

    def int_(self) -> int:
        (value,) = INT.unpack(self._take(INT.size))
        return int(value)

    def bytes_(self) -> bytes:
        return self._take(self.int_())

    def counted(self) -> Iterator[bytes]:
        for _ in range(self.int_()):
            yield self.bytes_()
