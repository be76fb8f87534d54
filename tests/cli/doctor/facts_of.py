"""Facts of a sound cluster, for tests that break one thing of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orbitmq.cli.doctor.facts import (
    BrokerFacts,
    Facts,
    GroupFacts,
    NameserverFacts,
    TopicFacts,
)
from orbitmq.client.admin.consumers import ConnectedClient, ConsumerConnections
from orbitmq.client.admin.results import Broker, BrokerStatus, GroupProgress, QueueProgress
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.topic import TopicConfig

NAMES = ("10.0.0.1:9876", "10.0.0.2:9876")
BROKER = Broker("DefaultCluster", "broker-a", 0, "10.0.0.7:10911")
CONFIG = {
    "namesrvAddr": ";".join(NAMES),
    "brokerPermission": "6",
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
}
FIGURES = {"commitLogDiskRatio": "0.5", "putMessageDistributeTime": "[<=0ms]:900 [0~10ms]:99"}


def route(*, perm: int = 6, queues_on: str = "broker-a") -> TopicRouteData:
    broker = BrokerData(
        broker_name="broker-a", cluster="DefaultCluster", broker_addrs={0: BROKER.address}
    )
    queues = QueueData(broker_name=queues_on, perm=perm, read_queue_nums=2, write_queue_nums=2)
    return TopicRouteData(broker_datas=(broker,), queue_datas=(queues,))


def status(**figures: str) -> BrokerStatus:
    return BrokerStatus.of(FIGURES | figures)


def broker(**changes: Any) -> BrokerFacts:
    return replace(BrokerFacts(broker=BROKER, status=status(), config=CONFIG, skew_ms=0), **changes)


def settings(**changes: str) -> Mapping[str, str]:
    return CONFIG | changes


def members(*clients: str, **subscriptions: str) -> ConsumerConnections:
    return ConsumerConnections(
        group="billing",
        clients=tuple(
            ConnectedClient(client_id=one, address="", language="JAVA", version="5.4.0")
            for one in clients
        ),
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from=None,
        subscriptions={
            topic: SubscriptionData(topic=topic, sub_string=text)
            for topic, text in subscriptions.items()
        },
    )


def progress(*offsets: tuple[int, int]) -> GroupProgress:
    """Return the progress in queues, each with its end and what is committed."""
    queues = (
        QueueProgress(MessageQueue("orders", "broker-a", number), end, committed, 0, 0)
        for number, (end, committed) in enumerate(offsets)
    )
    return GroupProgress("billing", tuple(queues), 12.5)


def group(**changes: Any) -> GroupFacts:
    sound = GroupFacts(
        name="billing",
        configs={"broker-a": SubscriptionGroupConfig(group_name="billing")},
        progress=progress((10, 10), (10, 9)),
        members=members("one", orders="*"),
        subscriptions={"one": {"orders": "*", "%RETRY%billing": "*"}},
    )
    return replace(sound, **changes)


def topic(**changes: Any) -> TopicFacts:
    config = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)
    return replace(TopicFacts(name="orders", configs={"broker-a": config}), **changes)


def facts(**changes: Any) -> Facts:
    """Return facts of which no check complains, but for what is changed."""
    sound = Facts(
        nameservers=tuple(
            NameserverFacts(address=one, brokers=(BROKER,), route=route()) for one in NAMES
        ),
        brokers=(broker(),),
        topic=topic(),
        group=group(),
        max_lag=1_000,
    )
    return replace(sound, **changes)
