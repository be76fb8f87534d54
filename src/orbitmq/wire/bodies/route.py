"""Routes: where the queues of a topic are, from a nameserver for clients."""

import msgspec
from msgspec import field

from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body
from orbitmq.wire.json.fastjson import ascii_json, without_nulls

__all__ = ["BrokerData", "QueueData", "TopicRouteData"]


class BrokerData(Body, frozen=True, kw_only=True):
    """The brokers that share one name: a master, whose id is 0, and its slaves."""

    broker_addrs: dict[Int64, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class QueueData(Body, frozen=True, kw_only=True):
    """The queues of a topic on the brokers of one name; ``perm`` is 4 for read, 2 for write."""

    broker_name: str = ""
    perm: Int32 = 0
    read_queue_nums: Int32 = 0
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 0


class TopicRouteData(Body, frozen=True, kw_only=True):
    """The answer of a nameserver to GET_ROUTEINFO_BY_TOPIC.

    >>> route = TopicRouteData.from_json(b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.7:10911"}}]}')
    >>> route.broker_datas[0].broker_addrs
    {0: '10.0.0.7:10911'}
    """

    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: dict[str, tuple[str, ...]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = ()
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def to_standard_json(self) -> bytes:
        """Return the form for clients since version 401: keys quoted and sorted, all ASCII.

        Clients that set ``acceptStandardJsonOnly`` get it as well; others get
        ``to_json(java_keys=True)`` (``ClientRequestProcessor`` in Java).

        >>> TopicRouteData(filter_server_table={"b": (), "a": ()}).to_standard_json()
        b'{"brokerDatas":[],"filterServerTable":{"a":[],"b":[]},"queueDatas":[]}'
        """
        values: object = msgspec.to_builtins(self, str_keys=True)
        return ascii_json(without_nulls(msgspec.json.encode(values, order="sorted")))
