"""Inner batches: batches that a topic with batch queues stores as one record each.

A batch with a unique key, sent to a topic whose ``queue.type`` is BatchCQ, becomes one record::

    flags       INNER_BATCH, NEED_UNWRAP     consumers split the body
    properties  those of the batch, those of the broker, INNER_NUM: how many messages
    body        as it was sent

The store adds INNER_BASE, the queue offset of the first message. Any other batch becomes one record
per message (Java's ``SendMessageProcessor.sendBatchMessage``).
"""

from collections.abc import Mapping
from typing import Final

from orbitmq.broker.sending import stored_properties
from orbitmq.errors import CorruptRecord
from orbitmq.message import batch, flags, properties
from orbitmq.message.buffer import Buffer

__all__ = ["NO_BATCH_QUEUES", "UNWRAPPED", "IllegalBatch", "count_in", "stored_text"]

UNWRAPPED: Final = flags.INNER_BATCH | flags.NEED_UNWRAP
"""The flags of a record that consumers split into its messages."""
NO_BATCH_QUEUES: Final = "it is an inner batch, but the topic's queue.type is not BatchCQ"
_NOT_IN_BATCHES: Final = (properties.DELAY, properties.TRANSACTION_PREPARED)


class IllegalBatch(Exception):
    """A batch can't be stored as an inner batch; the text says why."""


def stored_text(
    found: Mapping[str, str], own: Mapping[str, str], body: Buffer
) -> tuple[bytes, int]:
    """Return the properties of a batch's record, without INNER_BASE, and the number of messages.

    ``found`` are the properties that the client sent with the batch, ``own`` those that the broker
    adds to every record.
    """
    count = _count_messages(body)
    return properties.join({**_kept(found), **own, properties.INNER_COUNT: str(count)}), count


def count_in(sys_flag: int, found: dict[str, str], body: Buffer, *, has_batch_queues: bool) -> int:
    """Return how many messages a single send holds that its client marked as an inner batch.

    0 if it is not marked. Its properties lose what only the store sets.
    """
    if not sys_flag & flags.INNER_BATCH:
        if properties.INNER_COUNT in found:
            raise IllegalBatch(f"it has {properties.INNER_COUNT} but is not an inner batch")
        return 0
    if not has_batch_queues:
        raise IllegalBatch(NO_BATCH_QUEUES)
    kept = _kept(found)
    found.clear()
    found.update(kept)
    text = found.get(properties.INNER_COUNT, "1")
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(batch.INNER_BATCH_MAX))):
        raise IllegalBatch(f"{properties.INNER_COUNT} is {text[:20]!r}, not a number")
    count = _checked(int(text))
    if sys_flag & UNWRAPPED == UNWRAPPED and (
        sys_flag & flags.COMPRESSED or _count_messages(body) != count
    ):
        raise IllegalBatch(f"the body does not hold the {count} messages that it should")
    return count


def _kept(found: Mapping[str, str]) -> dict[str, str]:
    delays = stored_properties.asks_for_timer(found)
    if delays or any(found.get(name, "0") not in ("0", "false") for name in _NOT_IN_BATCHES):
        raise IllegalBatch("a batch has no delay, and is no half message")
    return {name: value for name, value in found.items() if name != properties.INNER_BASE}


def _count_messages(body: Buffer) -> int:
    try:
        return _checked(sum(1 for _ in batch.split(body)))
    except CorruptRecord as error:
        raise IllegalBatch(str(error)) from error


def _checked(count: int) -> int:
    if not 1 <= count <= batch.INNER_BATCH_MAX:
        raise IllegalBatch(f"it has {count} messages, not from 1 to {batch.INNER_BATCH_MAX}")
    return count
