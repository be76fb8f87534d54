"""Consumer offsets: queries, commits, copies, and whole tables for replicas and tools.

QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET,
QUERY_CORRECTION_OFFSET, CLONE_GROUP_OFFSET.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orbitmq.broker.clients.members import Members
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.broker.tables.topics import QUEUES_MAX, Topics
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.bodies.offsets import CorrectionOffsets
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import INT64_MAX
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    CloneGroupOffset,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    QueryCorrectionOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.session import Response

__all__ = ["OffsetHandlers"]

log = logging.getLogger("orbitmq.broker")


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class OffsetHandlers:
    """Serves requests about the offsets of groups."""

    offsets: ConsumerOffsets
    topics: Topics
    groups: Groups
    members: Members
    settings: LiveSettings
    store: MessageStore
    delay_offsets: Callable[[], str]
    """Returns the text of ``delayOffset.json``."""

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self._query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all,
            RequestCode.GET_ALL_DELAY_OFFSET: self._all_delays,
            RequestCode.QUERY_CORRECTION_OFFSET: self._correction,
            RequestCode.CLONE_GROUP_OFFSET: self._clone,
        }

    # Consumers

    def _query(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(QueryConsumerOffset)
        offset = self.offsets.query(asked.consumer_group, asked.topic, asked.queue_id)
        if offset >= 0:
            return Response(header=QueryConsumerOffsetAnswer(offset=offset))
        if self.settings.broker.is_slave and not self.offsets.are_of_master:
            # "None" would let the group begin anew, and commit that when the master is back.
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                "this slave has not heard from its master yet how far groups are; ask again",
            )
        if asked.set_zero_if_not_found is False:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if self._is_young(asked.topic, asked.queue_id):
            return Response(header=QueryConsumerOffsetAnswer(offset=0))
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
        )

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Return whether the first message of a queue is still in memory.

        A new group begins such a queue at 0, whatever its settings: a group that starts shortly
        after a new topic must not miss the first messages (ConsumerManageProcessor in Java).
        """
        has_first = self.store.lookup.min_offset(topic, queue_id) == 0
        return has_first and self.store.lookup.is_in_memory(topic, queue_id, 0)

    def _update(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(UpdateConsumerOffset)
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        if group not in self.groups:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:256]} not exist!"
            )
        if self.topics.get(topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic[:256]} not exist!")
        if not 0 <= queue_id < QUEUES_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"QueueId is {queue_id}, topic is {topic}: it must be 0 to {QUEUES_MAX - 1}",
            )
        if self.settings.broker.use_server_side_reset_offset and self.offsets.has_reset(
            group, topic, queue_id
        ):
            return Response(remark="Offset has been previously reset")
        self.offsets.commit(group, topic, queue_id, asked.commit_offset, connection.peer)
        return Response()

    # Replicas and tools

    def _all(self, _connection: Connection, _request: Frame) -> Response:
        return Response(body=self.offsets.to_json().encode())

    def _all_delays(self, _connection: Connection, _request: Frame) -> Response:
        return Response(body=self.delay_offsets().encode())

    def _correction(self, _connection: Connection, request: Frame) -> Response:
        """Return the least offset of each queue; the maximum if the compared group is behind."""
        asked = request.read(QueryCorrectionOffset)
        without = frozenset((asked.filter_groups or "").split(","))
        least = self.offsets.least(asked.topic, without, self.store.lookup.min_offset)
        for queue_id, offset in self.offsets.of(asked.compare_group, asked.topic).items():
            if least.get(queue_id, offset) > offset:
                least[queue_id] = INT64_MAX
        return Response(body=CorrectionOffsets(correction_offsets=least).to_json())

    def _clone(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(CloneGroupOffset)
        if self.groups.get(asked.dest_group) is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {asked.dest_group[:256]} not exist!",
            )
        topics = {asked.topic} if asked.topic else self.offsets.topics_of(asked.src_group)
        for topic in sorted(topics):
            if self._may_clone(asked, topic):
                self.offsets.clone(asked.src_group, asked.dest_group, topic)
                log.info(
                    "%s copied to group %s the offsets of group %s in topic %s",
                    *(connection.peer, asked.dest_group, asked.src_group, topic),
                )
        return Response()

    def _may_clone(self, asked: CloneGroupOffset, topic: str) -> bool:
        if self.topics.get(topic) is None:
            return False
        source = self.members.consumers(asked.src_group)
        if asked.offline or source is None or not source.subscriptions:
            return True
        return topic in source.subscriptions
