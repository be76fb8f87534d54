"""Which broker a consumer asks about a queue: the master, or another one of the same name."""

from typing import NamedTuple

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.publish_route import MASTER_ID
from orbitmq.errors import NoRoute
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address

__all__ = ["QueueBroker", "queue_broker"]


class QueueBroker(NamedTuple):
    """A broker that has a queue."""

    address: Address
    is_master: bool


async def queue_broker(
    core: ClientCore, queue: MessageQueue, broker_id: int = MASTER_ID
) -> QueueBroker:
    """Return the broker with an id, or another that has the queue; slaves stand in for each other.

    The cached route is used, and looked up again if it has no broker for the queue. Raise NoRoute
    if there is none, and NameserversFailed if the route is not cached and no nameserver answers.
    """
    found = _find(core, queue, broker_id)
    if found is None:
        await core.routes.route(queue.topic)
        found = _find(core, queue, broker_id)
    if found is None:
        raise NoRoute(
            f"The broker[{queue.broker_name}] not exist: no broker of that name is in the route of "
            f"{queue.topic} with an address; start it, and check address_map if you have one",
            topic=queue.topic,
            is_missing=False,
            answers={},
        )
    return found


def _find(core: ClientCore, queue: MessageQueue, broker_id: int) -> QueueBroker | None:
    known = core.routes.cache.get(queue.topic)
    if known is None:
        return None
    name = known.route.broker_of(queue)
    for broker in known.data.broker_datas:
        if broker.broker_name == name:
            addresses = broker.broker_addrs
            # As in MQClientInstance.findBrokerAddressInSubscribe: a slave's neighbour, then any.
            ids = [broker_id, *([broker_id + 1] if broker_id else []), *sorted(addresses)]
            for one in ids:
                address = core.routes.where.address(addresses.get(one, ""))
                if address is not None:
                    return QueueBroker(address, one == MASTER_ID)
    return None
