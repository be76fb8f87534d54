"""Finds stored messages for pulls, queries and admin tools.

A queue that does not exist counts as empty, with offsets 0 to 0, as for a consumer. Where Java
returns -1 for "no such message", this returns None; the broker knows the numbers of the wire.
"""

from dataclasses import dataclass
from functools import partial

from orbitmq.message.record_view import RecordView
from orbitmq.store.index.key_index import KeyIndex, KeyKind
from orbitmq.store.index.record_keys import has_key
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.extension import QueueExtensions, is_address
from orbitmq.store.serving.pull_reader import (
    PULL_BYTES_MAX,
    GetMessageResult,
    PullReader,
    RecordFilter,
    Wants,
)

__all__ = ["MessageLookup"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MessageLookup:
    """Finds messages by queue, time and key."""

    _log: CommitLog
    _queues: ConsumeQueues
    _index: KeyIndex
    _pull_reader: PullReader
    _extensions: QueueExtensions

    def __repr__(self) -> str:
        return f"<MessageLookup in {self._log!r}>"

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int,
        max_bytes: int = PULL_BYTES_MAX,
        wants: Wants | None = None,
        record_filter: RecordFilter | None = None,
    ) -> GetMessageResult:
        """Return the records that answer a pull, within its limits and those of the store.

        ``wants`` returns whether the consumer may want a record with some tags code, and
        ``record_filter`` whether it wants one with some properties.
        """
        queue = self._queues.queue(topic, queue_id)
        return self._pull_reader.get_messages(
            queue,
            offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wants=wants,
            record_filter=record_filter,
            extended=partial(self._extensions.find, topic, queue_id),
        )

    def tags_code(self, topic: str, queue_id: int, code: int) -> int | None:
        """Return the tags code of a queue entry; None if it is in an extension that can't be read.

        ``code`` is the field of the entry: the tags code itself, or an address in an extension.
        """
        return self._extensions.find(topic, queue_id, code) if is_address(code) else code

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of the oldest message of a queue."""
        queue = self._queues.queue(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset after the last message of a queue that consumers can see.

        With SYNC_FLUSH ``CommitLog.next_queue_offset`` is ahead of it, by the messages that wait
        for the disk.
        """
        queue = self._queues.queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def message(self, topic: str, queue_id: int, queue_offset: int) -> RecordView | None:
        """Return the record at an offset of a queue; None if there is none."""
        queue = self._queues.queue(topic, queue_id)
        entry = None if queue is None else queue.entry(queue_offset)
        return None if entry is None else self._log.record(entry.commit_log_offset)

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return whether a message exists and is recent enough to be in memory.

        A group that is new to a queue begins at its first message if that one is in memory, and at
        the end otherwise (Java's ConsumerManageProcessor; there the page cache is asked).
        """
        found = self.message(topic, queue_id, queue_offset)
        return found is not None and self._pull_reader.is_near(found.commit_log_offset)

    # Times

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """Return the queue offset that belongs to a store time."""
        queue = self._queues.queue(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(timestamp_ms, boundary, self._store_time_of)

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when the message at an offset of a queue was stored; None if there is none."""
        found = self.message(topic, queue_id, queue_offset)
        return None if found is None else found.store_timestamp_ms

    def earliest_store_time_ms(self, topic: str, queue_id: int) -> int | None:
        """Return when the oldest message of a queue was stored; None if it has none."""
        return self.store_time_ms(topic, queue_id, self.min_offset(topic, queue_id))

    def log_start_time_ms(self) -> int | None:
        """Return when the first record of the log was stored; None if the log is empty."""
        return self._store_time_of(self._log.first_offset, 0)

    # Keys

    def query(
        self,
        topic: str,
        key: str,
        *,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        kind: KeyKind = KeyKind.KEY,
    ) -> list[RecordView]:
        """Return the newest records of a topic with a key, in the order of the log.

        Records with another key of the same hash are left out; Java leaves that to its clients.
        ``max_count`` limits the index entries looked at; ``end_ms`` is included.
        """
        offsets = self._index.query(topic, key, max_count, begin_ms, end_ms, kind=kind)
        found = (self._log.record(offset) for offset in sorted(set(offsets)))
        return [view for view in found if view is not None and has_key(view, topic, key, kind)]

    def _store_time_of(self, commit_log_offset: int, _size: int) -> int | None:
        found = self._log.record(commit_log_offset)
        return None if found is None else found.store_timestamp_ms
