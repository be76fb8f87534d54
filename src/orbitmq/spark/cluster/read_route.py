"""Reads a route: which queues can be read, and the addresses of their brokers.

A queue can be read from the primary, whose id is 0, or from any of its replicas.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import TopicRouteData

__all__ = ["PRIMARY_ID", "ReadRoute", "mapped_address", "read_route"]

PRIMARY_ID: Final = 0
_READABLE: Final = 4
_QUEUES_MAX: Final = 65_536
"""The most queues of a topic that we accept; each takes memory."""


class ReadRoute(msgspec.Struct, frozen=True):
    """The queues of a topic that can be read, sorted, and the brokers that serve them.

    ``addresses`` maps broker names to broker ids to addresses. ``is_system`` is whether RocketMQ
    created the topic for the broker or cluster of that name.
    """

    queues: tuple[MessageQueue, ...]
    addresses: Mapping[str, Mapping[int, Address]]
    is_system: bool = False

    def replicas(self, broker_name: str, first: int = PRIMARY_ID) -> list[tuple[int, Address]]:
        """Return the ids and addresses of a broker: that of id ``first``, then the others.

        >>> where = {0: Address("10.0.0.7", 10911), 1: Address("10.0.0.8", 10911)}
        >>> [number for number, _ in ReadRoute((), {"broker-a": where}).replicas("broker-a", 1)]
        [1, 0]
        """
        known = self.addresses.get(broker_name, {})
        return sorted(known.items(), key=lambda one: (one[0] != first, one[0]))


def read_route(
    topic: str, route: TopicRouteData, address_map: Sequence[tuple[str, str]] = ()
) -> ReadRoute:
    """Return the route of a topic, named without a namespace, for reads.

    ``address_map`` rewrites the addresses that brokers advertise. Raise InvalidBody if the topic
    has too many queues, and InvalidInput for a static topic, whose queues move between brokers.
    """
    if route.topic_queue_mapping_by_broker:
        raise InvalidInput(
            f"topic {topic} is a static topic, whose queues are mapped to several brokers; the "
            "Spark source can't read static topics",
            field="topic",
        )
    mapping = dict(address_map)
    addresses = {
        broker.broker_name: {
            number: address
            for number, advertised in broker.broker_addrs.items()
            if (address := mapped_address(advertised, mapping)) is not None
        }
        for broker in route.broker_datas
    }
    # Every broker has a topic named like itself, and one like its cluster (TopicConfigManager).
    own = {name for broker in route.broker_datas for name in (broker.broker_name, broker.cluster)}
    queues = tuple(sorted(_queues(topic, route, addresses)))
    return ReadRoute(queues, addresses, topic in own)


def _queues(
    topic: str, route: TopicRouteData, addresses: Mapping[str, Mapping[int, Address]]
) -> Iterator[MessageQueue]:
    for data in route.queue_datas:
        if data.read_queue_nums > _QUEUES_MAX:
            raise InvalidBody(
                f"the route of {topic} has {data.read_queue_nums} queues, over {_QUEUES_MAX}"
            )
        if data.perm & _READABLE and addresses.get(data.broker_name):
            for number in range(data.read_queue_nums):
                yield MessageQueue(topic, data.broker_name, number)


def mapped_address(advertised: str, mapping: Mapping[str, str]) -> Address | None:
    """Return the address to use for an advertised one; None if it can't be parsed.

    >>> mapped_address("172.17.0.3:10911", {"172.17.0.3": "127.0.0.1"})
    Address(host='127.0.0.1', port=10911)
    """
    host, colon, port = advertised.rpartition(":")
    text = mapping.get(advertised) or f"{mapping.get(host, host)}{colon}{port}"
    try:
        return Address.parse(text)
    except InvalidInput:
        return None
