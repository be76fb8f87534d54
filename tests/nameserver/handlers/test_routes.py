"""Clients and admin tools ask about topics and brokers."""

import json
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.bodies.route import QueueData, TopicRouteData
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    AddWritePermOfBroker,
    DeleteTopicFromNamesrv,
    GetRouteInfo,
    GetTopicsByCluster,
    PutKVConfig,
    RegisterTopic,
    WipeWritePermOfBroker,
)
from orbitmq.wire.session import Identity
from tests.nameserver.parties import (
    ADDRESS,
    CLUSTER,
    REPLICA,
    Party,
    topics,
    who,
    with_nameserver,
)

ORDERS = GetRouteInfo(topic="orders")
QUOTED, BARE = b'{"0":"10.0.0.1:10911"}', b'{0:"10.0.0.1:10911"}'
MEMORY = NameserverSettings(kv_config_path="")


def with_broker(
    scenario: Callable[[Party], Awaitable[None]], settings: NameserverSettings = MEMORY
) -> None:
    """Run a scenario with two brokers, of which one is registered in a zone."""

    async def prepared(party: Party) -> None:
        async with party.dialer() as one, party.dialer() as other:
            await party.ask(who(zone="east"), topics("orders", "bills").to_json(), by=one)
            flagged = topics("unit", "shared", sys_flag=3).to_json()
            await party.ask(who("broker-b", REPLICA, cluster="Other"), flagged, by=other)
            await scenario(party)

    with_nameserver(prepared, settings)


def route_of(answer: Frame) -> TopicRouteData:
    assert answer.code == ResponseCode.SUCCESS, answer
    return TopicRouteData.from_json(answer.body)


def names_of(answer: Frame) -> tuple[str, ...]:
    assert answer.code == ResponseCode.SUCCESS, answer
    return TopicList.from_json(answer.body).topic_list


@pytest.mark.parametrize(
    ("version", "standard", "keys"),
    [(493, None, QUOTED), (401, None, QUOTED), (400, None, BARE), (0, True, QUOTED)],
)
def test_keys_are_quoted_for_those_who_want_it(
    version: int, standard: bool | None, keys: bytes
) -> None:
    async def scenario(party: Party) -> None:
        asked = GetRouteInfo(topic="orders", accept_standard_json_only=standard)
        async with Dialer(network=party.network, identity=Identity(version=version)) as client:
            answer = await client.request(party.nameserver.address, asked)
        assert keys in bytes(answer.body)

    with_broker(scenario)


def test_an_unknown_topic_says_what_to_do() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(GetRouteInfo(topic="absent"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert answer.remark is not None
        assert answer.remark.startswith(
            "No topic route info in name server for the topic: absent\n"
        )

    with_broker(scenario)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_order_of_a_topic_is_told_if_it_should(enabled: bool) -> None:
    async def scenario(party: Party) -> None:
        for topic in ("orders", "other"):
            await party.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key=topic, value=topic))
        route = route_of(await party.ask(ORDERS))
        assert route.order_topic_conf == ("orders" if enabled else None)
        assert route_of(await party.ask(GetRouteInfo(topic="bills"))).order_topic_conf is None

    with_broker(scenario, NameserverSettings(kv_config_path="", order_message_enable=enabled))


@pytest.mark.parametrize(
    ("asked", "brokers"),
    [
        (GetRouteInfo(topic="orders", zone_mode=True, zone="EAST"), ["broker-a"]),
        (GetRouteInfo(topic="orders", zone_mode=True, zone="west"), []),
        (GetRouteInfo(topic="orders", zone_mode=True, zone=" "), ["broker-a"]),
        (GetRouteInfo(topic="orders", zone_mode=True), ["broker-a"]),
        (GetRouteInfo(topic="orders", zone_mode=False, zone="west"), ["broker-a"]),
    ],
)
def test_a_zone_counts_where_the_mode_is_on(asked: GetRouteInfo, brokers: list[str]) -> None:
    async def scenario(party: Party) -> None:
        route = route_of(await party.ask(asked))
        assert [one.broker_name for one in route.broker_datas] == brokers
        assert [one.broker_name for one in route.queue_datas] == brokers

    with_broker(scenario)


def test_routes_wait_for_brokers_where_they_should() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(ORDERS)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("name server not ready")
        await party.clock.sleep(45)
        route_of(await party.ask(ORDERS))

    with_broker(scenario, NameserverSettings(kv_config_path="", need_wait_for_service=True))


def test_an_acting_master_is_shown_where_it_should() -> None:
    async def scenario(party: Party) -> None:
        async with party.dialer() as replica:
            header = who("broker-c", "10.0.0.3:1", broker_id=2, acting_master=True)
            await party.ask(header, topics("left", "over").to_json(), by=replica)
            route = route_of(await party.ask(GetRouteInfo(topic="left")))
            assert route.broker_datas[0].broker_addrs == {0: "10.0.0.3:1"}

    with_broker(scenario, NameserverSettings(kv_config_path="", support_acting_master=True))


def test_writes_are_stopped_and_allowed_again() -> None:
    async def scenario(party: Party) -> None:
        wiped = await party.ask(WipeWritePermOfBroker(broker_name="broker-a"))
        assert wiped.texts() == {"wipeTopicCount": "2"}
        assert route_of(await party.ask(ORDERS)).queue_datas[0].perm == 4
        added = await party.ask(AddWritePermOfBroker(broker_name="broker-a"))
        assert added.texts() == {"addTopicCount": "2"}
        assert route_of(await party.ask(ORDERS)).queue_datas[0].perm == 6
        absent = await party.ask(WipeWritePermOfBroker(broker_name="absent"))
        assert absent.texts() == {"wipeTopicCount": "0"}

    with_broker(scenario)


def test_clusters_have_bare_numbers_as_keys_as_in_java() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
        assert BARE in bytes(answer.body)
        info = ClusterInfo.from_json(answer.body)
        assert info.cluster_addr_table == {CLUSTER: ("broker-a",), "Other": ("broker-b",)}

    with_broker(scenario)


def test_topics_are_registered_and_deleted_by_hand(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(party: Party) -> None:
        for topic, broker in (("new", "broker-a"), ("lost", "broker-z")):
            route = TopicRouteData(queue_datas=(QueueData(broker_name=broker, perm=6),))
            answer = await party.ask(RegisterTopic(topic=topic), route.to_json())
            assert answer.code == ResponseCode.SUCCESS
        assert (await party.ask(RegisterTopic(topic="empty"))).code == ResponseCode.SUCCESS
        listed = await party.ask(NoFields(), code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert names_of(listed) == ("bills", "new", "orders", "shared", "unit")
        await party.ask(DeleteTopicFromNamesrv(topic="new"))
        await party.ask(DeleteTopicFromNamesrv(topic="bills", cluster_name="Other"))
        await party.ask(DeleteTopicFromNamesrv(topic="unit", cluster_name="Other"))
        listed = await party.ask(NoFields(), code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert names_of(listed) == ("bills", "orders", "shared")

    with_broker(scenario)
    assert "topic lost has unknown brokers" in caplog.text


LISTS = [
    (RequestCode.GET_UNIT_TOPIC_LIST, ("shared", "unit")),
    (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, ("shared", "unit")),
    (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, ()),
]


@pytest.mark.parametrize(("code", "expected"), LISTS)
def test_lists_of_unit_topics(code: RequestCode, expected: tuple[str, ...]) -> None:
    async def scenario(party: Party) -> None:
        assert names_of(await party.ask(NoFields(), code=code)) == expected

    with_broker(scenario)


def test_lists_by_cluster_and_of_system_topics() -> None:
    async def scenario(party: Party) -> None:
        assert names_of(await party.ask(GetTopicsByCluster(cluster=CLUSTER))) == ("bills", "orders")
        system = await party.ask(NoFields(), code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert names_of(system) == (CLUSTER, "Other", "broker-a", "broker-b")
        assert json.loads(bytes(system.body))["brokerAddr"] == ADDRESS

    with_broker(scenario)


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        (
            NameserverSettings(kv_config_path="", enable_all_topic_list=False),
            [RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER],
        ),
        (
            NameserverSettings(kv_config_path="", enable_topic_list=False),
            [RequestCode.GET_TOPICS_BY_CLUSTER, *(code for code, _ in LISTS)],
        ),
    ],
)
def test_lists_that_are_disabled_are_refused(
    settings: NameserverSettings, codes: list[RequestCode]
) -> None:
    async def scenario(party: Party) -> None:
        for code in codes:
            answer = await party.ask(GetTopicsByCluster(cluster=CLUSTER), code=code)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").startswith("disable")

    with_broker(scenario, settings)
