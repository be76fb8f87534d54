"""Who lives and what they serve, decided without a network."""

import pytest

from orbitmq.nameserver import route_table
from orbitmq.nameserver.route_table import BROKER_TIMEOUT_MS, Registered, RouteTable
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.registration import BrokerRegistration
from orbitmq.wire.bodies.route import QueueData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.wire.headers.route import RegisterBroker
from tests.nameserver.parties import ADDRESS, CLUSTER, REPLICA, farewell, topics, who

MASTER = who(acting_master=True)
SLAVE = who(address=REPLICA, broker_id=1, acting_master=True)


def register(
    table: RouteTable,
    header: RegisterBroker,
    body: BrokerRegistration,
    *,
    channel: object = "channel",
    now_ms: int = 0,
    delete_missing: bool = False,
) -> Registered:
    return table.register(
        header, body, channel=channel, now_ms=now_ms, delete_missing=delete_missing
    )


def table_of(*brokers: tuple[RegisterBroker, BrokerRegistration]) -> RouteTable:
    table = RouteTable()
    for header, body in brokers:
        register(table, header, body, channel=header.broker_addr)
    return table


def queues_of(table: RouteTable, topic: str) -> dict[str, int]:
    return {name: queue.write_queue_nums for name, queue in table.topics.queues(topic).items()}


def permission(table: RouteTable, topic: str, name: str = "broker-a") -> int:
    return table.topics.queues(topic)[name].perm


def addresses(table: RouteTable, topic: str) -> dict[str, dict[int, str]]:
    route = table.route(topic)
    return (
        {} if route is None else {one.broker_name: one.broker_addrs for one in route.broker_datas}
    )


# Registration.


def test_a_route_has_all_that_clients_read() -> None:
    table = table_of((who(zone="east"), topics("orders", "bills", filter_servers=("f:1",))))
    route = table.route("orders")
    assert route is not None
    (broker,) = route.broker_datas
    assert (broker.broker_name, broker.cluster, broker.broker_addrs) == (
        "broker-a",
        CLUSTER,
        {0: ADDRESS},
    )
    assert (broker.enable_acting_master, broker.zone_name) == (False, "east")
    assert route.queue_datas == (
        QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4),
    )
    assert route.filter_server_table == {ADDRESS: ("f:1",)}
    assert (route.order_topic_conf, route.topic_queue_mapping_by_broker) == (None, None)


def test_brokers_stand_in_the_order_of_their_names() -> None:
    brokers = [
        (who(name, f"10.0.0.{number}:10911"), topics("orders", "bills"))
        for number, name in enumerate(("broker-c", "broker-a", "broker-b"), start=1)
    ]
    route = table_of(*brokers).route("orders")
    assert route is not None
    names = ["broker-a", "broker-b", "broker-c"]
    assert [one.broker_name for one in route.broker_datas] == names
    assert [one.broker_name for one in route.queue_datas] == names


def test_a_topic_without_brokers_has_no_route() -> None:
    assert table_of((who(), topics("orders", "bills"))).route("absent") is None


def test_a_known_version_changes_nothing_but_adds_what_is_missing() -> None:
    table = table_of((who(), topics("orders", "bills")))
    register(table, who(), topics("orders", "bills", "new", queues=8))
    assert [queues_of(table, topic) for topic in ("orders", "new")] == [
        {"broker-a": 4},
        {"broker-a": 8},
    ]


@pytest.mark.parametrize(
    "later",
    [
        topics("orders", "bills", queues=8, counter=2),
        topics("orders", "bills", queues=8, state_version=1),
    ],
)
def test_another_version_changes_all(later: BrokerRegistration) -> None:
    table = table_of((who(), topics("orders", "bills")))
    register(table, who(), later)
    assert queues_of(table, "orders") == {"broker-a": 8}
    assert table.version_of(CLUSTER, ADDRESS) == later.topics.data_version


def test_topics_missing_in_a_registration_stay_unless_they_are_to_be_deleted() -> None:
    table = table_of((who(), topics("orders", "bills")))
    register(table, who(), topics("orders", "new", counter=2))
    assert table.topics.names().topic_list == ("bills", "new", "orders")
    register(table, who(), topics("orders", "new", counter=3), delete_missing=True)
    assert table.topics.names().topic_list == ("new", "orders")


def test_one_topic_before_all_of_them_is_refused_and_leaves_no_trace() -> None:
    table = RouteTable()
    with pytest.raises(Refusal, match="^register broker failed"):
        register(table, who(), topics("orders"))
    assert table.cluster_info().broker_addr_table == {}
    assert table.version_of(CLUSTER, ADDRESS) is None


def test_one_topic_after_all_of_them_is_added() -> None:
    table = table_of((who(), topics("orders", "bills")))
    register(table, who(), topics("new", counter=2))
    assert table.topics.names().topic_list == ("bills", "new", "orders")


def test_a_static_topic_brings_its_mapping() -> None:
    table = RouteTable()
    body = topics("static", "bills")
    mapping = TopicQueueMappingInfo(topic="static", bname="broker-a", total_queues=8)
    body.topics.topic_queue_mapping_info_map["static"] = mapping
    register(table, who(), body)
    route = table.route("static")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"broker-a": mapping}
    register(table, who(), topics("bills", "more", counter=2), delete_missing=True)
    assert table.topics.mappings("static") is None


def test_bounds_are_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 1)
    table = table_of((who(), topics("orders", "bills")))
    register(table, who(), topics("orders", "bills"))
    with pytest.raises(Refusal, match="1 brokers are registered"):
        register(table, who("broker-b", REPLICA), topics("orders", "bills"))


# Replicas.


def test_a_replica_learns_its_master_and_brings_no_topics() -> None:
    table = table_of((MASTER, topics("orders", "bills")))
    registered = register(table, SLAVE, topics("orders", "bills", "replica", queues=9))
    assert registered == Registered(ADDRESS, "10.0.0.1:10912")
    assert addresses(table, "orders") == {"broker-a": {0: ADDRESS, 1: REPLICA}}
    assert queues_of(table, "orders") == {"broker-a": 4}
    assert table.route("replica") is None


def test_a_master_learns_of_no_master() -> None:
    assert register(RouteTable(), MASTER, topics("orders", "bills")) == Registered()


def test_a_replica_without_a_master_brings_topics_that_cannot_be_written() -> None:
    table = table_of((SLAVE, topics("orders", "bills")))
    assert permission(table, "orders") == 4


def test_a_replica_of_an_old_release_brings_none() -> None:
    old = who(address=REPLICA, broker_id=1, acting_master=None)
    table = table_of((old, topics("orders", "bills")))
    assert table.route("orders") is None
    assert table.members(CLUSTER, "broker-a").broker_addrs == {1: REPLICA}


def test_a_replica_that_becomes_master_leaves_its_old_id() -> None:
    table = table_of((SLAVE, topics("orders", "bills")))
    register(table, who(address=REPLICA, acting_master=True), topics("orders", "bills", counter=2))
    assert addresses(table, "orders") == {"broker-a": {0: REPLICA}}
    assert permission(table, "orders") == 6


def test_an_address_with_an_older_state_does_not_take_the_id_of_another() -> None:
    table = table_of(
        (who(), topics("orders", "bills", state_version=2)),
        (who(address=REPLICA, broker_id=1), topics("orders", "bills", state_version=1)),
    )
    late = who(address=REPLICA)
    assert register(table, late, topics("orders", "bills", state_version=1)) == Registered()
    assert addresses(table, "orders") == {"broker-a": {0: ADDRESS}}
    assert table.version_of(CLUSTER, REPLICA) is None


def test_an_address_with_the_same_state_does() -> None:
    table = table_of((who(), topics("orders", "bills", state_version=2)))
    register(table, who(address=REPLICA), topics("orders", "bills", state_version=2))
    assert addresses(table, "orders") == {"broker-a": {0: REPLICA}}


# Farewells.


def test_the_last_address_takes_name_cluster_and_topics_along() -> None:
    table = table_of((who(), topics("orders", "bills")))
    assert table.unregister(farewell(who())) is None
    assert table.cluster_info().cluster_addr_table == {}
    assert table.cluster_info().broker_addr_table == {}
    assert table.topics.names().topic_list == ()
    assert table.version_of(CLUSTER, ADDRESS) is None


def test_a_master_that_goes_leaves_topics_to_read_where_a_replica_may_act() -> None:
    table = table_of((MASTER, topics("orders", "bills")), (SLAVE, topics("orders", "bills")))
    table.unregister(farewell(MASTER))
    assert addresses(table, "orders") == {"broker-a": {1: REPLICA}}
    assert permission(table, "orders") == 4


def test_a_master_that_goes_leaves_permissions_alone_where_none_may_act() -> None:
    slave = who(address=REPLICA, broker_id=1)
    table = table_of((who(), topics("orders", "bills")), (slave, topics("orders", "bills")))
    assert table.unregister(farewell(who())) is None
    assert permission(table, "orders") == 6


def test_an_unknown_broker_may_unregister() -> None:
    table = table_of((who(), topics("orders", "bills")))
    assert table.unregister(farewell(who("broker-b", REPLICA))) is None
    assert addresses(table, "orders") == {"broker-a": {0: ADDRESS}}


def test_a_closed_connection_takes_all_its_brokers_along() -> None:
    table = RouteTable()
    for name, address in (("broker-a", ADDRESS), ("broker-b", REPLICA)):
        register(table, who(name, address), topics("orders", "bills"), channel="shared")
    register(table, who("broker-c", "10.0.0.3:1"), topics("orders", "bills"), channel="other")
    assert table.drop("shared") == []
    assert addresses(table, "orders") == {"broker-c": {0: "10.0.0.3:1"}}


def test_an_old_connection_of_a_broker_that_came_back_takes_nothing_along() -> None:
    table = RouteTable()
    for channel in ("old", "new"):
        register(table, who(), topics("orders", "bills"), channel=channel)
    table.drop("old")
    assert addresses(table, "orders") == {"broker-a": {0: ADDRESS}}


def test_silence_is_measured_from_the_last_word() -> None:
    table = RouteTable()
    register(table, who(), topics("orders", "bills"), now_ms=1_000)
    table.heard(CLUSTER, ADDRESS, 5_000)
    table.heard(CLUSTER, REPLICA, 5_000)  # none of ours
    assert table.expire(5_000 + BROKER_TIMEOUT_MS) == []
    (gone,) = table.expire(5_001 + BROKER_TIMEOUT_MS)
    assert (gone.address, gone.channel) == (ADDRESS, "channel")
    assert table.route("orders") is None
    assert table.expire(10**9) == []


def test_a_broker_may_name_its_own_patience() -> None:
    table = RouteTable()
    register(table, who(timeout_ms=1_000), topics("orders", "bills"))
    assert table.expire(1_000) == []
    assert len(table.expire(1_001)) == 1


def test_an_address_whose_name_is_gone_is_forgotten_too() -> None:
    table = table_of((who(), topics("orders", "bills")), (who(cluster="Other"), topics("a", "b")))
    assert [gone.address for gone in table.expire(10**9)] == [ADDRESS, ADDRESS]
    assert table.expire(10**9) == []


# Who has the least id.


def test_a_new_broker_with_the_lowest_id_is_announced_to_the_others() -> None:
    table = table_of((SLAVE, topics("orders", "bills")))
    change = register(table, MASTER, topics("orders", "bills")).change
    assert change is not None
    assert change.addresses == (REPLICA,)
    assert (change.notice.min_broker_id, change.notice.min_broker_addr) == (0, ADDRESS)
    assert (change.notice.offline_broker_addr, change.notice.ha_broker_addr) == (
        None,
        "10.0.0.1:10912",
    )


def test_a_removal_of_the_lowest_id_is_announced_to_those_left() -> None:
    table = table_of((MASTER, topics("orders", "bills")), (SLAVE, topics("orders", "bills")))
    (change,) = table.drop(ADDRESS)
    assert change.addresses == (REPLICA,)
    assert (change.notice.min_broker_id, change.notice.offline_broker_addr) == (1, ADDRESS)


def test_a_removal_of_another_id_is_not_announced() -> None:
    table = table_of((MASTER, topics("orders", "bills")), (SLAVE, topics("orders", "bills")))
    assert table.unregister(farewell(SLAVE)) is None


def test_an_acting_master_has_the_masters_id_in_routes_that_ask_for_it() -> None:
    table = table_of((SLAVE, topics("orders", "rmq_sys_SYNC_BROKER_MEMBER_broker-a")))
    route = table.route("orders", acting_master=True)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: REPLICA}
    assert addresses(table, "orders") == {"broker-a": {1: REPLICA}}
    internal = table.route("rmq_sys_SYNC_BROKER_MEMBER_broker-a", acting_master=True)
    assert internal is not None
    assert internal.broker_datas[0].broker_addrs == {1: REPLICA}


def test_a_replica_that_may_be_written_to_keeps_its_id() -> None:
    table = table_of((SLAVE, topics("orders", "bills")))
    table.topics.set_writable("broker-a", writable=True)
    route = table.route("orders", acting_master=True)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: REPLICA}


def test_a_living_master_is_its_own() -> None:
    table = table_of((MASTER, topics("orders", "bills")), (SLAVE, topics("orders", "bills")))
    route = table.route("orders", acting_master=True)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: ADDRESS, 1: REPLICA}


# Topics by hand, and lists.


def test_a_topic_is_set_by_hand_on_known_brokers_alone() -> None:
    table = table_of((who(), topics("orders", "bills")))
    known = QueueData(broker_name="broker-a", perm=6, read_queue_nums=2, write_queue_nums=2)
    unknown = QueueData(broker_name="broker-z")
    assert not table.register_topic("new", (known, unknown))
    assert not table.register_topic("new", ())
    assert table.route("new") is None
    assert table.register_topic("new", (known,))
    assert queues_of(table, "new") == {"broker-a": 2}


def test_a_topic_is_deleted_in_one_cluster_or_in_all() -> None:
    table = table_of(
        (who(), topics("orders", "bills")),
        (who("broker-b", REPLICA, cluster="Other"), topics("orders", "bills")),
    )
    table.delete_topic("orders", "absent")
    table.delete_topic("orders", "Other")
    table.delete_topic("bills")
    assert queues_of(table, "orders") == {"broker-a": 4}
    assert table.topics.names().topic_list == ("orders",)


def test_lists_by_cluster_and_of_system_topics() -> None:
    table = table_of(
        (who(), topics("orders", "bills")),
        (who("broker-b", REPLICA, cluster="Other"), topics("other", "bills")),
    )
    assert table.topics_of(CLUSTER).topic_list == ("bills", "orders")
    assert table.topics_of("absent").topic_list == ()
    system = table.system_topics()
    assert system.topic_list == (CLUSTER, "Other", "broker-a", "broker-b")
    assert system.broker_addr == ADDRESS
    assert RouteTable().system_topics().broker_addr is None


def test_members_and_clusters() -> None:
    table = table_of((MASTER, topics("orders", "bills")), (SLAVE, topics("orders", "bills")))
    members = table.members(CLUSTER, "broker-a")
    assert (members.cluster, members.broker_name) == (CLUSTER, "broker-a")
    assert members.broker_addrs == {0: ADDRESS, 1: REPLICA}
    assert table.members(CLUSTER, "absent").broker_addrs == {}
    info = table.cluster_info()
    assert info.cluster_addr_table == {CLUSTER: ("broker-a",)}
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: ADDRESS, 1: REPLICA}
    assert repr(table) == "<RouteTable 2 brokers, <TopicTable 2 topics>>"
