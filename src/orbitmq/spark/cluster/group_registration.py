"""Registers a consumer group with a broker, as the first consumer of the group would.

Tools find the brokers of a group by its retry topic: ``mqadmin consumerProgress -g`` fails without
it. A broker creates the topic, and the group if it may, at the first heartbeat of a consumer. For a
group that only pulls and commits it never would. So if the topic is missing, we send a heartbeat
and unregister at once: Spark must not be assigned queues. If the topic exists, consumers may be
running, and we send nothing that would make them rebalance.
"""

import logging
import os

from orbitmq.errors import BrokerError
from orbitmq.message.names import retry_topic
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
)
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import Heartbeat, UnregisterClient
from orbitmq.wire.headers.query import GetTopicStatsInfo

__all__ = ["register_group"]

log = logging.getLogger("orbitmq.spark")


def register_group(group: str, broker: BlockingConnection) -> None:
    """Make a broker create the retry topic of a group, unless it has one.

    A refusal is logged: commits don't depend on the topic.
    """
    known = broker.request(GetTopicStatsInfo(topic=retry_topic(group)))
    if known.code != ResponseCode.TOPIC_NOT_EXIST:
        return
    client_id = f"orbitmq-spark@{os.getpid()}"
    member = ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_ACTIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    )
    beat = HeartbeatData(client_id=client_id, consumer_data_set=(member,))
    answer = broker.request(Heartbeat(), beat.to_json())
    broker.request(UnregisterClient(client_id=client_id, consumer_group=group))
    if answer.code != ResponseCode.SUCCESS:
        log.warning(
            "tools may not find group %s, since a broker did not create its retry topic: %s",
            *(group, BrokerError.of(answer.code, answer.remark, address=broker.peer)),
        )
