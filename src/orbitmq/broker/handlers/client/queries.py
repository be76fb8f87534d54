"""Queries for single messages: by key, by id, or by position in a queue.

QUERY_MESSAGE, VIEW_MESSAGE_BY_ID, QUERY_CONSUME_QUEUE. The records in an answer are views of the
commit log. ``lastKey`` of a query is ignored: it is for an index in RocksDB, which only Java has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from orbitmq.broker.clients.members import Members
from orbitmq.broker.pulling import filters
from orbitmq.broker.pulling.consumer_filters import ConsumerFilter, ConsumerFilters
from orbitmq.broker.settings import LiveSettings
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.batch_entry import BatchEntry
from orbitmq.store.queues.entry import QueueEntry
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.bodies.query import ConsumeQueueData, ConsumeQueueEntries
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import FRAME_BYTES_MAX, Frame
from orbitmq.wire.headers.query import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessage,
)
from orbitmq.wire.session import Response

__all__ = ["QueryHandlers"]

_RECORDS_MAX: Final = 64
"""Records in one answer; Java's ``maxMsgsNumBatch``."""
_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
"""Bytes of records in one answer: a frame without its header."""
_ENTRIES_MAX: Final = 4_096
"""Entries of a queue in one answer, some milliseconds of work; Java has no limit."""
_BY_TAGS: Final = "T"  # MessageConst.INDEX_TAG_TYPE; K and U mean keys


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class QueryHandlers:
    """Serves queries for messages."""

    store: MessageStore
    members: Members
    filters: ConsumerFilters
    settings: LiveSettings

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_MESSAGE: self._by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self._by_id,
            RequestCode.QUERY_CONSUME_QUEUE: self._entries,
        }

    # Messages

    def _by_key(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(QueryMessage)
        count = asked.max_num
        if asked.unique_key:
            count = self.settings.broker.default_query_max_num
        found = self.store.lookup.query(
            asked.topic,
            asked.key,
            max_count=min(max(count, 0), _RECORDS_MAX),
            begin_ms=asked.begin_timestamp,
            end_ms=asked.end_timestamp,
            kind=KeyKind.TAGS if asked.index_type == _BY_TAGS else KeyKind.KEY,
        )
        if not found:
            nothing = QueryMessageAnswer(
                index_last_update_timestamp=0, index_last_update_phyoffset=0
            )
            remark = "can not find message, maybe time range not correct"
            return Response(ResponseCode.QUERY_NOT_FOUND, nothing, remark=remark)
        index = self.store.index
        answer = QueryMessageAnswer(
            index_last_update_timestamp=index.last_timestamp_ms,
            index_last_update_phyoffset=index.end_offset,
        )
        return Response(header=answer, body=_newest([view.raw for view in found]))

    def _by_id(self, _connection: Connection, request: Frame) -> Response:
        offset = request.read(ViewMessage).offset
        found = self.store.record(offset)
        if found is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}"
            )
        return Response(body=found.raw)

    # Entries of a queue

    def _entries(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(QueryConsumeQueue)
        topic = asked.topic or ""
        queue = self.store.queues.queue(topic, asked.queue_id)
        if queue is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"{asked.queue_id}@{topic[:256]} is not exist!"
            )
        subscription = self.members.subscription(asked.consumer_group or "", topic)
        registered = self.filters.get(asked.consumer_group or "", topic)
        entries: list[QueueEntry | BatchEntry] = []
        remark = None
        if queue.min_offset <= asked.index < queue.max_offset:
            limit = _ENTRIES_MAX
            if registered is not None:
                limit = max(1, limit // registered.sql.terms)
            end = asked.index + min(max(asked.count, 0), limit)
            for offset, entry in queue.iterate(asked.index):
                if offset >= end:
                    break
                entries.append(entry)
        else:
            remark = f"Index {asked.index} of {asked.queue_id}@{topic[:256]} is not exist!"
        body = ConsumeQueueEntries(
            filter_data=self._filter_data(asked, subscription, registered),
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
            queue_data=_shown(
                entries,
                partial(self.store.lookup.tags_code, topic, asked.queue_id),
                self._passes(subscription, registered),
            ),
            subscription_data=subscription,
        )
        return Response(body=body.to_json(), remark=remark)

    def _passes(
        self, subscription: SubscriptionData | None, registered: ConsumerFilter | None
    ) -> Callable[[QueueEntry | BatchEntry, int | None], bool]:
        """Return whether an entry, with its tags code if it is known, passes a group's filter."""
        if subscription is None:
            return lambda _entry, _code: False
        if filters.is_by_tags(subscription.expression_type):
            wants = filters.wants(subscription)
            return lambda _entry, code: wants is None or code is None or wants(code)

        def by_properties(entry: QueueEntry | BatchEntry, _code: int | None) -> bool:
            found = self.store.record(entry.commit_log_offset)
            if found is None or registered is None:
                return False
            return registered.sql.matches(str(found.properties, "utf-8", "replace"))

        return by_properties

    def _filter_data(
        self,
        asked: QueryConsumeQueue,
        subscription: SubscriptionData | None,
        registered: ConsumerFilter | None,
    ) -> str | None:
        """Return Java's text for the filter data of a group; a filter by tags has none."""
        if asked.consumer_group is None:
            return None
        if subscription is None:
            return f"{asked.consumer_group}@{asked.topic} is not online!"
        return "null" if registered is None else self.filters.shown(registered).to_json().decode()


def _newest(records: Sequence[memoryview]) -> tuple[memoryview, ...]:
    """Return the last records that fit one answer, in order; Java would close the connection.

    >>> record = memoryview(bytes(6 * 1024 * 1024))
    >>> len(_newest([record, record, record]))
    2
    """
    size, first = 0, len(records)
    while first and size + len(records[first - 1]) <= _BYTES_MAX:
        first -= 1
        size += len(records[first])
    return tuple(records[first:])


def _shown(
    entries: Iterable[QueueEntry | BatchEntry],
    tags_code: Callable[[int], int | None],
    passes: Callable[[QueueEntry | BatchEntry, int | None], bool],
) -> tuple[ConsumeQueueData, ...]:
    """Return entries for operators, each with the result of the group's filter.

    Java applies the filter only if the queue has an extension, and returns false otherwise. Of an
    extension only the tags code is shown; a message whose extension is missing passes every filter
    by tags.
    """

    def shown(entry: QueueEntry | BatchEntry) -> ConsumeQueueData:
        code = tags_code(entry.tags_code)
        return ConsumeQueueData(
            eval=passes(entry, code),
            msg=f"Cq extend not exist!addr: {entry.tags_code}" if code is None else None,
            physic_offset=entry.commit_log_offset,
            physic_size=entry.size,
            tags_code=entry.tags_code if code is None else code,
        )

    return tuple(map(shown, entries))
