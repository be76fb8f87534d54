"""The keyword arguments of the consumers: the fields of both settings, typed for editors."""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orbitmq.client.consumer.settings import (
    ConsumeFrom,
    ConsumerSettings,
    PullConsumerSettings,
    Strategy,
)
from orbitmq.client.options import ClientOptions, build_both
from orbitmq.client.settings import ClientSettings

__all__ = ["ConsumerOptions", "PullConsumerOptions", "build_pull_settings", "build_settings"]


class ConsumerOptions(ClientOptions, total=False):
    """The fields of ``ConsumerSettings`` as well, which documents them."""

    ordered: bool
    broadcasting: bool
    consume_from: ConsumeFrom | datetime
    concurrency: int
    batch_max: int
    max_reconsume_times: int
    suspend_ms: int
    consume_timeout_ms: int
    stop_timeout_ms: int
    pull_batch: int
    pull_batch_bytes: int
    pull_interval_ms: int
    pull_suspend_ms: int
    pull_timeout_ms: int
    queue_messages_max: int
    queue_bytes_max: int
    topic_messages_max: int
    topic_bytes_max: int
    total_messages_max: int
    total_bytes_max: int
    span_max: int
    strategy: str | Strategy
    rebalance_interval_ms: int
    offset_interval_ms: int
    lock_interval_ms: int
    local_offset_directory: str | os.PathLike[str]
    trace: bool
    trace_topic: str
    trace_batch_max: int
    trace_queue_max: int


class PullConsumerOptions(ClientOptions, total=False):
    """The fields of ``PullConsumerSettings`` as well, which documents them."""

    broadcasting: bool
    consume_from: ConsumeFrom | datetime
    poll_timeout_ms: int
    auto_commit: bool
    auto_commit_interval_ms: int
    stop_timeout_ms: int
    pull_batch: int
    pull_suspend_ms: int
    pull_timeout_ms: int
    all_messages_max: int
    queue_messages_max: int
    queue_bytes_max: int
    span_max: int
    strategy: str | Strategy
    rebalance_interval_ms: int
    topic_check_interval_ms: int
    local_offset_directory: str | os.PathLike[str]


def build_settings(
    group: str | None,
    options: Mapping[str, Any],
    consumer: ConsumerSettings | None = None,
    client: ClientSettings | None = None,
) -> tuple[ConsumerSettings, ClientSettings]:
    """Return both settings of a consumer; see `orbitmq.client.options.build_both`.

    >>> consumer, client = build_settings("billing", {"ordered": True, "nameserver": "ns-1:9876"})
    >>> consumer.ordered, client.nameserver
    (True, 'ns-1:9876')
    """
    return build_both(ConsumerSettings, "a consumer", group, options, consumer, client)


def build_pull_settings(
    group: str | None,
    options: Mapping[str, Any],
    consumer: PullConsumerSettings | None = None,
    client: ClientSettings | None = None,
) -> tuple[PullConsumerSettings, ClientSettings]:
    """Return both settings of a pull consumer; see `orbitmq.client.options.build_both`."""
    return build_both(PullConsumerSettings, "a pull consumer", group, options, consumer, client)
