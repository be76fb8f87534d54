"""Stored messages as messages to send again, with ids that say where they come from."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import pyarrow as pa

from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.writing.stable_ids import ORBIT_ID

__all__ = ["COPIED", "STORE_BROKER", "Copy", "assigned", "copies", "copy_id"]

COPIED: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "value", "key", "tags", "properties", "flag"),
)
"""The columns that a copy is made of."""
STORE_BROKER: Final = "store"
"""The broker of messages of a store, if nobody named it."""
_ID_BYTES: Final = 16


class Copy(NamedTuple):
    """A message to send, and the offset of the one that it is a copy of."""

    offset: int
    message: Message


def copy_id(queue: MessageQueue, offset: int) -> str:
    """Return the id of a copy: the same whenever and by whomever it is made.

    >>> copy_id(MessageQueue("orders", "broker-a", 0), 17)
    'orders:broker-a:0:17'
    """
    return f"{queue.topic}:{queue.broker_name}:{queue.queue_id}:{offset}"


def copies(batch: pa.RecordBatch, topic: str) -> Iterator[tuple[MessageQueue, list[Copy]]]:
    """Yield the copies of a batch, those of one queue together, in the order of the rows.

    A copy has the body, keys, tag, sharding key, flag and user properties of its original. Its
    message id is a hash of its `copy_id`, so that a broker with ``sendDeduplicationEnable`` knows a
    repetition. Raise InvalidInput for a message that nobody can send, such as one without a body.
    """
    columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in COPIED]
    queue: MessageQueue | None = None
    found: list[Copy] = []
    for name, broker, number, offset, *content in zip(*columns, strict=True):
        place = MessageQueue(name, broker or STORE_BROKER, number)
        if place != queue:
            if queue is not None:
                yield queue, found
            queue, found = place, []
        try:
            found.append(Copy(offset, _message(topic, copy_id(place, offset), *content)))
        except InvalidInput as error:
            raise InvalidInput(
                f"the message at offset {offset} of topic {name}, queue {queue_name(place)} can't "
                f"be sent again: {error}. Leave it out, for example by where",
                field=error.field,
            ) from error
    if queue is not None:
        yield queue, found


def _message(
    topic: str, own_id: str, value: bytes, key: Any, tags: Any, pairs: Any, flag: int
) -> Message:
    by_name = dict(pairs or ())
    own = {
        name: text for name, text in by_name.items() if text and not properties.is_reserved(name)
    }
    own[ORBIT_ID] = own_id
    digest = blake2b(own_id.encode(), digest_size=_ID_BYTES).hexdigest().upper()
    return Message(
        topic,
        value,
        tags=tags or None,
        keys=key.split() if key else (),
        properties=own,
        flag=flag,
        sharding_key=by_name.get(properties.SHARDING_KEY) or None,
        message_id=digest,
    )


def assigned(
    sources: list[MessageQueue], targets: list[MessageQueue]
) -> dict[MessageQueue, MessageQueue]:
    """Return the target queue of each source queue; equally many for each, in their order.

    >>> a, b = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
    >>> x = MessageQueue("copy", "x", 0)
    >>> assigned([b, a], [x]) == {a: x, b: x}
    True
    """
    ordered = sorted(targets)
    return {queue: ordered[at % len(ordered)] for at, queue in enumerate(sorted(sources))}
