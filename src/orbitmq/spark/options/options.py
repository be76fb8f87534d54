"""The options of a read or a write, parsed and checked.

This happens on the driver, before the cluster is contacted:

>>> read_options({"nameserver": "127.0.0.1:9876", "subscribe": "orders"}, streaming=True).start.kind
'latest'
>>> read_options({"nameserver": "127.0.0.1:9876", "subscrbe": "orders"}, streaming=True)
Traceback (most recent call last):
orbitmq.errors.UnknownOption: there is no option 'subscrbe'; did you mean subscribe?

``table`` lists the options. The values are pickled for tasks.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput, InvalidOption, NoNameserver
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import BODY_SIZE_LIMIT, check_group, check_sendable, check_topic
from orbitmq.message.tags import SELECT_ALL, TagFilter
from orbitmq.net.address import parse_addresses
from orbitmq.settings import environment
from orbitmq.spark.offset_json import parse_queues
from orbitmq.spark.offsets import Bound
from orbitmq.spark.options.table import Operation, known_options
from orbitmq.spark.options.values import Values
from orbitmq.spark.schema import (
    DEFAULT_COLUMNS,
    PROPERTIES,
    READ_COLUMNS,
    check_read_columns,
)

__all__ = [
    "DEFAULT_PULL_GROUP",
    "FAIL",
    "Access",
    "ReadOptions",
    "Topics",
    "WriteOptions",
    "read_options",
    "write_options",
]

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_PULL_COUNT_MAX: Final = 65_536
_TIMEOUT_MAX_MS: Final = 600_000

DEFAULT_PULL_GROUP: Final = "TOOLS_CONSUMER"
"""The group that tasks pull with if none is given; every RocketMQ broker has it."""
DEFAULT_WRITE_GROUP: Final = "orbitmq-spark"
FAIL: Final = "fail"
"""The value of ``onReject`` that is not a topic: a rejected row fails the write."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect to a cluster; the fields are named as in ``ClientSettings``.

    >>> Access(nameserver="127.0.0.1:9876", access_key="alice", secret_key="open sesame")
    <Access 127.0.0.1:9876 as alice>
    """

    nameserver: str
    namespace: str = ""
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    tls: bool = False
    tls_verify: bool = True
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_key_password: str = ""
    address_map: tuple[tuple[str, str], ...] = ()
    """Pairs of an advertised address, as host or host:port, and the one to use instead."""
    request_timeout_ms: int = 3_000

    def __repr__(self) -> str:  # it appears in plans and logs, so it shows no secret
        who = f" as {self.access_key}" if self.access_key else ""
        return f"<Access {self.nameserver}{who}>"


class Topics(msgspec.Struct, frozen=True):
    """What to read: one of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression for whole names."""
    assigned: tuple[MessageQueue, ...] = ()


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read; see ``docs/spark.md``."""

    access: Access
    topics: Topics
    start: Bound
    end: Bound
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    are_columns_given: bool = False
    """Whether the option ``columns`` is given; if not, a given schema may name any column."""
    tags: str = SELECT_ALL
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    fail_on_data_loss: bool = True
    group: str | None = None
    commit_offsets: bool = False
    push_filters: bool = False
    pull_count: int = 1_024

    @property
    def pull_group(self) -> str:
        """The consumer group that tasks pull with."""
        return self.group or DEFAULT_PULL_GROUP


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write; see ``docs/spark.md``."""

    access: Access
    topic: str | None = None
    """The topic of rows that have none."""
    group: str = DEFAULT_WRITE_GROUP
    on_reject: str = FAIL
    """`FAIL`, or the topic of dead letters."""
    id_column: str | None = None
    batch_bytes: int = 1024 * 1024
    send_timeout_ms: int = 30_000
    """Long enough for the restart of a broker, which would otherwise fail the task, and with
    ``local[*]`` the query."""
    retries: int = 100
    compress_over_bytes: int = 4_096


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Parse the options of a read; names may be in any case.

    A streaming read has another default start. Raise UnknownOption for an unknown name,
    InvalidOffsets if offsets are invalid JSON, NoNameserver if none is given, and InvalidOption if
    a value is invalid or two contradict each other.
    """
    values = Values(known_options(given, Operation.STREAM if streaming else Operation.BATCH))
    group = _group(values)
    options = ReadOptions(
        access=_access(values),
        topics=_topics(values),
        start=values.bound("starting", default="latest" if streaming else "earliest"),
        end=values.bound("ending", default="latest"),
        columns=_columns(values),
        are_columns_given="columns" in values,
        tags=_tags(values),
        min_partitions=values.optional_number("minPartitions", high=_INT32_MAX),
        max_records_per_partition=values.optional_number("maxRecordsPerPartition", high=_INT64_MAX),
        max_offsets_per_trigger=values.optional_number("maxOffsetsPerTrigger", high=_INT64_MAX),
        min_offsets_per_trigger=values.optional_number("minOffsetsPerTrigger", high=_INT64_MAX),
        max_trigger_delay_ms=values.duration_ms("maxTriggerDelay", 15 * 60_000),
        fail_on_data_loss=values.flag("failOnDataLoss", default=True),
        group=group,
        commit_offsets=values.flag("commitOffsets", default=streaming and group is not None),
        push_filters=values.flag("pushFilters", default=False),
        pull_count=values.number("pullCount", 1_024, high=_PULL_COUNT_MAX),
    )
    _check_triggers(options, values)
    if not streaming:
        _check_batch(options)
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write."""
    values = Values(known_options(given, Operation.WRITE))
    on_reject = values.text("onReject", FAIL)
    if on_reject.lower() == FAIL:
        on_reject = FAIL
    for option, topic in (("topic", values.text("topic")), ("onReject", on_reject)):
        if topic and topic != FAIL:
            _check_name(option, topic)
    return WriteOptions(
        access=_access(values),
        topic=values.text("topic") or None,
        group=_group(values) or DEFAULT_WRITE_GROUP,
        on_reject=on_reject,
        id_column=values.text("idColumn") or None,
        batch_bytes=values.number("batchBytes", 1024 * 1024, high=BODY_SIZE_LIMIT),
        send_timeout_ms=values.number("sendTimeoutMs", 30_000, high=_TIMEOUT_MAX_MS),
        retries=values.number("retries", 100, low=0, high=100),
        compress_over_bytes=values.number("compressOverBytes", 4_096, high=_INT32_MAX),
    )


def _access(values: Values) -> Access:
    access = Access(
        nameserver=_nameserver(values),
        namespace=values.text("namespace"),
        access_key=values.text("accessKey"),
        secret_key=values.text("secretKey"),
        security_token=values.text("securityToken"),
        tls=values.flag("tls", default=False),
        tls_verify=values.flag("tlsVerify", default=True),
        tls_ca_file=values.text("tlsCaFile"),
        tls_cert_file=values.text("tlsCertFile"),
        tls_key_file=values.text("tlsKeyFile"),
        tls_key_password=values.text("tlsKeyPassword"),
        address_map=values.address_map("addressMap"),
        request_timeout_ms=values.number("requestTimeoutMs", 3_000, high=_TIMEOUT_MAX_MS),
    )
    values.need_each_other("accessKey", "secretKey")
    values.need("securityToken", "accessKey")
    if not access.tls:
        for option in ("tlsVerify", "tlsCaFile", "tlsCertFile", "tlsKeyFile", "tlsKeyPassword"):
            if option in values:
                raise InvalidOption(f"{option} is given, but tls is not true", field=option)
    if access.namespace:
        _check_name("namespace", access.namespace)
    return access


def _nameserver(values: Values) -> str:
    """Return the list of nameservers, from the option or the driver's environment."""
    given = values.text("nameserver") or environment("NAMESRV_ADDR")
    try:
        addresses = parse_addresses(given)
    except InvalidInput as error:
        raise InvalidOption(str(error), field="nameserver") from error
    if not addresses:
        raise NoNameserver(
            "no nameserver is set; give .option('nameserver', 'host:9876'), several separated by "
            ";, or set NAMESRV_ADDR in the environment of the driver",
            field="nameserver",
        )
    return ";".join(map(str, addresses))


def _group(values: Values) -> str | None:
    group = values.text("groupId") or None
    if group is not None:
        try:
            check_group(group)
        except InvalidInput as error:
            raise InvalidOption(f"groupId: {error}", field="groupId") from error
    return group


def _topics(values: Values) -> Topics:
    values.exactly_one("subscribe", "subscribePattern", "assign")
    if "assign" in values:
        return Topics(assigned=parse_queues(values.text("assign"), field="assign"))
    if "subscribePattern" in values:
        pattern = values.text("subscribePattern")
        try:
            re.compile(pattern)
        except RecursionError:
            raise _invalid_pattern(
                pattern, "it is nested too deeply; use fewer parentheses"
            ) from None
        except (re.error, OverflowError) as error:
            raise _invalid_pattern(pattern, error) from error
        return Topics(pattern=pattern)
    names = tuple(dict.fromkeys(values.words("subscribe")))
    for name in names:
        try:
            check_topic(name)
        except InvalidInput as error:
            raise InvalidOption(f"subscribe: {error}", field="subscribe") from error
    return Topics(names=names)


def _invalid_pattern(pattern: str, why: object) -> InvalidOption:
    return InvalidOption(
        f"subscribePattern {pattern[:60]!r} is not a regular expression: {why}",
        field="subscribePattern",
    )


def _columns(values: Values) -> tuple[str, ...]:
    include = values.flag("includeProperties", default=False)
    if "columns" not in values:
        return READ_COLUMNS if include else DEFAULT_COLUMNS
    picked = check_read_columns(values.words("columns"))
    if "includeProperties" in values and include != (PROPERTIES in picked):
        raise InvalidOption(
            f"includeProperties is {str(include).lower()}, but columns says otherwise; "
            "columns alone is enough",
            field="includeProperties",
        )
    return picked


def _tags(values: Values) -> str:
    tags = values.text("tags", SELECT_ALL)
    try:
        return TagFilter.parse(tags).expression
    except InvalidInput as error:
        raise InvalidOption(f"tags: {error}", field="tags") from error


def _check_name(option: str, name: str) -> None:
    try:
        check_topic(name)
        check_sendable(name)
    except InvalidInput as error:
        raise InvalidOption(f"{option}: {error}", field=option) from error


def _check_triggers(options: ReadOptions, values: Values) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise InvalidOption(
            f"minOffsetsPerTrigger is {least}, over maxOffsetsPerTrigger {most}; lower it",
            field="minOffsetsPerTrigger",
        )
    values.need("maxTriggerDelay", "minOffsetsPerTrigger")
    if options.commit_offsets:
        values.need("commitOffsets", "groupId")


def _check_batch(options: ReadOptions) -> None:
    """Refuse empty batches, as Spark's Kafka source does: from latest, or to earliest."""
    if options.start.kind == "latest" or -1 in options.start.offsets.values():
        raise InvalidOption(
            "startingOffsets is latest (-1), which is for streaming reads only: a batch read would "
            "be empty",
            field="startingOffsets",
        )
    if options.end.kind == "earliest" or -2 in options.end.offsets.values():
        raise InvalidOption(
            "endingOffsets is earliest (-2): the read would be empty",
            field="endingOffsets",
        )
