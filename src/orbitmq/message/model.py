"""Messages: to send, as stored by a broker, and the receipt of a send."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from reprlib import Repr
from reprlib import repr as elided
from types import MappingProxyType
from typing import Final, Self

import msgspec
from msgspec import UNSET
from msgspec.structs import fields, force_setattr

from orbitmq.errors import InvalidInput, InvalidKeys
from orbitmq.message import ids, names, properties
from orbitmq.message.host import Host
from orbitmq.message.shown import shown_int
from orbitmq.message.tags import check_tag

__all__ = [
    "Host",
    "Message",
    "MessageQueue",
    "SendReceipt",
    "SendStatus",
    "StoredMessage",
    "check_is_message",
]

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_INT32_DIGITS: Final = len(str(_INT32_MAX))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})

_BRIEF: Final = Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80
_BRIEF.maxdict = 12


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel", gc=False):
    """One queue of a topic on one broker; sorted as in Java by topic, broker and queue id.

    >>> MessageQueue("orders", "broker-a", 3)
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)
    """

    topic: str
    broker_name: str
    queue_id: int


# A program uses few topics and tags, so each is checked once.
_REMEMBERED_MAX: Final = 1_024
_check_tag_once: Final = lru_cache(_REMEMBERED_MAX)(check_tag)


@lru_cache(_REMEMBERED_MAX)
def _check_topic_once(topic: str) -> None:
    names.check_topic(topic)
    names.check_sendable(topic)


class _Content(msgspec.Struct, frozen=True):
    """The two fields of a message that may be positional arguments."""

    topic: str
    body: bytes


# gc=False: a producer makes thousands, and they can't be part of a reference cycle.
class Message(_Content, frozen=True, kw_only=True, gc=False):
    """A message to send. It is checked when it is made, and immutable.

    Attributes:
        topic: the topic to send to, at most 127 characters.
        body: the content, at least one byte: Java's ``Validators`` and brokers refuse an empty
            body. A ``bytearray`` or ``memoryview`` is copied.
        tags: one tag, for subscriptions to select by.
        keys: words to find the message by.
        properties: further names and values set by the application; read-only.
        flag: 32 bits for the application.
        sharding_key: messages with the same key stay in order.
        delay_level: 1 to 18 of the broker's table of delays (higher is taken as the highest).
        delay: deliver this long after the send, rounded up to milliseconds.
        deliver_at: deliver at this time, rounded up to milliseconds; it must have a time zone.
        priority: 0 or higher.
        wait_stored: whether the broker waits for disk and replicas, as its settings require.
        check_immunity_s: seconds before the broker first asks about an undecided transaction.
        message_id: the unique id; the producer makes one by default.

    At most one of ``delay_level``, ``delay`` and ``deliver_at`` may be given. Brokers before 5.0
    know only levels, and deliver a message with one of the other two immediately. The producer
    checks size limits, which depend on its settings.

    Raises:
        InvalidTopic, InvalidTags, InvalidKeys, InvalidProperty, InvalidInput: a field is invalid;
            the error's ``field`` names it.

    >>> Message("orders", b"paid", tags="paid", keys=["o-42"], properties={"colour": "blue"})
    Message(topic='orders', body=<4 bytes>, tags='paid', keys=('o-42',), \
properties={'colour': 'blue'})
    """

    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = _NO_PROPERTIES
    flag: int = 0
    sharding_key: str | None = None
    delay_level: int = 0
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    priority: int | None = None
    wait_stored: bool = True
    check_immunity_s: int | None = None
    message_id: str | None = None
    key: msgspec.UnsetType = UNSET  # never given, nor encoded: the error names the right field

    def __post_init__(self) -> None:
        if self.key is not UNSET:
            raise InvalidInput("a message has no key; give keys, as in keys=['o-42']", field="key")
        if type(self.topic) is not str:
            _take_text(self, "topic")
        if type(self.topic) is str:
            _check_topic_once(self.topic)
        else:
            names.check_topic(self.topic)  # says what it should be
        if type(self.body) is not bytes or not self.body:
            force_setattr(self, "body", _checked_body(self.body))
        if self.tags is not None:
            if type(self.tags) is not str:
                _take_text(self, "tags")
            if type(self.tags) is str:
                _check_tag_once(self.tags)
            else:
                check_tag(self.tags)  # says what it should be
        if self.keys != ():
            force_setattr(self, "keys", _checked_keys(self.keys))
        if self.properties is not _NO_PROPERTIES:
            force_setattr(self, "properties", properties.read_only_copy(self.properties))
        if type(self.flag) is not int or self.flag:
            _check_int("flag", self.flag, lowest=_INT32_MIN)
        if self.sharding_key is not None:
            if type(self.sharding_key) is not str:
                _take_text(self, "sharding_key")
            properties.check_text(
                self.sharding_key, "sharding_key", field="sharding_key", error=InvalidInput
            )
        if self.message_id is not None:
            if type(self.message_id) is not str:
                _take_text(self, "message_id")
            _check_word("message_id", self.message_id)
        if not isinstance(self.wait_stored, bool):
            raise InvalidInput(
                f"wait_stored must be a bool, not {type(self.wait_stored).__name__}",
                field="wait_stored",
            )
        if self.priority is not None:
            _check_int("priority", self.priority)
        if self.check_immunity_s is not None:
            _check_int("check_immunity_s", self.check_immunity_s)
        if self.delay_level != 0 or self.delay is not None or self.deliver_at is not None:
            _check_delivery(self.delay_level, self.delay, self.deliver_at)

    def __hash__(self) -> int:
        # The properties are a mapping and can't be hashed; equal messages have these equal too.
        return hash((self.topic, self.body, self.tags, self.keys, self.message_id))

    def __repr__(self) -> str:
        given = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return _shown(self, given)

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy can't be pickled, and Spark pickles what it sends to its workers.
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["properties"] = dict(self.properties)
        return partial(type(self), **values), ()

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed, checked like a new message.

        Raises:
            InvalidInput: or a subclass, as for a new message.
            TypeError: there is no such field.

        >>> Message("orders", b"paid").replace(tags="late")
        Message(topic='orders', body=<4 bytes>, tags='late')
        """
        return msgspec.structs.replace(self, **changes)

    def wire_properties(self) -> dict[str, str]:
        """Return all properties as sent: those of RocketMQ first, then the user's.

        WAIT is always set, as by every constructor of Java's ``Message``.

        >>> Message("orders", b"paid", tags="paid", keys=["o-42", "o-43"]).wire_properties()
        {'KEYS': 'o-42 o-43', 'TAGS': 'paid', 'WAIT': 'true'}
        """
        wire = {}
        if self.keys:
            wire[properties.KEYS] = properties.KEY_SEPARATOR.join(self.keys)
        if self.tags is not None:
            wire[properties.TAGS] = self.tags
        wire[properties.WAIT] = "true" if self.wait_stored else "false"
        if self.message_id is not None:
            wire[properties.UNIQUE_KEY] = self.message_id
        if self.delay_level:
            wire[properties.DELAY] = str(self.delay_level)
        if self.delay is not None:
            wire[properties.TIMER_DELAY_MS] = str(_milliseconds(self.delay))
        if self.deliver_at is not None:
            wire[properties.TIMER_DELIVER_MS] = str(_milliseconds(self.deliver_at - _EPOCH))
        if self.sharding_key is not None:
            wire[properties.SHARDING_KEY] = self.sharding_key
        if self.priority is not None:
            wire[properties.PRIORITY] = str(self.priority)
        if self.check_immunity_s is not None:
            wire[properties.CHECK_IMMUNITY_SECONDS] = str(self.check_immunity_s)
        wire.update(self.properties)
        return wire


def check_is_message(given: object) -> None:
    """Check that an argument is a message, and not a bare text for example.

    >>> check_is_message("paid")
    Traceback (most recent call last):
    orbitmq.errors.InvalidInput: a str can't be sent; make a message of it: Message(topic, body)
    """
    if not isinstance(given, Message):
        raise InvalidInput(
            f"a {type(given).__name__} can't be sent; make a message of it: Message(topic, body)",
            field="message",
        )


# gc=False: consumers hold thousands, and they can't be part of a reference cycle.
class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as stored by a broker and read by a consumer; its fields are not checked.

    Attributes:
        properties: those of RocketMQ and of the user; read-only.
        queue_offset: its position in the queue, counted in messages.
        commit_log_offset: its position in the broker's commit log, in bytes.
        sys_flag: see :mod:`orbitmq.message.flags`; the compressed bit is that of ``body``.
        reconsume_times: how often it was delivered before.
        store_size: the size of its record in the commit log, in bytes.
        broker_name: the broker it was pulled from; empty if unknown.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str]
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    store_size: int
    broker_name: str = ""

    @property
    def tags(self) -> str | None:
        """The tag; None if it has none."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, without empty ones."""
        text = self.properties.get(properties.KEYS, "")
        return tuple(key for key in text.split(properties.KEY_SEPARATOR) if key)

    @property
    def message_id(self) -> str:
        """The unique id set by the producer, else the offset message id."""
        return self.properties.get(properties.UNIQUE_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id made of where the message is stored."""
        return ids.offset_id(self.store_host, self.commit_log_offset)

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties that RocketMQ does not use itself."""
        return {
            name: value
            for name, value in self.properties.items()
            if not properties.is_reserved(name)
        }

    def __hash__(self) -> int:
        return hash((self.topic, self.store_host, self.commit_log_offset, self.queue_offset))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy can't be pickled.
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["properties"] = dict(self.properties)
        return partial(type(self), **values), ()

    def __post_init__(self) -> None:
        kind = type(self.properties)
        if kind is not properties.LazyProperties and kind is not MappingProxyType:
            force_setattr(self, "properties", MappingProxyType(dict(self.properties)))

    @property
    def delay_level(self) -> int:
        """The delay level; 0 if there is none, or it is not a number."""
        text = self.properties.get(properties.DELAY, "")
        plain = text.isascii() and text.isdecimal() and len(text) <= _INT32_DIGITS
        return int(text) if plain else 0

    @property
    def sharding_key(self) -> str | None:
        """The key whose messages stay in order; None if it has none."""
        return self.properties.get(properties.SHARDING_KEY)

    def __repr__(self) -> str:
        optional = ("tags", "keys", "broker_name", "reconsume_times", "user_properties")
        given = [name for name in optional if getattr(self, name)]
        return _shown(self, ["topic", "body", "queue_id", "queue_offset", "message_id", *given])


class SendStatus(enum.Enum):
    """How safely the broker has stored a message; it is stored in all four cases.

    The last three mean that a copy that the broker's settings require was not confirmed when it
    answered: the message may be lost if that machine fails now, and sending it again would store
    it twice.
    """

    SEND_OK = "SEND_OK"
    """Stored as the broker's settings require."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored in memory, but not on disk within the time limit (synchronous flush)."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored, but not confirmed by a slave within the time limit (synchronous replication)."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored, but no slave is up to date enough to copy it (synchronous replication)."""


class SendReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A broker's answer to a send: where and how safely the message is stored.

    Attributes:
        status: how safely it is stored; see :class:`SendStatus`.
        message_id: the unique id set by the producer.
        offset_message_id: the id made of where the message is stored.
        queue: the queue it is in.
        queue_offset: its position in that queue.
        transaction_id: for a half message, the id to commit or roll back by.
        region: the region of the broker.
        trace_on: whether the broker wants the message traced.
        recall_handle: for a delayed message, the handle to recall it with.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    trace_on: bool = True
    recall_handle: str | None = None


def _take_text(message: Message, field: str) -> None:
    """Make a plain ``str`` of a subclass, such as a ``StrEnum`` member: encoders take no others.

    ``str(value)`` would not do, since it may return the name of the member.
    """
    value: object = getattr(message, field)
    if isinstance(value, str):
        force_setattr(message, field, str.__str__(value))


def _checked_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        hint = "; encode it first, as in text.encode()" if isinstance(body, str) else ""
        raise InvalidInput(f"body must be bytes, not {type(body).__name__}{hint}", field="body")
    copied = bytes(body)
    if not copied:
        raise InvalidInput(
            "body is empty; RocketMQ refuses messages without a body", field="body", length=0
        )
    return copied


def _checked_keys(keys: object) -> tuple[str, ...]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidKeys(
            f"keys must be a sequence of str, not one {type(keys).__name__}; "
            "for a single key write keys=['…']",
            field="keys",
        )
    checked = tuple(keys)
    for key in checked:
        _check_word("keys", key, InvalidKeys)
    return tuple(map(str.__str__, checked))


def _check_word(field: str, word: str, error: type[InvalidInput] = InvalidInput) -> None:
    properties.check_text(word, field, field=field, error=error)
    if word.split() != [word]:
        raise error(
            f"{field}: {elided(word)} holds a blank, which separates keys; take it out",
            field=field,
            length=len(word),
        )


def _check_int(field: str, value: object, *, lowest: int = 0) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{field} must be an int, not {type(value).__name__}", field=field)
    if not lowest <= value <= _INT32_MAX:
        raise InvalidInput(
            f"{field} must be from {lowest} to {_INT32_MAX}, not {shown_int(value)}", field=field
        )


def _check_delivery(level: int, delay: timedelta | None, deliver_at: datetime | None) -> None:
    if bool(level) + (delay is not None) + (deliver_at is not None) > 1:
        raise InvalidInput(
            "give at most one of delay_level, delay and deliver_at", field="delay_level"
        )
    _check_int("delay_level", level)
    if delay is not None:
        _check_delay(delay)
    if deliver_at is not None:
        _check_deliver_at(deliver_at)


def _check_delay(delay: object) -> None:
    if not isinstance(delay, timedelta) or delay < timedelta():
        raise InvalidInput(
            f"delay must be a timedelta of zero or more, not {elided(delay)}", field="delay"
        )


def _check_deliver_at(deliver_at: object) -> None:
    if not isinstance(deliver_at, datetime) or deliver_at.utcoffset() is None:
        raise InvalidInput(
            f"deliver_at must be a datetime with a time zone, not {elided(deliver_at)}; "
            "give it one, as in datetime(…, tzinfo=UTC)",
            field="deliver_at",
        )


def _milliseconds(span: timedelta) -> int:
    """Return whole milliseconds, rounded up so that nothing is delivered early."""
    return -(span // -_MILLISECOND)  # negating the span itself would overflow for timedelta.max


def _shown(struct: msgspec.Struct, fields: Iterable[str]) -> str:
    parts = [f"{field}={_shown_value(getattr(struct, field))}" for field in fields]
    return f"{type(struct).__name__}({', '.join(parts)})"


def _shown_value(value: object) -> str:
    if isinstance(value, bytes):  # a body, which must not show up in logs
        return "<1 byte>" if len(value) == 1 else f"<{len(value)} bytes>"
    return _BRIEF.repr(dict(value) if isinstance(value, Mapping) else value)
