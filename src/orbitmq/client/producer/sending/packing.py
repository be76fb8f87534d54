"""From messages to what is sent: unique id, properties, compression, batches, headers. No socket.

::

    Message ── pack ──▶ PreparedSend ── compressed ──▶ PreparedSend ── SendHeaders ──▶ request
    Messages ─ pack_batch ─┘

A ``PreparedSend`` is made once and may be sent several times, to other queues and brokers: its
unique id stays the same. The user's message is not changed.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from orbitmq.client.producer.sending.delay_levels import HighLevelWarning
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.errors import InvalidInput
from orbitmq.message import batch, flags, names, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.compression import compress
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message, MessageQueue, check_is_message
from orbitmq.wire.codes import VERSION_5_4_0, RequestCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.send import SendMessage, SendMessageV2
from orbitmq.wire.send_template import SendTemplate, plain_form

__all__ = [
    "Packer",
    "PreparedSend",
    "SendHeaders",
    "further_text",
    "in_batches",
    "is_special",
]

NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})
"""Marks are properties that only RocketMQ may set, such as those of a half message."""

_SEND: Final = int(RequestCode.SEND_MESSAGE)
PLAIN_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE)
_SEND_REPLY_V2: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_REPLY: Final = "reply"  # the MSG_TYPE of a reply (MixAll.REPLY_MESSAGE_FLAG)

_BATCH_ID_SINCE: Final = VERSION_5_4_0
"""The first release that handles the id of a batch. It needs one to store a batch as a single
record, for topics whose ``queue.type`` is BatchCQ. Older releases add the properties of the batch
to those of each message, which overwrites the message's id (``MessageExtEncoder``); Java's 5.x
clients send it to them anyway."""

# What a record of the commit log takes beyond body and properties, with the properties that the
# broker adds: the broker's size limit applies to each record of a batch.
_RECORD_BYTES: Final = 400
_CHARACTER_BYTES_MAX: Final = 4  # in UTF-8
_SEPARATORS: Final = 3  # of the tag, the sharding key and the id
_SURELY_SHORT: Final = names.PROPERTIES_SIZE_LIMIT // _CHARACTER_BYTES_MAX
_ENDINGS_MAX: Final = 1_024
"""Tags whose properties are kept as a text; a program has few."""
_ID_BEGINS: Final = f"{properties.UNIQUE_KEY}{properties.NAME_END}"
_WRITTEN: Final = frozenset({properties.UNIQUE_KEY, properties.WAIT, properties.TAGS})


class PreparedSend(msgspec.Struct, frozen=True, gc=False):
    """A message, or a batch of messages, ready to be sent.

    ``send_id`` is its unique id, in all errors and log lines about the send. ``topic`` is the name
    that the user knows. ``message_ids`` are the unique ids of ``messages``; for a single message
    the send id. The retry counts are those of a message that its group retries.
    """

    send_id: str
    topic: str
    body: Buffer
    properties: str
    messages: tuple[Message, ...]
    message_ids: tuple[str, ...]
    code: int = PLAIN_CODE
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int | None = None
    max_reconsume_times: int | None = None

    @property
    def is_batch(self) -> bool:
        """Whether its body is a batch."""
        return self.code == BATCH_CODE

    def __repr__(self) -> str:
        batch_of = f" of {len(self.messages)} messages" if self.is_batch else ""
        return f"<PreparedSend {self.send_id} to {self.topic}{batch_of}, {len(self.body)} bytes>"


class Packer:
    """Packs the messages of one producer."""

    def __init__(self, producer: ProducerSettings, client: ClientSettings, ids: UniqueIds) -> None:
        self._producer = producer
        self._client = client
        self._next_id, self._next_id_at, self._some_ids = ids.next, ids.next_at, ids.some
        self._body_max = producer.max_message_bytes
        self._group = names.wrap_namespace(client.namespace, producer.group)
        namespace = client.namespace
        self._instance = f"{properties.INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._high_level_warning = HighLevelWarning()
        self._endings: dict[bool, dict[str | None, str]] = {True: {}, False: {}}
        self._plain_code = PLAIN_CODE if producer.short_header else _SEND
        self._reply_code = _SEND_REPLY_V2 if producer.short_header else _SEND_REPLY

    def __repr__(self) -> str:
        return f"<Packer of {self._group}>"

    def new_id(self, message: Message) -> str:
        """Return the unique id of a message, a new one if it has none."""
        return message.message_id or self._next_id()

    def properties_text(self, message: Message, message_id: str) -> str:
        """Return the encoded properties of a message, each of which the message has checked.

        Raise MessageTooLarge if they take more than 32767 bytes.
        """
        stored = "true" if message.wait_stored else "false"
        text = f"UNIQ_KEY\x01{message_id}\x02WAIT\x01{stored}\x02{self._instance}"
        if message.tags is not None:
            text += f"TAGS\x01{message.tags}\x02"
        if is_special(message):
            self._high_level_warning.look(message)
            wire = message.wire_properties()
            text += "".join(
                [f"{name}\x01{value}\x02" for name, value in wire.items() if name not in _WRITTEN]
            )
        elif message.keys or message.properties:
            text += further_text(message)
        if len(text) > _SURELY_SHORT:
            names.check_properties(len(text.encode()))
        return text

    def pack_plain(self, message: Message, now_ms: int, send_id: str = "") -> PreparedSend:
        """Return a message packed without marks; the caller has checked the size of its body.

        ``send_id`` is its unique id, if it has been sent before.
        """
        send_id = send_id or message.message_id or self._next_id_at(now_ms)
        return PreparedSend(
            send_id,
            message.topic,
            message.body,
            self.properties_text(message, send_id),
            (message,),
            (send_id,),
            self._plain_code,
            message.flag,
        )

    def new_ids(self, count: int, now_ms: int) -> list[str]:
        """Return some new unique ids, at least one."""
        return [self._next_id_at(now_ms)] if count == 1 else self._some_ids(count)

    def pack(self, message: Message, marks: Mapping[str, str] = NO_MARKS) -> PreparedSend:
        """Return a message packed, not compressed."""
        check_is_message(message)
        names.check_body(len(message.body), self._body_max)
        send_id = self.new_id(message)
        text = self.properties_text(message, send_id)
        half = is_reply = retried = False
        if marks:
            text += properties.encode(marks).decode()
            names.check_properties(len(text.encode()))
            half = marks.get(properties.TRANSACTION_PREPARED) == "true"
            is_reply = marks.get(properties.MESSAGE_TYPE) == _REPLY
            retried = names.is_retry_topic(message.topic)
        return PreparedSend(
            send_id=send_id,
            topic=message.topic,
            body=message.body,
            properties=text,
            sys_flag=flags.TRANSACTION_PREPARED if half else 0,
            flag=message.flag,
            messages=(message,),
            message_ids=(send_id,),
            code=self._reply_code if is_reply else self._plain_code,
            reconsume_times=_number(marks, properties.RECONSUME_TIME) if retried else None,
            max_reconsume_times=_number(marks, properties.MAX_RECONSUME_TIMES) if retried else None,
        )

    def pack_batch(self, messages: Sequence[Message]) -> PreparedSend:
        """Return messages of one topic packed as one batch, as ``in_batches`` grouped them.

        A batch is never compressed: Java's brokers would not decompress it. It has a unique id,
        which ``SendHeaders.fill`` sends to brokers that can handle it.
        """
        if not messages:
            raise InvalidInput("a batch has no messages", field="messages", length=0)
        first = messages[0]
        send_id, *ids = self._some_ids(1 + len(messages))
        body = batch.encode(self._parts(messages, ids))
        names.check_body(len(body), self._body_max)
        stored = "true" if first.wait_stored else "false"
        return PreparedSend(
            send_id=send_id,
            topic=first.topic,
            body=body,
            properties=f"WAIT\x01{stored}\x02{self._instance}",
            messages=tuple(messages),
            message_ids=tuple(ids),
            code=BATCH_CODE,
        )

    def _parts(
        self, messages: Sequence[Message], ids: list[str]
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the parts of a batch, and put the ids that messages have into ``ids``."""
        first = messages[0]
        topic, waits = first.topic, first.wait_stored
        if topic.startswith(names.RETRY_PREFIX):
            raise _unfit(first, first)
        endings = self._endings[waits]
        for index, message in enumerate(messages):
            if (
                message.topic != topic
                or message.wait_stored is not waits
                or message.delay_level
                or message.delay is not None
                or message.deliver_at is not None
            ):
                raise _unfit(message, first)
            message_id = message.message_id
            if message_id is None:
                message_id = ids[index]
            else:
                ids[index] = message_id
            if (
                message.sharding_key is not None
                or message.priority is not None
                or message.check_immunity_s is not None
            ):
                text = self.properties_text(message, message_id)
            else:
                ending = endings.get(message.tags) or self._new_ending(message)
                text = f"{_ID_BEGINS}{message_id}{ending}"
                if message.keys or message.properties:
                    text += further_text(message)
                if len(text) > _SURELY_SHORT:
                    names.check_properties(len(text.encode()))
            yield message.flag, message.body, text.encode()

    def _new_ending(self, message: Message) -> str:
        """Return what follows the id of all messages with its tag and wait flag, up to the keys."""
        model = Message(message.topic, b"-", tags=message.tags, wait_stored=message.wait_stored)
        endings = self._endings[message.wait_stored]
        if len(endings) >= _ENDINGS_MAX:
            endings.clear()
        ending = self.properties_text(model, "").removeprefix(_ID_BEGINS)
        endings[message.tags] = ending
        return ending

    def fits(self, prepared: PreparedSend, limit: int) -> bool:
        """Return whether a batch has at most ``limit`` bytes, as the broker counts them."""
        if not prepared.is_batch:
            return True
        more = len(prepared.messages) * (_RECORD_BYTES + len(prepared.topic))
        return len(prepared.body) + more <= limit

    def wants_compression(self, prepared: PreparedSend) -> bool:
        """Return whether the settings ask for compression of the body."""
        return len(prepared.body) >= self._producer.compress_over_bytes and not prepared.is_batch

    def compressed(self, prepared: PreparedSend) -> PreparedSend:
        """Return the send with its body compressed, unchanged if that is not smaller.

        It takes about a millisecond per 40 KiB, so callers use a worker for large bodies. Java also
        sends a body that grew.
        """
        kind = self._producer.compression_type
        smaller = compress(prepared.body, kind, level=self._producer.compression_level)
        if len(smaller) >= len(prepared.body):
            return prepared
        return msgspec.structs.replace(
            prepared, body=smaller, sys_flag=prepared.sys_flag | kind.sys_flag
        )

    def headers_for(self, queue: MessageQueue, broker_name: str | None = None) -> "SendHeaders":
        """Return the headers of sends to one queue.

        The queue has the topic as the user knows it. ``broker_name`` is the name in the header, if
        it is not the queue's: a logic queue of a static topic is not named after its broker.
        """
        client, producer = self._client, self._producer
        return SendHeaders(
            SendMessageV2(
                producer_group=self._group,
                topic=names.wrap_namespace(client.namespace, queue.topic),
                default_topic=producer.create_topic_key,
                default_topic_queue_nums=producer.default_topic_queues,
                queue_id=queue.queue_id,
                sys_flag=0,
                born_timestamp=0,
                flag=0,
                reconsume_times=0,
                unit_mode=client.unit_mode,
                batch=False,
                broker_name=broker_name or queue.broker_name,
                namespace=client.namespace_v2 or None,
                namespaced=True if client.namespace_v2 else None,
            )
        )


class SendHeaders:
    """The request headers of all sends to one queue.

    Java's clients write each field under one letter (V2). Brokers before 3.1 need the long form,
    which ``short_header=False`` asks for.
    """

    __slots__ = ("_fill", "_header", "_of_batches")

    def __init__(self, header: SendMessageV2) -> None:
        self._header = header
        self._of_batches: SendTemplate | None = None
        self._fill: Final = SendTemplate(header).fill

    def fill(self, prepared: PreparedSend, born_ms: int, release: int = 0) -> Header:
        """Return the header of one request; ``release`` is the broker's version, 0 if unknown."""
        fill = self._fill
        text = prepared.properties
        if prepared.code != PLAIN_CODE or prepared.reconsume_times is not None:
            fill = self._unusual(prepared).fill
            if prepared.is_batch and release >= _BATCH_ID_SINCE:
                text = f"UNIQ_KEY\x01{prepared.send_id}\x02{text}"
        return fill(born_ms, text, sys_flag=prepared.sys_flag, flag=prepared.flag)

    def plain_form(self, properties_text: str) -> bytes:
        """Return the fields of plain messages with these properties; see ``plain_form``."""
        return plain_form(self._header, properties_text)

    def _unusual(self, prepared: PreparedSend) -> SendTemplate:
        if prepared.is_batch:
            if self._of_batches is None:
                self._of_batches = SendTemplate(msgspec.structs.replace(self._header, batch=True))
            return self._of_batches
        header = self._header
        if prepared.reconsume_times is not None or prepared.max_reconsume_times is not None:
            header = msgspec.structs.replace(
                header,
                reconsume_times=prepared.reconsume_times or 0,
                max_reconsume_times=prepared.max_reconsume_times,
            )
        if prepared.code in (_SEND, _SEND_REPLY):
            fields = msgspec.structs.asdict(header)
            del fields["broker_name"]
            return SendTemplate(SendMessage(**fields))
        return SendTemplate(header)


def is_special(message: Message) -> bool:
    """Return whether a message has what few have: a sharding key, a delay, a priority."""
    return (
        message.delay_level != 0
        or message.sharding_key is not None
        or message.delay is not None
        or message.deliver_at is not None
        or message.priority is not None
        or message.check_immunity_s is not None
    )


def further_text(message: Message) -> str:
    """Return the encoded keys and properties of a message that is not special."""
    text = f"KEYS\x01{properties.KEY_SEPARATOR.join(message.keys)}\x02" if message.keys else ""
    if message.properties:
        text += "".join([f"{name}\x01{value}\x02" for name, value in message.properties.items()])
    return text


def in_batches(
    messages: Sequence[Message], limit: int, places: Sequence[Hashable] | None = None
) -> list[list[int]]:
    """Return which messages to send in one frame: the indexes of each frame's messages, in order.

    A batch has one topic and one ``wait_stored``. Delayed messages, retries and messages with very
    long properties are sent alone. Messages of one place keep their order within and between
    batches. ``limit`` is the bytes of one batch as a broker counts them; ``places`` says where each
    message goes, such as a queue.

    >>> orders = [Message("orders", b"x"), Message("bills", b"x"), Message("orders", b"x")]
    >>> in_batches(orders, 4096)
    [[0, 2], [1]]
    """
    found: list[list[int]] = []
    batches: dict[Hashable, _OpenBatch] = {}
    topic, waits, place = "", True, None
    filling = _OpenBatch(topic)
    for index, message in enumerate(messages):
        its_place = None if places is None else places[index]
        if message.topic != topic or message.wait_stored is not waits or its_place is not place:
            topic, waits, place = message.topic, message.wait_stored, its_place
            found_batch = batches.get(key := (topic, waits, place))
            filling = batches[key] = found_batch or _OpenBatch(topic)
        if (
            message.keys
            or message.properties
            or message.sharding_key is not None
            or message.message_id is not None
        ):
            beyond_body = _bytes_beyond_body(message)
        else:
            beyond_body = filling.plain_bytes + _CHARACTER_BYTES_MAX * len(message.tags or "")
        if (
            filling.is_of_retries
            or message.delay_level
            or message.delay is not None
            or message.deliver_at is not None
            or beyond_body > names.PROPERTIES_SIZE_LIMIT  # it must not fail the others
        ):
            found.append([index])
            filling.room = 0  # a later message of the place must not be sent before it
            continue
        size = len(message.body) + beyond_body
        filling.room -= size
        if filling.room < 0:
            filling.members, filling.room = [], limit - size
            found.append(filling.members)
        filling.members.append(index)
    return found


class _OpenBatch:
    """The last batch of a topic, a wait flag and a place, which takes more messages."""

    __slots__ = ("is_of_retries", "members", "plain_bytes", "room")

    def __init__(self, topic: str) -> None:
        self.is_of_retries = topic.startswith(names.RETRY_PREFIX)
        self.plain_bytes = len(topic) + _RECORD_BYTES + _CHARACTER_BYTES_MAX * _SEPARATORS
        self.members: list[int] = []
        self.room = 0


def _is_batchable(message: Message) -> bool:
    """Return whether brokers accept it in a batch (Java's ``MessageBatch.generateFromList``)."""
    return not (
        message.delay_level
        or message.delay is not None
        or message.deliver_at is not None
        or message.topic.startswith(names.RETRY_PREFIX)
    )


def _unfit(message: Message, first: Message) -> InvalidInput:
    """Return why a message can't be in the batch of another one."""
    if not _is_batchable(message):
        return InvalidInput(
            f"a message to {message.topic} with a delay, or to a retry topic, can't be in a batch; "
            "send it alone",
            field="messages",
        )
    return InvalidInput(
        f"a batch has one topic and one wait_stored: {first.topic} and {first.wait_stored}, "
        f"not {message.topic} and {message.wait_stored}",
        field="messages",
    )


def _bytes_beyond_body(message: Message) -> int:
    """Return an upper estimate of a message's other bytes, in a batch and as a record."""
    characters = _SEPARATORS + len(message.tags or "") + len(message.sharding_key or "")
    characters += len(message.message_id or "")
    for key in message.keys:
        characters += len(key) + 1
    for name, value in message.properties.items():
        characters += len(name) + len(value) + 2
    return _CHARACTER_BYTES_MAX * characters + len(message.topic) + _RECORD_BYTES


def _number(marks: Mapping[str, str], name: str) -> int | None:
    text = marks.get(name)
    return None if text is None else int(text)
