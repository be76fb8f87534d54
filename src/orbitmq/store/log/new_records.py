"""What a message becomes in the log: one record, or one for each message of a batch."""

from collections.abc import Callable
from typing import TypeAlias

from orbitmq.errors import CorruptRecord
from orbitmq.kernel import compiled
from orbitmq.message import batch
from orbitmq.message.batch import BatchedMessage
from orbitmq.store.dispatch import INNER, Labels
from orbitmq.store.log.append import Incoming, NewRecord

__all__ = ["LabelsOf", "batch_records", "new_record", "split", "usual_batch_records"]

LabelsOf: TypeAlias = Callable[[str, bytes, int], Labels]
"""Returns what the properties of a record say, given its topic, the text and the store time."""


def new_record(
    message: Incoming,
    content: Incoming | BatchedMessage,
    text: bytes,
    labels_of: LabelsOf,
    now_ms: int,
) -> NewRecord:
    """Return a record with the content of a message, or of one in a batch."""
    code, unique_key, keys, tags = labels_of(message.topic, text, now_ms)
    # fmt: off
    return NewRecord(
        message.topic, message.queue_id, 0, 0, 0, 0,  # the place comes later
        message.sys_flag, code, unique_key, keys, tags, 1,
        content.body, text, content.flag, message.born_timestamp_ms,
        message.born_host, message.store_host, message.reconsume_times,
        0 if message.is_batch else message.prepared_transaction_offset, INNER in text,
    )
    # fmt: on


def batch_records(message: Incoming, labels_of: LabelsOf, now_ms: int) -> list[NewRecord]:
    """Return the records of the messages of a batch; CorruptRecord if it can't be read."""
    return [
        new_record(message, one, bytes(one.properties), labels_of, now_ms) for one in split(message)
    ]


usual_batch_records = compiled(batch_records)
"""The same; none if the batch, its topic or a property is unusual."""


def split(message: Incoming) -> list[BatchedMessage]:
    """Return the messages of a batch; CorruptRecord if it can't be read."""
    inner = list(batch.split(message.body))
    if not inner:
        raise CorruptRecord("the batch has no messages")
    return inner
