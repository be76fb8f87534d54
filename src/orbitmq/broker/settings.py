"""The settings of a broker, and those in force while it runs.

A field is the snake case of its key in RocketMQ's ``broker.conf``; ``docs/settings.md`` lists them.
One file sets six structs::

    broker.conf ──┬── BrokerSettings   JAVA_NAMES        (BrokerConfig, MessageStoreConfig)
                  ├── StoreSettings    STORE_NAMES       (MessageStoreConfig)
                  ├── ReplicationSettings   REPLICATION_NAMES   (MessageStoreConfig)
                  ├── FailoverSettings   FAILOVER_NAMES   (BrokerConfig, and ours)
                  ├── NetSettings      CONNECTION_NAMES  (NettyServerConfig, NettyClientConfig)
                  └── TlsSettings      TLS_NAMES         (TlsSystemConfig)

``orbitmq.java_keys`` says what happens with the other keys of Java.

>>> from orbitmq.settings import from_arguments
>>> live = LiveSettings.load(from_arguments(["brokerName=broker-b", "fileReservedTime=48"]))
>>> live.broker.broker_name, live.store.reserved_hours, live.net.idle_close_ms
('broker-b', 48, 120000)
"""

import enum
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.failover.settings import FAILOVER_NAMES, FAILOVER_SECRETS, FailoverSettings
from orbitmq.java_keys import BROKER_CLASSES, ServerKeys
from orbitmq.logs import LogLevel
from orbitmq.message.names import TRACE_TOPIC, check_topic
from orbitmq.net import tls_settings
from orbitmq.net.address import Address
from orbitmq.net.settings import NetSettings
from orbitmq.net.tls_settings import TLS_NAMES, TlsSettings
from orbitmq.replication.settings import REPLICATION_NAMES, ReplicationSettings
from orbitmq.settings import Property, build
from orbitmq.store.settings import CHANGEABLE, StoreSettings
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import INT32_MAX, INT64_MAX

__all__ = [
    "CONNECTION_NAMES",
    "JAVA_NAMES",
    "KEYS",
    "STORE_NAMES",
    "UPDATABLE",
    "BrokerRole",
    "BrokerSettings",
    "LiveSettings",
    "check_known",
]

log = logging.getLogger("orbitmq.broker")

_PORT_MAX: Final = 65_535
_PERMISSIONS: Final = (0, 2, 4, 6)


class BrokerRole(enum.Enum):
    """The role of a broker among those with its name; Java's values."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a broker itself; times are in milliseconds.

    >>> BrokerSettings(listen_port=0).broker_name
    'broker-a'

    Raises:
        InvalidInput: a value is out of range, or two contradict each other.
    """

    # Identity and addresses

    broker_cluster_name: str = "DefaultCluster"
    """The name of its cluster."""
    broker_name: str = "broker-a"
    """Its name in the cluster, which routes and message queues have."""
    broker_id: int = 0
    """0 for the master, a number of its own for each slave."""
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    """ASYNC_MASTER, SYNC_MASTER, whose sends wait for slaves, or SLAVE, which copies a master."""
    listen_host: str = "127.0.0.1"
    """The address it listens on."""
    listen_port: int = 10_911
    """The port; 0 takes a free one. It listens on the port two below as well."""
    broker_ip1: str = ""
    """The host in routes; empty chooses one that fits ``listen_host``."""
    namesrv_addr: str = ""
    """The nameservers, separated by ``;``."""
    store_path_root_dir: str = "orbitmq-data"
    """The store directory."""
    region_id: str = "DefaultRegion"
    """The region in answers to sends, for traces."""

    # Topics and groups

    broker_permission: int = 6
    """What clients may do: 4 read, 2 write, 6 both, 0 none."""
    default_topic_queue_nums: int = 8
    """The most queues of a topic that a send creates; clients ask for 4 by default."""
    auto_create_topic_enable: bool = True
    """Whether a send to an unknown topic creates it."""
    auto_create_subscription_group: bool = True
    """Whether a consumer of an unknown group creates it."""
    cluster_topic_enable: bool = True
    """Whether the topic with the cluster's name can be read and written."""
    broker_topic_enable: bool = True
    """Whether the topic with the broker's name can be read and written."""
    trace_topic_enable: bool = False
    """Whether the broker creates a topic for traces at its start."""
    msg_trace_topic_name: str = TRACE_TOPIC
    """The name of that topic."""
    trace_on: bool = True
    """Whether answers to sends ask for traces."""
    validate_system_topic_when_update_topic: bool = True
    """Whether operators may not change system topics."""
    clear_retry_topic_when_delete_topic: bool = True
    """Whether deleting a topic deletes the retry topics of its pop consumers."""
    enable_mixed_message_type: bool = False
    """Whether a topic may have the message type MIXED."""
    enable_topic_message_type_check: bool = False
    """Whether a send is refused that is not of its topic's message type, as in Java's proxy."""
    enable_split_metadata: bool = True
    """Whether tools and replicas can fetch tables in pages."""
    split_metadata_size: int = 2_000
    """The most topics or groups on a page."""

    # Sending

    send_thread_pool_queue_capacity: int = 10_000
    """The most sends that may wait; more are refused with ``[OVERLOAD]``."""
    wait_time_mills_in_send_queue: int = 200
    """How long a send may wait; then it is refused with ``[TIMEOUT_CLEAN_QUEUE]``."""
    broker_fast_failure_enable: bool = True
    """Whether requests that waited too long are refused."""
    os_page_cache_busy_time_out_mills: int = 1_000
    """After a slower write, waiting sends are refused with ``[PCBUSY_CLEAN_QUEUE]``."""
    store_reply_message_enable: bool = True
    """Whether replies to requests are stored in the reply topic, after they were pushed."""
    reply_thread_pool_queue_capacity: int = 10_000
    """The most replies that requesters have not confirmed; more are refused with ``[OVERLOAD]``."""
    start_accept_send_request_time_stamp: int = 0
    """Sends are refused before this time, in ms since 1970."""
    send_deduplication_enable: bool = False
    """Whether a repeated send of a message is answered with the first receipt, and not stored."""
    send_deduplication_max_num: int = 100_000
    """The least number of messages that repeats are recognized of, unless they are older; at most
    twice as many are remembered."""
    send_deduplication_time_mills: int = 300_000
    """How long repeats of a message are recognized, unless more messages came since."""

    # Transactions

    reject_transaction_message: bool = False
    """Whether half messages are refused."""
    transaction_time_out: int = 6_000
    """The age of a half message at which its producer is first asked how it ended."""
    transaction_check_interval: int = 30_000
    """How often producers are asked again."""
    transaction_check_max: int = 15
    """After this many checks a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC."""
    wait_time_mills_in_transaction_queue: int = 3_000
    """How long a commit may wait for the store; then it is refused."""
    transaction_op_msg_max_size: int = 4_096
    """The bytes of an op message; a full one is written at once."""
    transaction_op_batch_interval: int = 3_000
    """How long the ends of transactions are collected for one op message."""

    recall_message_enable: bool = False
    """Whether producers can recall a message before its delivery time."""
    allow_recall_when_broker_not_writeable: bool = True
    """Whether they can while the broker may not be written to."""

    # Pulling

    pull_thread_pool_queue_capacity: int = 100_000
    """The most pulls held at once; more are refused with ``[OVERLOAD]``."""
    long_polling_enable: bool = True
    """Whether a pull that finds nothing is held as long as the client asks for."""
    short_polling_time_mills: int = 1_000
    """How long a pull is held without long polling."""
    lite_pull_message_enable: bool = True
    """Whether lite pull consumers are served."""
    enable_property_filter: bool = False
    """Whether consumers may filter by SQL92; ``orbitmq up`` and ``embedded`` turn it on."""
    filter_support_retry: bool = False
    """Whether a filter by SQL92 of a retry topic applies the filters for the messages' topics."""
    filter_data_clean_time_span: int = 86_400_000
    """A filter by SQL92 is removed when its group had no consumer for this long."""
    expect_consumer_num_use_filter: int = 32
    """How many filters a Java broker on this store expects; it sizes their bloom data."""
    max_error_rate_of_bloom_filter: int = 20
    """The error rate of these bloom data, in percent."""
    slave_read_enable: bool = False
    """Whether consumers that are far behind are directed to a replica."""
    default_query_max_num: int = 32
    """The most messages that a query by unique key returns."""

    # Groups and offsets

    notify_consumer_ids_changed_enable: bool = True
    """Whether consumers are notified when members of their group change."""
    channel_expired_timeout: int = 120_000
    """A client without a heartbeat for this long is removed."""
    use_server_side_reset_offset: bool = True
    """Whether the broker applies a reset of offsets to the next pull, or notifies consumers."""
    flush_consumer_offset_interval: int = 5_000
    """How often consumer offsets and delay offsets are written to disk."""
    consumer_offset_update_version_step: int = 500
    """The version of consumer offsets changes after this many commits, for replicas."""
    delay_offset_update_version_step: int = 200
    """The version of delay offsets changes after this many deliveries."""

    server_load_balancer_enable: bool = True
    """Whether queues are divided among consumers that let the broker do it; else each gets all."""
    load_balance_poll_name_server_interval: int = 30_000
    """How long the queues of a topic are remembered for that."""

    # Registration

    register_name_server_period: int = 30_000
    """How often it registers with each nameserver; at least 10 s, at most 60 s."""
    register_broker_timeout_mills: int = 24_000
    """How long a nameserver may take to answer."""

    # Operators

    config_black_list: str = "configBlackList;brokerConfigPath"
    """Further keys that can't be changed from the network, separated by ``;``."""
    log_level: LogLevel = LogLevel.INFO
    """From which level on it logs: DEBUG, INFO, WARNING or ERROR."""

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
                    f"namesrv_addr has {address}; a nameserver has a port from 1 to {_PORT_MAX}",
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
                f"broker_permission is {self.broker_permission}; it must be 4 to read, 2 to write, "
                "6 for both or 0 for none",
                field="broker_permission",
            )

    @property
    def is_slave(self) -> bool:
        """Whether it copies a master."""
        return self.broker_role is BrokerRole.SLAVE

    def _check_role(self) -> None:
        if self.is_slave and not self.broker_id:
            raise InvalidInput(
                "broker_role is SLAVE, and broker_id is 0, which a master has; give the slave a "
                "brokerId of 1 or more that no other broker of its name has",
                field="broker_role",
            )
        if self.broker_id and not self.is_slave:
            raise InvalidInput(
                f"broker_id is {self.broker_id}, but broker_role is {self.broker_role.value}; a "
                "master has 0, and a slave brokerRole=SLAVE",
                field="broker_id",
            )


# Numbers are from 1 to 2**31 - 1, since they are int in Java, except these.
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "broker_id": (0, INT64_MAX),
    "broker_permission": (0, 7),
    "filter_data_clean_time_span": (0, INT64_MAX),
    "listen_port": (0, _PORT_MAX),
    "max_error_rate_of_bloom_filter": (1, 99),
    "send_deduplication_max_num": (1, 10_000_000),
    "start_accept_send_request_time_stamp": (0, INT64_MAX),
}


def _camel(field: str) -> str:
    """Return the key of a field.

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
"""Keys → fields of `BrokerSettings`. Ours are ``listenHost``, for Java's ``bindAddress``, and
``sendDeduplication…`` and ``logLevel``."""

STORE_NAMES: Final[Mapping[str, str]] = {
    "storePathCommitLog": "commit_log_path",
    "mappedFileSizeCommitLog": "segment_bytes",
    "mappedFileSizeConsumeQueue": "queue_file_entries",
    "mapperFileSizeBatchConsumeQueue": "batch_queue_file_entries",
    "messageIndexEnable": "index_enabled",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_entries",
    "maxMessageSize": "max_message_bytes",
    "enabledAppendPropCRC": "append_crc",
    "enableLmq": "lmq_enabled",
    "enableMultiDispatch": "multi_dispatch_enabled",
    "maxLmqConsumeQueueNum": "lmq_queues_max",
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
    "dataReadAheadEnable": "read_ahead",
    "accessMessageInMemoryMaxRatio": "memory_percent",
    "maxTransferBytesOnMessageInMemory": "pull_bytes_in_memory",
    "maxTransferCountOnMessageInMemory": "pull_count_in_memory",
    "maxTransferBytesOnMessageInDisk": "pull_bytes_on_disk",
    "maxTransferCountOnMessageInDisk": "pull_count_on_disk",
    "messageDelayLevel": "message_delay_level",
    "timerWheelEnable": "timer_wheel_enabled",
    "timerPrecisionMs": "timer_precision_ms",
    "timerMaxDelaySec": "timer_max_delay_s",
    "timerRollWindowSlot": "timer_roll_window_slots",
    "mappedFileSizeTimerLog": "timer_log_file_bytes",
    "timerFlushIntervalMs": "timer_flush_interval_ms",
    "timerCongestNumEachSlot": "timer_slot_messages_max",
    "timerStopEnqueue": "timer_stop_enqueue",
    "timerStopDequeue": "timer_stop_dequeue",
    "appendTopicForTimerDeleteKey": "timer_delete_key_with_topic",
    "acceptLoss": "accept_loss",
}
"""Keys → fields of `StoreSettings`; ``acceptLoss`` is ours."""

CONNECTION_NAMES: Final[Mapping[str, str]] = {
    "connectTimeoutMillis": "connect_timeout_ms",
    "serverChannelMaxIdleTimeSeconds": "idle_close_ms",
    **_camel_names(NetSettings, but=("connect_timeout_ms", "idle_close_ms")),
}
"""Keys → fields of `NetSettings`. Two are Java's, the others ours."""

# Keys with other units in Java: how many of ours are how many of Java's.
_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "mappedFileSizeConsumeQueue": (1, 20),  # entries, bytes
    "mapperFileSizeBatchConsumeQueue": (1, 46),
    "serverChannelMaxIdleTimeSeconds": (1_000, 1),  # milliseconds, seconds
}

UPDATABLE: Final[frozenset[str]] = frozenset(
    {
        *("brokerPermission", "defaultTopicQueueNums", "traceOn", "enableMixedMessageType"),
        "regionId",
        "enableTopicMessageTypeCheck",
        *("autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
        *("clearRetryTopicWhenDeleteTopic", "enableSplitMetadata", "splitMetadataSize"),
        *("storeReplyMessageEnable", "replyThreadPoolQueueCapacity"),
        *("sendThreadPoolQueueCapacity", "waitTimeMillsInSendQueue", "brokerFastFailureEnable"),
        *("osPageCacheBusyTimeOutMills", "startAcceptSendRequestTimeStamp"),
        *("sendDeduplicationEnable", "sendDeduplicationMaxNum", "sendDeduplicationTimeMills"),
        *("rejectTransactionMessage", "transactionTimeOut", "transactionCheckInterval"),
        "waitTimeMillsInTransactionQueue",
        *("transactionCheckMax", "transactionOpMsgMaxSize", "transactionOpBatchInterval"),
        *("recallMessageEnable", "allowRecallWhenBrokerNotWriteable"),
        *("longPollingEnable", "shortPollingTimeMills", "litePullMessageEnable"),
        *("slaveReadEnable", "defaultQueryMaxNum"),
        *("enablePropertyFilter", "filterSupportRetry", "filterDataCleanTimeSpan"),
        *("notifyConsumerIdsChangedEnable", "channelExpiredTimeout", "useServerSideResetOffset"),
        *("flushConsumerOffsetInterval", "consumerOffsetUpdateVersionStep"),
        *("delayOffsetUpdateVersionStep", "serverLoadBalancerEnable", "logLevel"),
    }
    | {"haSendHeartbeatInterval", "haHousekeepingInterval", "haTransferBatchSize"}
    | {"haMaxGapNotInSync", "inSyncReplicas", "slaveTimeout"}
    | {"haMaxTimeSlaveNotCatchup", "minInSyncReplicas", "allAckInSyncStateSet"}
    | {"enableElectUncleanMaster", "brokerElectionPriority"}
    | {name for name, field in STORE_NAMES.items() if field in CHANGEABLE}
)
"""Keys that can be changed from the network while the broker runs.

Not among them: paths, addresses, ports and names, with which a peer could redirect a broker; the
protection of system topics; and what is only read at the start, such as file sizes.
"""


KEYS: Final = (
    *(*JAVA_NAMES, *STORE_NAMES, *REPLICATION_NAMES, *FAILOVER_NAMES),
    *(*CONNECTION_NAMES, *TLS_NAMES),
)
"""Every key of ``broker.conf`` that has an effect."""
_KEYS: Final = ServerKeys(KEYS, BROKER_CLASSES)
_ELECTED: Final = frozenset({"brokerRole", "brokerId"})
"""What a broker of a group with elections is by the elections, and not by its settings."""


class LiveSettings:
    """The settings in force. Read a setting here when it is needed; don't keep a copy."""

    def __init__(
        self,
        broker: BrokerSettings | None = None,
        store: StoreSettings | None = None,
        net: NetSettings | None = None,
        *,
        tls: TlsSettings | None = None,
        replication: ReplicationSettings | None = None,
        failover: FailoverSettings | None = None,
        file: str | None = None,
        now_ms: int = 0,
    ) -> None:
        self.broker = broker or BrokerSettings()
        self.store = store or StoreSettings()
        self.net = net or NetSettings()
        self.tls = tls or TlsSettings()
        self.replication = replication or ReplicationSettings()
        self.failover = failover or FailoverSettings()
        self.file = file
        """The file that changes are written to; None if they last until the broker stops."""
        self.data_version = DataVersion(timestamp=now_ms)

    def __repr__(self) -> str:
        version = self.data_version.counter
        return f"<LiveSettings of {self.broker.broker_name}, version {version}>"

    @classmethod
    def load(
        cls, properties: Iterable[Property], *, file: str | None = None, now_ms: int = 0
    ) -> "LiveSettings":
        """Return the settings of a file and the arguments after it; log the keys without effect.

        Raise InvalidSetting, which names file, line and key, if one can't be used.
        """
        given = tls_settings.with_tls_file(properties)
        _KEYS.check(given)
        for warning in _KEYS.unknown(given):
            log.warning("%s", warning)
        for note in _KEYS.notes(given):
            log.info("%s", note)
        ours = [_in_our_units(one) for one in given]
        failover = build(FailoverSettings, ours, FAILOVER_NAMES)
        if failover.enabled:
            ours = [one for one in ours if one.name not in _ELECTED]
        return cls(
            build(BrokerSettings, ours, JAVA_NAMES),
            build(StoreSettings, ours, STORE_NAMES),
            build(NetSettings, ours, CONNECTION_NAMES),
            tls=tls_settings.load(ours),
            replication=build(ReplicationSettings, ours, REPLICATION_NAMES),
            failover=failover,
            file=file,
            now_ms=now_ms,
        )

    def become(self, *, broker_id: int, is_master: bool) -> None:
        """Take the role that an election gave this broker; sends wait for slaves, as in Java."""
        role = BrokerRole.SYNC_MASTER if is_master else BrokerRole.SLAVE
        self.broker = msgspec.structs.replace(
            self.broker, broker_role=role, broker_id=0 if is_master else broker_id
        )

    def update(self, properties: Iterable[Property], now_ms: int) -> frozenset[str]:
        """Change settings while the broker runs; return the properties with another value now.

        All are applied, or none. Keys that are harmless here are accepted without an effect. The
        caller writes them to ``file``. Raise InvalidInput, with the name as ``field``, if one is
        unknown or can't be changed, and InvalidSetting if a value can't be used.
        """
        given = list(properties)
        fixed = self.broker.config_black_list.split(";")
        for one in given:
            changeable = one.name in UPDATABLE or _KEYS.is_harmless(one)
            if not changeable or one.name in fixed:
                raise InvalidInput(_why_not(one), field=one.name)
        return self._take(given, now_ms)

    def reload(
        self, properties: Iterable[Property], now_ms: int
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Take over what can be changed of the settings of a file and the arguments after it.

        Return the properties with another value now, and those that need a restart for theirs;
        ``tls.*`` stands for all of TLS. Raise InvalidSetting, and change nothing, if one can't be
        used.
        """
        wanted = LiveSettings.load(properties)
        texts = wanted.as_properties()
        different = {name for name, text in self.as_properties().items() if texts[name] != text}
        changeable = different & UPDATABLE
        changed = frozenset[str]()
        if changeable:
            given = [Property(name, texts[name], "settings") for name in changeable]
            changed = self._take(given, now_ms)
        if wanted.tls != self.tls:
            different.add("tls.*")
        if wanted.failover.etcd_password != self.failover.etcd_password:
            different.add("etcdPassword")
        if self.failover.enabled:
            different -= _ELECTED
        return changed, frozenset(different - UPDATABLE)

    def _take(self, given: Iterable[Property], now_ms: int) -> frozenset[str]:
        before = self.as_properties()
        ours = [_in_our_units(one) for one in given]
        broker = build(BrokerSettings, ours, JAVA_NAMES, base=self.broker)
        store = build(StoreSettings, ours, STORE_NAMES, base=self.store)
        replication = build(ReplicationSettings, ours, REPLICATION_NAMES, base=self.replication)
        failover = build(FailoverSettings, ours, FAILOVER_NAMES, base=self.failover)
        self.broker, self.store, self.replication = broker, store, replication
        self.failover = failover
        self.data_version = self.data_version.next(now_ms)
        after = self.as_properties()
        return frozenset(name for name, text in after.items() if text != before[name])

    def as_properties(self) -> dict[str, str]:
        """Return all settings as texts, by their keys in ``broker.conf``; of TLS only ``useTLS``.

        A secret that is set is ``…``.

        >>> LiveSettings().as_properties()["mappedFileSizeConsumeQueue"]
        '6000000'
        """
        return {
            name: text
            for names, settings in (
                ({"useTLS": TLS_NAMES["useTLS"]}, self.tls),
                (JAVA_NAMES, self.broker),
                (STORE_NAMES, self.store),
                (REPLICATION_NAMES, self.replication),
                (FAILOVER_NAMES, self.failover),
                (CONNECTION_NAMES, self.net),
            )
            for name, text in _texts(names, settings)
        }


def _check_host(name: str, host: str) -> None:
    """Check the host in routes: a name, an IP address, or empty; without a port."""
    is_name = re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", host) is not None
    if host and not is_name and not _is_ipv6(host):
        raise InvalidInput(
            f"{name} is {host!r}; give the name or the IP address of a host, without a port",
            field=name,
        )


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def check_known(properties: Iterable[Property]) -> None:
    """Raise InvalidSetting for the first property that neither ours nor Java's broker has.

    A file may have keys for other programs, so ``LiveSettings.load`` only warns of them.
    """
    for one in properties:
        for warning in _KEYS.unknown([one]):
            raise InvalidSetting(warning, file=one.file, line=one.line, field=one.name)


def _why_not(one: Property) -> str:
    for warning in _KEYS.unknown([one]):
        return warning
    if (why := _KEYS.reason_to_refuse(one)) is not None:
        return f"{one}={one.value.strip()}: {why}"
    return f"{one} can't be changed while the broker runs; set it in broker.conf and restart"


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
        if name in FAILOVER_SECRETS and value:
            yield name, "…"
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, enum.Enum):
            yield name, str(value.value)
        else:
            yield name, str(value * java // ours if ours != java else value)
