"""The properties of a message: their names, their meaning, and the text they travel as.

The text is ``name U+0001 value U+0002``, repeated, in UTF-8. Nothing is escaped, so neither a name
nor a value may hold a separator. Every reader here follows Java's
``MessageDecoder.string2messageProperties`` on texts that are not well formed:

- The last U+0002 may be missing.
- The first U+0001 of a pair ends the name; a later one belongs to the value.
- A pair with an empty name, an empty value, or without U+0001 is dropped.
- If a name is repeated, the last pair that is not dropped wins.
- Bytes that are not UTF-8 are read as U+FFFD: for the three bytes of a surrogate Java makes one,
  Python three.
"""

from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from reprlib import repr as elided
from types import MappingProxyType
from typing import AnyStr, Final, NoReturn

import msgspec

from orbitmq.errors import InvalidInput, InvalidProperty
from orbitmq.message.names import check_properties

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
KEY_SEPARATOR: Final = " "  # between the keys in KEYS
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."  # begins the names that are never stored

# What the user gives.
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
SHARDING_KEY: Final = "__SHARDINGKEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"

# Where a message comes from.
UNIQUE_KEY: Final = "UNIQ_KEY"
EXTEND_UNIQUE_INFO: Final = "EXTEND_UNIQ_INFO"
PRODUCER_GROUP: Final = "PGROUP"
INSTANCE_ID: Final = "INSTANCE_ID"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
CRC32: Final = "__CRC32#"

# Retries and dead letters.
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"

# Transactions.
TRANSACTION_PREPARED: Final = "TRAN_MSG"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_OFFSET: Final = "TRANS_OFFSET"

# Timers.
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_ROLL_LABEL: Final = "TIMER_ROLL_LABEL"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
TIMER_DELETE_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_ENGINE: Final = "E_T"

# Pulling and popping.
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
POP_CHECKPOINT: Final = "POP_CK"
POP_CHECKPOINT_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
TRANSIENT_TOPIC_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
TRANSIENT_GROUP_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"

# Request and reply.
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TIME_TO_LIVE: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"

# Batches and light queues.
INNER_COUNT: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"

# From RocketMQ's predecessors; no known client or broker writes them.
BUYER_ID: Final = "BUYER_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
DUP_INFO: Final = "DUP_INFO"
REDIRECT: Final = "REDIRECT"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"

MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        KEYS: "keys to find the message by, separated by one blank",
        TAGS: "the tag that subscriptions select by",
        WAIT: "true: the broker answers once the message is stored as its settings require",
        DELAY: "delay level, 1 to 18",
        TIMER_DELAY_SEC: "deliver after this many seconds",
        TIMER_DELAY_MS: "deliver after this many milliseconds",
        TIMER_DELIVER_MS: "deliver at this time, milliseconds since 1970",
        SHARDING_KEY: "messages with the same value stay in order",
        PRIORITY: "priority, 0 or higher",
        CHECK_IMMUNITY_SECONDS: "seconds before a half message is first checked",
        INNER_MULTI_DISPATCH: "light queues to dispatch the message to, separated by commas",
        TRACE_CONTEXT: "trace context of the application",
        UNIQUE_KEY: "message id, set by the producer",
        EXTEND_UNIQUE_INFO: "further part of the message id",
        PRODUCER_GROUP: "group of the producer, which is asked about undecided half messages",
        INSTANCE_ID: "namespace of the producer",
        BORN_HOST: "address of the producer behind a proxy",
        BORN_TIMESTAMP: "time of the send behind a proxy, milliseconds since 1970",
        REGION: "region of the broker",
        TRACE_ON: "whether the broker wants the message traced",
        CLUSTER: "cluster of the broker, which names the reply topic",
        CRC32: "checksum over the record, ten digits, the lowest first",
        RETRY_TOPIC: "topic of the message before it went to a retry topic",
        REAL_TOPIC: "topic to deliver to, of a message that waits in a system topic",
        REAL_QUEUE_ID: "queue to deliver to, of a message that waits in a system topic",
        ORIGIN_GROUP: "group that failed to consume the message",
        ORIGIN_MESSAGE_ID: "offset message id of the first copy",
        RECONSUME_TIME: "deliveries so far; moves into the send header",
        MAX_RECONSUME_TIMES: "deliveries at most; moves into the send header",
        DLQ_ORIGIN_TOPIC: "topic of a dead letter before it became one",
        DLQ_ORIGIN_MESSAGE_ID: "message id of a dead letter before it became one",
        TRANSACTION_PREPARED: "true: a half message",
        TRANSACTION_ID: "id of the transaction",
        TRANSACTION_CHECK_TIMES: "times the producer was asked about a half message",
        TRANSACTION_PREPARED_QUEUE_OFFSET: "queue offset of the half message first stored",
        TRANSACTION_OFFSET: "offset of the half message that an operation is about",
        TIMER_ENQUEUE_MS: "when the timer took the message in",
        TIMER_DEQUEUE_MS: "when the timer took the message out",
        TIMER_OUT_MS: "when the timer delivers the message",
        TIMER_ROLL_TIMES: "times the message was put back, for a delay longer than the wheel",
        TIMER_ROLL_LABEL: "marks a message that the timer put back",
        TIMER_DELAY_LEVEL: "delay level that became a timer",
        TIMER_DELETE_UNIQUE_KEY: "message id that the timer has to delete",
        TIMER_ENGINE: "engine of the timer: R for RocksDB, F for the time wheel",
        MIN_OFFSET: "lowest offset of the queue when the message was pulled",
        MAX_OFFSET: "highest offset of the queue when the message was pulled",
        CONSUME_START_TIME: "when the consumer began on the message",
        POP_CHECKPOINT: "handle to acknowledge a popped message with",
        POP_CHECKPOINT_OFFSET: "offset of the checkpoint of a popped message",
        FIRST_POP_TIME: "when the message was first popped",
        TRANSIENT_TOPIC_FLAG: "system flag of the topic, set while pulling, never stored",
        TRANSIENT_GROUP_FLAG: "system flag of the group, set while pulling, never stored",
        CORRELATION_ID: "ties a reply to its request",
        REPLY_TO_CLIENT: "id of the client that waits for the reply",
        TIME_TO_LIVE: "how long the request waits for its reply, in milliseconds",
        MESSAGE_TYPE: "reply: the message answers a request",
        ARRIVE_TIME: "when the reply reached the waiting client",
        PUSH_REPLY_TIME: "when the broker pushed the reply",
        INNER_COUNT: "messages inside an inner batch",
        INNER_BASE: "queue offset of the first message inside an inner batch",
        INNER_MULTI_QUEUE_OFFSET: "offsets in the light queues, separated by commas",
        BUYER_ID: "not used any more",
        TRANSFER_FLAG: "not used any more",
        CORRECTION_FLAG: "not used any more",
        MQ2_FLAG: "not used any more",
        DUP_INFO: "not used any more",
        REDIRECT: "not used any more",
        FORWARD_QUEUE_ID: "not used any more",
    }
)

# Java's Message.putUserProperty refuses most of these. Here all that RocketMQ reads are refused,
# except the two that only an application can set.
RESERVED: Final = frozenset(MEANING) - {INNER_MULTI_DISPATCH, TRACE_CONTEXT}

# Java's String.trim removes these; putUserProperty refuses what is then empty.
JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
_SHOWN: Final = 40  # characters of a name in an error's message


def is_reserved(name: str) -> bool:
    """Return whether RocketMQ uses the name, so that users can't.

    >>> is_reserved("TAGS"), is_reserved("__RMQ.TRANSIENT.x"), is_reserved("colour")
    (True, True, False)
    """
    return name in RESERVED or name.startswith(TRANSIENT_PREFIX)


def encode(properties: Mapping[str, str | None]) -> bytes:
    r"""Return the properties as a text; as in Java, those with the value None are omitted.

    Raise InvalidProperty for an empty name or value (readers would drop it), and MessageTooLarge if
    all take more than 32767 bytes.

    >>> encode({"TAGS": "paid", "colour": "blue"})
    b'TAGS\x01paid\x02colour\x01blue\x02'
    """
    pairs = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    text = "".join(pairs)
    # Checking the whole text is cheaper than checking each pair, and finds the same faults.
    if (
        text.count(NAME_END) != len(pairs)
        or text.count(VALUE_END) != len(pairs)
        or "\x01\x02" in text
        or "\x02\x01" in text
        or text.startswith(NAME_END)
    ):
        _blame(properties)
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        _blame(properties)
    check_properties(len(raw))
    return raw


def decode(raw: bytes | memoryview) -> dict[str, str]:
    r"""Return the properties that ``raw`` holds. It never fails; see the top for odd texts.

    >>> decode(b"TAGS\x01paid\x02colour\x01blue\x02")
    {'TAGS': 'paid', 'colour': 'blue'}
    """
    found = {}
    for pair in str(raw, "utf-8", "replace").split(VALUE_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


class _MappingStruct(msgspec.StructMeta, ABCMeta):
    """The metaclass of a struct that is a mapping."""


class LazyProperties(Mapping[str, str], msgspec.Struct, metaclass=_MappingStruct, gc=False):
    r"""The properties of a text that is decoded when the first of them is needed; immutable.

    Consumers get thousands of messages a second, and most need few properties, or none. ``more``
    are further ones, which take precedence.

    >>> found = LazyProperties(b"TAGS\x01paid\x02colour\x01blue\x02", {"MAX_OFFSET": "7"})
    >>> found["colour"], found == {"TAGS": "paid", "colour": "blue", "MAX_OFFSET": "7"}
    ('blue', True)
    """

    _raw: bytes
    _more: Mapping[str, str]
    _found: dict[str, str] | None = None

    def _decoded(self) -> dict[str, str]:
        found = self._found
        if found is None:
            found = decode(self._raw)
            found.update(self._more)
            self._found = found
        return found

    def __getitem__(self, name: str) -> str:
        return self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a property, or ``default``."""
        return self._decoded().get(name, default)

    def __repr__(self) -> str:
        return f"LazyProperties({self._decoded()!r})"


def finder(name: AnyStr) -> Callable[[AnyStr], AnyStr | None]:
    r"""Return a function that finds the value of one property in a text; None if it has none.

    The value is the one that :func:`decode` returns, for a fraction of the time: a record has a
    dozen properties, and most code needs one or two. The text is of the same type as the name,
    ``bytes`` or ``str``.

    >>> colour_of = finder(b"colour")
    >>> colour_of(b"TAGS\x01paid\x02colour\x01blue\x02")
    b'blue'
    """
    if isinstance(name, str):
        check_text(name, "property name")
        name_end, value_end = NAME_END, VALUE_END
    else:
        check_text(name.decode(), "property name")
        name_end, value_end = NAME_END.encode(), VALUE_END.encode()
    opening, end_mark = name + name_end, value_end[0]

    # Partitions take half the time of finds with positions.
    def find(text: AnyStr) -> AnyStr | None:
        before, found, rest = text.rpartition(opening)
        if not found:
            return None
        if not before or before[-1] == end_mark:
            value, _, _ = rest.partition(value_end)
            if value:
                return value
        # An empty value, or the end of a longer name, or part of a value.
        for pair in reversed(text.split(value_end)):
            found_name, _, value = pair.partition(name_end)
            if found_name == name and value:
                return value
        return None

    return find


def join(found: Mapping[str, str]) -> bytes:
    r"""Return properties that :func:`decode` returned as a text, without the checks of `encode`.

    >>> join({"TAGS": "paid"})
    b'TAGS\x01paid\x02'
    """
    return "".join(
        [f"{name}{NAME_END}{value}{VALUE_END}" for name, value in found.items()]
    ).encode()


def read_only_copy(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return a checked and immutable copy of a user's properties; reserved names are refused.

    >>> read_only_copy({"colour": "blue"})
    mappingproxy({'colour': 'blue'})
    >>> read_only_copy({"TAGS": "paid"})
    Traceback (most recent call last):
    orbitmq.errors.InvalidProperty: property name 'TAGS' is reserved by RocketMQ: the tag that \
subscriptions select by (length 4)
    """
    if not isinstance(given, Mapping):
        raise InvalidProperty(
            f"properties must be a mapping of str to str, not {type(given).__name__}",
            field="properties",
        )
    copy = dict(given)
    are_plain = True
    for name, value in copy.items():
        if not _is_plain(name, value):
            _check_user_property(name, value)
        if type(name) is not str or type(value) is not str:
            are_plain = False
    if not are_plain:  # of a subclass, such as numpy.str_, which encoders refuse
        copy = {str.__str__(name): str.__str__(value) for name, value in copy.items()}
    return MappingProxyType(copy)


def check_text(
    text: object,
    label: str,
    *,
    field: str = "properties",
    error: type[InvalidInput] = InvalidProperty,
) -> None:
    r"""Check that a text can be in a property: not empty, no separator, valid in UTF-8.

    Otherwise raise ``error``, which calls the text ``label`` and abbreviates a long one.

    >>> check_text("blue", "colour")
    >>> check_text("a\x02", "key")
    Traceback (most recent call last):
    orbitmq.errors.InvalidProperty: key 'a\x02' holds the separator U+0002; take it out (length 2)
    """
    if isinstance(text, str) and text and text.isprintable():
        return  # neither separators nor halves of a surrogate pair are printable
    if not isinstance(text, str):
        raise error(f"{label} must be a str, not {type(text).__name__}", field=field)
    if not text:
        raise error(f"{label} is empty; readers would drop it", field=field, length=0)
    for separator in (NAME_END, VALUE_END):
        if separator in text:
            raise error(
                f"{label} {elided(text)} holds the separator U+{ord(separator):04X}; take it out",
                field=field,
                length=len(text),
            )
    check_utf8(text, label, field=field, error=error)


def check_utf8(text: str, label: str, *, field: str, error: type[InvalidInput]) -> None:
    """Check that a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise error(
            f"{label} holds half a surrogate pair at position {fault.start}; UTF-8 has no bytes "
            "for it",
            field=field,
            length=len(text),
        ) from None


def _is_plain(name: object, value: object) -> bool:
    """Return whether a property is valid; quick, and True for nearly all valid ones."""
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and name.isprintable()
        and value.isprintable()
        and name.strip() != ""
        and value.strip() != ""
        and not is_reserved(name)
    )


def _check_user_property(name: str, value: str) -> None:
    check_text(name, "property name")
    if is_reserved(name):
        meaning = MEANING.get(name, "such names are never stored")
        raise InvalidProperty(
            f"property name {elided(name)} is reserved by RocketMQ: {meaning}",
            field="properties",
            length=len(name),
        )
    check_text(value, f"property {name[:_SHOWN]!r}")
    if any(not text.strip() or not text.strip(JAVA_BLANKS) for text in (name, value)):
        raise InvalidProperty(
            f"property {elided(name)} has a name or a value that is only blanks",
            field="properties",
            length=len(value),
        )


def _blame(properties: Mapping[str, str | None]) -> NoReturn:
    for name, value in properties.items():
        if value is not None:
            check_text(name, "property name")
            check_text(value, f"property {name[:_SHOWN]!r}")
    raise AssertionError("a fault in the text must be a fault in one of its pairs")
