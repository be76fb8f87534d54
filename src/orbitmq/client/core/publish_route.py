"""From a nameserver's answer to the queues that can be written to, and their addresses. Pure.

There are three sources for a topic's queues; the first that applies is used
(``MQClientInstance.topicRouteData2TopicPublishInfo`` in Java)::

    order config    "broker-a:4;broker-b:4"     those queues, in that order, brokers up or down
    static topic    logic queue → broker        all logic queues 0 … n-1, with or without a leader
    queue data      broker-a: 4 writable        of brokers with a master, sorted by broker name

With the first two, a queue's position in the list stays the same when a broker goes down, so that a
key's messages stay in their queue; such a queue has no address until its broker is back.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from orbitmq.client.settings import AddressMap, ClientSettings
from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import BrokerData, TopicRouteData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo

__all__ = [
    "LOGIC_PREFIX",
    "MASTER_ID",
    "BrokerAddresses",
    "DefaultTopic",
    "PublishRoute",
    "check_queue_count",
    "logic_queues",
    "publish_route",
    "spread_over",
]

log = logging.getLogger("orbitmq.client")

MASTER_ID: Final = 0
_WRITABLE: Final = 2
_VIP_BELOW: Final = 2
_QUEUES_MAX: Final = 65_536
"""Queues of one topic; real topics have far fewer, and each takes memory."""

LOGIC_PREFIX: Final = "__syslo__"
_GLOBAL_SCOPE: Final = "__global__"
_NOWHERE: Final = "__syslo__none__"
"""MixAll in Java: the broker name of logic queues, and of one without a leader."""


class DefaultTopic(msgspec.Struct, frozen=True):
    """The topic that brokers copy when a send creates a new topic, and its number of queues."""

    name: str = AUTO_CREATE_TOPIC
    queues: int = 4


class PublishRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages of a topic can be sent.

    ``topic`` is the name on the wire. ``queues`` are in the order that round-robin and selectors
    see. ``addresses`` has the master of each broker name, after ``address_map`` and VIP port.
    ``leaders`` has the broker that leads each logic queue of a static topic. ``is_ordered``: the
    queues come from an order config. ``is_default``: the topic does not exist yet, and the first
    send will create it.
    """

    topic: str
    queues: tuple[MessageQueue, ...]
    addresses: Mapping[str, Address]
    leaders: Mapping[MessageQueue, str] = MappingProxyType({})
    is_ordered: bool = False
    is_default: bool = False

    def broker_of(self, queue: MessageQueue) -> str:
        """Return the broker name of a queue, as the header of a send has it."""
        return self.leaders.get(queue, queue.broker_name) if self.leaders else queue.broker_name

    def address_of(self, queue: MessageQueue) -> Address | None:
        """Return the address for sends to a queue; None if its broker has no master now."""
        return self.addresses.get(self.broker_of(queue))


class BrokerAddresses:
    """The addresses at which brokers are reached, by the addresses that they advertise.

    All methods raise InvalidInput if the user's ``address_map`` is a function that fails.

    >>> tunnel = BrokerAddresses(ClientSettings(address_map={"172.17.0.3": "127.0.0.1"}))
    >>> tunnel.address("172.17.0.3:10911")
    Address(host='127.0.0.1', port=10911)
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._map = settings.address_map
        self._vip = settings.vip_channel
        self._known: dict[str, Address | None] = {}

    def address(self, advertised: str) -> Address | None:
        """Return the address of a broker; None if what it advertises can't be read."""
        if advertised not in self._known:
            if len(self._known) >= _QUEUES_MAX:
                self._known.clear()
            self._known[advertised] = self._read(advertised)
        return self._known[advertised]

    def send_address(self, advertised: str) -> Address | None:
        """Return the address for sends: the port two below, if ``vip_channel`` is set."""
        address = self.address(advertised)
        if not self._vip or address is None or address.port <= _VIP_BELOW:
            return address
        return address._replace(port=address.port - _VIP_BELOW)

    def masters(self, brokers: tuple[BrokerData, ...]) -> dict[str, Address]:
        """Return the address for sends of each broker that has a master, by name."""
        return {
            broker.broker_name: address
            for broker in brokers
            if (address := self.send_address(broker.broker_addrs.get(MASTER_ID, "")))
        }

    def _read(self, advertised: str) -> Address | None:
        if not advertised:
            return None
        mapped = _mapped(self._map, advertised)
        try:
            return Address.parse(mapped)
        except InvalidInput as error:
            log.warning("a broker that advertises %.80s can't be reached: %s", advertised, error)
            return None


def _mapped(address_map: AddressMap | None, advertised: str) -> str:
    if address_map is None:
        return advertised
    if callable(address_map):
        try:
            return str(address_map(advertised))
        except Exception as error:  # of the user's code
            raise InvalidInput(
                f"address_map failed on {advertised[:80]}: {error!r:.200}", field="address_map"
            ) from error
    if advertised in address_map:
        return address_map[advertised]
    host, colon, port = advertised.rpartition(":")
    return f"{address_map[host]}{colon}{port}" if host in address_map else advertised


def publish_route(
    topic: str, route: TopicRouteData, where: BrokerAddresses, *, is_default: bool = False
) -> PublishRoute:
    """Return where messages of a topic can be sent, by a nameserver's answer.

    Raise InvalidBody if its order config can't be read or it has too many queues.
    """
    addresses = where.masters(route.broker_datas)
    leaders: dict[MessageQueue, str] = {}
    if route.order_topic_conf:
        queues = _ordered(topic, route.order_topic_conf)
    elif route.order_topic_conf is None and route.topic_queue_mapping_by_broker:
        leaders = logic_queues(topic, route.topic_queue_mapping_by_broker)
        queues = sorted(leaders, key=lambda queue: queue.queue_id)
    else:
        queues = _writable(topic, route, addresses)
    return PublishRoute(
        topic=topic,
        queues=tuple(queues),
        addresses=MappingProxyType(addresses),
        leaders=MappingProxyType(leaders),
        is_ordered=bool(route.order_topic_conf),
        is_default=is_default,
    )


def spread_over(route: TopicRouteData, queue_count: int) -> TopicRouteData:
    """Return the route of a topic that is made after this one, the default topic's.

    >>> from orbitmq.wire.bodies.route import QueueData
    >>> default = TopicRouteData(queue_datas=(QueueData(read_queue_nums=8, perm=7),))
    >>> spread_over(default, 4).queue_datas[0].write_queue_nums
    4
    """
    return replace(
        route,
        queue_datas=tuple(
            replace(
                data,
                read_queue_nums=min(queue_count, data.read_queue_nums),
                write_queue_nums=min(queue_count, data.read_queue_nums),
            )
            for data in route.queue_datas
        ),
    )


def _ordered(topic: str, config: str) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    for part in config.split(";"):
        broker, _, count = part.partition(":")
        if not part.strip():
            continue
        if not (broker and count.isascii() and count.isdigit() and len(count) <= 6):
            raise InvalidBody(
                f"the order config of {topic} says {part[:60]!r}; it should be broker:number"
            )
        check_queue_count(topic, int(count) + len(queues))
        queues += [MessageQueue(topic, broker, number) for number in range(int(count))]
    return queues


def logic_queues(
    topic: str, mapping: Mapping[str, TopicQueueMappingInfo]
) -> dict[MessageQueue, str]:
    """Return the leader of each logic queue: of two that claim one, the later in epoch."""
    leaders: dict[MessageQueue, str] = {}
    for scope in {info.scope: None for info in mapping.values()}:
        infos = sorted(
            (info for info in mapping.values() if info.scope == scope), key=lambda info: info.epoch
        )
        # Java gives the queues of a scope one invented broker name: TopicQueueMappingUtils.
        name = LOGIC_PREFIX + (scope[2:] if scope == _GLOBAL_SCOPE else scope)
        led = {number: info.bname for info in infos for number in info.curr_id_map}
        count = max(info.total_queues for info in infos)
        check_queue_count(topic, count)
        leaders |= {
            MessageQueue(topic, name, number): led.get(number, _NOWHERE) for number in range(count)
        }
    return leaders


def _writable(
    topic: str, route: TopicRouteData, addresses: Mapping[str, Address]
) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    for data in sorted(route.queue_datas, key=lambda data: data.broker_name):
        if data.perm & _WRITABLE and data.broker_name in addresses:
            check_queue_count(topic, len(queues) + data.write_queue_nums)
            queues += [
                MessageQueue(topic, data.broker_name, number)
                for number in range(data.write_queue_nums)
            ]
    return queues


def check_queue_count(topic: str, count: int) -> None:
    """Raise InvalidBody if a topic has more queues than any real one."""
    if count > _QUEUES_MAX:
        raise InvalidBody(
            f"the route of {topic} has {count} queues; at most {_QUEUES_MAX} are allowed"
        )
