"""Java brokers, clients and admin tools on our nameserver, beside a Java one that knows the same.

One broker registers with both nameservers. Whatever is asked of the one is asked of the other, and
the bodies of their answers are compared.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    AddWritePermOfBroker,
    GetBrokerMemberGroup,
    GetKVConfig,
    GetKVConfigAnswer,
    GetRouteInfo,
    GetTopicsByCluster,
    WipeWritePermOfBroker,
)
from orbitmq.wire.json.fastjson import standard_json
from orbitmq.wire.session import Identity
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaNameserver, brokers_known_to
from tests.interop.java_server import PATIENT
from tests.interop.operations import MQADMIN
from tests.interop.our_servers import our_nameserver
from tests.interop.waiting import until

VERSION_4_9_3 = 399
COMPRESSED = {"compressedRegister": "true"}


class Pair(NamedTuple):
    """Two nameservers, and a broker that is registered with both."""

    ours: Address
    java: Address
    broker: JavaBroker

    def create_topic(self, topic: str) -> None:
        self.broker.create_topic(topic)
        until(lambda: route_of(self.ours, topic), what=f"{topic} at our nameserver")
        until(lambda: route_of(self.java, topic), what=f"{topic} at Java's")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if why := counterparts.missing_for("5.4.0"):
        decline(why)
    directory = tmp_path_factory.mktemp("nameservers")
    with contextlib.ExitStack() as running:
        settings = {"orderMessageEnable": "true"}
        ours = running.enter_context(our_nameserver(directory, **settings))
        java = JavaNameserver("5.4.0", directory / "java", settings=settings)
        running.enter_context(java)
        both = {"namesrvAddr": f"{java.address};{ours}"}
        broker = JavaBroker("5.4.0", directory / "broker", nameserver=ours, settings=both)
        running.enter_context(broker)
        until(lambda: broker.name in brokers_known_to(java.address), what="Java knows it too")
        yield Pair(ours, java.address, broker)


def ask(
    address: Address, header: Header, *, code: int | None = None, identity: Identity | None = None
) -> Frame:
    with BlockingConnection(address, settings=PATIENT, identity=identity) as connection:
        return connection.request(header, code=code)


def route_of(address: Address, topic: str) -> TopicRouteData | None:
    answer = ask(address, GetRouteInfo(topic=topic))
    return TopicRouteData.from_json(answer.body) if answer.code == ResponseCode.SUCCESS else None


def topics_of(address: Address) -> list[str]:
    answer = ask(address, NoFields(), code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return sorted(msgspec.json.decode(answer.body)["topicList"])


def values_of(answer: Frame) -> object:
    """Return a body as values; Java's sets of names have no order."""
    value = msgspec.json.decode(standard_json(bytes(answer.body)).text)
    if isinstance(value, dict) and "topicList" in value:
        value["topicList"] = sorted(value["topicList"])
    return value


def test_every_route_is_java_s_byte_for_byte(pair: Pair) -> None:
    pair.create_topic("compared")
    topics = topics_of(pair.java)
    assert "compared" in topics
    assert topics_of(pair.ours) == topics
    for topic in topics:
        for version in (None, VERSION_4_9_3):
            identity = Identity() if version is None else Identity(version=version)
            ours, java = (
                ask(at, GetRouteInfo(topic=topic), identity=identity)
                for at in (pair.ours, pair.java)
            )
            assert bytes(ours.body) == bytes(java.body)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (NoFields(), RequestCode.GET_BROKER_CLUSTER_INFO),
        (NoFields(), RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS),
        (NoFields(), RequestCode.GET_UNIT_TOPIC_LIST),
        (NoFields(), RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST),
        (NoFields(), RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
        (GetTopicsByCluster(cluster="JavaCluster"), None),
        (GetTopicsByCluster(cluster="absent"), None),
        (GetBrokerMemberGroup(cluster_name="JavaCluster", broker_name="java-a"), None),
        (GetBrokerMemberGroup(cluster_name="JavaCluster", broker_name="absent"), None),
    ],
    ids=lambda value: value.name if isinstance(value, RequestCode) else None,
)
def test_what_is_listed_is_java_s(pair: Pair, header: Header, code: RequestCode | None) -> None:
    ours, java = (ask(at, header, code=code) for at in (pair.ours, pair.java))
    assert values_of(ours) == values_of(java)


def test_permissions_are_taken_and_given_as_by_java(pair: Pair) -> None:
    for header in (
        WipeWritePermOfBroker(broker_name=pair.broker.name),
        AddWritePermOfBroker(broker_name=pair.broker.name),
    ):
        ours, java = (ask(at, header) for at in (pair.ours, pair.java))
        assert ours.texts() == java.texts()
        routes = [route_of(at, "TBW102") for at in (pair.ours, pair.java)]
        assert routes[0] == routes[1]


def test_javas_admin_tool_works_on_it(pair: Pair, java_540: Java) -> None:
    pair.create_topic("administered")

    def mqadmin(*arguments: str) -> str:
        (printed,) = java_540.ask(MQADMIN, [[*arguments, "-n", str(pair.ours)]])
        return printed

    assert str(pair.broker.address) in mqadmin("clusterList")
    assert str(pair.broker.address) in mqadmin("topicRoute", "-t", "administered")
    order = "java-a:4"
    printed = mqadmin("updateOrderConf", "-m", "put", "-t", "administered", "-v", order)
    assert "success" in printed
    asked = GetKVConfig(namespace="ORDER_TOPIC_CONFIG", key="administered")
    assert ask(pair.ours, asked).read(GetKVConfigAnswer).value == order
    route = route_of(pair.ours, "administered")
    assert route is not None
    assert route.order_topic_conf == order
    mqadmin("updateNamesrvConfig", "-k", "enableTopicList", "-v", "false")
    assert "enableTopicList                                   =  false" in mqadmin(
        "getNamesrvConfig"
    )
    mqadmin("updateNamesrvConfig", "-k", "enableTopicList", "-v", "true")


def test_javas_client_finds_its_way_by_it(pair: Pair, java_540: Java) -> None:
    pair.create_topic("found")
    send = ["sendMessage", "-t", "found", "-p", "by our route", "-n", str(pair.ours)]
    (printed,) = java_540.ask(MQADMIN, [send])
    assert "SEND_OK" in printed
    consume = ["consumeMessage", "-t", "found", "-n", str(pair.ours)]

    def is_read() -> bool:
        """Read again only if Java's client found its broker, and that one did not serve it."""
        (printed,) = java_540.ask(MQADMIN, [consume])
        assert "by our route" in printed or f"Invoke Broker[{pair.broker.address}]" in printed
        return "by our route" in printed

    until(is_read, what="the message is read")


def test_a_broker_that_stops_is_gone_at_once_and_comes_back(tmp_path: Path) -> None:
    if why := counterparts.missing_for("5.4.0"):
        decline(why)
    with our_nameserver(tmp_path) as address:
        with JavaBroker(
            "5.4.0", tmp_path / "broker", nameserver=address, settings=COMPRESSED
        ) as broker:
            assert route_of(address, "TBW102") is not None
            broker.stop()
            assert brokers_known_to(address) == {}
            broker.start()
            assert brokers_known_to(address) == {broker.name: {0: str(broker.address)}}


def test_an_old_broker_that_dies_is_gone_at_once(tmp_path: Path) -> None:
    if why := counterparts.missing_for("4.9.7"):
        decline(why)
    with our_nameserver(tmp_path) as address:
        with JavaBroker(
            "4.9.7", tmp_path / "broker", nameserver=address, settings=COMPRESSED
        ) as broker:
            route = route_of(address, "TBW102")
            assert route is not None
            assert route.broker_datas[0].broker_addrs == {0: str(broker.address)}
            broker.kill()
            until(lambda: not brokers_known_to(address), what="the broker is gone")
            assert route_of(address, "TBW102") is None
