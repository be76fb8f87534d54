"""Delayed messages and their delivered copies: making a copy, and finding one in the log.

A copy has another topic, queue and offset than the message that waited, and perhaps properties of
the timer. Everything else is the same, and identifies it.
"""

from typing import Final

from orbitmq.message import properties
from orbitmq.message.names import HALF_TOPIC, TIMER_TOPIC
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.store.log.append import Incoming, PutStatus
from orbitmq.store.message_store import MessageStore

__all__ = ["NEVER_STORED", "destination_of", "due_message", "find_alike", "real_topic_of"]

NEVER_STORED: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)
"""The store will not take these later either; no other message may wait for them."""

_COPIES_MAX: Final = 64
"""Records with one unique key that a start reads; with more it delivers the message again."""
_END_OF_TIME: Final = 2**63 - 1
_SEAL: Final = properties.CRC32.encode()
_NEVER_DELAYED: Final = (HALF_TOPIC, TIMER_TOPIC)
"""Java's broker drops half messages too; one for the timer topic would be delivered forever."""
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_real_topic = properties.finder(properties.REAL_TOPIC.encode())
_real_queue_id = properties.finder(properties.REAL_QUEUE_ID.encode())
# These differ between a message and its copies; the checksum covers the offset of the record.
_OF_COPIES: Final = (
    properties.CRC32,
    properties.TIMER_ENQUEUE_MS,
    properties.TIMER_DEQUEUE_MS,
    properties.TIMER_ROLL_TIMES,
)


def real_topic_of(record: RecordView | Filed | Incoming) -> str | None:
    """Return the topic that a waiting message is for."""
    topic = _real_topic(record.properties)
    return None if topic is None else topic.decode(errors="replace")


def destination_of(text: bytes) -> tuple[str, int] | None:
    r"""Return the topic and queue that the properties of a waiting message name; None if invalid.

    >>> destination_of(b"REAL_TOPIC\x01orders\x02REAL_QID\x013\x02")
    ('orders', 3)
    """
    topic, queue_id = _real_topic(text), _real_queue_id(text)
    if topic is None or queue_id is None or not (queue_id.isdigit() and len(queue_id) < 10):
        return None
    return topic.decode(errors="replace"), int(queue_id)


def due_message(record: RecordView) -> Incoming | None:
    """Return the message to deliver for a record; None if it has no valid destination.

    Its properties stay as they are, as in Java, but for the checksum.
    """
    body, text, flag, sys_flag, born_ms, born_host, store_host, times = record.carried()
    destination = destination_of(text)
    if destination is None or destination[0] in _NEVER_DELAYED:
        return None
    if _SEAL in text:  # a checksum of the record that was read
        found = properties.decode(text)
        found.pop(properties.CRC32, None)
        text = properties.join(found)
    return Incoming(
        topic=destination[0],
        queue_id=destination[1],
        body=body,
        properties=text,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp_ms=born_ms,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=times,
        wait=False,
    )


def find_alike(
    store: MessageStore, record: RecordView, topic: str, queue_id: int
) -> dict[int, RecordView]:
    """Return the records in a queue that hold the same message, by their log offsets.

    None are found for a message without a unique key, or if the store has no key index.
    """
    key = _unique_key(record.properties)
    if key is None or not store.settings.index_enabled:
        return {}
    found = store.index.query(topic, key.decode(errors="replace"), _COPIES_MAX, 0, _END_OF_TIME)
    if len(found) >= _COPIES_MAX:
        return {}
    raw_topic, wanted = topic.encode(), _identity(record)
    views = {offset: store.record(offset) for offset in found}
    return {
        offset: view
        for offset, view in views.items()
        if view is not None
        and view.queue_id == queue_id
        and view.topic == raw_topic
        and _identity(view) == wanted
    }


def _identity(record: RecordView) -> tuple[object, ...]:
    """Return the fields that identify a delayed message and its copies among other messages."""
    found = properties.decode(record.properties)
    for name in _OF_COPIES:
        found.pop(name, None)
    return (
        record.born_timestamp_ms,
        record.born_host,
        record.reconsume_times,
        record.body_crc,
        found,
    )
