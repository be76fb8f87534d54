"""Messages to hand over."""

from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage

HERE = Host.parse("127.0.0.1:10911")


def message(
    unique: str = "", *, topic: str = "orders", offset: int = 0, **properties: str
) -> StoredMessage:
    if unique:
        properties["UNIQ_KEY"] = unique
    return StoredMessage(
        topic=topic,
        body=b"paid",
        properties=properties,
        queue_id=0,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=0,
        born_host=HERE,
        store_timestamp_ms=0,
        store_host=HERE,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=100,
    )
