"""The settings of a broker, and the one place that holds the settings in force.

A field is the snake case of its name in RocketMQ's ``broker.conf``; ``docs/settings.md`` lists
them. One file sets three structs: the broker's, its store's and its connections'::

    broker.conf ──┬── BrokerSettings   JAVA_NAMES        (BrokerConfig, MessageStoreConfig)
                  ├── StoreSettings    STORE_NAMES       (MessageStoreConfig)
                  └── NetSettings      CONNECTION_NAMES  (NettyServerConfig, NettyClientConfig)

>>> from orbitmq.settings import from_arguments
>>> live = LiveSettings.load(from_arguments(["brokerName=broker-b", "fileReservedTime=48"]))
>>> live.broker.broker_name, live.store.reserved_hours, live.net.idle_close_ms
('broker-b', 48, 120000)
"""

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.message.names import TRACE_TOPIC, check_topic
from orbitmq.net.address import Address
from orbitmq.net.settings import NetSettings
from orbitmq.settings import Property, about_unknown, build, unknown
from orbitmq.store.settings import CHANGEABLE, StoreSettings
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import INT32_MAX, INT64_MAX

__all__ = [
    "CONNECTION_NAMES",
    "JAVA_NAMES",
    "STORE_NAMES",
    "UPDATABLE",
    "BrokerRole",
    "BrokerSettings",
    "LiveSettings",
    "warnings_about",
]

_PORT_MAX: Final = 65_535
_PERMISSIONS: Final = (0, 2, 4, 6)


class BrokerRole(enum.Enum):
    """What a broker is to the others of its name; Java's names."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a broker is and how it serves; times are in milliseconds.

    >>> BrokerSettings(listen_port=0).broker_name
    'broker-a'

    Raises:
        InvalidInput: a value is out of its range, or two of them contradict each other.

    """

    # Who it is, and where

    broker_cluster_name: str = "DefaultCluster"
    """The cluster it is part of."""
    broker_name: str = "broker-a"
    """Its name in the cluster; routes and message queues carry it."""
    broker_id: int = 0
    """0 for a master, which is all that is served now."""
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    """ASYNC_MASTER or SYNC_MASTER; the same as long as there are no replicas."""
    listen_host: str = "127.0.0.1"
    """The address it listens on."""
    listen_port: int = 10_911
    """The port; 0 takes a free one. The second listener has this one less two."""
    broker_ip1: str = ""
    """The host that routes name; empty chooses one that fits ``listen_host``."""
    namesrv_addr: str = ""
    """The nameservers, separated by ``;``."""
    store_path_root_dir: str = "orbitmq-data"
    """The store directory."""
    region_id: str = "DefaultRegion"
    """The region that answers to sends name, for traces."""

    # Topics and groups

    broker_permission: int = 6
    """What clients may do here: 4 to read, 2 to write, 6 both."""
    default_topic_queue_nums: int = 8
    """The most queues of a topic that a send creates; a client asks for 4 unless it is set."""
    auto_create_topic_enable: bool = True
    """Whether a send to an unknown topic creates it."""
    auto_create_subscription_group: bool = True
    """Whether a consumer of an unknown group creates it."""
    cluster_topic_enable: bool = True
    """Whether the topic with the cluster's name can be used."""
    broker_topic_enable: bool = True
    """Whether the topic with the broker's name can be used."""
    trace_topic_enable: bool = False
    """Whether there is a topic for traces from the start."""
    msg_trace_topic_name: str = TRACE_TOPIC
    """Its name."""
    trace_on: bool = True
    """Whether answers to sends say that traces are wanted."""
    validate_system_topic_when_update_topic: bool = True
    """Whether operators are kept from changing RocketMQ's own topics."""
    clear_retry_topic_when_delete_topic: bool = True
    """Whether the retry topics of pop consumers go with their topic."""
    enable_mixed_message_type: bool = False
    """Whether a topic may say that it holds messages of all kinds."""
    enable_split_metadata: bool = True
    """Whether tables go to tools and replicas a page at a time, if they ask so."""
    split_metadata_size: int = 2_000
    """The most topics or groups on a page."""

    # Sending

    send_thread_pool_queue_capacity: int = 10_000
    """Sends that may wait; above it the answer is ``[OVERLOAD]``."""
    wait_time_mills_in_send_queue: int = 200
    """How long a send may wait; then the answer is ``[TIMEOUT_CLEAN_QUEUE]``."""
    broker_fast_failure_enable: bool = True
    """Whether requests that waited too long are refused."""
    os_page_cache_busy_time_out_mills: int = 1_000
    """A write that takes so long makes waiting sends be refused: ``[PCBUSY_CLEAN_QUEUE]``."""
    start_accept_send_request_time_stamp: int = 0
    """Sends are refused before this moment, in ms since 1970."""

    # Pulling

    pull_thread_pool_queue_capacity: int = 100_000
    """Pulls that may be held at once; one more is refused at once: ``[OVERLOAD]``."""
    long_polling_enable: bool = True
    """Whether a pull that finds nothing is held as long as the client says."""
    short_polling_time_mills: int = 1_000
    """How long it is held otherwise."""
    lite_pull_message_enable: bool = True
    """Whether lite pull consumers are served."""
    slave_read_enable: bool = False
    """Whether consumers far behind are sent to a replica."""
    default_query_max_num: int = 32
    """The most messages that a query by key returns, unless it says otherwise."""

    # Groups and offsets

    notify_consumer_ids_changed_enable: bool = True
    """Whether consumers are told that one of their group came or went."""
    channel_expired_timeout: int = 120_000
    """A client without a heartbeat for so long is forgotten."""
    use_server_side_reset_offset: bool = True
    """Whether a reset of offsets is kept here until the next pull, or told to consumers."""
    flush_consumer_offset_interval: int = 5_000
    """How often offsets, and the progress of delay levels, are written to the disk."""
    consumer_offset_update_version_step: int = 500
    """After so many commits the table of offsets counts as changed, for replicas."""
    delay_offset_update_version_step: int = 200
    """After so many deliveries that table counts as changed."""

    # Registration

    register_name_server_period: int = 30_000
    """How often it registers with each nameserver; less than 10 s are 10, more than 60 are 60."""
    register_broker_timeout_mills: int = 24_000
    """How long a nameserver may take to answer."""

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_role()
        for name in ("broker_cluster_name", "broker_name", "msg_trace_topic_name"):
            try:
                check_topic(getattr(self, name))  # each is the name of a topic too
            except InvalidInput as error:
                raise InvalidInput(f"{name}: {error}", field=name) from error
        _check_host("broker_ip1", self.broker_ip1)
        for address in self.nameservers():
            if not address.port:
                raise InvalidInput(
                    f"namesrv_addr names {address}; a nameserver has a port from 1 on",
                    field="namesrv_addr",
                )

    def nameservers(self) -> tuple[Address, ...]:
        """Return the addresses of the nameservers.

        >>> BrokerSettings(namesrv_addr="127.0.0.1:9876;127.0.0.1:9877").nameservers()[1].port
        9877

        """
        try:
            return tuple(
                Address.parse(part) for part in self.namesrv_addr.split(";") if part.strip()
            )
        except InvalidInput as error:
            raise InvalidInput(f"namesrv_addr: {error}", field="namesrv_addr") from error

    def _check_numbers(self) -> None:
        for name in self.__struct_fields__:
            low, high = _RANGES.get(name, (1, INT32_MAX))
            value = getattr(self, name)
            if type(value) is int and not low <= value <= high:
                raise InvalidInput(
                    f"{name} is {value}; it must be from {low} to {high}", field=name
                )
        if self.broker_permission not in _PERMISSIONS:
            raise InvalidInput(
                f"broker_permission is {self.broker_permission}; it is 4 to read, 2 to write, 6 "
                "for both, 0 for none",
                field="broker_permission",
            )

    def _check_role(self) -> None:
        if self.broker_role is BrokerRole.SLAVE:
            raise InvalidInput(
                "broker_role is SLAVE; replicas are not served yet, use ASYNC_MASTER",
                field="broker_role",
            )
        if self.broker_id:
            raise InvalidInput(f"broker_id is {self.broker_id}; a master has 0", field="broker_id")


# Numbers are from 1 to 2**31 - 1, since Java keeps them as int, but for these.
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "broker_id": (0, INT64_MAX),
    "broker_permission": (0, 7),
    "listen_port": (0, _PORT_MAX),
    "start_accept_send_request_time_stamp": (0, INT64_MAX),
}


def _camel(field: str) -> str:
    """Return a field as Java spells it.

    >>> _camel("default_topic_queue_nums"), _camel("broker_ip1")
    ('defaultTopicQueueNums', 'brokerIP1')
    """
    first, *rest = field.split("_")
    return first + "".join("IP1" if word == "ip1" else word.capitalize() for word in rest)


def _camel_names(kind: type[msgspec.Struct], *, but: Iterable[str] = ()) -> dict[str, str]:
    return {_camel(field): field for field in kind.__struct_fields__ if field not in set(but)}


JAVA_NAMES: Final[Mapping[str, str]] = {
    **_camel_names(BrokerSettings),
    "bindAddress": "listen_host",
}
"""Properties of ``broker.conf`` → fields of `BrokerSettings`.

``listenHost`` is ours; Java's ``bindAddress`` means the same.
"""

STORE_NAMES: Final[Mapping[str, str]] = {
    "storePathCommitLog": "commit_log_path",
    "mappedFileSizeCommitLog": "segment_bytes",
    "mappedFileSizeConsumeQueue": "queue_file_entries",
    "messageIndexEnable": "index_enabled",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_entries",
    "maxMessageSize": "max_message_bytes",
    "enabledAppendPropCRC": "append_crc",
    "flushDiskType": "flush_mode",
    "flushIntervalCommitLog": "flush_interval_ms",
    "flushCommitLogLeastPages": "flush_least_pages",
    "flushCommitLogThoroughInterval": "flush_thorough_interval_ms",
    "syncFlushTimeout": "sync_flush_timeout_ms",
    "flushConsumeQueueThoroughInterval": "queue_flush_thorough_interval_ms",
    "fileReservedTime": "reserved_hours",
    "deleteWhen": "delete_when",
    "diskMaxUsedSpaceRatio": "disk_used_max_percent",
    "diskSpaceCleanForciblyRatio": "disk_clean_forcibly_percent",
    "diskSpaceWarningLevelRatio": "disk_full_percent",
    "accessMessageInMemoryMaxRatio": "memory_percent",
    "maxTransferBytesOnMessageInMemory": "pull_bytes_in_memory",
    "maxTransferCountOnMessageInMemory": "pull_count_in_memory",
    "maxTransferBytesOnMessageInDisk": "pull_bytes_on_disk",
    "maxTransferCountOnMessageInDisk": "pull_count_on_disk",
    "messageDelayLevel": "message_delay_level",
    "acceptLoss": "accept_loss",
}
"""Properties of ``broker.conf`` → fields of `StoreSettings`; ``acceptLoss`` is ours."""

CONNECTION_NAMES: Final[Mapping[str, str]] = {
    "connectTimeoutMillis": "connect_timeout_ms",
    "serverChannelMaxIdleTimeSeconds": "idle_close_ms",
    **_camel_names(NetSettings, but=("connect_timeout_ms", "idle_close_ms")),
}
"""Properties of ``broker.conf`` → fields of `NetSettings`. Two are Java's, the others ours."""

# Where Java counts in other units: how many of ours make how many of Java's.
_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "mappedFileSizeConsumeQueue": (1, 20),  # entries, bytes
    "serverChannelMaxIdleTimeSeconds": (1_000, 1),  # milliseconds, seconds
}

UPDATABLE: Final[frozenset[str]] = frozenset(
    {
        *("brokerPermission", "defaultTopicQueueNums", "traceOn", "enableMixedMessageType"),
        *("autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
        *("clearRetryTopicWhenDeleteTopic", "enableSplitMetadata", "splitMetadataSize"),
        *("sendThreadPoolQueueCapacity", "waitTimeMillsInSendQueue", "brokerFastFailureEnable"),
        *("osPageCacheBusyTimeOutMills", "startAcceptSendRequestTimeStamp"),
        *("longPollingEnable", "shortPollingTimeMills", "litePullMessageEnable"),
        *("slaveReadEnable", "defaultQueryMaxNum"),
        *("notifyConsumerIdsChangedEnable", "channelExpiredTimeout", "useServerSideResetOffset"),
        *("flushConsumerOffsetInterval", "consumerOffsetUpdateVersionStep"),
        "delayOffsetUpdateVersionStep",
    }
    | {name for name, field in STORE_NAMES.items() if field in CHANGEABLE}
)
"""What may be changed from the network, while the broker runs.

Not here: paths, addresses, ports and names, which would let a peer redirect a broker; what keeps
operators from RocketMQ's own topics; and what holds only from the start on, such as file sizes.
"""


_GUARDS: Final = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
"""What makes a Java broker ask who its peers are: whoever relies on it must not be let down."""


class LiveSettings:
    """The settings in force. Whoever needs one reads it here when it is needed, and keeps none."""

    def __init__(
        self,
        broker: BrokerSettings | None = None,
        store: StoreSettings | None = None,
        net: NetSettings | None = None,
        *,
        now_ms: int = 0,
    ) -> None:
        self.broker = broker or BrokerSettings()
        self.store = store or StoreSettings()
        self.net = net or NetSettings()
        self.data_version = DataVersion(timestamp=now_ms)

    def __repr__(self) -> str:
        version = self.data_version.counter
        return f"<LiveSettings of {self.broker.broker_name}, version {version}>"

    @classmethod
    def load(cls, properties: Iterable[Property], *, now_ms: int = 0) -> "LiveSettings":
        """Return the settings that a file, and arguments after it, say.

        Raises:
            InvalidSetting: one can't be used; the error names file, line and key.

        """
        said = list(properties)
        _check_guards(said)
        ours = [_in_our_units(one) for one in said]
        return cls(
            build(BrokerSettings, ours, JAVA_NAMES),
            build(StoreSettings, ours, STORE_NAMES),
            build(NetSettings, ours, CONNECTION_NAMES),
            now_ms=now_ms,
        )

    def update(self, properties: Iterable[Property], now_ms: int) -> frozenset[str]:
        """Change settings while the broker runs; return the properties whose values are others now.

        All of them are taken, or none. They hold until the broker stops: unlike Java's it doesn't
        write its own ``broker.conf``.

        Raises:
            InvalidInput: one is unknown, or may not be changed; ``field`` is its name.
            InvalidSetting: a value can't be used.

        """
        said = list(properties)
        for one in said:
            if one.name not in UPDATABLE:
                raise InvalidInput(_why_not(one), field=one.name)
        before = self.as_properties()
        ours = [_in_our_units(one) for one in said]
        broker = build(BrokerSettings, ours, JAVA_NAMES, base=self.broker)
        store = build(StoreSettings, ours, STORE_NAMES, base=self.store)
        self.broker, self.store = broker, store
        self.data_version = self.data_version.next(now_ms)
        after = self.as_properties()
        return frozenset(name for name, text in after.items() if text != before[name])

    def as_properties(self) -> dict[str, str]:
        """Return all settings under their names in ``broker.conf``, as texts.

        >>> LiveSettings().as_properties()["mappedFileSizeConsumeQueue"]
        '6000000'
        """
        return {
            name: text
            for names, settings in (
                (JAVA_NAMES, self.broker),
                (STORE_NAMES, self.store),
                (CONNECTION_NAMES, self.net),
            )
            for name, text in _texts(names, settings)
        }


def _check_host(name: str, host: str) -> None:
    """Check what routes tell clients to dial: a name or an address, without a port; or nothing."""
    is_name = re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", host) is not None
    if host and not is_name and not _is_ipv6(host):
        raise InvalidInput(
            f"{name} is {host!r}; write the name or the IP address of a host, without a port",
            field=name,
        )


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _check_guards(properties: Iterable[Property]) -> None:
    for one in properties:
        if one.name in _GUARDS and one.value.strip().lower() == "true":
            raise InvalidSetting(
                f"{one}=true: this broker has no access control yet, and lets anybody in. Take it "
                "out to run it all the same, where nobody else can reach it",
                file=one.file,
                line=one.line,
                field=one.name,
            )


def warnings_about(properties: Iterable[Property]) -> list[str]:
    """Return a sentence for each property that no setting of a broker has the name of."""
    names = (JAVA_NAMES, STORE_NAMES, CONNECTION_NAMES)
    return [about_unknown(one, *names) for one in unknown(properties, *names)]


def _why_not(one: Property) -> str:
    names = (JAVA_NAMES, STORE_NAMES, CONNECTION_NAMES)
    if unknown([one], *names):
        return about_unknown(one, *names)
    return f"{one} can't be changed from the network; set it in broker.conf and start anew"


def _in_our_units(one: Property) -> Property:
    ours, java = _UNITS.get(one.name, (1, 1))
    value = one.value.strip()
    if ours == java or not (value.isascii() and value.isdigit() and len(value) <= 19):
        return one
    return one._replace(value=str(-(-int(value) * ours // java)))  # rounded up, as in Java


def _texts(names: Mapping[str, str], settings: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for name, field in names.items():
        value = getattr(settings, field)
        ours, java = _UNITS.get(name, (1, 1))
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, enum.Enum):
            yield name, str(value.value)
        else:
            yield name, str(value * java // ours if ours != java else value)
