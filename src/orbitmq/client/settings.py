"""The settings of a client and of a producer, with Java's defaults; docs/settings.md lists them.

Both can be loaded from properties with RocketMQ's names (``ClientConfig``, ``DefaultMQProducer``):

>>> from orbitmq.settings import from_arguments
>>> client, producer = load(from_arguments(["namesrvAddr=names:9876", "sendLatencyEnable=true"]))
>>> client.nameserver, producer.fault_tolerance
('names:9876', <FaultTolerance.JAVA5: 'java5'>)

All values are checked when a settings object is created, so every existing one is valid.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from orbitmq.client.field_types import (
    check_address_map,
    check_is,
    check_name,
    check_ranges,
    check_types,
    shown_settings,
    take_enum,
    take_path,
    take_tuple,
)
from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.message.compression import CompressionType
from orbitmq.message.names import (
    AUTO_CREATE_TOPIC,
    BODY_SIZE_LIMIT,
    TRACE_TOPIC,
    check_group,
    check_topic,
)
from orbitmq.net.address import parse_addresses
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import TlsContext, TlsFiles, client_context
from orbitmq.settings import Property, build
from orbitmq.wire.auth import Credentials
from orbitmq.wire.fields import INT32_MAX

__all__ = [
    "CLIENT_NAMES",
    "DEFAULT_INSTANCE",
    "PRODUCER_NAMES",
    "RETRY_CODES",
    "AccessChannel",
    "AddressMap",
    "ClientSettings",
    "FaultTolerance",
    "ProducerSettings",
    "Require",
    "load",
]

DEFAULT_INSTANCE: Final = "DEFAULT"
"""The value for "no name given". Such a client gets the process id and a number as its name."""

AddressMap = Mapping[str, str] | Callable[[str], str]
"""Maps the address that a broker advertises to a reachable one. The keys of a mapping are
``host:port``, or a host alone, which keeps its port."""

RETRY_CODES: Final = (1, 2, 14, 16, 17, 204, 205, 1500)
"""Java's: SYSTEM_ERROR, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST,
NO_BUYER_ID, NOT_IN_CURRENT_UNIT, GO_AWAY (``DefaultMQProducer.retryResponseCodes``)."""

_MIB: Final = 1024 * 1024
_NAMESPACE_MARK: Final = {"nsd": "true"}


class AccessChannel(StrEnum):
    """Where traces go: to the trace topic of the cluster, or to that of a cloud's region."""

    LOCAL = "LOCAL"
    CLOUD = "CLOUD"


class FaultTolerance(StrEnum):
    """How a producer avoids brokers that are slow or failing."""

    OFF = "off"
    """A retry avoids the broker that just failed; nothing else."""
    JAVA5 = "java5"
    """Penalties by latency, and a detector, as in Java's 5.x clients."""
    JAVA4 = "java4"
    """Penalties by latency as in Java's 4.x clients, which are much longer."""
    ADAPTIVE = "adaptive"
    """A bad broker gets only probes, and its share recovers in seconds."""


class Require(StrEnum):
    """How safe a stored message must be; otherwise the send raises ``NotDurable``.

    The broker's answer decides: a broker that flushes (ASYNC_FLUSH) or copies (ASYNC_MASTER) in the
    background answers SEND_OK before it has, which meets every requirement.
    """

    STORED = "stored"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The identity of a client, its nameservers, and how it connects.

    >>> ClientSettings(nameserver="127.0.0.1:9876", access_key="alice", secret_key="open sesame")
    ClientSettings(nameserver='127.0.0.1:9876', access_key='alice', secret_key=…)

    Raises:
        InvalidInput: a value is out of range, or two of them contradict each other.
    """

    # Nameservers

    nameserver: str = ""
    """Nameservers, separated by ``;``. Empty: ``nameserver_url``, or else ``NAMESRV_ADDR``."""
    nameserver_url: str = ""
    """An HTTP address that returns the list of nameservers; requested every two minutes."""
    address_map: AddressMap | None = None
    """Rewrites the addresses that brokers advertise, for containers and tunnels."""

    # Identity

    client_ip: str = ""
    """The first part of the client id; empty: the address that other machines see."""
    instance_name: str = DEFAULT_INSTANCE
    """Clients with the same name in one process are one client to brokers."""
    unit_name: str = ""
    """Part of the client id, and of the request to ``nameserver_url``."""
    unit_mode: bool = False
    """Whether topics that it creates belong to a unit."""
    namespace: str = ""
    """A prefix of topic and group names on the wire (4.x clouds)."""
    namespace_v2: str = ""
    """A namespace in the header of every request instead (5.x)."""
    access_channel: AccessChannel = AccessChannel.LOCAL
    """Where traces go."""
    access_key: str = ""
    """Signs every request, together with ``secret_key``."""
    secret_key: str = ""
    """The secret that belongs to ``access_key``."""
    security_token: str = ""
    """The token of temporary keys."""

    # Connections

    tls: bool = False
    """Whether to use TLS with nameservers and brokers."""
    tls_verify: bool = True
    """Whether to check certificates. If off, anyone can pose as the broker."""
    tls_ca_file: str = ""
    """Trusted authorities, in PEM; empty: those of the system."""
    tls_cert_file: str = ""
    """Our certificate, if servers ask for one."""
    tls_key_file: str = ""
    """The key of our certificate; empty: in the same file."""
    tls_key_password: str = ""
    """The password of the key."""
    ssl_context: TlsContext | None = None
    """Replaces all TLS settings above."""
    vip_channel: bool = False
    """Whether to send to the broker's second port, which is two below the first."""
    poll_nameserver_interval_ms: int = 30_000
    """How often routes are refreshed."""
    heartbeat_interval_ms: int = 30_000
    """How often heartbeats are sent to brokers."""
    request_timeout_ms: int = 3_000
    """The timeout of all requests except sends."""
    keep_open_ms: int = 5_000
    """How long connections stay open for a next client after the last one was closed."""
    net: NetSettings | None = None
    """Timeouts and limits of connections; None: their defaults."""

    def __post_init__(self) -> None:
        check_types(self)
        check_ranges(self, _CLIENT_RANGES)
        take_enum(self, "access_channel", AccessChannel)
        check_address_map(self.address_map)
        check_is(self, "ssl_context", TlsContext)
        check_is(self, "net", NetSettings)
        parse_addresses(self.nameserver)
        if self.nameserver and self.nameserver_url:
            raise InvalidInput(
                "nameserver and nameserver_url are both set; give only one of them",
                field="nameserver_url",
            )
        if self.nameserver_url and not self.nameserver_url.startswith(("http://", "https://")):
            raise InvalidInput(
                f"nameserver_url is {self.nameserver_url[:80]!r}; it must begin with http:// or "
                "https://",
                field="nameserver_url",
            )
        if bool(self.access_key) != bool(self.secret_key):
            missing = "secret_key" if self.access_key else "access_key"
            raise InvalidInput(
                f"{missing} is empty; give both access_key and secret_key",
                field=missing,
            )
        if self.security_token and not self.access_key:
            raise InvalidInput(
                "security_token is set without access_key and secret_key; give all three",
                field="access_key",
            )
        self._check_names()

    def __repr__(self) -> str:
        return shown_settings(self)

    @property
    def credentials(self) -> Credentials | None:
        """The credentials that sign requests; None if requests are not signed."""
        if not self.access_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token or None)

    @property
    def header_fields(self) -> Mapping[str, str]:
        """Header fields of every request: the second namespace.

        >>> ClientSettings(namespace_v2="eu").header_fields
        {'nsd': 'true', 'ns': 'eu'}
        """
        return {**_NAMESPACE_MARK, "ns": self.namespace_v2} if self.namespace_v2 else {}

    def tls_context(self) -> TlsContext | None:
        """Return the TLS context; None if TLS is off.

        Raises:
            InvalidInput: a file is missing or invalid.
        """
        if self.ssl_context is not None:
            return self.ssl_context
        if not self.tls:
            return None
        files = TlsFiles(
            ca_file=self.tls_ca_file or None,
            cert_file=self.tls_cert_file or None,
            key_file=self.tls_key_file or None,
            key_password=self.tls_key_password or None,
        )
        return client_context(files, verify=self.tls_verify)

    def client_id(self, host: str, instance: str) -> str:
        """Return the id by which brokers know the client, in Java's format.

        >>> ClientSettings(unit_name="u1").client_id("10.0.0.7", "4711#1")
        '10.0.0.7@4711#1@u1'
        """
        name = instance if self.instance_name == DEFAULT_INSTANCE else self.instance_name
        unit = f"@{self.unit_name}" if self.unit_name else ""
        return f"{self.client_ip or host}@{name}{unit}"

    def _check_names(self) -> None:
        """Check the parts of the client id, which may not contain blanks or @, and namespaces."""
        for field in ("instance_name", "unit_name", "client_ip"):
            text: str = getattr(self, field)
            if text.split() not in ([], [text]) or "@" in text:
                raise InvalidInput(
                    f"{field} is {text[:80]!r}; it may not contain blanks or @", field=field
                )
        if not self.instance_name:
            raise InvalidInput("instance_name is empty; leave it out", field="instance_name")
        for field in ("namespace", "namespace_v2"):
            namespace: str = getattr(self, field)
            if namespace:
                check_name(field, namespace, check_topic)


class ProducerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a producer sends; the group may be a positional argument.

    >>> ProducerSettings("billing", fault_tolerance="adaptive").fault_tolerance
    <FaultTolerance.ADAPTIVE: 'adaptive'>

    Raises:
        InvalidInput: a value is out of range, or two of them contradict each other.
    """

    group: str = "DEFAULT_PRODUCER"
    """The producer group; brokers ask its members about transactions."""

    # Timeouts and retries

    send_timeout_ms: int = 3_000
    """The timeout of a send, including all retries and waiting."""
    per_try_timeout_ms: int | None = None
    """The timeout of one attempt while retries are left."""
    retries: int = 2
    """How many retries follow the first attempt."""
    retry_codes: tuple[int, ...] = RETRY_CODES
    """The response codes of brokers that are retried."""
    retry_another_broker_when_not_stored: bool = False
    """Whether a status other than SEND_OK is retried, which may store the message twice."""
    retry_same_queue: bool = False
    """Whether sends to a chosen queue, or by selector, are retried on the same queue."""
    require: Require | None = None
    """How safe a stored message must be."""
    stop_timeout_ms: int = 5_000
    """How long a close waits for sends in flight."""

    # Topics and messages

    topics: tuple[str, ...] = ()
    """Topics whose routes and connections are set up by the start."""
    create_topic_key: str = AUTO_CREATE_TOPIC
    """The topic that brokers use as a template for unknown topics."""
    default_topic_queues: int = 4
    """The most queues of a topic that a send creates."""
    max_message_bytes: int = BODY_SIZE_LIMIT
    """The largest body, before compression."""
    compress_over_bytes: int = 4_096
    """Bodies of this size and more are compressed."""
    compression_type: CompressionType = CompressionType.ZLIB
    """ZLIB, LZ4 or ZSTD; may be given by name."""
    compression_level: int = 5
    """The level of compression; LZ4 has none."""

    short_header: bool = True
    """Whether fields of a send have one-letter names; brokers before 3.1 need full names."""

    # Brokers

    fault_tolerance: FaultTolerance = FaultTolerance.OFF
    """How it avoids brokers that are slow or failing."""
    detector: bool = False
    """Whether ``java5`` probes failed brokers, so that they come back without a send."""
    detect_interval_ms: int = 2_000
    """How often a failed broker is probed."""
    detect_timeout_ms: int = 200
    """The timeout of a probe."""

    # Limits

    in_flight_max: int = 1_024
    """The most sends in flight; further ones wait."""
    in_flight_bytes_max: int = 100 * _MIB
    """The most bytes of bodies in flight."""

    # Automatic batching

    auto_batch: bool = False
    """Whether single sends of one topic and tag are collected into batches."""
    linger_ms: int = 10
    """How long the first message of a batch waits for others."""
    batch_bytes: int = 32 * 1024
    """A batch of this size is sent at once."""
    total_bytes: int = 32 * _MIB
    """The most bytes waiting in all batches; further messages are sent alone."""

    # Traces

    trace: bool = False
    """Whether each send is reported to the trace topic."""
    trace_topic: str = TRACE_TOPIC
    """The trace topic."""
    trace_batch_max: int = 10
    """The most reports in one trace message; at most 20."""
    trace_queue_max: int = 2_048
    """The most waiting reports; further ones are dropped and counted."""

    # Outbox

    outbox_path: str = ""
    """The file that keeps messages whose send failed; empty: no outbox."""
    outbox_bytes_max: int = 256 * _MIB
    """The largest size of the file; when it is full, a failed message is not kept."""

    def __post_init__(self) -> None:
        check_name("group", self.group, check_group)
        take_path(self, "outbox_path")
        check_types(self)
        if self.per_try_timeout_ms == _JAVA_OFF:
            force_setattr(self, "per_try_timeout_ms", None)
        check_ranges(self, _PRODUCER_RANGES, _OPTIONAL_NUMBERS)
        take_enum(self, "fault_tolerance", FaultTolerance)
        take_enum(self, "compression_type", CompressionType)
        if self.require is not None:
            take_enum(self, "require", Require)
        take_tuple(self, "retry_codes", int)
        take_tuple(self, "topics", str)
        for topic in self.topics:
            check_name("topics", topic, check_topic)
        for field in ("create_topic_key", "trace_topic"):
            check_name(field, getattr(self, field), check_topic)
        if self.detector and self.fault_tolerance is not FaultTolerance.JAVA5:
            raise InvalidInput(
                "detector works only with fault_tolerance='java5'; set that too", field="detector"
            )
        if self.batch_bytes > self.total_bytes:
            raise InvalidInput(
                f"batch_bytes is {self.batch_bytes}, more than the total_bytes of all batches, "
                f"{self.total_bytes}; raise total_bytes",
                field="total_bytes",
            )

    def __repr__(self) -> str:
        return shown_settings(self)


_JAVA_OFF: Final = -1
_OPTIONAL_NUMBERS: Final = frozenset({"per_try_timeout_ms"})
_LATENCY_SWITCHES: Final = ("sendLatencyEnable", "com.rocketmq.sendLatencyEnable")

_CLIENT_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "poll_nameserver_interval_ms": (10, INT32_MAX),
    "heartbeat_interval_ms": (10, INT32_MAX),
    "request_timeout_ms": (1, INT32_MAX),
    "keep_open_ms": (0, 600_000),
}
_PRODUCER_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "send_timeout_ms": (1, INT32_MAX),
    "per_try_timeout_ms": (1, INT32_MAX),
    "retries": (0, 100),
    "stop_timeout_ms": (0, INT32_MAX),
    "default_topic_queues": (1, 65_536),
    "max_message_bytes": (1, 15 * _MIB),  # a frame has 16 MiB, with properties and header
    "compress_over_bytes": (1, INT32_MAX),
    "compression_level": (0, 22),
    "detect_interval_ms": (1, INT32_MAX),
    "detect_timeout_ms": (1, INT32_MAX),
    "in_flight_max": (10, 65_535),  # Java's minimum; the in-flight limit of one connection
    "in_flight_bytes_max": (_MIB, INT32_MAX),
    "linger_ms": (1, 30_000),
    "batch_bytes": (1, 2 * _MIB),
    "total_bytes": (1, INT32_MAX),
    "trace_batch_max": (1, 20),
    "trace_queue_max": (1, 1_000_000),
    "outbox_bytes_max": (_MIB, 2**40),
}

CLIENT_NAMES: Final[Mapping[str, str]] = {
    "namesrvAddr": "nameserver",
    "rocketmq.namesrv.addr": "nameserver",
    "clientIP": "client_ip",
    "instanceName": "instance_name",
    "rocketmq.client.name": "instance_name",
    "unitName": "unit_name",
    "unitMode": "unit_mode",
    "namespace": "namespace",
    "namespaceV2": "namespace_v2",
    "accessChannel": "access_channel",
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "securityToken": "security_token",
    "useTLS": "tls",
    "tls.enable": "tls",
    "tls.client.authServer": "tls_verify",
    "tls.client.trustCertPath": "tls_ca_file",
    "tls.client.certPath": "tls_cert_file",
    "tls.client.keyPath": "tls_key_file",
    "tls.client.keyPassword": "tls_key_password",
    "vipChannelEnabled": "vip_channel",
    "com.rocketmq.sendMessageWithVIPChannel": "vip_channel",
    "pollNameServerInterval": "poll_nameserver_interval_ms",
    "heartbeatBrokerInterval": "heartbeat_interval_ms",
    "mqClientApiTimeout": "request_timeout_ms",
    "nameserverUrl": "nameserver_url",
    "keepOpenMs": "keep_open_ms",
}
"""Properties → fields of `ClientSettings`; the last two are ours, the others Java's."""

PRODUCER_NAMES: Final[Mapping[str, str]] = {
    "producerGroup": "group",
    "sendMsgTimeout": "send_timeout_ms",
    "sendMsgMaxTimeoutPerRequest": "per_try_timeout_ms",
    "retryTimesWhenSendFailed": "retries",
    "retryTimesWhenSendAsyncFailed": "retries",
    "retryAnotherBrokerWhenNotStoreOK": "retry_another_broker_when_not_stored",
    "createTopicKey": "create_topic_key",
    "defaultTopicQueueNums": "default_topic_queues",
    "maxMessageSize": "max_message_bytes",
    "compressMsgBodyOverHowmuch": "compress_over_bytes",
    "compressType": "compression_type",
    "rocketmq.message.compressType": "compression_type",
    "compressLevel": "compression_level",
    "rocketmq.message.compressLevel": "compression_level",
    "org.apache.rocketmq.client.sendSmartMsg": "short_header",
    "startDetectorEnable": "detector",
    "detectInterval": "detect_interval_ms",
    "detectTimeout": "detect_timeout_ms",
    "backPressureForAsyncSendNum": "in_flight_max",
    "backPressureForAsyncSendSize": "in_flight_bytes_max",
    "autoBatch": "auto_batch",
    "batchMaxDelayMs": "linger_ms",
    "batchMaxBytes": "batch_bytes",
    "totalBatchMaxBytes": "total_bytes",
    "enableTrace": "trace",
    "traceTopic": "trace_topic",
    "traceMsgBatchNum": "trace_batch_max",
    "faultTolerance": "fault_tolerance",
    "retrySameQueue": "retry_same_queue",
    "outboxPath": "outbox_path",
    "outboxBytesMax": "outbox_bytes_max",
}
"""Properties → fields of `ProducerSettings`; the last four are ours, the others Java's."""


def load(properties: Iterable[Property]) -> tuple[ClientSettings, ProducerSettings]:
    """Return the settings from properties; see `orbitmq.settings.read`, and ``unknown``.

    Raises:
        InvalidSetting: a value is invalid; the error names its file and line.
    """
    given = [_fault_tolerance(one) for one in properties]
    client = build(ClientSettings, given, CLIENT_NAMES)
    return client, build(ProducerSettings, given, PRODUCER_NAMES)


def _fault_tolerance(one: Property) -> Property:
    """Return Java's switch for fault tolerance as the setting ``fault_tolerance``."""
    if one.name not in _LATENCY_SWITCHES:
        return one
    kinds = {"true": FaultTolerance.JAVA5, "false": FaultTolerance.OFF}
    kind = kinds.get(one.value.strip().lower())
    if kind is None:
        raise InvalidSetting(
            f"{one}: {one.value[:40]!r} is not true or false",
            file=one.file,
            line=one.line,
            field=one.name,
        )
    return one._replace(name="faultTolerance", value=kind.value)
