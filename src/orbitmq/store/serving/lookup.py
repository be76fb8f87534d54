"""What a store holds, for those who only ask: pulls, queries, admin tools.

A queue that nobody has written to is an empty one from 0 to 0, as it is for a consumer. Where Java
answers -1 for "no such message", this says None; the numbers of the wire are the broker's business.
"""

from functools import partial

from orbitmq.message.record_view import RecordView
from orbitmq.store.index.key_index import KeyIndex, KeyKind
from orbitmq.store.index.record_keys import has_key
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.extension import QueueExtensions, is_address
from orbitmq.store.serving.pull_selection import PULL_BYTES_MAX, Selection, Selector, Wants

__all__ = ["Lookup"]


class Lookup:
    """Finds messages by queue, time and key.

    Args:
        log: where the records are.
        queues: which of them belong to a queue.
        index: which of them have a key.
        selector: decides what a pull gets.
        extensions: the tags codes that queues of Java's keep elsewhere.

    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        selector: Selector,
        extensions: QueueExtensions,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._selector = selector
        self._extensions = extensions

    def __repr__(self) -> str:
        return f"<Lookup in {self._log!r}>"

    def select(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int,
        max_bytes: int = PULL_BYTES_MAX,
        wants: Wants | None = None,
    ) -> Selection:
        """Return what a pull gets, under the limits of the store besides its own.

        Args:
            topic: the topic, and
            queue_id: the queue of it.
            offset: where to begin.
            max_count: the most records the consumer takes.
            max_bytes: the most bytes it takes.
            wants: tells from an entry's tags code whether the consumer may want the record.

        """
        queue = self._queues.queue(topic, queue_id)
        return self._selector.select(
            queue,
            offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wants=wants,
            extended=partial(self._extensions.find, topic, queue_id),
        )

    def tags_code(self, topic: str, queue_id: int, code: int) -> int | None:
        """Return the tags code that an entry of a queue stands for, with an extension or without.

        None if the extension can't be read.
        """
        return self._extensions.find(topic, queue_id, code) if is_address(code) else code

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of the first message of a queue that is kept."""
        queue = self._queues.queue(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return one past the last message of a queue that consumers can see.

        ``CommitLog.next_queue_offset`` is ahead of it by what waits for the disk, in SYNC_FLUSH.
        """
        queue = self._queues.queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def message(self, topic: str, queue_id: int, queue_offset: int) -> RecordView | None:
        """Return the record at an offset of a queue; None if there is none, or none any more."""
        queue = self._queues.queue(topic, queue_id)
        entry = None if queue is None else queue.entry(queue_offset)
        return None if entry is None else self._log.record(entry.commit_log_offset)

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return whether a message is there, and so young that it is held to be in memory.

        A group that is new to a queue begins at its first message if that is so, and at the end
        otherwise (Java's ConsumerManageProcessor; DefaultMessageStore asks the page cache instead).
        """
        found = self.message(topic, queue_id, queue_offset)
        return found is not None and self._selector.is_near(found.commit_log_offset)

    # Times

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """Return the queue offset that a moment stands for."""
        queue = self._queues.queue(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(timestamp_ms, boundary, self._store_time_of)

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when the message at an offset of a queue was stored; None without."""
        found = self.message(topic, queue_id, queue_offset)
        return None if found is None else found.store_timestamp_ms

    def earliest_store_time_ms(self, topic: str, queue_id: int) -> int | None:
        """Return when the first message of a queue that is kept was stored; None without."""
        return self.store_time_ms(topic, queue_id, self.min_offset(topic, queue_id))

    def log_start_time_ms(self) -> int | None:
        """Return when the first record of the log was stored; None without."""
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

        Records whose key only has the same hash are left out; Java leaves that to its clients.

        Args:
            topic: the topic.
            key: a key or a unique key, or with ``kind`` the tags.
            max_count: the most entries of the index that are looked at.
            begin_ms: from when on it was stored, and
            end_ms: up to when, itself included.
            kind: what ``key`` is.

        """
        offsets = self._index.query(topic, key, max_count, begin_ms, end_ms, kind=kind)
        found = (self._log.record(offset) for offset in sorted(set(offsets)))
        return [view for view in found if view is not None and has_key(view, topic, key, kind)]

    def _store_time_of(self, commit_log_offset: int, _size: int) -> int | None:
        found = self._log.record(commit_log_offset)
        return None if found is None else found.store_timestamp_ms
