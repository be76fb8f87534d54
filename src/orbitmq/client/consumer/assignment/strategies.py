"""How the members of a group share the queues of a topic; as Java's, bit for bit. Pure.

::

    strategy           name                    member i of n gets
    Average            AVG                     the i-th of n parts of neighbours, the first larger
    AverageByCircle    AVG_BY_CIRCLE           queues i, i + n, i + 2n, …
    ConsistentHash     CONSISTENT_HASH         the queues that are nearest to it on a ring of hashes
    Config             CONFIG                  a given list, whatever the others get
    MachineRoom        MACHINE_ROOM            a share of the brokers ``room@name`` of given rooms
    Nearby             MACHINE_ROOM_NEARBY-…   a share of its own room, and of rooms without members

Members, Java's among them, don't talk to each other: each computes its own queues from the same
sorted lists. So all members of a group must have the same strategy.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Final, TypeVar

import msgspec

from orbitmq.client.consumer.settings import STRATEGY_NAMES, Strategy
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue

__all__ = [
    "Average",
    "AverageByCircle",
    "Config",
    "ConsistentHash",
    "MachineRoom",
    "Nearby",
    "by_name",
    "in_java_order",
]

Queues = Sequence[MessageQueue]
Clients = Sequence[str]
T = TypeVar("T")


class Average(msgspec.Struct, frozen=True):
    """Neighbouring queues, as equally many as possible.

    >>> queues = [MessageQueue("orders", "broker-a", number) for number in range(5)]
    >>> [queue.queue_id for queue in Average().assign("billing", "c2", queues, ["c1", "c2"])]
    [3, 4]
    """

    @property
    def name(self) -> str:
        """The name in Java."""
        return "AVG"

    def assign(
        self, _group: str, client_id: str, queues: Queues, clients: Clients, /
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if client_id not in clients:
            return []
        index = clients.index(client_id)
        size, larger = divmod(len(queues), len(clients))
        start = index * size + min(index, larger)
        return list(queues[start : start + size + (index < larger)])


class AverageByCircle(msgspec.Struct, frozen=True):
    """Every n-th queue, so that each member gets queues of all brokers."""

    @property
    def name(self) -> str:
        """The name in Java."""
        return "AVG_BY_CIRCLE"

    def assign(
        self, _group: str, client_id: str, queues: Queues, clients: Clients, /
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if client_id not in clients:
            return []
        return list(queues[clients.index(client_id) :: len(clients)])


class ConsistentHash(msgspec.Struct, frozen=True):
    """The next member on a ring of hashes; a member that joins or leaves moves few queues."""

    virtual_nodes: int = 10
    """How often each member is on the ring; more share more evenly."""

    def __post_init__(self) -> None:
        if type(self.virtual_nodes) is not int or self.virtual_nodes < 1:
            raise InvalidInput(
                f"virtual_nodes is {self.virtual_nodes!r:.40}; it must be 1 or more",
                field="virtual_nodes",
            )

    @property
    def name(self) -> str:
        """The name in Java."""
        return "CONSISTENT_HASH"

    def assign(
        self, _group: str, client_id: str, queues: Queues, clients: Clients, /
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        ring = {
            _hash(f"{client}-{number}"): client
            for client in clients
            for number in range(self.virtual_nodes)
        }
        places = sorted(ring)
        return [
            queue
            for queue in queues
            if ring[places[bisect_left(places, _hash(_java_text(queue))) % len(places)]]
            == client_id
        ]


class Config(msgspec.Struct, frozen=True):
    """The given queues; that all queues have a member is up to you."""

    queues: tuple[MessageQueue, ...]

    @property
    def name(self) -> str:
        """The name in Java."""
        return "CONFIG"

    def assign(
        self, _group: str, _client_id: str, queues: Queues, _clients: Clients, /
    ) -> list[MessageQueue]:
        """Return those of the given queues that the topic has."""
        return [queue for queue in self.queues if queue in queues]


class MachineRoom(msgspec.Struct, frozen=True):
    """Queues of brokers named ``room@name`` in the given rooms; those of other rooms get no member.

    All members must be in these rooms.
    """

    rooms: frozenset[str]

    @property
    def name(self) -> str:
        """The name in Java."""
        return "MACHINE_ROOM"

    def assign(
        self, _group: str, client_id: str, queues: Queues, clients: Clients, /
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if client_id not in clients:
            return []
        here = [queue for queue in queues if self._room_of(queue) in self.rooms]
        index, count = clients.index(client_id), len(clients)
        size, left_over = divmod(len(here), count)
        own = here[size * index : size * (index + 1)]
        return [*own, here[size * count + index]] if index < left_over else own

    def _room_of(self, queue: MessageQueue) -> str | None:
        # Java's split drops empty parts at the end.
        parts = queue.broker_name.rstrip(_AT).split(_AT)
        return parts[0] if len(parts) == _PARTS else None


class Nearby(msgspec.Struct, frozen=True):
    """Queues of the member's own room; those of a room without members are shared by all.

    ``room_of_broker`` and ``room_of_client`` return the room of a broker name and of a client id.
    """

    inner: Strategy
    """How the members of one room share its queues."""
    room_of_broker: Callable[[str], str]
    room_of_client: Callable[[str], str]

    @property
    def name(self) -> str:
        """The name in Java."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def assign(
        self, group: str, client_id: str, queues: Queues, clients: Clients, /
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if client_id not in clients:
            return []
        queues_of = _grouped(queues, lambda queue: self.room_of_broker(queue.broker_name))
        clients_of = _grouped(clients, self.room_of_client)
        own_room = self.room_of_client(client_id)
        own = queues_of.pop(own_room, [])
        assigned = self.inner.assign(group, client_id, own, clients_of[own_room]) if own else []
        for room in in_java_order(queues_of):
            if room not in clients_of:
                assigned += self.inner.assign(group, client_id, queues_of[room], clients)
        return assigned


def by_name(strategy: str | Strategy) -> Strategy:
    """Return the strategy of a setting: one of ``STRATEGY_NAMES``, or the given object.

    >>> by_name("average_by_circle").name
    'AVG_BY_CIRCLE'
    """
    return _BY_NAME[strategy] if isinstance(strategy, str) else strategy


def in_java_order(texts: Iterable[str]) -> list[str]:
    """Return texts sorted as Java sorts them: by UTF-16 code units.

    >>> in_java_order(["c10", "c9", "b"])
    ['b', 'c10', 'c9']
    """
    return sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


_BY_NAME: Final[dict[str, Strategy]] = {
    "average": Average(),
    "average_by_circle": AverageByCircle(),
    "consistent_hash": ConsistentHash(),
}
assert tuple(_BY_NAME) == STRATEGY_NAMES
_AT: Final = "@"
_PARTS: Final = 2


def _hash(key: str) -> int:
    """Return the place of a key on the ring."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _grouped(things: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    """Return things by their room; raise ValueError if one has none."""
    rooms: dict[str, list[T]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise ValueError(f"the room of {thing} is {room!r}; it must be a name")
        rooms.setdefault(room, []).append(thing)
    return rooms
