"""What clients of a zone are shown."""

from orbitmq.nameserver.zones import within_zone
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData


def broker(name: str, zone: str | None, broker_id: int = 0) -> BrokerData:
    return BrokerData(broker_name=name, zone_name=zone, broker_addrs={broker_id: f"{name}:1"})


def test_brokers_of_other_zones_are_left_out_with_all_that_is_theirs() -> None:
    brokers = (broker("near", "East"), broker("far", "west"), broker("nowhere", None))
    route = TopicRouteData(
        broker_datas=brokers,
        queue_datas=tuple(QueueData(broker_name=one.broker_name) for one in brokers),
        filter_server_table={"near:1": ("f",), "far:1": ("f",)},
        order_topic_conf="near:4",
    )
    assert within_zone(route, "east") == TopicRouteData(
        broker_datas=(brokers[0],),
        queue_datas=(QueueData(broker_name="near"),),
        filter_server_table={"near:1": ("f",)},
        order_topic_conf="near:4",
    )


def test_a_broker_without_its_master_is_shown_to_all() -> None:
    route = TopicRouteData(
        broker_datas=(broker("far", "west", broker_id=1),),
        queue_datas=(QueueData(broker_name="far"),),
    )
    assert within_zone(route, "east") == route
