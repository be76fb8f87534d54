"""The settings of the two consumers, with Java's defaults and ranges; docs/settings.md lists them.

They can be loaded from properties with RocketMQ's names (``DefaultMQPushConsumer``,
``DefaultLitePullConsumer``):

>>> from orbitmq.settings import from_arguments
>>> client, consumer = load(from_arguments(["consumerGroup=billing", "consumeTimeout=1"]))
>>> consumer
ConsumerSettings(group='billing', consume_timeout_ms=60000)

All values are checked when a settings object is created, so every existing one is valid.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from orbitmq.client.field_types import (
    check_name,
    check_ranges,
    check_types,
    shown,
    shown_settings,
    take_path,
    whole_or_none,
)
from orbitmq.client.settings import CLIENT_NAMES, ClientSettings
from orbitmq.errors import InvalidGroup, InvalidInput, InvalidSetting
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import DEFAULT_CONSUMER_GROUP, TRACE_TOPIC, check_group, check_topic
from orbitmq.settings import Property, build
from orbitmq.wire.bodies.heartbeat import ConsumeFromWhere, MessageModel
from orbitmq.wire.fields import INT32_MAX, INT64_MAX

__all__ = [
    "CONSUMER_NAMES",
    "PULL_CONSUMER_NAMES",
    "STRATEGY_NAMES",
    "UNLIMITED",
    "ConsumeFrom",
    "ConsumerSettings",
    "PullConsumerSettings",
    "Strategy",
    "consume_from_where",
    "load",
    "load_pull",
]

ConsumeFrom: TypeAlias = str | int
"""Where a group without offsets begins: ``first``, ``last``, or a time in ms since 1970. Settings
also accept a datetime, and a text ``yyyyMMddHHmmss`` in local time; both become ms."""

UNLIMITED: Final = -1
"""The value of a limit that is off."""

STRATEGY_NAMES: Final = ("average", "average_by_circle", "consistent_hash")
"""The strategies that need no arguments; ``orbitmq.client.consumer.assignment.strategies``."""

_MIB: Final = 1024 * 1024
_TIME_FORMAT: Final = "%Y%m%d%H%M%S"
_TIME_DIGITS: Final = 14

T = TypeVar("T", bound=msgspec.Struct)


class Strategy(Protocol):
    """How the members of a group share the queues of a topic.

    Every member calls it with the same lists, so it must depend on nothing else.
    """

    @property
    def name(self) -> str:
        """The name in Java, for logs."""
        ...

    def assign(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str], /
    ) -> list[MessageQueue]:
        """Return the queues of one client; both lists are sorted, and the client is in the list."""
        ...


class ConsumerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a consumer gets messages and gives them to user code; the group may be positional.

    >>> ConsumerSettings("billing", consume_from="first", concurrency=4)
    ConsumerSettings(group='billing', consume_from='first', concurrency=4)

    Raises:
        InvalidInput: a value is out of range, or two of them contradict each other.
    """

    group: str = ""
    """The consumer group; its members share the messages. It must be given."""
    ordered: bool = False
    """Whether the messages of a queue are consumed one after the other, by one member."""
    broadcasting: bool = False
    """Whether every member gets all messages."""
    consume_from: ConsumeFrom = "last"
    """Where a group without offsets begins."""

    # User code

    concurrency: int = 20
    """How many calls of the user's function run at the same time."""
    batch_max: int = 1
    """The most messages of one call."""
    max_reconsume_times: int = -1
    """How often a failed message is delivered again; -1: 16 times, if ordered without end."""
    suspend_ms: int = 1_000
    """How long an ordered queue waits after a failure."""
    consume_timeout_ms: int = 900_000
    """A message in user code for longer than this is sent back, so that others can try."""
    stop_timeout_ms: int = 10_000
    """How long a close waits for user code."""

    # Pulls

    pull_batch: int = 32
    """The most messages of one pull."""
    pull_batch_bytes: int = 262_144
    """The most bytes of one pull."""
    pull_interval_ms: int = 0
    """How long a queue waits between two pulls."""
    pull_suspend_ms: int = 15_000
    """How long a broker holds a pull if there is no message."""
    pull_timeout_ms: int = 30_000
    """The timeout of a pull."""

    # Limits of what was pulled and is not consumed; beyond them, pulls wait

    queue_messages_max: int = 1_000
    """The most messages of one queue."""
    queue_bytes_max: int = 100 * _MIB
    """The most bytes of one queue."""
    topic_messages_max: int = UNLIMITED
    """The most messages of one topic, shared evenly by its queues; -1: no limit."""
    topic_bytes_max: int = UNLIMITED
    """The most bytes of one topic; -1: no limit."""
    total_messages_max: int = UNLIMITED
    """The most messages of all queues; -1: no limit."""
    total_bytes_max: int = UNLIMITED
    """The most bytes of all queues; -1: no limit."""
    span_max: int = 2_000
    """The largest distance between the first and last offset of one queue, if not ordered."""

    # Membership

    strategy: Any = "average"  # msgspec knows no union of a text and a protocol
    """How members share queues: a name of ``STRATEGY_NAMES``, or a `Strategy`."""
    rebalance_interval_ms: int = 20_000
    """How often the member checks which queues it owns."""
    offset_interval_ms: int = 5_000
    """How often offsets are stored."""
    lock_interval_ms: int = 20_000
    """How often the locks of ordered queues are renewed; they are valid for 30 s."""
    local_offset_directory: str = ""
    """Where offsets of broadcasting are stored; empty: ``.rocketmq_offsets`` in the home."""

    # Traces

    trace: bool = False
    """Whether each consumed message is reported to the trace topic."""
    trace_topic: str = TRACE_TOPIC
    """The trace topic."""
    trace_batch_max: int = 10
    """The most reports in one trace message; at most 20."""
    trace_queue_max: int = 2_048
    """The most waiting reports; further ones are dropped and counted."""

    def __post_init__(self) -> None:
        _check_common(self, _RANGES, _LIMITS)
        check_name("trace_topic", self.trace_topic, check_topic)

    def __repr__(self) -> str:
        return shown_settings(self)


class PullConsumerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a pull consumer gets messages; the group may be positional.

    >>> PullConsumerSettings("audit", auto_commit=False)
    PullConsumerSettings(group='audit', auto_commit=False)

    Raises:
        InvalidInput: a value is out of range, or two of them contradict each other.
    """

    group: str = ""
    """The consumer group; its members share the messages. It must be given."""
    broadcasting: bool = False
    """Whether every member gets all messages."""
    consume_from: ConsumeFrom = "last"
    """Where a group without offsets begins."""

    # Polls

    poll_timeout_ms: int = 5_000
    """How long a poll waits for a message."""
    auto_commit: bool = True
    """Whether polls commit what the polls before returned."""
    auto_commit_interval_ms: int = 5_000
    """How often they do."""
    stop_timeout_ms: int = 10_000
    """How long a close waits for the commit."""

    # Pulls

    pull_batch: int = 10
    """The most messages of one pull."""
    pull_suspend_ms: int = 20_000
    """How long a broker holds a pull if there is no message."""
    pull_timeout_ms: int = 30_000
    """The timeout of a pull."""

    # Limits of what was pulled and not polled; beyond them, pulls wait

    all_messages_max: int = 10_000
    """The most messages of all queues; -1: no limit."""
    queue_messages_max: int = 1_000
    """The most messages of one queue."""
    queue_bytes_max: int = 100 * _MIB
    """The most bytes of one queue."""
    span_max: int = 2_000
    """The largest distance between the first and last offset of one queue."""

    # Membership

    strategy: Any = "average"  # msgspec knows no union of a text and a protocol
    """How members share queues: a name of ``STRATEGY_NAMES``, or a `Strategy`."""
    rebalance_interval_ms: int = 20_000
    """How often the member checks which queues it owns."""
    topic_check_interval_ms: int = 30_000
    """How often listeners of a topic's queues are checked for changes."""
    local_offset_directory: str = ""
    """Where offsets of broadcasting are stored; empty: ``.rocketmq_offsets`` in the home."""

    def __post_init__(self) -> None:
        _check_common(self, _PULL_RANGES, _PULL_LIMITS)

    def __repr__(self) -> str:
        return shown_settings(self)


def consume_from_where(given: ConsumeFrom) -> ConsumeFromWhere:
    """Return how a heartbeat says where a group without offsets begins.

    >>> consume_from_where("first")
    <ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: 'CONSUME_FROM_FIRST_OFFSET'>
    """
    return _WHERE.get(given, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)


_WHERE: Final[Mapping[ConsumeFrom, ConsumeFromWhere]] = {
    "first": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "last": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
}

_COMMON_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "stop_timeout_ms": (0, INT32_MAX),
    "pull_batch": (1, 1_024),
    "pull_suspend_ms": (1, INT32_MAX),
    "pull_timeout_ms": (1, INT32_MAX),
    "queue_messages_max": (1, 65_535),
    "queue_bytes_max": (1, 1_024 * _MIB),
    "span_max": (1, 65_535),
    "rebalance_interval_ms": (10, INT32_MAX),
}
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    **_COMMON_RANGES,
    "concurrency": (1, 1_000),
    "batch_max": (1, 1_024),
    "max_reconsume_times": (-1, INT32_MAX),
    "suspend_ms": (10, 30_000),
    "consume_timeout_ms": (1, INT64_MAX),
    "pull_batch_bytes": (1, INT32_MAX),
    "pull_interval_ms": (0, 65_535),
    "offset_interval_ms": (10, INT32_MAX),
    "lock_interval_ms": (10, 30_000),
    "trace_batch_max": (1, 20),
    "trace_queue_max": (1, 1_000_000),
}
_PULL_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    **_COMMON_RANGES,
    "poll_timeout_ms": (0, INT32_MAX),
    "auto_commit_interval_ms": (1_000, INT32_MAX),
    "topic_check_interval_ms": (10, INT32_MAX),
}
_LIMITS: Final[Mapping[str, int]] = {
    "topic_messages_max": 6_553_500,
    "topic_bytes_max": 102_400 * _MIB,
    "total_messages_max": INT64_MAX,
    "total_bytes_max": INT64_MAX,
}
_PULL_LIMITS: Final[Mapping[str, int]] = {"all_messages_max": INT64_MAX}
"""The largest values of limits that may be off."""


def _check_common(
    settings: ConsumerSettings | PullConsumerSettings,
    ranges: Mapping[str, tuple[int, int]],
    limits: Mapping[str, int],
) -> None:
    check_name("group", settings.group, check_group)
    if settings.group == DEFAULT_CONSUMER_GROUP:
        raise InvalidGroup(
            f"group is {DEFAULT_CONSUMER_GROUP}, which is for tools; give it another name",
            field="group",
        )
    take_path(settings, "local_offset_directory")
    check_types(settings)
    check_ranges(settings, ranges)
    check_ranges(settings, {field: (UNLIMITED, high) for field, high in limits.items()})
    for field in limits:
        if getattr(settings, field) == 0:
            raise InvalidInput(f"{field} is 0; leave it out for no limit", field=field)
    if settings.pull_timeout_ms <= settings.pull_suspend_ms:
        raise InvalidInput(
            f"pull_timeout_ms is {settings.pull_timeout_ms}, not more than the time that brokers "
            f"hold a pull, {settings.pull_suspend_ms}; raise pull_timeout_ms",
            field="pull_timeout_ms",
        )
    force_setattr(settings, "consume_from", _taken(settings.consume_from))
    _check_strategy(settings.strategy)


def _taken(given: object) -> ConsumeFrom:
    """Return where to begin, a time in ms since 1970."""
    if isinstance(given, datetime):
        given = int(given.timestamp() * 1_000)
    elif isinstance(given, str) and len(given) == _TIME_DIGITS and given.isdecimal():
        with suppress(ValueError):
            local = datetime.strptime(given, _TIME_FORMAT)  # noqa: DTZ007 - as in Java
            given = int(local.timestamp() * 1_000)
    number = whole_or_none(given)
    if number is not None and number >= 0:
        return number
    if isinstance(given, str) and given in _WHERE:
        return given
    raise InvalidInput(
        f"consume_from is {shown(given)}; it must be 'first', 'last', a datetime, a time in "
        "milliseconds since 1970, or a text as '20260131235959'",
        field="consume_from",
    )


def _check_strategy(given: object) -> None:
    if given in STRATEGY_NAMES if isinstance(given, str) else callable(_assign_of(given)):
        return
    raise InvalidInput(
        f"strategy is {shown(given)}; it must be one of {', '.join(STRATEGY_NAMES)}, or an object "
        "with a name and a method assign",
        field="strategy",
    )


def _assign_of(given: object) -> object:
    return getattr(given, "assign", None) if hasattr(given, "name") else None


# Properties

_COMMON_NAMES: Final[Mapping[str, str]] = {
    "consumerGroup": "group",
    "broadcasting": "broadcasting",
    "consumeFrom": "consume_from",
    "pullBatchSize": "pull_batch",
    "pullThresholdForQueue": "queue_messages_max",
    "queueBytesMax": "queue_bytes_max",
    "strategy": "strategy",
    "rocketmq.client.rebalance.waitInterval": "rebalance_interval_ms",
    "rocketmq.client.localOffsetStoreDir": "local_offset_directory",
    "stopTimeoutMs": "stop_timeout_ms",
}

CONSUMER_NAMES: Final[Mapping[str, str]] = {
    **_COMMON_NAMES,
    "consumeThreadMin": "concurrency",
    "consumeThreadMax": "concurrency",
    "consumeMessageBatchMaxSize": "batch_max",
    "maxReconsumeTimes": "max_reconsume_times",
    "suspendCurrentQueueTimeMillis": "suspend_ms",
    "consumeTimeoutMs": "consume_timeout_ms",
    "pullBatchSizeInBytes": "pull_batch_bytes",
    "pullInterval": "pull_interval_ms",
    "pullThresholdForTopic": "topic_messages_max",
    "topicBytesMax": "topic_bytes_max",
    "totalMessagesMax": "total_messages_max",
    "totalBytesMax": "total_bytes_max",
    "consumeConcurrentlyMaxSpan": "span_max",
    "persistConsumerOffsetInterval": "offset_interval_ms",
    "rocketmq.client.rebalance.lockInterval": "lock_interval_ms",
    "awaitTerminationMillisWhenShutdown": "stop_timeout_ms",
    "ordered": "ordered",
    "enableTrace": "trace",
    "traceTopic": "trace_topic",
    "traceMsgBatchNum": "trace_batch_max",
}
"""Properties → fields of `ConsumerSettings`; Java's, or ours where Java has no plain value."""

PULL_CONSUMER_NAMES: Final[Mapping[str, str]] = {
    **_COMMON_NAMES,
    "pollTimeoutMillis": "poll_timeout_ms",
    "autoCommit": "auto_commit",
    "autoCommitIntervalMillis": "auto_commit_interval_ms",
    "brokerSuspendMaxTimeMillis": "pull_suspend_ms",
    "consumerTimeoutMillisWhenSuspend": "pull_timeout_ms",
    "pullThresholdForAll": "all_messages_max",
    "consumeMaxSpan": "span_max",
    "topicMetadataCheckIntervalMillis": "topic_check_interval_ms",
}
"""Properties → fields of `PullConsumerSettings`."""


def load(properties: Iterable[Property]) -> tuple[ClientSettings, ConsumerSettings]:
    """Return the settings of a consumer from properties; see `orbitmq.settings.read`.

    Raises:
        InvalidSetting: a value is invalid; the error names its file and line.
    """
    return _load(ConsumerSettings, properties, CONSUMER_NAMES)


def load_pull(properties: Iterable[Property]) -> tuple[ClientSettings, PullConsumerSettings]:
    """Return the settings of a pull consumer from properties.

    Raises:
        InvalidSetting: a value is invalid; the error names its file and line.
    """
    return _load(PullConsumerSettings, properties, PULL_CONSUMER_NAMES)


def _load(
    kind: type[T], properties: Iterable[Property], names: Mapping[str, str]
) -> tuple[ClientSettings, T]:
    given = list(properties)
    times = [one for one in given if one.name == "consumeTimestamp"]
    ours = [_ours(one, times) for one in given]
    return build(ClientSettings, given, CLIENT_NAMES), build(kind, ours, names)


def _ours(one: Property, times: list[Property]) -> Property:
    """Return a property of Java whose unit or words differ as the property of ours."""
    if one.name == "consumeFromWhere" and one.value.strip() == _BY_TIME:
        if not times:
            raise _invalid(one, "give consumeTimestamp, as 20260131235959, as well")
        return one._replace(name="consumeFrom", value=times[-1].value.strip())
    if one.name in _WORDS:
        name, words = _WORDS[one.name]
        value = words.get(one.value.strip())
        if value is None:
            raise _invalid(one, f"{one.value[:40]!r} is not one of {', '.join(words)}")
        return one._replace(name=name, value=value)
    if one.name in _UNITS:
        name, unit = _UNITS[one.name]
        text = one.value.strip()
        if not text.removeprefix("-").isdecimal() or len(text) > 9:
            raise _invalid(one, f"{one.value[:40]!r} is not a whole number")
        return one._replace(name=name, value=str(int(text) * unit if int(text) > 0 else text))
    return one


def _invalid(one: Property, text: str) -> InvalidSetting:
    return InvalidSetting(f"{one}: {text}", file=one.file, line=one.line, field=one.name)


_BY_TIME: Final = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value
_WORDS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "messageModel": (
        "broadcasting",
        {MessageModel.CLUSTERING.value: "false", MessageModel.BROADCASTING.value: "true"},
    ),
    # Java treats the deprecated ones as the last offset.
    "consumeFromWhere": (
        "consumeFrom",
        {one.value: "last" for one in ConsumeFromWhere if one.value != _BY_TIME}
        | {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value: "first", _BY_TIME: _BY_TIME},
    ),
    "allocateMessageQueueStrategy": (
        "strategy",
        {
            "AVG": "average",
            "AVG_BY_CIRCLE": "average_by_circle",
            "CONSISTENT_HASH": "consistent_hash",
        },
    ),
}
_UNITS: Final[Mapping[str, tuple[str, int]]] = {
    "consumeTimeout": ("consumeTimeoutMs", 60_000),
    "pullThresholdSizeForQueue": ("queueBytesMax", _MIB),
    "pullThresholdSizeForTopic": ("topicBytesMax", _MIB),
}
"""Java's properties in minutes and MiB."""
