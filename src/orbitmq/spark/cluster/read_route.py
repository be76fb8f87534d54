"""From a nameserver's answer to the queues that can be read, and where they are. Pure.

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
"""Queues of one topic; brokers have some, never so many, and each takes memory here."""


class ReadRoute(msgspec.Struct, frozen=True):
    """Where the messages of a topic can be read.

    Attributes:
        queues: its queues, sorted.
        addresses: for each broker name, where its brokers are reached, by broker id.
        is_system: whether the topic is one that RocketMQ makes for a broker or cluster of its name.

    """

    queues: tuple[MessageQueue, ...]
    addresses: Mapping[str, Mapping[int, Address]]
    is_system: bool = False

    def replicas(self, broker_name: str, first: int = PRIMARY_ID) -> list[tuple[int, Address]]:
        """Return who serves the queues of a broker: the one with the id ``first``, then others.

        >>> where = {0: Address("10.0.0.7", 10911), 1: Address("10.0.0.8", 10911)}
        >>> [number for number, _ in ReadRoute((), {"broker-a": where}).replicas("broker-a", 1)]
        [1, 0]
        """
        known = self.addresses.get(broker_name, {})
        return sorted(known.items(), key=lambda one: (one[0] != first, one[0]))


def read_route(
    topic: str, route: TopicRouteData, address_map: Sequence[tuple[str, str]] = ()
) -> ReadRoute:
    """Return where a topic can be read.

    Args:
        topic: the name that its queues are to have: the user's, without a namespace.
        route: what a nameserver says.
        address_map: what brokers advertise, and where it is reached.

    Raises:
        InvalidBody: it has more queues than there can be.
        InvalidInput: it is a static topic, whose queues move between brokers.

    """
    if route.topic_queue_mapping_by_broker:
        raise InvalidInput(
            f"topic {topic} is a static topic, whose queues are laid over those of several "
            "brokers; the Spark source can't read these",
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
    # Every broker has a topic of its own name, and one of its cluster's (TopicConfigManager).
    own = {name for broker in route.broker_datas for name in (broker.broker_name, broker.cluster)}
    queues = tuple(sorted(_queues(topic, route, addresses)))
    return ReadRoute(queues, addresses, topic in own)


def _queues(
    topic: str, route: TopicRouteData, addresses: Mapping[str, Mapping[int, Address]]
) -> Iterator[MessageQueue]:
    for data in route.queue_datas:
        if data.read_queue_nums > _QUEUES_MAX:
            raise InvalidBody(
                f"the route of {topic} has {data.read_queue_nums} queues; there are {_QUEUES_MAX}"
            )
        if data.perm & _READABLE and addresses.get(data.broker_name):
            for number in range(data.read_queue_nums):
                yield MessageQueue(topic, data.broker_name, number)


def mapped_address(advertised: str, mapping: Mapping[str, str]) -> Address | None:
    """Return where a broker is reached that advertises an address; None if it can't be read.

    >>> mapped_address("172.17.0.3:10911", {"172.17.0.3": "127.0.0.1"})
    Address(host='127.0.0.1', port=10911)
    """
    host, colon, port = advertised.rpartition(":")
    text = mapping.get(advertised) or f"{mapping.get(host, host)}{colon}{port}"
    try:
        return Address.parse(text)
    except InvalidInput:
        return None
