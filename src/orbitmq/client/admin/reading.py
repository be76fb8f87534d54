"""Messages read straight from their queues, for operators: no group, no committed offset.

::

    messages_between ──▶ queue after queue:  begin_ms ── SEARCH_OFFSET ──▶ first offset
                                             pull, pull, … up to the end the queue had at the start

A pull brings its subscription along, and is of the group TOOLS_CONSUMER, which every broker has:
brokers need no heartbeat for it. One batch is in memory at a time.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from orbitmq.client.admin.requests import AdminRequests
from orbitmq.client.arguments import check_queue
from orbitmq.errors import InvalidInput, NoRoute, NotFound
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.scan import decode_all, split_inner
from orbitmq.message.tags import SELECT_ALL, TagFilter
from orbitmq.net.address import Address
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX
from orbitmq.wire.headers.offset import SearchOffset, SearchOffsetAnswer
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage, PullMessageAnswer

__all__ = ["QueueReading"]

_TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""MixAll.TOOLS_CONSUMER_GROUP in Java; what mqadmin pulls with."""
_BATCH: Final = 32
"""What Java's brokers give at most by default (maxTransferCountOnMessageInMemory)."""
_TAG: Final = "TAG"
_PULLED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class _Pulled(NamedTuple):
    """The answer to a pull; ``max_offset`` is the end of the queue."""

    messages: list[StoredMessage]
    next_offset: int
    max_offset: int


class QueueReading(AdminRequests):
    """Reads messages of queues."""

    async def message_at(self, queue: MessageQueue, offset: int) -> StoredMessage:
        """Return the message at an offset of a queue.

        Raises:
            NotFound: the offset is not in the queue: deleted already, or not written yet.
            NoRoute: no nameserver knows the topic, or the queue is not among those to read.
            OrbitError: the broker can't be reached, or refuses.
            InvalidInput: an argument is not a queue, or not an offset.
        """
        check_queue(queue)
        if not 0 <= offset <= INT64_MAX:
            raise InvalidInput(f"offset is {offset}; it must be 0 or higher", field="offset")
        readable = await self._readable(queue.topic)
        if queue not in readable:
            raise NoRoute(
                f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} is not in the "
                "route, or not readable; get the queues of the topic again",
                topic=queue.topic,
                is_missing=False,
                answers={},
            )
        pulled = await self._pull(readable[queue], queue, offset, 1, SELECT_ALL)
        for message in pulled.messages:
            if message.queue_offset == offset:
                return message
        raise NotFound(
            ResponseCode.NO_MESSAGE,
            f"no message at offset {offset} of queue {queue.queue_id} of {queue.topic}; the queue "
            f"ends at {pulled.max_offset}",
            address=str(readable[queue]),
        )

    async def messages_between(
        self, topic: str, begin_ms: int = 0, end_ms: int = INT64_MAX, *, tags: str = SELECT_ALL
    ) -> AsyncIterator[StoredMessage]:
        """Iterate over the messages of a topic stored in a time range, queue after queue.

        What is stored in a queue after its first batch was read is not included. Memory is
        bounded: one batch of one queue is read at a time.

        ::

            async for message in admin.messages_between("orders", begin_ms=noon_ms):
                print(message.queue_offset, shown_body(message.body))

        Args:
            topic: the topic.
            begin_ms: the earliest store time, in milliseconds since 1970.
            end_ms: the latest store time.
            tags: which messages, such as ``"paid || open"``.

        Raises:
            NoRoute: no nameserver knows the topic.
            InvalidTags: the tags can't be read.
            OrbitError: a broker can't be reached, or refuses.
        """
        wanted = TagFilter.parse(tags)
        for queue, address in (await self._readable(topic)).items():
            header = SearchOffset(
                topic=self._wrapped(topic), queue_id=queue.queue_id, timestamp=begin_ms
            )
            found = await self._ask(address, header)
            offset = found.read(SearchOffsetAnswer).offset
            end: int | None = None  # the end of the queue at the first pull
            while end is None or offset < end:
                pulled = await self._pull(address, queue, offset, _BATCH, tags)
                end = pulled.max_offset if end is None else end
                for message in pulled.messages:
                    if message.queue_offset >= end or message.store_timestamp_ms > end_ms:
                        end = offset  # store times only grow along a queue
                        break
                    if message.store_timestamp_ms >= begin_ms and wanted.matches(message.tags):
                        yield message
                if pulled.next_offset <= offset:
                    break
                offset = pulled.next_offset

    async def _readable(self, topic: str) -> dict[MessageQueue, Address]:
        """Return the readable queues of a topic, in order, with the broker to pull each from."""
        route = await self._readable_route(topic)
        return {
            self._unwrapped_queue(queue): address
            for queue in route.queues
            if (address := route.broker_of(queue)) is not None
        }

    async def _pull(
        self, address: Address, queue: MessageQueue, offset: int, count: int, tags: str
    ) -> _Pulled:
        header = PullMessage(
            consumer_group=_TOOLS_GROUP,
            topic=self._wrapped(queue.topic),
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=tags,
            sub_version=0,
            expression_type=_TAG,
        )
        answer = await self._request(address, header)
        if answer.code not in _PULLED:
            self._check(answer, address)
        read = answer.read(PullMessageAnswer)
        messages: list[StoredMessage] = []
        delta = read.offset_delta or 0  # of the logic queue of a static topic
        if answer.code == ResponseCode.SUCCESS:
            messages = [
                replace(
                    self._unwrapped_message(part),
                    queue_id=queue.queue_id,
                    queue_offset=part.queue_offset + delta,
                )
                for record in decode_all(answer.body, broker_name=queue.broker_name)
                for part in split_inner(record)
                if part.queue_offset + delta >= offset
            ]
        return _Pulled(messages, read.next_begin_offset, read.max_offset)

    def _unwrapped_message(self, message: StoredMessage) -> StoredMessage:
        return replace(message, topic=self._unwrapped(message.topic))
