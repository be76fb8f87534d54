"""What can be asked of the Java host: each operation with what it takes and what it gives.

The one home of the contract between the tests and the process that runs RocketMQ's own classes;
nothing here knows Java. An operation is asked for many inputs at once, so that thousands of cases
cost one round trip. Classes are called by their simple names (``PullMessageRequestHeader``), since
their packages moved between 4.x and 5.x.
"""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

In = TypeVar("In")
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)

Utf16: TypeAlias = bytes
"""Big-endian UTF-16 units: Java strings may hold lone surrogates, which UTF-8 can't carry."""


@dataclass(frozen=True)
class Operation(Generic[In, Out_co]):
    """A name on the pipe, and the types that travel under it."""

    name: str
    takes: type[In]
    gives: type[Out_co]


class Refusal(msgspec.Struct, frozen=True):
    """What Java threw in place of an output."""

    error: str


class Address(msgspec.Struct, frozen=True, array_like=True):
    """A socket address; four or sixteen bytes of IP."""

    ip: bytes
    port: int


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A message as Java's MessageExt holds it."""

    topic: str
    body: bytes | None
    flag: int
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Address
    store_timestamp_ms: int
    store_host: Address
    reconsume_times: int
    prepared_offset: int
    body_crc: int = 0
    size: int = 0
    message_id: str | None = None


class Batched(msgspec.Struct, frozen=True):
    """A message inside a client batch."""

    flag: int
    body: bytes
    properties: dict[str, str]


class OffsetId(msgspec.Struct, frozen=True):
    """The parts of an offset id."""

    host: Address
    physical_offset: int


class UniqueId(msgspec.Struct, frozen=True):
    """What Java reads out of a unique id."""

    ip: str
    pid: int
    timestamp_ms: int


class Sql(msgspec.Struct, frozen=True):
    """An SQL92 expression, and the properties of messages to evaluate it for.

    The answer has one letter for each message: T and F, N for unknown, E if it can't be evaluated.
    """

    expression: str
    messages: list[dict[str, str]]


class Bloom(msgspec.Struct, frozen=True):
    """A text in a bloom filter; the last position of the answer is the number of bits."""

    error_percent: int
    expected: int
    text: str


class PopHandle(msgspec.Struct, frozen=True):
    """What acknowledges a popped message."""

    checkpoint_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int | None


class RecallHandle(msgspec.Struct, frozen=True):
    """What takes back a delayed message."""

    topic: str
    broker_name: str
    timestamp_ms: int
    message_id: str


class Compressed(msgspec.Struct, frozen=True):
    """A body and how it is (to be) compressed: ZLIB, LZ4 or ZSTD."""

    kind: str
    data: bytes
    level: int = 5


class Namespaced(msgspec.Struct, frozen=True):
    """A topic or group and a namespace."""

    namespace: str
    name: str


class Subscription(msgspec.Struct, frozen=True):
    """What a tag expression selects."""

    expression: str
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A frame as Java's RemotingCommand holds it; ``header`` names the class of typed fields.

    Language is the name of Java's LanguageCode, None where Java knows none.
    """

    code: int
    opaque: int
    language: str | None = "JAVA"
    version: int = 0
    flag: int = 0
    remark: str | None = None
    fields: dict[str, str | None] | None = None
    body: bytes | None = None
    binary: bool = False
    header: str | None = None


class TypedFields(msgspec.Struct, frozen=True):
    """A header class and its fields, each value as text; what is None or not named is not set."""

    header: str
    fields: dict[str, str | None]


class Signing(msgspec.Struct, frozen=True):
    """A request to sign, and the credentials to sign it with."""

    command: Command
    access_key: str
    secret_key: str
    security_token: str | None = None


class JsonBody(msgspec.Struct, frozen=True):
    """The JSON text of a body, and the class that reads it."""

    body: str
    text: bytes


class ClientOptions(msgspec.Struct, frozen=True):
    """How Java's remoting client speaks; with TLS it trusts anyone."""

    tls: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request, or several at once, to whoever listens at an address."""

    client: int
    address: str
    commands: list[Command]
    timeout_ms: int


class Serving(msgspec.Struct, frozen=True):
    """Requests of a code that a client serves: it answers with their own fields and body."""

    client: int
    code: int


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How Java's producer sends; a compression that is not named is its own choice, ZLIB."""

    nameserver: str
    group: str = "senders"
    vip: bool = False
    timeout_ms: int = 10_000
    retries: int = 2
    compression: str | None = None
    compress_over: int = 4096
    message_bytes_max: int = 4 * 1024 * 1024
    poll_routes_ms: int = 30_000
    trace: bool = False


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send."""

    topic: str
    body: bytes = b""
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = {}
    delay_level: int = 0
    delay_ms: int = 0
    deliver_ms: int = 0


Way: TypeAlias = Literal["sync", "async", "oneway", "batch", "queue", "selector"]


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and the way they go; a queue or the key of a shard where the way needs one."""

    producer: int
    messages: list[Outgoing]
    way: Way = "sync"
    broker: str = ""
    queue_id: int = 0
    shard: str = ""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer was told; a batch has one answer, with ids joined by commas."""

    status: str
    message_id: str
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: int
    recall_handle: str = ""


class Recalling(msgspec.Struct, frozen=True):
    """A message that a producer takes back."""

    producer: int
    topic: str
    handle: str


class Load(msgspec.Struct, frozen=True):
    """A producer that sends the numbers from 0 on to a topic, one after another."""

    producer: int
    topic: str


class Loaded(msgspec.Struct, frozen=True):
    """The numbers that were acknowledged, and what was thrown where one was not."""

    acknowledged: list[int]
    failures: list[str]


Kind: TypeAlias = Literal["concurrent", "orderly", "lite", "pull"]
"""A push consumer of either sort, a lite pull consumer, or the pull consumer of old."""


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer and what it reads, from the first offset on; it refuses a message so often."""

    nameserver: str
    group: str
    topic: str = ""
    expression: str = "*"
    sql: bool = False
    """Whether the expression is SQL92, and not tags."""
    kind: Kind = "concurrent"
    broadcasting: bool = False
    instance_name: str = ""
    """Of a broadcasting consumer: its offsets are below this name; empty means a new one."""
    refusals: int = 0
    max_reconsume_times: int = -1
    client_rebalance: bool = True
    """False, of push consumers of 5.x: the broker divides the queues."""
    poll_routes_ms: int = 30_000
    namespace_v2: str = ""
    """Of clients of 5.x: it travels in the header of every request."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a consumer sees it."""

    topic: str
    body: bytes
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    message_id: str
    reconsume_times: int
    born_ms: int
    stored_ms: int
    record_bytes: int
    taken_ns: int
    """When it was given to the test: the machine's monotonic clock, which processes share."""


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """A single pull."""

    consumer: int
    topic: str
    broker: str
    queue_id: int
    offset: int
    count: int = 32
    expression: str = "*"


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a pull; the status is the name of Java's PullStatus."""

    status: str
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[Received]


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A request that one of Java's producers sends, and waits for the reply to."""

    producer: int
    topic: str
    body: bytes
    timeout_ms: int = 10_000


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """A trace record as Java's decoder reads it; what a kind of record lacks is None."""

    kind: str
    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_length: int
    cost_ms: int
    success: bool
    message_kind: str | None
    offset_message_id: str | None
    transaction_id: str | None
    transaction_state: str | None
    from_check: bool


# the host itself
PRINT = Operation("print_line", str, type(None))

# messages
TAG_HASH = Operation("tag_hash", Utf16, int)
ENCODE_STORED = Operation("encode_stored", Stored, bytes)
DECODE_STORED = Operation("decode_stored", bytes, list[Stored])
WRITE_PROPERTIES = Operation("write_properties", dict[str, str], str)
READ_PROPERTIES = Operation("read_properties", str, dict[str, str])
ENCODE_BATCH = Operation("encode_batch", list[Batched], bytes)
DECODE_BATCH = Operation("decode_batch", bytes, list[Batched])
CREATE_OFFSET_ID = Operation("create_offset_id", OffsetId, str)
READ_OFFSET_ID = Operation("read_offset_id", str, OffsetId)
CREATE_UNIQUE_ID = Operation("create_unique_id", type(None), str)
READ_UNIQUE_ID = Operation("read_unique_id", str, UniqueId)
BODY_CRC = Operation("body_crc", bytes, int)
COMPRESS = Operation("compress", Compressed, bytes)
DECOMPRESS = Operation("decompress", Compressed, bytes)

# handles, in 5.x
WRITE_POP_HANDLE = Operation("write_pop_handle", PopHandle, str)
READ_POP_HANDLE = Operation("read_pop_handle", str, PopHandle)
WRITE_RECALL_HANDLE = Operation("write_recall_handle", RecallHandle, str)
READ_RECALL_HANDLE = Operation("read_recall_handle", str, RecallHandle)

# names; the checks refuse or give None
CHECK_TOPIC = Operation("check_topic", str, type(None))
CHECK_GROUP = Operation("check_group", str, type(None))
WRAP_NAMESPACE = Operation("wrap_namespace", Namespaced, str)
STRIP_NAMESPACE = Operation("strip_namespace", Namespaced, str)
STRIP_ANY_NAMESPACE = Operation("strip_any_namespace", str, str)
NAMESPACE_OF = Operation("namespace_of", str, str)
CONFIG_KEYS = Operation("config_keys", str, list[str])
TLS_KEYS = Operation("tls_keys", type(None), list[str])
SUBSCRIBE = Operation("subscribe", str, Subscription)

# filters
EVALUATE_SQL = Operation("evaluate_sql", Sql, str)
BLOOM_POSITIONS = Operation("bloom_positions", Bloom, list[int])

# the wire
CONSTANTS = Operation("constants", str, dict[str, int])
ENCODE_COMMAND = Operation("encode_command", Command, bytes)
DECODE_COMMAND = Operation("decode_command", bytes, Command)
WRITE_HEADER = Operation("write_header", TypedFields, dict[str, str])
DESCRIBE_HEADER = Operation("describe_header", str, dict[str, str])
READ_HEADER = Operation("read_header", TypedFields, dict[str, str | None])
SIGN = Operation("sign", Signing, dict[str, str])
REWRITE_BODY = Operation("rewrite_body", JsonBody, bytes)
COMPRESS_REGISTRATION = Operation("compress_registration", bytes, bytes)
OPEN_REGISTRATION = Operation("open_registration", bytes, bytes)

# the remoting client
OPEN_CLIENT = Operation("open_client", ClientOptions, int)
CLOSE_CLIENT = Operation("close_client", int, type(None))
INVOKE = Operation("invoke", Call, list[Command])
INVOKE_AT_ONCE = Operation("invoke_at_once", Call, list[Command])
INVOKE_ONEWAY = Operation("invoke_oneway", Call, type(None))
SERVE = Operation("serve", Serving, type(None))
SERVED = Operation("served", int, list[Command])
CHANNEL_EVENTS = Operation("channel_events", int, list[str])

# producers and consumers
OPEN_PRODUCER = Operation("open_producer", ProducerOptions, int)
CLOSE_PRODUCER = Operation("close_producer", int, type(None))
SEND = Operation("send", Sending, list[Sent])
RECALL = Operation("recall", Recalling, str)
START_LOAD = Operation("start_load", Load, type(None))
LOADED = Operation("loaded", int, Loaded)
END_LOAD = Operation("end_load", int, Loaded)
OPEN_CONSUMER = Operation("open_consumer", ConsumerOptions, int)
CLOSE_CONSUMER = Operation("close_consumer", int, type(None))
CLIENT_ID = Operation("client_id", int, str)
RECEIVED = Operation("received", int, list[Received])
PULL = Operation("pull_once", Pull, Pulled)

# transactions; producers of the kind are closed like others
OPEN_TRANSACTION_PRODUCER = Operation("open_transaction_producer", ProducerOptions, int)
SEND_IN_TRANSACTION = Operation("send_in_transaction", Sending, list[Sent])
CHECKED = Operation("checked", int, list[bytes])

# requests, replies and traces
OPEN_RESPONDER = Operation("open_responder", ConsumerOptions, int)
CLOSE_RESPONDER = Operation("close_responder", int, type(None))
ASK = Operation("ask", Asking, Received)
DECODE_TRACE = Operation("decode_trace", bytes, list[Traced])

# the admin tool, with a client of its own
MQADMIN = Operation("mqadmin", list[str], str)

OPERATIONS: dict[str, Operation[Any, Any]] = {
    operation.name: operation
    for operation in list(globals().values())
    if isinstance(operation, Operation)
}
