import pytest

from orbitmq.client.core.publish_route import BrokerAddresses
from orbitmq.client.core.subscribe_route import subscribe_route
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import InvalidBody
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from tests.client.scene import BROKER_A, BROKER_B, route

WHERE = BrokerAddresses(ClientSettings())


def queues(name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", name, number) for number in range(count)]


def test_the_readable_queues_are_sorted() -> None:
    found = subscribe_route("orders", route("b", "a", queues=2), WHERE)
    assert list(found.queues) == [*queues("broker-a", 2), *queues("broker-b", 2)]
    assert list(found.brokers.items()) == [("broker-a", BROKER_A), ("broker-b", BROKER_B)]
    assert found.master_of(found.queues[3]) == BROKER_B


def test_queues_that_may_not_be_read_are_left_out() -> None:
    assert subscribe_route("orders", route("a", perm=2), WHERE).queues == ()


def test_a_broker_with_slaves_only_keeps_its_queues() -> None:
    data = TopicRouteData(
        broker_datas=(BrokerData(broker_name="broker-a", broker_addrs={2: "h:2", 1: "h:1"}),),
        queue_datas=(QueueData(broker_name="broker-a", perm=6, read_queue_nums=1),),
    )
    found = subscribe_route("orders", data, WHERE)
    assert list(found.queues) == queues("broker-a", 1)
    assert found.master_of(found.queues[0]) is None
    assert str(found.broker_of(found.queues[0])) == "h:1"


def test_logic_queues_of_a_static_topic_have_leaders() -> None:
    mapping = {
        "broker-a": TopicQueueMappingInfo(
            bname="broker-a", scope="__global__", total_queues=2, epoch=1, curr_id_map={1: 0}
        )
    }
    data = route("a", topic_queue_mapping_by_broker=mapping)
    found = subscribe_route("orders", data, WHERE)
    assert [queue.queue_id for queue in found.queues] == [0, 1]
    assert found.master_of(found.queues[1]) == found.broker_of(found.queues[1]) == BROKER_A
    assert found.master_of(found.queues[0]) is found.broker_of(found.queues[0]) is None


def test_a_route_with_too_many_queues_is_refused() -> None:
    with pytest.raises(InvalidBody, match="at most 65536"):
        subscribe_route("orders", route("a", queues=65_537), WHERE)
