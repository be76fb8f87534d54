from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.core.publish_route import BrokerAddresses, publish_route, spread_over
from orbitmq.client.settings import AddressMap, ClientSettings
from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from tests.client.scene import BROKER_A, BROKER_B, route

WHERE = BrokerAddresses(ClientSettings())


def places(data: TopicRouteData) -> list[tuple[str, int]]:
    found = publish_route("orders", data, WHERE)
    assert {queue.topic for queue in found.queues} <= {"orders"}
    return [(queue.broker_name, queue.queue_id) for queue in found.queues]


def test_queues_are_sorted_by_broker() -> None:
    assert places(route("b", "a", queues=2)) == [
        ("broker-a", 0),
        ("broker-a", 1),
        ("broker-b", 0),
        ("broker-b", 1),
    ]


@pytest.mark.parametrize(("perm", "count"), [(6, 4), (7, 4), (2, 4), (4, 0), (0, 0), (1, 0)])
def test_only_what_may_be_written_counts(perm: int, count: int) -> None:
    assert len(places(route("a", perm=perm))) == count


def test_only_brokers_with_a_master_count() -> None:
    replica = BrokerData(broker_name="broker-b", broker_addrs={1: "10.0.0.3:10911"})
    both = route("a", "b")
    left = TopicRouteData(
        broker_datas=(both.broker_datas[0], replica), queue_datas=both.queue_datas
    )
    assert {broker for broker, _ in places(left)} == {"broker-a"}
    unknown = TopicRouteData(broker_datas=(), queue_datas=both.queue_datas)
    assert places(unknown) == []


def test_an_order_config_says_which_queues_there_are() -> None:
    data = route("a", order_topic_conf="broker-b:1;broker-a:2;")
    found = publish_route("orders", data, WHERE)
    assert places(data) == [("broker-b", 0), ("broker-a", 0), ("broker-a", 1)]
    assert found.is_ordered
    assert found.address_of(found.queues[0]) is None  # its broker is not there
    assert found.address_of(found.queues[1]) == BROKER_A


@pytest.mark.parametrize("config", ["broker-a", "broker-a:x", ":4", "broker-a:-1", "a:9999999"])
def test_an_order_config_that_cannot_be_read_is_an_error(config: str) -> None:
    with pytest.raises(InvalidBody, match="order config"):
        places(route("a", order_topic_conf=config))


def test_an_order_config_that_is_empty_hides_a_static_topic_as_in_java() -> None:
    mapping = {"broker-a": TopicQueueMappingInfo(bname="broker-a", total_queues=9)}
    data = route("a", order_topic_conf="", topic_queue_mapping_by_broker=mapping)
    assert places(data) == [("broker-a", number) for number in range(4)]


def test_the_queues_of_a_static_topic_are_led_by_brokers() -> None:
    mapping = {
        "broker-a": TopicQueueMappingInfo(
            bname="broker-a", epoch=1, total_queues=4, curr_id_map={0: 0, 1: 1}
        ),
        "broker-b": TopicQueueMappingInfo(
            bname="broker-b", epoch=2, total_queues=4, curr_id_map={1: 0, 2: 1}
        ),
    }
    found = publish_route("orders", route("a", "b", topic_queue_mapping_by_broker=mapping), WHERE)
    assert found.queues == tuple(
        MessageQueue("orders", "__syslo__global__", number) for number in range(4)
    )
    leaders = [found.broker_of(queue) for queue in found.queues]
    assert leaders == ["broker-a", "broker-b", "broker-b", "__syslo__none__"]
    assert [found.address_of(queue) for queue in found.queues] == [
        BROKER_A,
        BROKER_B,
        BROKER_B,
        None,
    ]


def test_a_route_with_more_queues_than_there_can_be_is_refused() -> None:
    for data in (
        route("a", queues=2**31 - 1),
        route("a", order_topic_conf="a:65000;b:65000"),
        route(
            "a",
            topic_queue_mapping_by_broker={"a": TopicQueueMappingInfo(total_queues=2**31 - 1)},
        ),
    ):
        with pytest.raises(InvalidBody, match="queues"):
            places(data)


def test_a_topic_in_the_making_has_as_many_queues_as_it_may() -> None:
    default = TopicRouteData(
        broker_datas=route("a", "b").broker_datas,
        queue_datas=(
            QueueData(broker_name="broker-a", perm=7, read_queue_nums=8, write_queue_nums=8),
            QueueData(broker_name="broker-b", perm=7, read_queue_nums=2, write_queue_nums=8),
        ),
    )
    assert [broker for broker, _ in places(spread_over(default, 4))] == [
        *["broker-a"] * 4,
        *["broker-b"] * 2,
    ]


@pytest.mark.parametrize(
    "address_map",
    [
        {"172.17.0.3:10911": "127.0.0.1:20911"},
        {"172.17.0.3": "127.0.0.1"},
        lambda _advertised: "127.0.0.1:20911",
    ],
)
def test_addresses_are_rewritten(address_map: AddressMap) -> None:
    where = BrokerAddresses(ClientSettings(address_map=address_map))
    found = where.address("172.17.0.3:10911")
    assert found is not None
    assert found.host == "127.0.0.1"
    other: Callable[[str], str] = lambda text: text  # noqa: E731
    assert BrokerAddresses(ClientSettings(address_map=other)).address("b:1") == Address("b", 1)


def test_a_map_that_fails_is_told_to_who_needs_the_address() -> None:
    def broken(_advertised: str) -> str:
        raise KeyError("no tunnel")

    where = BrokerAddresses(ClientSettings(address_map=broken))
    with pytest.raises(InvalidInput, match="address_map failed on 10.0.0.1:10911.*no tunnel"):
        publish_route("orders", route("a"), where)


def test_sends_may_go_two_ports_below() -> None:
    where = BrokerAddresses(ClientSettings(vip_channel=True, address_map={"inner": "outer"}))
    assert where.send_address("inner:10911") == Address("outer", 10909)
    assert where.address("inner:10911") == Address("outer", 10911)
    assert where.send_address("inner:2") == Address("outer", 2)
    assert WHERE.send_address("b:10911") == Address("b", 10911)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_nowhere(advertised: str) -> None:
    found = BrokerAddresses(ClientSettings(vip_channel=True)).send_address(advertised)
    assert found is None or isinstance(found, Address)
