"""Records for tests of the Spark source: small, and as brokers store them."""

import zlib
from collections.abc import Mapping

from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.message.record import Record, encode

HERE = Host.parse("10.0.0.7:10911")
HERE_IPV6 = Host.parse("[2001:db8::7]:10911")


def record(
    queue_offset: int,
    body: bytes = b"1 pizza",
    texts: Mapping[str, str] | bytes = b"",
    *,
    topic: str = "orders",
    sys_flag: int = 0,
    born_host: Host = HERE,
    store_host: Host = HERE,
    stored_ms: int | None = None,
) -> bytes:
    """Return a record at an offset of its queue; its other numbers differ from row to row."""
    stored_ms = 1_700_000_100_000 + queue_offset if stored_ms is None else stored_ms
    return bytes(
        encode(
            Record(
                topic=topic.encode(),
                body=body,
                properties=texts if isinstance(texts, bytes) else properties.encode(texts),
                queue_id=3,
                flag=7 + queue_offset,
                sys_flag=sys_flag,
                queue_offset=queue_offset,
                commit_log_offset=1_000 * queue_offset,
                born_timestamp_ms=1_700_000_000_000 + queue_offset,
                store_timestamp_ms=stored_ms,
                born_host=born_host,
                store_host=store_host,
                reconsume_times=queue_offset % 5,
            )
        )
    )


def compressed(queue_offset: int, body: bytes) -> bytes:
    """Return a record whose body is compressed by zlib, as producers of all ages do it."""
    sys_flag = flags.COMPRESSED | flags.COMPRESSION_ZLIB
    return record(queue_offset, zlib.compress(body), sys_flag=sys_flag)
