import pytest

from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.spark.cluster.read_route import mapped_address, read_route
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo


def route(*queues: QueueData, **brokers: dict[int, str]) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=tuple(
            BrokerData(broker_name=name, cluster="c", broker_addrs=addresses)
            for name, addresses in brokers.items()
        ),
        queue_datas=queues,
    )


def queues(broker: str, count: int, perm: int = 6) -> QueueData:
    return QueueData(broker_name=broker, read_queue_nums=count, perm=perm)


def test_queues_with_read_permission_are_read_in_order() -> None:
    found = read_route(
        "orders",
        route(queues("b", 1), queues("a", 2), queues("w", 1, perm=2), a={0: "h:1"}, b={1: "h:2"}),
    )
    assert found.queues == (
        MessageQueue("orders", "a", 0),
        MessageQueue("orders", "a", 1),
        MessageQueue("orders", "b", 0),  # its primary is down, and a replica serves it
    )
    assert found.replicas("b") == [(1, Address("h", 2))]


def test_the_preferred_replica_comes_first() -> None:
    found = read_route("orders", route(a={2: "h:2", 0: "h:0", 1: "h:1"}))
    assert [number for number, _ in found.replicas("a")] == [0, 1, 2]
    assert [number for number, _ in found.replicas("a", 2)] == [2, 0, 1]
    assert found.replicas("x") == []


def test_a_broker_without_a_readable_address_serves_nothing() -> None:
    assert read_route("orders", route(queues("a", 4), a={0: "nonsense"})).queues == ()
    assert read_route("orders", route(queues("a", 4))).queues == ()


def test_addresses_are_mapped_by_host_or_whole() -> None:
    mapping = {"172.17.0.3": "127.0.0.1", "172.17.0.4:10911": "127.0.0.1:20911"}
    assert mapped_address("172.17.0.3:10911", mapping) == Address("127.0.0.1", 10911)
    assert mapped_address("172.17.0.4:10911", mapping) == Address("127.0.0.1", 20911)
    assert mapped_address("172.17.0.4:10912", mapping) == Address("172.17.0.4", 10912)
    found = read_route("orders", route(a={0: "172.17.0.3:1"}), tuple(mapping.items()))
    assert found.addresses == {"a": {0: Address("127.0.0.1", 1)}}


def test_topics_of_brokers_are_system_topics() -> None:
    for topic, is_system in (("a", True), ("c", True), ("orders", False)):
        assert read_route(topic, route(a={0: "h:1"})).is_system is is_system


def test_invalid_routes_are_refused() -> None:
    with pytest.raises(InvalidBody, match="has 100000 queues"):
        read_route("orders", route(queues("a", 100_000), a={0: "h:1"}))
    static = TopicRouteData(topic_queue_mapping_by_broker={"a": TopicQueueMappingInfo()})
    with pytest.raises(InvalidInput, match="orders is a static topic"):
        read_route("orders", static)
