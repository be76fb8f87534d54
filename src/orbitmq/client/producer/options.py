"""The keyword arguments of a producer: the fields of both settings, typed for editors."""

import os
from collections.abc import Mapping
from typing import Any

from orbitmq.client.options import ClientOptions, build_both
from orbitmq.client.settings import ClientSettings, FaultTolerance, ProducerSettings, Require
from orbitmq.message.compression import CompressionType

__all__ = ["ProducerOptions", "build_settings"]


class ProducerOptions(ClientOptions, total=False):
    """The fields of ``ProducerSettings`` as well, which documents them."""

    send_timeout_ms: int
    per_try_timeout_ms: int | None
    retries: int
    retry_codes: tuple[int, ...]
    retry_another_broker_when_not_stored: bool
    retry_same_queue: bool
    require: Require | str | None
    stop_timeout_ms: int
    topics: tuple[str, ...] | list[str]
    create_topic_key: str
    default_topic_queues: int
    max_message_bytes: int
    compress_over_bytes: int
    compression_type: CompressionType | str
    compression_level: int
    short_header: bool
    fault_tolerance: FaultTolerance | str
    detector: bool
    detect_interval_ms: int
    detect_timeout_ms: int
    in_flight_max: int
    in_flight_bytes_max: int
    auto_batch: bool
    linger_ms: int
    batch_bytes: int
    total_bytes: int
    trace: bool
    trace_topic: str
    trace_batch_max: int
    trace_queue_max: int
    outbox_path: str | os.PathLike[str]
    outbox_bytes_max: int


def build_settings(
    group: str | None,
    options: Mapping[str, Any],
    producer: ProducerSettings | None = None,
    client: ClientSettings | None = None,
) -> tuple[ProducerSettings, ClientSettings]:
    """Return both settings; see `orbitmq.client.options.build_both`.

    >>> producer, client = build_settings("billing", {"retries": 0, "nameserver": "ns-1:9876"})
    >>> producer.retries, client.nameserver
    (0, 'ns-1:9876')
    """
    return build_both(ProducerSettings, "a producer", group, options, producer, client)
