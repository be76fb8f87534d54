"""INVOKE_BROKER_TO_RESET_OFFSET: an operator resets the offsets of a group, in one of two ways.

On the server (``useServerSideResetOffset``, the default) the new offsets apply to the next pull of
each queue, and commits before it are ignored. Otherwise the connected consumers are notified: they
stop, commit the new offsets and continue from there.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from orbitmq.broker.reports.long_walk import LongWalk
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.offsets import NO_OFFSET, ConsumerOffsets
from orbitmq.broker.tables.topics import Topics
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.bodies.offsets import OffsetReset
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import ResetOffset
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response

__all__ = ["NotifyConsumers", "ResetHandlers"]

log = logging.getLogger("orbitmq.broker")

NotifyConsumers = Callable[[str, str, int, Mapping[MessageQueue, int]], None]
"""Notifies the consumers of a group: group, topic, timestamp, offsets.

Raises a ``Refusal`` if none is connected."""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ResetHandlers:
    """Serves resets of offsets. ``on_reset`` is called with topic and queue of each."""

    offsets: ConsumerOffsets
    topics: Topics
    groups: Groups
    settings: LiveSettings
    store: MessageStore
    notify_consumers: NotifyConsumers
    on_reset: Callable[[str, int], None]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset}

    async def _reset(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(ResetOffset)
        if self.settings.broker.use_server_side_reset_offset:
            offsets = await self._reset_here(asked)
        else:
            offsets = await self._reset_consumers(asked)
        log.info(
            "%s reset the offsets of group %s in %d queues of topic %s",
            *(connection.peer, asked.group, len(offsets), asked.topic),
        )
        return Response(body=OffsetReset(offset_table=offsets).to_json())

    # On the server

    async def _reset_here(self, asked: ResetOffset) -> QueueMap[int]:
        topic = self.topics.get(asked.topic)
        if topic is None:
            raise _no_topic(f"Topic {asked.topic[:256]} does not exist")
        if asked.group not in self.groups:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {asked.group[:256]} does not exist",
            )
        if asked.queue_id < 0:
            offsets = {
                queue_id: offset
                async for queue_id, offset in self._by_time(asked, topic.read_queue_nums)
            }
        elif asked.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
            offsets = {asked.queue_id: self._one_queue(asked)}
        else:
            offsets = {}
        if not offsets:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in offsets.items():
            self.offsets.assign_reset(asked.group, asked.topic, queue_id, offset)
            self.on_reset(asked.topic, queue_id)
        return self._as_queues(asked.topic, offsets)

    def _one_queue(self, asked: ResetOffset) -> int:
        if asked.offset is None or asked.offset == NO_OFFSET:
            return self._at(asked.topic, asked.queue_id, asked.timestamp)
        lowest = self.store.lookup.min_offset(asked.topic, asked.queue_id)
        highest = self.store.lookup.max_offset(asked.topic, asked.queue_id)
        if not lowest <= asked.offset <= highest + 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {asked.offset} not in consume queue range [{lowest}-{highest}]",
            )
        return asked.offset

    # By the consumers

    async def _reset_consumers(self, asked: ResetOffset) -> QueueMap[int]:
        topic = self.topics.get(asked.topic)
        if topic is None:
            raise _no_topic(
                "[reset-offset] reset offset failed, no topic in this broker. "
                f"topic={asked.topic[:256]}"
            )
        offsets = {}
        async for queue_id, wanted in self._by_time(asked, topic.write_queue_nums):
            current = self.offsets.query(asked.group, asked.topic, queue_id)
            if current == NO_OFFSET:
                raise Refusal(
                    ResponseCode.SYSTEM_ERROR,
                    f"THe consumer group <{asked.group[:256]}> not exist: it has no offset in "
                    f"queue {queue_id}",
                )
            # Without force a group only moves back, never over messages it has not consumed.
            offsets[queue_id] = wanted if asked.is_force else min(wanted, current)
        queues = self._as_queues(asked.topic, offsets)
        self.notify_consumers(asked.group, asked.topic, asked.timestamp, queues)
        return queues

    # Both

    async def _by_time(self, asked: ResetOffset, queues: int) -> AsyncIterator[tuple[int, int]]:
        walk = LongWalk()
        for queue_id in range(queues):
            yield queue_id, self._at(asked.topic, queue_id, asked.timestamp)
            await walk.step()

    def _at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the first message at or after a time; the end if it is negative."""
        if timestamp_ms < 0:
            return self.store.lookup.max_offset(topic, queue_id)
        return self.store.lookup.offset_by_time(topic, queue_id, timestamp_ms)

    def _as_queues(self, topic: str, offsets: Mapping[int, int]) -> QueueMap[int]:
        name = self.settings.broker.broker_name
        return QueueMap({MessageQueue(topic, name, one): at for one, at in offsets.items()})


def _no_topic(remark: str) -> Refusal:
    return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
