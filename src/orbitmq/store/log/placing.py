"""Records get their places in the log and in their queues, and become bytes.

::

records ──▶ queue offset, log offset, size, store time ──▶ head, body, tail ──▶ one write
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

from orbitmq.errors import LocalProtocolError, StoreError
from orbitmq.kernel import compiled
from orbitmq.message import flags, record
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import Form, parts
from orbitmq.store.layout import is_directory_name
from orbitmq.store.log.append import NO_HOST, NewRecord

__all__ = ["Placed", "QueueKey", "form_of", "place_leading", "place_records"]

_REMEMBERED_FORMS: Final = 16_384
_WITHOUT_QUEUE: Final = flags.TRANSACTION_PREPARED  # a bit that rolled-back messages have, too

QueueKey: TypeAlias = tuple[str, int]
Placed: TypeAlias = tuple[int, int, list[Buffer]]
"""How many records have a place, where the last one ends, and the bytes of all."""


def place_records(
    records: Sequence[NewRecord],
    start: int,
    form_of: Callable[[NewRecord], Form],
    queue_offsets: dict[QueueKey, int],
    next_queue_offset: Callable[[str, int], int],
    position: int,
    room: int,
    now_ms: int,
) -> Placed:
    """Give records from ``start`` on their places, as long as they fit into ``room`` bytes.

    ``queue_offsets`` has the next offsets of queues, and gets new ones; those of other queues are
    asked for. A record that has inner entries is the last. Raise LocalProtocolError if a number of
    the first record does not fit its field; with another one this ends before it.
    """
    form, topic, born = None, "", NO_HOST
    buffers: list[Buffer] = []
    end, first = position + room, position
    count = 0
    for one in islice(records, start, None):
        try:
            if form is None or one.topic is not topic or one.born_host is not born:
                form, topic, born = form_of(one), one.topic, one.born_host
            size = form.overhead + len(one.body) + len(one.properties)
            if size > end - position:
                break
            queue_offset, key = 0, (topic, one.queue_id)
            in_queue = not one.sys_flag & _WITHOUT_QUEUE
            if in_queue:
                queue_offset = queue_offsets.get(key, -1)
                if queue_offset < 0:
                    queue_offset = next_queue_offset(*key)
            buffers += parts(one, form, queue_offset, position, now_ms)
        except (LocalProtocolError, StoreError):
            if position == first:
                raise
            break
        if in_queue:
            queue_offsets[key] = queue_offset + 1
        one.queue_offset = queue_offset
        one.commit_log_offset = position
        one.size = size
        one.store_timestamp_ms = now_ms
        position += size
        count += 1
        if one.has_inner:
            break
    return count, position, buffers


place_leading = compiled(place_records)
"""The same for the first of these records, perhaps none, in fewer buffers."""


def form_of(record: NewRecord) -> Form:
    """Return what all records of a topic share, given the kinds of their hosts.

    Raise LocalProtocolError if no directory can have the name of the topic, so that the record
    could have no queue.
    """
    return _form_of(record.topic, len(record.born_host.ip), len(record.store_host.ip))


@lru_cache(maxsize=_REMEMBERED_FORMS)
def _form_of(topic: str, born_ip_length: int, store_ip_length: int) -> Form:
    if not is_directory_name(topic):
        raise LocalProtocolError(
            f"a topic of {len(topic)} characters can't be the name of a directory: it is empty, "
            "over 255 bytes, not UTF-8, or holds a / or a 0"
        )
    return record.form_of(topic.encode(), born_ip_length, store_ip_length)
