"""The settings of a client and of a producer; defaults are Java's, and docs/settings.md lists them.

Both load from RocketMQ's own property names too (``ClientConfig``, ``DefaultMQProducer``):

>>> from orbitmq.settings import from_arguments
>>> client, producer = load(from_arguments(["namesrvAddr=names:9876", "sendLatencyEnable=true"]))
>>> client.nameserver, producer.fault_tolerance
('names:9876', <FaultTolerance.JAVA5: 'java5'>)

A value is checked with the others when it is built, so that a settings object that exists is valid.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from orbitmq.client.field_types import (
    check_address_map,
    check_is,
    check_ranges,
    check_types,
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
"""Stands for: no name of its own. Such clients get the process id and a number for a name."""

AddressMap = Mapping[str, str] | Callable[[str], str]
"""From the address that a broker advertises to the one it is reached at. The keys of a mapping are
``host:port``, or a host alone, whose port then stays as it is."""

RETRY_CODES: Final = (1, 2, 14, 16, 17, 204, 205, 1500)
"""Java's: SYSTEM_ERROR, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST,
NO_BUYER_ID, NOT_IN_CURRENT_UNIT, GO_AWAY (``DefaultMQProducer.retryResponseCodes``)."""

_MIB: Final = 1024 * 1024
_NAMESPACE_MARK: Final = {"nsd": "true"}
_SECRET: Final = frozenset({"secret_key", "security_token", "tls_key_password"})


class AccessChannel(StrEnum):
    """Where traces go: to the cluster's own topic, or to the one of a cloud's region."""

    LOCAL = "LOCAL"
    CLOUD = "CLOUD"


class FaultTolerance(StrEnum):
    """How a producer keeps away from brokers that are slow or failing."""

    OFF = "off"
    """It doesn't, but for the broker that just failed the same send."""
    JAVA5 = "java5"
    """Penalties by latency, and a detector, as in Java's 5.x clients."""
    JAVA4 = "java4"
    """Penalties by latency as in Java's 4.x clients, which are much longer."""
    ADAPTIVE = "adaptive"
    """A bad broker's share shrinks to probes, and recovers in seconds."""


class Require(StrEnum):
    """The least that a receipt must say, or else the send is an error that holds the receipt.

    It goes by what the broker says: one that flushes (ASYNC_FLUSH) or copies (ASYNC_MASTER) in the
    background says SEND_OK before it has, and any of these is met.
    """

    STORED = "stored"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a client is, whom it asks, and how it reaches them.

    >>> ClientSettings(nameserver="127.0.0.1:9876", access_key="alice", secret_key="open sesame")
    ClientSettings(nameserver='127.0.0.1:9876', access_key='alice', secret_key=…)

    Raises:
        InvalidInput: a value is out of its range, or two of them contradict each other.

    """

    # Whom it asks

    nameserver: str = ""
    """Nameservers, separated by ``;``. Empty: ``nameserver_url``, or else ``NAMESRV_ADDR``."""
    nameserver_url: str = ""
    """An HTTP address that answers with the list; asked every two minutes."""
    address_map: AddressMap | None = None
    """Rewrites the addresses that brokers advertise, as containers and tunnels need it."""

    # Who it is

    client_ip: str = ""
    """Its part of the client id; empty: the address other machines see."""
    instance_name: str = DEFAULT_INSTANCE
    """Clients of one name in one process are one to brokers."""
    unit_name: str = ""
    """Part of the client id, and of the request to ``nameserver_url``."""
    unit_mode: bool = False
    """Whether topics that it makes belong to a unit."""
    namespace: str = ""
    """Names of topics and groups begin with it on the wire (4.x clouds)."""
    namespace_v2: str = ""
    """Travels in the header of every request instead (5.x)."""
    access_channel: AccessChannel = AccessChannel.LOCAL
    """Where traces go."""
    access_key: str = ""
    """Signs every request, together with ``secret_key``."""
    secret_key: str = ""
    """The other half of it."""
    security_token: str = ""
    """For keys that were lent for a time."""

    # How it reaches them

    tls: bool = False
    """Whether to speak TLS with nameservers and brokers."""
    tls_verify: bool = True
    """Whether certificates are checked. Off, anyone can pose as the broker."""
    tls_ca_file: str = ""
    """Who is trusted, in PEM; empty: the system's authorities."""
    tls_cert_file: str = ""
    """Our own certificate, where servers ask for one."""
    tls_key_file: str = ""
    """Its key; empty: in the same file."""
    tls_key_password: str = ""
    """What opens the key."""
    ssl_context: TlsContext | None = None
    """Instead of all of the above: a context made elsewhere."""
    vip_channel: bool = False
    """Whether sends go to the broker's second port, two below."""
    poll_nameserver_interval_ms: int = 30_000
    """How often routes are asked for again."""
    heartbeat_interval_ms: int = 30_000
    """How often brokers are told that it lives."""
    request_timeout_ms: int = 3_000
    """How long an answer to anything but a send may take."""
    linger_ms: int = 5_000
    """How long connections stay after the last producer has stopped, for the next one."""
    net: NetSettings | None = None
    """The numbers of its connections; None: their defaults."""

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
                "nameserver and nameserver_url are both set; one of them says where to ask",
                field="nameserver_url",
            )
        if self.nameserver_url and not self.nameserver_url.startswith(("http://", "https://")):
            raise InvalidInput(
                f"nameserver_url is {self.nameserver_url[:80]!r}; it begins with http:// "
                "or https://",
                field="nameserver_url",
            )
        if bool(self.access_key) != bool(self.secret_key):
            missing = "secret_key" if self.access_key else "access_key"
            raise InvalidInput(
                f"{missing} is empty; requests are signed with access_key and secret_key together",
                field=missing,
            )
        if self.security_token and not self.access_key:
            raise InvalidInput(
                "security_token is set without access_key and secret_key", field="access_key"
            )
        self._check_words()

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def credentials(self) -> Credentials | None:
        """What requests are signed with; None if they are not."""
        if not self.access_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token or None)

    @property
    def header_fields(self) -> Mapping[str, str]:
        """What every request carries besides its own fields: the namespace of the second kind.

        >>> ClientSettings(namespace_v2="eu").header_fields
        {'nsd': 'true', 'ns': 'eu'}
        """
        return {**_NAMESPACE_MARK, "ns": self.namespace_v2} if self.namespace_v2 else {}

    def tls_context(self) -> TlsContext | None:
        """Return what connections are secured with; None if they are not.

        Raises:
            InvalidInput: a file is missing, or is not what it should be.

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
        """Return the id that brokers know the client by, as Java puts it together.

        >>> ClientSettings(unit_name="u1").client_id("10.0.0.7", "4711#1")
        '10.0.0.7@4711#1@u1'
        """
        name = instance if self.instance_name == DEFAULT_INSTANCE else self.instance_name
        unit = f"@{self.unit_name}" if self.unit_name else ""
        return f"{self.client_ip or host}@{name}{unit}"

    def _check_words(self) -> None:
        """Check the parts of names: a blank or an @ in one would make it another one."""
        for field in ("instance_name", "unit_name", "client_ip"):
            text: str = getattr(self, field)
            if text.split() not in ([], [text]) or "@" in text:
                raise InvalidInput(
                    f"{field} is {text[:80]!r}; blanks and @ may not be in it", field=field
                )
        if not self.instance_name:
            raise InvalidInput("instance_name is empty; leave it out", field="instance_name")
        for field in ("namespace", "namespace_v2"):
            namespace: str = getattr(self, field)
            if namespace:
                _check_name(field, namespace, check_topic)


class ProducerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a producer sends; the group may be given by position.

    >>> ProducerSettings("billing", fault_tolerance="adaptive").fault_tolerance
    <FaultTolerance.ADAPTIVE: 'adaptive'>

    Raises:
        InvalidInput: a value is out of its range, or two of them contradict each other.

    """

    group: str = "DEFAULT_PRODUCER"
    """The producer group; brokers ask its members about transactions."""

    # Time and tries

    send_timeout_ms: int = 3_000
    """How long a send may take, all tries and all waiting together."""
    per_try_timeout_ms: int | None = None
    """The most that one try may take while others are left."""
    retries: int = 2
    """Further tries after the first, sync and async alike."""
    retry_codes: tuple[int, ...] = RETRY_CODES
    """Answers of brokers after which another try is made."""
    retry_another_broker_when_not_stored: bool = False
    """Whether a status other than SEND_OK leads to another try, which may store it twice."""
    retry_same_queue: bool = False
    """Whether sends to a chosen queue, or by selector, are tried again, on the same queue."""
    require: Require | None = None
    """The least that a receipt must say."""
    stop_timeout_ms: int = 5_000
    """How long a stop waits for sends on their way."""

    # Topics and messages

    topics: tuple[str, ...] = ()
    """Topics whose routes and connections are made at the start."""
    create_topic_key: str = AUTO_CREATE_TOPIC
    """The topic after which brokers make unknown ones."""
    default_topic_queues: int = 4
    """The most queues of a topic that a send makes."""
    max_message_bytes: int = BODY_SIZE_LIMIT
    """The largest body, before compression."""
    compress_over_bytes: int = 4_096
    """Bodies from this size on are compressed."""
    compression_type: CompressionType = CompressionType.ZLIB
    """How: ZLIB, LZ4 or ZSTD, which may be said by name."""
    compression_level: int = 5
    """How hard; LZ4 has no levels."""

    short_header: bool = True
    """Whether fields of a send travel under one letter each; brokers before 3.1 need full names."""

    # Brokers

    fault_tolerance: FaultTolerance = FaultTolerance.OFF
    """How it keeps away from brokers that are slow or failing."""
    detector: bool = False
    """Whether ``java5`` probes brokers that failed, so that they come back without a send."""
    detect_interval_ms: int = 2_000
    """How often each of them is probed."""
    detect_timeout_ms: int = 200
    """How long a probe may take."""

    # Bounds

    in_flight_max: int = 1_024
    """Sends that may be on their way at once; one more waits."""
    in_flight_bytes_max: int = 100 * _MIB
    """The bytes of their bodies."""

    # Automatic batching

    auto_batch: bool = False
    """Whether single sends of one topic and tag are gathered and travel together."""
    linger_ms: int = 10
    """How long the first of them waits for others."""
    batch_bytes: int = 32 * 1024
    """How many bytes make a batch leave at once."""
    total_bytes: int = 32 * _MIB
    """How many bytes may wait in all batches together; beyond it sends travel alone."""

    # Traces

    trace: bool = False
    """Whether each send is reported to the trace topic."""
    trace_topic: str = TRACE_TOPIC
    """Where to."""
    trace_batch_max: int = 10
    """Reports in one message; at most 20."""
    trace_queue_max: int = 2_048
    """Reports that may wait; one more is dropped, and counted."""

    # Outbox

    outbox_path: str = ""
    """The file that keeps sends which failed; empty: they are errors only."""
    outbox_bytes_max: int = 256 * _MIB
    """How large it may grow; then a send that fails is an error again."""

    def __post_init__(self) -> None:
        _check_name("group", self.group, check_group)
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
            _check_name("topics", topic, check_topic)
        for field in ("create_topic_key", "trace_topic"):
            _check_name(field, getattr(self, field), check_topic)
        if self.detector and self.fault_tolerance is not FaultTolerance.JAVA5:
            raise InvalidInput(
                "detector is a part of fault_tolerance='java5'; set that too", field="detector"
            )
        if self.batch_bytes > self.total_bytes:
            raise InvalidInput(
                f"batch_bytes is {self.batch_bytes} and total_bytes, which holds all batches, "
                f"is {self.total_bytes}",
                field="total_bytes",
            )

    def __repr__(self) -> str:
        return _shown(self)


_JAVA_OFF: Final = -1
_OPTIONAL_NUMBERS: Final = frozenset({"per_try_timeout_ms"})
_LATENCY_SWITCHES: Final = ("sendLatencyEnable", "com.rocketmq.sendLatencyEnable")

_CLIENT_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "poll_nameserver_interval_ms": (10, INT32_MAX),
    "heartbeat_interval_ms": (10, INT32_MAX),
    "request_timeout_ms": (1, INT32_MAX),
    "linger_ms": (0, 600_000),
}
_PRODUCER_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "send_timeout_ms": (1, INT32_MAX),
    "per_try_timeout_ms": (1, INT32_MAX),
    "retries": (0, 100),
    "stop_timeout_ms": (0, INT32_MAX),
    "default_topic_queues": (1, 65_536),
    "max_message_bytes": (1, 15 * _MIB),  # a frame has 16 MiB, properties and header included
    "compress_over_bytes": (1, INT32_MAX),
    "compression_level": (0, 22),
    "detect_interval_ms": (1, INT32_MAX),
    "detect_timeout_ms": (1, INT32_MAX),
    "in_flight_max": (10, 65_535),  # Java's least; the most that one connection carries
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
    "lingerMs": "linger_ms",
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
    """Return the settings that properties say; see `orbitmq.settings.read`, and ``unknown``.

    Raises:
        InvalidSetting: a value can't be used; the error names its place.

    """
    said = [_fault_tolerance(one) for one in properties]
    client = build(ClientSettings, said, CLIENT_NAMES)
    return client, build(ProducerSettings, said, PRODUCER_NAMES)


def _fault_tolerance(one: Property) -> Property:
    """Return Java's switch for fault tolerance as the setting that it is here."""
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


def _check_name(field: str, name: str, check: Callable[[str], None]) -> None:
    try:
        check(name)
    except InvalidInput as error:
        raise type(error)(f"{field}: {error}", field=field) from error


def _shown(settings: msgspec.Struct) -> str:
    """Return a repr of what differs from the defaults, without any secret."""
    fields = msgspec.structs.fields(settings)
    given = [one for one in fields if getattr(settings, one.name) != one.default]
    return f"{type(settings).__name__}({', '.join(_parts(settings, given))})"


def _parts(settings: msgspec.Struct, given: Iterable[msgspec.structs.FieldInfo]) -> Iterable[str]:
    for one in given:
        value = "…" if one.name in _SECRET else repr(getattr(settings, one.name))
        yield f"{one.name}={value}"
