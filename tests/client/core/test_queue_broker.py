from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.client.core.publish_route import BrokerAddresses
from orbitmq.client.core.queue_broker import queue_broker
from orbitmq.client.core.routes import RouteCache
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NoRoute
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.bodies.route import BrokerData, TopicRouteData

QUEUE = MessageQueue("orders", "broker-a", 0)


class Core:
    """A client whose nameserver knows one broker name."""

    def __init__(self, known: dict[int, str], at_first: dict[int, str] | None = None) -> None:
        where = BrokerAddresses(ClientSettings())
        self.cache = RouteCache(where)
        self.known = known
        self.asked = 0
        self.routes = SimpleNamespace(cache=self.cache, where=where, route=self.route)
        if at_first is not None:
            self.put(at_first)

    async def route(self, topic: str) -> None:
        self.asked += 1
        assert topic == "orders"
        self.put(self.known)

    def put(self, addresses: dict[int, str]) -> None:
        broker = BrokerData(broker_name="broker-a", broker_addrs=addresses)
        self.cache.put("orders", TopicRouteData(broker_datas=(broker,)))


def find(core: Any, broker_id: int = 0) -> tuple[str, bool]:
    async def main(_clock: VirtualClock) -> tuple[str, bool]:
        address, is_master = await queue_broker(core, QUEUE, broker_id)
        return str(address), is_master

    return run_virtual(main)


def test_the_broker_with_the_id_is_found_in_the_cached_route() -> None:
    core = Core({}, {0: "10.0.0.1:1", 1: "10.0.0.1:2"})
    assert find(core) == ("10.0.0.1:1", True)
    assert find(core, 1) == ("10.0.0.1:2", False)
    assert core.asked == 0


def test_another_slave_or_the_master_stands_in() -> None:
    core = Core({}, {0: "10.0.0.1:1", 2: "10.0.0.1:3"})
    assert find(core, 1) == ("10.0.0.1:3", False)
    assert find(core, 5) == ("10.0.0.1:1", True)
    assert find(Core({}, {3: "10.0.0.1:4"})) == ("10.0.0.1:4", False)


def test_the_route_is_looked_up_if_it_has_no_broker() -> None:
    core = Core({0: "10.0.0.1:1"}, {})
    assert find(core) == ("10.0.0.1:1", True)
    assert core.asked == 1


def test_without_a_broker_there_is_no_route() -> None:
    with pytest.raises(NoRoute, match=r"The broker\[broker-a\] not exist"):
        find(Core({}))
