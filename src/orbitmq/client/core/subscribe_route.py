"""From a nameserver's answer to the queues that can be read, and the brokers to ask. Pure.

::

    static topic    logic queue → broker      all logic queues, with or without a leader
    queue data      broker-a: 4 readable      of all brokers, even without a master now

(``MQClientInstance.topicRouteData2TopicSubscribeInfo`` in Java.) Members of a group compute the
same queues from the same route, so a broker without a master keeps its queues.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from orbitmq.client.core.publish_route import (
    MASTER_ID,
    BrokerAddresses,
    check_queue_count,
    logic_queues,
)
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import READ

__all__ = ["SubscribeRoute", "subscribe_route"]


class SubscribeRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages of a topic can be read.

    ``queues`` are sorted. ``masters`` has the master of each broker name that has one; ``brokers``
    one address for each broker name, the master's if there is one, sorted by name.
    """

    topic: str
    queues: tuple[MessageQueue, ...]
    masters: Mapping[str, Address]
    brokers: Mapping[str, Address]
    leaders: Mapping[MessageQueue, str] = MappingProxyType({})

    def master_of(self, queue: MessageQueue) -> Address | None:
        """Return the address of the master that has a queue; None if there is none now."""
        return self.masters.get(self.leaders.get(queue, queue.broker_name))

    def broker_of(self, queue: MessageQueue) -> Address | None:
        """Return the address of a queue's master, or of a slave; None if none has one."""
        return self.brokers.get(self.leaders.get(queue, queue.broker_name))


def subscribe_route(topic: str, route: TopicRouteData, where: BrokerAddresses) -> SubscribeRoute:
    """Return where messages of a topic can be read; raise InvalidBody if it has too many queues."""
    masters: dict[str, Address] = {}
    brokers: dict[str, Address] = {}
    for broker in sorted(route.broker_datas, key=lambda one: one.broker_name):
        addresses = {
            number: address
            for number, text in sorted(broker.broker_addrs.items())
            if (address := where.address(text)) is not None
        }
        if MASTER_ID in addresses:
            masters[broker.broker_name] = addresses[MASTER_ID]
        if addresses:
            brokers[broker.broker_name] = next(iter(addresses.values()))
    leaders: dict[MessageQueue, str] = {}
    if route.topic_queue_mapping_by_broker:
        leaders = logic_queues(topic, route.topic_queue_mapping_by_broker)
        queues = list(leaders)
    else:
        queues = _readable(topic, route)
    return SubscribeRoute(
        topic=topic,
        queues=tuple(sorted(queues)),
        masters=MappingProxyType(masters),
        brokers=MappingProxyType(brokers),
        leaders=MappingProxyType(leaders),
    )


def _readable(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    queues: set[MessageQueue] = set()
    for data in route.queue_datas:
        if data.perm & READ:
            check_queue_count(topic, len(queues) + data.read_queue_nums)
            queues |= {
                MessageQueue(topic, data.broker_name, number)
                for number in range(data.read_queue_nums)
            }
    return list(queues)
