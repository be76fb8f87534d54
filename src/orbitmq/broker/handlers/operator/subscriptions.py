"""Which groups read which topics, for operators.

QUERY_TOPIC_CONSUME_BY_WHO, QUERY_TOPICS_BY_CONSUMER, QUERY_SUBSCRIPTION_BY_CONSUMER.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orbitmq.broker.clients.members import Members
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.net.connection import Connection, Handler
from orbitmq.wire.bodies.group import GroupList
from orbitmq.wire.bodies.query import SubscriptionAnswer
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.query import (
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
)
from orbitmq.wire.session import Response

__all__ = ["SubscriptionHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class SubscriptionHandlers:
    """Serves requests about the topics of groups."""

    members: Members
    offsets: ConsumerOffsets
    address: Callable[[], str]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._groups_of,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._topics_of,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
        }

    def _groups_of(self, _connection: Connection, request: Frame) -> Response:
        topic = request.read(QueryTopicConsumeByWho).topic
        groups = self.offsets.groups_of(topic).union(self.members.groups_of(topic))
        return Response(body=GroupList(group_list=tuple(sorted(groups))).to_json())

    def _topics_of(self, _connection: Connection, request: Frame) -> Response:
        topics = self.offsets.topics_of(request.read(QueryTopicsByConsumer).group)
        body = TopicList(broker_addr=self.address(), topic_list=tuple(sorted(topics)))
        return Response(body=body.to_json())

    def _subscription(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(QuerySubscriptionByConsumer)
        topic = asked.topic or ""
        body = SubscriptionAnswer(
            group=asked.group,
            subscription_data=self.members.subscription(asked.group, topic),
            topic=topic,
        )
        return Response(body=body.to_json())
