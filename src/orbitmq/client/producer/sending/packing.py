"""From a message to what leaves: unique id, properties, compression, batches, headers. No socket.

::

    Message ── pack ──▶ Parcel ── compressed ──▶ Parcel ── Stamp of a queue ──▶ header and body
    Messages ─ pack_batch ─┘

A parcel is made once and may travel several times, to other queues and brokers: the unique id, and
with it the message, stays the same. The user's message is not touched.
"""

from collections.abc import Hashable, Mapping, Sequence
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
from orbitmq.wire.send_template import SendTemplate

__all__ = ["Packer", "Parcel", "Stamp", "in_batches"]

NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})
"""Marks are properties that only RocketMQ itself may set, such as those of a half message."""

_SEND: Final = int(RequestCode.SEND_MESSAGE)
PLAIN_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE)
_SEND_REPLY_V2: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_REPLY: Final = "reply"  # the MSG_TYPE of a reply (MixAll.REPLY_MESSAGE_FLAG)

_BATCH_ID_SINCE: Final = VERSION_5_4_0
"""The first release that takes the id of a batch without harm. It needs one to keep a batch as a
single record, where a topic's ``queue.type`` is BatchCQ. Older ones add the properties of the batch
to those of each message, whose own id is lost by that (``MessageExtEncoder``); Java's 5.x clients
send it to them all the same."""

# What a record of the commit log takes beyond body and properties, and what the broker adds to
# the properties: a batch is held to a broker's limit record by record.
_RECORD_BYTES: Final = 400
_CHARACTER_BYTES_MAX: Final = 4  # in UTF-8
_SURELY_SHORT: Final = names.PROPERTIES_SIZE_LIMIT // _CHARACTER_BYTES_MAX
_TOLD: Final = frozenset({properties.UNIQUE_KEY, properties.WAIT, properties.TAGS, properties.KEYS})


class Parcel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, or a batch of them, packed to be sent.

    Attributes:
        send_id: its unique id, by which errors and log lines name the send.
        topic: where to, as the user calls it.
        body: what travels.
        properties: their text.
        sys_flag, flag: as in a record.
        messages: what the user gave.
        message_ids: their unique ids; of a single message it is the send id.
        code: the request code.
        reconsume_times, max_reconsume_times: of a message to be tried again by its group.

    """

    send_id: str
    topic: str
    body: Buffer
    properties: str
    sys_flag: int = 0
    flag: int = 0
    messages: tuple[Message, ...]
    message_ids: tuple[str, ...]
    code: int = PLAIN_CODE
    reconsume_times: int | None = None
    max_reconsume_times: int | None = None

    @property
    def is_batch(self) -> bool:
        """Whether its body is a batch."""
        return self.code == _SEND_BATCH

    def __repr__(self) -> str:
        many = f" of {len(self.messages)} messages" if self.is_batch else ""
        return f"<Parcel {self.send_id} to {self.topic}{many}, {len(self.body)} bytes>"


class Packer:
    """Packs the messages of one producer.

    Args:
        producer: its settings.
        client: those of its client.
        ids: makes unique ids.

    """

    def __init__(self, producer: ProducerSettings, client: ClientSettings, ids: UniqueIds) -> None:
        self._producer = producer
        self._client = client
        self._next_id, self._some_ids = ids.next, ids.some
        self._body_max = producer.max_message_bytes
        self._group = names.wrap_namespace(client.namespace, producer.group)
        namespace = client.namespace
        self._instance = f"{properties.INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._high_level_warning = HighLevelWarning()
        self._plain_code = PLAIN_CODE if producer.short_header else _SEND
        self._reply_code = _SEND_REPLY_V2 if producer.short_header else _SEND_REPLY

    def __repr__(self) -> str:
        return f"<Packer of {self._group}>"

    def new_id(self, message: Message) -> str:
        """Return the unique id of a message: its own, or a new one."""
        return message.message_id or self._next_id()

    def properties_text(self, message: Message, message_id: str) -> str:
        """Return the text of a message's properties.

        A message has checked each of them when it was made, so that they are only put together.

        Raises:
            MessageTooLarge: they take more than 32767 bytes.

        """
        stored = "true" if message.wait_stored else "false"
        text = f"UNIQ_KEY\x01{message_id}\x02WAIT\x01{stored}\x02{self._instance}"
        if message.tags is not None:
            text += f"TAGS\x01{message.tags}\x02"
        if message.keys:
            text += f"KEYS\x01{properties.KEY_SEPARATOR.join(message.keys)}\x02"
        if _has_more(message):
            self._high_level_warning.look(message)
            wire = message.wire_properties()
            text += "".join(
                [f"{name}\x01{value}\x02" for name, value in wire.items() if name not in _TOLD]
            )
        if len(text) > _SURELY_SHORT:
            names.check_properties(len(text.encode()))
        return text

    def pack(
        self, message: Message, marks: Mapping[str, str] = NO_MARKS, send_id: str | None = None
    ) -> Parcel:
        """Return a message packed as it is; see ``compressed`` for large ones.

        Args:
            message: what to pack.
            marks: properties that only RocketMQ itself may set.
            send_id: its unique id, if it has been given one already.

        Raises:
            MessageTooLarge: the body, or all properties together, are over the limit.
            InvalidProperty: a mark can't travel.

        """
        check_is_message(message)
        names.check_body(len(message.body), self._body_max)
        send_id = send_id or self.new_id(message)
        text = self.properties_text(message, send_id)
        half = is_reply = retried = False
        if marks:
            text += properties.encode(marks).decode()
            names.check_properties(len(text.encode()))
            half = marks.get(properties.TRANSACTION_PREPARED) == "true"
            is_reply = marks.get(properties.MESSAGE_TYPE) == _REPLY
            retried = names.is_retry_topic(message.topic)
        return Parcel(
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

    def pack_batch(self, messages: Sequence[Message]) -> Parcel:
        """Return messages of one topic packed together, as ``in_batches`` found them.

        A batch is never compressed: Java's brokers would not open it. It has an id of its own, by
        which errors name it; ``Stamp.header`` tells it to brokers that can take it.

        Raises:
            InvalidInput: there are none, or they can't travel in one batch.
            MessageTooLarge: the properties of one, or all together, are over a limit.

        """
        if not messages:
            raise InvalidInput("a batch has no messages", field="messages", length=0)
        first = messages[0]
        topic, waits = first.topic, first.wait_stored
        send_id, *ids = self._some_ids(1 + len(messages))
        parts = []
        for index, message in enumerate(messages):
            if (
                not _is_batchable(message)
                or message.topic != topic
                or message.wait_stored is not waits
            ):
                raise _unfit(message, first)
            if message.message_id is not None:
                ids[index] = message.message_id
            text = self.properties_text(message, ids[index])
            parts.append((message.flag, message.body, text.encode()))
        body = batch.encode(parts)
        names.check_body(len(body), self._body_max)
        stored = "true" if waits else "false"
        return Parcel(
            send_id=send_id,
            topic=topic,
            body=body,
            properties=f"WAIT\x01{stored}\x02{self._instance}",
            messages=tuple(messages),
            message_ids=tuple(ids),
            code=_SEND_BATCH,
        )

    def fits(self, parcel: Parcel) -> bool:
        """Return whether a broker takes a batch of that many bytes, as it counts them."""
        more = len(parcel.messages) * (_RECORD_BYTES + len(parcel.topic))
        return not parcel.is_batch or len(parcel.body) + more <= self._body_max

    def wants_compression(self, parcel: Parcel) -> bool:
        """Return whether the settings ask for the body to be compressed."""
        return len(parcel.body) >= self._producer.compress_over_bytes and not parcel.is_batch

    def compressed(self, parcel: Parcel) -> Parcel:
        """Return the parcel with its body compressed; as it was, where that is not smaller.

        It takes a millisecond for each 40 KiB or so: the caller has a worker do it. Java sends a
        body that grew, too, for consumers to open in vain.

        Raises:
            MissingExtra: the package for the type of compression is not installed.

        """
        kind = self._producer.compression_type
        smaller = compress(parcel.body, kind, level=self._producer.compression_level)
        if len(smaller) >= len(parcel.body):
            return parcel
        return msgspec.structs.replace(
            parcel, body=smaller, sys_flag=parcel.sys_flag | kind.sys_flag
        )

    def stamp(self, queue: MessageQueue, broker_name: str | None = None) -> "Stamp":
        """Return what makes the headers of parcels to one queue.

        Args:
            queue: its topic is the user's name for it.
            broker_name: what the broker is told its name is, where that differs from the queue's:
                a queue of a static topic has a name of its own.

        """
        client, producer = self._client, self._producer
        return Stamp(
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


class Stamp:
    """Makes the headers of all parcels to one queue.

    Java's clients write each field under one letter (V2). Brokers before 3.1 read the long form
    alone, which the setting ``short_header`` asks for.
    """

    __slots__ = ("_header", "_of_batches", "fill_plain")

    def __init__(self, header: SendMessageV2) -> None:
        self._header = header
        self._of_batches: SendTemplate | None = None
        self.fill_plain: Final = SendTemplate(header).fill
        """Makes the header of a plain message in short form; see ``SendTemplate.fill``."""

    def header(self, parcel: Parcel, born_ms: int, release: int = 0) -> Header:
        """Return the header of one request; ``parcel.code`` is its request code.

        Args:
            parcel: what is sent.
            born_ms: the time.
            release: which one the broker is of, as its answers number it; 0: not known.

        """
        fill = self.fill_plain
        text = parcel.properties
        if parcel.code != PLAIN_CODE or parcel.reconsume_times is not None:
            fill = self._unusual(parcel).fill
            if parcel.is_batch and release >= _BATCH_ID_SINCE:
                text = f"UNIQ_KEY\x01{parcel.send_id}\x02{text}"
        return fill(born_ms, text, sys_flag=parcel.sys_flag, flag=parcel.flag)

    def _unusual(self, parcel: Parcel) -> SendTemplate:
        if parcel.is_batch:
            if self._of_batches is None:
                self._of_batches = SendTemplate(msgspec.structs.replace(self._header, batch=True))
            return self._of_batches
        header = self._header
        if parcel.reconsume_times is not None or parcel.max_reconsume_times is not None:
            header = msgspec.structs.replace(
                header,
                reconsume_times=parcel.reconsume_times or 0,
                max_reconsume_times=parcel.max_reconsume_times,
            )
        if parcel.code in (_SEND, _SEND_REPLY):
            fields = msgspec.structs.asdict(header)
            del fields["broker_name"]
            return SendTemplate(SendMessage(**fields))
        return SendTemplate(header)


def in_batches(
    messages: Sequence[Message], limit: int, places: Sequence[Hashable] | None = None
) -> list[list[int]]:
    """Return how messages are to travel: the indexes of those in each frame, in order.

    A batch has one topic and one ``wait_stored``; what a broker stores elsewhere first (a delay, a
    retry), and what has very long properties, travels alone. Messages of one place keep their order
    within and between batches.

    Args:
        messages: what is to be sent.
        limit: the bytes of one batch, as a broker counts them.
        places: where each goes, such as a queue; those of different places are kept apart.

    >>> orders = [Message("orders", b"x"), Message("bills", b"x"), Message("orders", b"x")]
    >>> in_batches(orders, 4096)
    [[0, 2], [1]]

    """
    found: list[list[int]] = []
    open_batches: dict[Hashable, tuple[list[int], int]] = {}
    for index, message in enumerate(messages):
        place = None if places is None else places[index]
        key = (message.topic, message.wait_stored, place)
        if not _is_batchable(message):
            found.append([index])
            open_batches.pop(key, None)  # a later one of the place must not travel before it
            continue
        size = _bytes_in_batch(message)
        if size - len(message.body) > names.PROPERTIES_SIZE_LIMIT:
            found.append([index])  # perhaps too long to be sent, which must not end the others
            open_batches.pop(key, None)
            continue
        members, used = open_batches.get(key, ([], limit))
        if used + size > limit:
            members, used = [], 0
            found.append(members)
        members.append(index)
        open_batches[key] = (members, used + size)
    return found


def _has_more(message: Message) -> bool:
    """Return whether a message has properties beyond those that nearly all have."""
    return bool(
        message.properties
        or message.delay_level
        or message.sharding_key is not None
        or message.delay is not None
        or message.deliver_at is not None
        or message.priority is not None
        or message.check_immunity_s is not None
    )


def _is_batchable(message: Message) -> bool:
    """Return whether a broker takes it in a batch (Java's ``MessageBatch.generateFromList``)."""
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


def _bytes_in_batch(message: Message) -> int:
    """Return about what a message takes in a batch, and as a record; never less."""
    characters = 3 + len(message.tags or "") + len(message.sharding_key or "")
    characters += len(message.message_id or "")
    for key in message.keys:
        characters += len(key) + 1
    if message.properties:
        for name, value in message.properties.items():
            characters += len(name) + len(value) + 2
    texts = _CHARACTER_BYTES_MAX * characters
    return len(message.body) + texts + len(message.topic) + _RECORD_BYTES


def _number(marks: Mapping[str, str], name: str) -> int | None:
    text = marks.get(name)
    return None if text is None else int(text)
