"""Messages as consumers get them, for tests."""

from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage


def a_stored_message(
    topic: str = "orders", body: bytes = b"paid", *, at: int = 0, retries: int = 0, **texts: str
) -> StoredMessage:
    """Return a message at an offset of queue 3, with properties."""
    return StoredMessage(
        topic=topic,
        body=body,
        properties={"UNIQ_KEY": f"7F01{at:028d}"} | texts,
        queue_id=3,
        queue_offset=at,
        commit_log_offset=at * 100,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1_700_000_000_000,
        born_host=Host.parse("10.0.0.7:5000"),
        store_timestamp_ms=1_700_000_000_001,
        store_host=Host.parse("10.0.0.1:10911"),
        reconsume_times=retries,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=100,
        broker_name="broker-a",
    )
