"""Topics of a kind on our servers: ordered, of units, of a message type, with priorities."""

import asyncio

import pytest

from orbitmq import embedded
from orbitmq.client.producer.producer import Producer
from orbitmq.message.model import Message
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.route import GetRouteInfo
from tests.interop.java import Java, JavaHostFailed
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import PATIENT
from tests.interop.operations import Outgoing
from tests.interop.team import Team

CLUSTER = ("-c", "DefaultCluster")


def route(team: Team, topic: str) -> TopicRouteData:
    with BlockingConnection(Address.parse(team.nameserver), settings=PATIENT) as connection:
        answer = connection.request(GetRouteInfo(topic=topic))
    assert answer.code == ResponseCode.SUCCESS, answer
    return TopicRouteData.from_json(answer.body)


def topics_listed(team: Team, code: RequestCode) -> set[str]:
    with BlockingConnection(Address.parse(team.nameserver), settings=PATIENT) as connection:
        answer = connection.request(NoFields(), code=code)
    return set(TopicList.from_json(answer.body).topic_list)


def test_an_order_configuration_names_the_queues_of_an_ordered_topic(team: Team) -> None:
    topic = f"ordered-{team.java.version}".replace(".", "-")
    told = team.mqadmin("updateTopic", *CLUSTER, "-t", topic, "-o", "true", "-r", "4", "-w", "4")
    assert "orderConf=[broker-a:4]" in told
    team.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    try:
        assert route(team, topic).order_topic_conf == "broker-a:4"
        told = team.mqadmin("updateOrderConf", "-t", topic, "-v", "broker-a:1", "-m", "put")
        assert "success" in told
        with team.producer(group=f"senders-of-{topic}") as producer:
            sent = [producer.send_bodies(topic, b"%d" % number)[0] for number in range(8)]
        assert {one.queue_id for one in sent} == {0}
        with team.consumer(topic, kind="orderly") as consumer:
            assert [one.body for one in consumer.wait_for(8)] == [b"%d" % n for n in range(8)]
    finally:
        team.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false")
    assert route(team, topic).order_topic_conf is None


def test_topics_of_units_are_listed(team: Team) -> None:
    suffix = team.java.version.replace(".", "-")
    flags = {"of-unit": ("true", "false"), "subscribed": ("false", "true"), "both": ("true",) * 2}
    for name, (unit, subscribed) in flags.items():
        arguments = ("-t", f"{name}-{suffix}", "-u", unit, "-s", subscribed)
        team.mqadmin("updateTopic", *CLUSTER, *arguments)
    listed = {
        code: {name for name in flags if f"{name}-{suffix}" in topics_listed(team, code)}
        for code in (
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        )
    }
    assert list(listed.values()) == [{"of-unit", "both"}, {"subscribed", "both"}, {"subscribed"}]


def test_a_message_of_another_type_is_refused_while_types_are_checked(team: Team) -> None:
    topic = team.topic("typed")
    broker = ("-b", team.brokers[0])
    if team.java.version == "5.4.0":  # the old tool has no attributes
        team.mqadmin("updateTopic", *broker, "-t", topic, "-a", "+message.type=DELAY")
        delay_level = 1
    else:
        delay_level = 0
    check = ("updateBrokerConfig", *broker, "-k", "enableTopicMessageTypeCheck", "-v")
    team.mqadmin(*check, "true")
    try:
        with team.producer(group=f"senders-of-{topic}") as producer:
            producer.send(Outgoing(topic=topic, body=b"right", delay_level=delay_level))
            with pytest.raises(JavaHostFailed, match="TopicMessageType validate failed"):
                producer.send(Outgoing(topic=topic, body=b"wrong", delay_level=1 - delay_level))
    finally:
        team.mqadmin(*check, "false")


def test_a_priority_chooses_the_queue_as_on_java_s_broker(
    java_540: Java, java_cluster_540: JavaCluster, our_cluster: embedded.RunningCluster
) -> None:
    ours = Team(java_540, our_cluster.nameserver, our_cluster.brokers)

    async def queues(nameserver: str, topic: str) -> list[int]:
        async with Producer("prioritizers", nameserver=nameserver) as producer:
            messages = [Message(topic, b"x", priority=priority) for priority in (0, 2, 99)]
            return [(await producer.send(one)).queue.queue_id for one in messages]

    java_nameserver = str(java_cluster_540.nameserver.address)
    java = asyncio.run(queues(java_nameserver, java_cluster_540.create_topic("priorities")))
    assert asyncio.run(queues(ours.nameserver, ours.topic("priorities"))) == java == [0, 2, 3]
