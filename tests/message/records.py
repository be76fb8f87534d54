"""Records for the tests: Java's own, one made by hand, and any."""

from typing import NotRequired, TypedDict

import msgspec
from hypothesis import strategies as st

from orbitmq.message.host import Host
from orbitmq.message.record import CRC_PROPERTY_SIZE, Record, crc_property, encode
from orbitmq.message.record_view import RecordView
from tests.golden_files import golden

HERE = Host.parse("127.0.0.1:10911")
ORDER = Record(
    topic=b"orders",
    body=b"1 pizza",
    properties=b"TAGS\x01paid\x02",
    queue_id=3,
    queue_offset=40,
    born_timestamp_ms=1_700_000_000_000,
    born_host=HERE,
    store_host=HERE,
)


class GoldenHost(TypedDict):
    ip_hex: str
    port: int


class GoldenFields(TypedDict):
    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    body_crc: int
    queue_offset: int
    commit_log_offset: int
    born_timestamp: int
    born_host: GoldenHost
    store_timestamp: int
    store_host: GoldenHost
    reconsume_times: int
    prepared_transaction_offset: int
    body_hex: str
    properties: dict[str, str] | None
    properties_string: NotRequired[str]
    store_size: NotRequired[int]


class GoldenRecord(TypedDict):
    name: str
    input: GoldenFields
    encoded_hex: str
    decoded: GoldenFields


class GoldenV2(TypedDict):
    topic: str
    version: str
    body_text: str
    properties_string: str
    encoded_hex: str


RECORDS: list[GoldenRecord] = golden("messages")["stored_messages"]
V2_RECORDS: list[GoldenV2] = golden("messages_v2")["cases"]


int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(Host, st.sampled_from([4, 16]).map(bytes), int32)
records = st.builds(
    Record,
    topic=st.binary(max_size=200),
    body=st.binary(max_size=100),
    properties=st.binary(max_size=100),
    queue_id=int32,
    queue_offset=int64,
    commit_log_offset=int64,
    flag=int32,
    sys_flag=int32,
    born_timestamp_ms=int64,
    born_host=hosts,
    store_timestamp_ms=int64,
    store_host=hosts,
    reconsume_times=int32,
    prepared_transaction_offset=int64,
)


def view_of(data: bytes | bytearray) -> RecordView:
    return RecordView(memoryview(data), 0, len(data))


def golden_host(host: GoldenHost) -> Host:
    return Host(bytes.fromhex(host["ip_hex"]), host["port"])


def raw_fields(view: RecordView) -> Record:
    return Record(
        topic=view.topic,
        body=bytes(view.body),
        properties=view.properties,
        queue_id=view.queue_id,
        queue_offset=view.queue_offset,
        commit_log_offset=view.commit_log_offset,
        flag=view.flag,
        sys_flag=view.sys_flag,
        born_timestamp_ms=view.born_timestamp_ms,
        born_host=view.born_host,
        store_timestamp_ms=view.store_timestamp_ms,
        store_host=view.store_host,
        reconsume_times=view.reconsume_times,
        prepared_transaction_offset=view.prepared_transaction_offset,
        body_crc=view.body_crc,
        version=view.version,
    )


def sealed(record: Record) -> bytearray:
    """Return the record as a broker writes it that appends ``__CRC32#``."""
    room = bytes(CRC_PROPERTY_SIZE)
    buffer = encode(msgspec.structs.replace(record, properties=record.properties + room))
    buffer[-CRC_PROPERTY_SIZE:] = crc_property(buffer[:-CRC_PROPERTY_SIZE])
    return buffer
