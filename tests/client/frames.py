"""Frames as brokers send them to clients, made for tests."""

from orbitmq.message import properties, record
from orbitmq.message.host import Host
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.transaction import CheckTransactionState

HERE = Host.parse("127.0.0.1:10911")


def request(header: Header, body: bytes = b"", *, code: int | None = None) -> Frame:
    """Return the frame of a request."""
    return Frame(
        code=header.code if code is None else code,
        opaque=1,
        flag=0,
        version=0,
        spoken="JAVA",
        remark=None,
        raw_fields=dict(header.to_texts()),
        body=body,
        encoding=HeaderEncoding.JSON,
    )


def half_message(
    message_id: str = "7F01", *, group: str = "billing", topic: str = "orders"
) -> bytes:
    """Return the record of a half message."""
    told = {
        properties.UNIQUE_KEY: message_id,
        properties.PRODUCER_GROUP: group,
        properties.TAGS: "paid",
        properties.KEYS: "o-42 o-43",
    }
    return bytes(
        record.encode(
            record.Record(
                topic=topic.encode(),
                body=b"paid",
                properties=properties.encode(told),
                queue_id=0,
                born_timestamp_ms=0,
                born_host=HERE,
                store_host=HERE,
            )
        )
    )


def check(message_id: str = "7F01", *, group: str = "billing", topic: str = "orders") -> Frame:
    """Return the question about a half message."""
    header = CheckTransactionState(
        topic=topic,
        tran_state_table_offset=5,
        commit_log_offset=8888,
        msg_id=message_id,
        transaction_id="T1",
        target_broker="broker-a",
    )
    return request(header, half_message(message_id, group=group, topic=topic))
