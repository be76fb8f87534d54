"""Messages of every kind, made from a number alone: who has the number knows all of the message.

So a process that is killed needs to say nothing but numbers, and a store may be written by one
party and judged by another. A parcel is what one send carries: one message, or a batch.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from orbitmq.message import batch, compression, flags, properties
from orbitmq.message.compression import CompressionType
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.message.names import retry_topic
from orbitmq.store.dispatch import SCHEDULE_TOPIC
from orbitmq.store.log.append import Incoming

ORDERS = "orders"
GROUP = "g" * 121
RETRY = retry_topic(GROUP)
assert len(RETRY) > 127  # which takes a record of version 2
REMINDERS = "reminders"
"""Where delayed messages arrive when they are due."""
QUEUES = {ORDERS: 4, RETRY: 1, REMINDERS: 1}

BORN_MS = 1_700_000_000_123
LOOPBACK = Host.parse("127.0.0.1:54321")
IPV6 = Host.parse("[2001:db8::7]:54321")

REPEATS = (1, 700, 3, 60, 2_500, 9, 150)
"""Of a text of a few bytes, so that a record has some hundred bytes, or over ten thousand."""
TAGS = ("paid", "grün", "東京", "🚀", None)


class Content(NamedTuple):
    """What a message says."""

    body: bytes
    properties: dict[str, str]
    flag: int


class Parcel(NamedTuple):
    """What one send carries; more than one message is a batch."""

    topic: str
    queue_id: int
    contents: tuple[Content, ...]
    packing: CompressionType | None = None
    born_host: Host = LOOPBACK

    @property
    def is_batch(self) -> bool:
        return len(self.contents) > 1

    @property
    def sys_flag(self) -> int:
        return 0 if self.packing is None else self.packing.sys_flag

    @property
    def body(self) -> bytes:
        """The body of the send."""
        if not self.is_batch:
            return self.packed(self.contents[0])
        return batch.encode(
            (one.flag, one.body, properties.encode(one.properties)) for one in self.contents
        )

    @property
    def properties(self) -> bytes:
        """The properties of the send; the messages of a batch have their own."""
        return b"" if self.is_batch else properties.encode(self.contents[0].properties)

    @property
    def flag(self) -> int:
        return 0 if self.is_batch else self.contents[0].flag

    def packed(self, content: Content) -> bytes:
        """The body as it is stored."""
        if self.packing is None:
            return content.body
        return compression.compress(content.body, self.packing)

    def incoming(self, store_host: Host) -> Incoming:
        """The parcel on its way into our store."""
        return Incoming(
            topic=self.topic,
            queue_id=self.queue_id,
            body=self.body,
            properties=self.properties,
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_timestamp_ms=BORN_MS,
            born_host=self.born_host,
            store_host=store_host,
            is_batch=self.is_batch,
        )

    def stored(
        self, queue_offset: int, commit_log_offsets: Sequence[int], store_host: Host
    ) -> list[StoredMessage]:
        """The messages as a store should give them back; see ``as_sent``."""
        assert len(commit_log_offsets) == len(self.contents)
        # A reader opens the body, and then it is compressed no more.
        sys_flag = self.sys_flag & ~flags.COMPRESSED
        if self.born_host.is_ipv6:
            sys_flag |= flags.BORN_HOST_IPV6
        return [
            StoredMessage(
                topic=self.topic,
                body=content.body,
                properties=content.properties,
                queue_id=self.queue_id,
                queue_offset=queue_offset + index,
                commit_log_offset=commit_log_offset,
                flag=content.flag,
                sys_flag=sys_flag,
                born_timestamp_ms=BORN_MS,
                born_host=self.born_host,
                store_timestamp_ms=0,
                store_host=store_host,
                reconsume_times=0,
                prepared_transaction_offset=0,
                body_crc=zlib.crc32(self.packed(content)) & 0x7FFF_FFFF,
                store_size=0,
            )
            for index, (content, commit_log_offset) in enumerate(
                zip(self.contents, commit_log_offsets, strict=True)
            )
        ]


def parcel(number: int) -> Parcel:
    """The parcel of a number; the kinds take turns."""
    return KINDS[number % len(KINDS)](number)


def content(number: int, index: int = 0) -> Content:
    texts = {
        properties.UNIQUE_KEY: f"{number:030X}{index:02X}",
        properties.KEYS: f"k-{number} dozen-{number // 12}",
        "colour": "grün",
    }
    tags = TAGS[number % len(TAGS)]
    if tags is not None:
        texts[properties.TAGS] = tags
    text = b"%d.%d " % (number, index)
    return Content(text * REPEATS[number % len(REPEATS)], texts, flag=number - 5)


def plain(number: int) -> Parcel:
    return Parcel(ORDERS, number // 2 % QUEUES[ORDERS], (content(number),))


def batched(number: int) -> Parcel:
    return plain(number)._replace(contents=tuple(content(number, index) for index in range(3)))


def compressed(number: int) -> Parcel:
    kinds = tuple(CompressionType)
    return plain(number)._replace(packing=kinds[number // 7 % len(kinds)])


def from_ipv6(number: int) -> Parcel:
    return plain(number)._replace(born_host=IPV6)


def tried_again(number: int) -> Parcel:
    return plain(number)._replace(topic=RETRY, queue_id=0)


KINDS: tuple[Callable[[int], Parcel], ...] = (
    *(plain, batched, compressed, from_ipv6, tried_again, compressed, plain),
)


def reminder(number: int, level: int) -> Parcel:
    """A delayed message, as a client sends it."""
    body, texts, flag = content(number)
    delayed = Content(body, {**texts, properties.DELAY: str(level)}, flag)
    return Parcel(REMINDERS, 0, (delayed,))


def scheduled(wanted: Parcel) -> Parcel:
    """A delayed message as a broker stores it until it is due."""
    (found,) = wanted.contents
    real = {
        **found.properties,
        properties.REAL_TOPIC: wanted.topic,
        properties.REAL_QUEUE_ID: str(wanted.queue_id),
    }
    level = int(found.properties[properties.DELAY])
    return wanted._replace(
        topic=SCHEDULE_TOPIC, queue_id=level - 1, contents=(found._replace(properties=real),)
    )
