"""Offsets: those of queues, and how far groups are.

A reset reaches connected consumers too. By default a broker keeps the new offset and gives it to
the next pull; one with ``useServerSideResetOffset=false`` notifies the consumers instead, and if
none is connected, the offset is committed for the group (``resetOffsetNew`` in Java).
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

from orbitmq.client.admin.groups import GroupAdmin
from orbitmq.client.admin.results import GroupProgress, QueueProgress
from orbitmq.errors import BrokerError, InvalidInput, NoRoute, NotFound
from orbitmq.message import names
from orbitmq.message.model import MessageQueue
from orbitmq.message.shown import shown_int
from orbitmq.net.address import Address
from orbitmq.wire.bodies.offsets import OffsetReset
from orbitmq.wire.bodies.stats import ConsumeStats, TopicStatsTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.offset import (
    CloneGroupOffset,
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    ResetOffset,
    SearchOffset,
    SearchOffsetAnswer,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.query import GetConsumeStats, GetTopicStatsInfo
from orbitmq.wire.json.queue_map import QueueMap

__all__ = ["OffsetAdmin", "group_progress"]

_TO_THE_END: Final = -1
"""A time that means the end of the queue."""


class OffsetAdmin(GroupAdmin):
    """What an `Admin` does with offsets."""

    # Queues

    async def search_offset(
        self,
        queue: MessageQueue,
        timestamp_ms: int,
        *,
        boundary: Literal["LOWER", "UPPER"] = "LOWER",
    ) -> int:
        """Return the offset of the first message stored at or after a time.

        Args:
            queue: the queue.
            timestamp_ms: the time, in milliseconds since 1970.
            boundary: the first or the last of several messages stored at exactly that time.

        Raises:
            OrbitError: the queue's broker is unknown, can't be reached, or refuses.
            InvalidInput: the argument is not a queue.
        """
        header = SearchOffset(
            topic=self._topic_of(queue),
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type=boundary,
        )
        return (await self._ask_queue(queue, header, SearchOffsetAnswer)).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message of a queue; errors as ``search_offset``."""
        header = GetMaxOffset(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask_queue(queue, header, GetMaxOffsetAnswer)).offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of a queue; errors as ``search_offset``."""
        header = GetMinOffset(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask_queue(queue, header, GetMinOffsetAnswer)).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Return when the oldest message of a queue was stored, in milliseconds since 1970.

        It is -1 for a queue without messages. Errors as ``search_offset``.
        """
        header = GetEarliestMsgStoretime(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask_queue(queue, header, GetEarliestMsgStoretimeAnswer)).timestamp

    # Progress of groups

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Return how far a group is in each queue of its topics, or of one topic.

        Raises:
            GroupNotFound: no broker has the group.
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        header = GetConsumeStats(
            consumer_group=self._wrapped(group, "group"),
            topic=None if topic is None else self._wrapped(topic),
        )

        async def ask(address: Address) -> ConsumeStats:
            answer = await self._ask(address, header, timeout_ms=3 * self._timeout_ms)
            return await self._body(answer, ConsumeStats)

        brokers = await self._brokers_of_group(group, topic)
        found = await self._on_brokers(brokers, ask)
        progress = group_progress(group, found.values(), self._unwrapped_queue)
        if not any(one.consumer_offset for one in progress.queues):
            await self.group_config(group)  # brokers answer for a misspelled group, too
        return progress

    async def _brokers_of_group(self, group: str, topic: str | None) -> dict[str, Address]:
        """Return the brokers of a topic, or of the retry topic; if there is none, all of them."""
        if topic is not None:
            return await self._brokers_of_topic(topic)
        try:
            return await self._brokers_of_topic(names.retry_topic(self._wrapped(group, "group")))
        except NoRoute as error:
            if not error.is_missing:
                raise
            return await self._brokers(None)

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that a group committed for a queue; None if it did not.

        Errors as ``search_offset``.
        """
        header = QueryConsumerOffset(
            consumer_group=self._wrapped(group, "group"),
            topic=self._topic_of(queue),
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        try:
            return (await self._ask_queue(queue, header, QueryConsumerOffsetAnswer)).offset
        except NotFound:
            return None

    # Resets

    async def reset_offsets(
        self, group: str, topic: str, *, timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        """Reset a group to the first messages stored at or after a time; return the new offsets.

        Connected consumers continue from there, and consume messages again if it is earlier.

        Raises:
            NoRoute: no nameserver knows the topic, or a broker of it has no master.
            GroupNotFound: a broker does not have the group.
            InvalidInput: the time is negative.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        if timestamp_ms < 0:
            raise InvalidInput(
                f"timestamp_ms is {timestamp_ms}; it must be 0 or more, or use skip_to_end",
                field="timestamp_ms",
            )
        return await self._reset(group, topic, timestamp_ms)

    async def skip_to_end(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Skip all messages that a group has not consumed; return the new offsets.

        Errors as ``reset_offsets``.
        """
        return await self._reset(group, topic, _TO_THE_END)

    async def _reset(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        header = ResetOffset(
            group=self._wrapped(group, "group"),
            topic=self._wrapped(topic),
            timestamp=timestamp_ms,
            is_force=True,
        )

        async def reset(address: Address) -> dict[MessageQueue, int]:
            try:
                return dict(await self._reset_request(address, header))
            except BrokerError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return await self._commit_by_time(address, header)

        found = await self._on_brokers(await self._masters(header.topic), reset)
        return {
            self._unwrapped_queue(queue): each[queue]
            for each in found.values()
            for queue in sorted(each)
        }

    async def _reset_request(self, address: Address, header: ResetOffset) -> QueueMap[int]:
        answer = await self._ask(address, header, code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
        return (await self._body(answer, OffsetReset)).offset_table

    async def _commit_by_time(
        self, address: Address, asked: ResetOffset
    ) -> dict[MessageQueue, int]:
        """Commit offsets for a group of which no consumer is connected."""
        answer = await self._ask(address, GetTopicStatsInfo(topic=asked.topic))
        stats = (await self._body(answer, TopicStatsTable)).offset_table
        found = {}
        for queue, extent in stats.items():
            offset = extent.max_offset
            if asked.timestamp != _TO_THE_END:
                search = SearchOffset(
                    topic=asked.topic, queue_id=queue.queue_id, timestamp=asked.timestamp
                )
                offset = (await self._ask(address, search)).read(SearchOffsetAnswer).offset
            await self._commit(address, asked.group, queue, offset)
            found[queue] = offset
        return found

    async def _commit(self, address: Address, group: str, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=self._wrapped(queue.topic),
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        await self._ask(address, header)

    async def set_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a group in one queue; connected consumers continue from there.

        Raises:
            GroupNotFound: the broker does not have the group.
            OrbitError: the queue's broker is unknown, can't be reached, or refuses.
            InvalidInput: the argument is not a queue, or the queue does not have the offset.
        """
        topic, wrapped = self._topic_of(queue), self._wrapped(group, "group")
        # Brokers commit any offset, and refuse some when they reset consumers.
        begin, end = await self.min_offset(queue), await self.max_offset(queue)
        if not begin <= offset <= end:
            raise InvalidInput(
                f"offset is {shown_int(offset)}; queue {queue.queue_id} of {queue.topic} on "
                f"{queue.broker_name} has {begin} to {end}",
                field="offset",
            )
        address = await self._master_of(queue)
        await self._commit(address, wrapped, queue, offset)
        # A broker that notifies consumers ignores queue and offset. With this time, and without
        # force, it resets them to what is committed.
        header = ResetOffset(
            group=wrapped,
            topic=topic,
            queue_id=queue.queue_id,
            offset=offset,
            timestamp=_TO_THE_END,
        )
        try:
            await self._reset_request(address, header)
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise

    async def clone_offsets(self, source: str, target: str, topic: str | None = None) -> None:
        """Give a group the offsets of another one, in one topic or in all.

        Raises:
            GroupNotFound: no broker has one of the groups.
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        header = CloneGroupOffset(
            src_group=self._wrapped(source, "source"),
            dest_group=self._wrapped(target, "target"),
            topic=None if topic is None else self._wrapped(topic),
            offline=True,
        )
        for group in (source, target):  # brokers copy nothing without a word, or create it
            await self.group_config(group)
        brokers = await self._brokers_of_group(source, topic)
        await self._on_brokers(brokers, lambda address: self._ask(address, header))


def group_progress(
    group: str,
    found: Iterable[ConsumeStats],
    unwrapped: Callable[[MessageQueue], MessageQueue] = lambda queue: queue,
) -> GroupProgress:
    """Return what several brokers answered about one group."""
    answers = tuple(found)
    queues = (
        QueueProgress(
            queue=unwrapped(queue),
            broker_offset=one.broker_offset,
            consumer_offset=one.consumer_offset,
            pull_offset=one.pull_offset,
            last_consumed_ms=one.last_timestamp,
        )
        for stats in answers
        for queue, one in stats.offset_table.items()
    )
    return GroupProgress(
        group=group,
        queues=tuple(sorted(queues, key=lambda one: one.queue)),
        consume_tps=sum(stats.consume_tps for stats in answers),
    )
