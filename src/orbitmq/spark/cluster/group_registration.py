"""A consumer group made known to a broker, as its first consumer makes it.

Tools find the brokers of a group by its retry topic: ``mqadmin consumerProgress -g`` fails without
one. A broker makes that, and the group if it may, at the first heartbeat of a consumer; where a
group only pulls and commits, it never does. So if there is none, a heartbeat is sent, and the group
left again at once: Spark is no member, who would be given queues. If there is one, consumers may be
at work, and nothing is sent that would have them share queues out anew.
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

__all__ = ["introduce"]

log = logging.getLogger("orbitmq.spark")


def introduce(group: str, broker: BlockingConnection) -> None:
    """Have a broker make the retry topic of a group, unless it has it.

    A broker that refuses is told of in the log: commits don't depend on it.

    Args:
        group: as brokers know it.
        broker: a connection to it.

    Raises:
        NetworkError: it doesn't answer.

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
            "tools may not find group %s, since a broker does not make its retry topic: %s",
            *(group, BrokerError.of(answer.code, answer.remark, address=broker.peer)),
        )
