"""Brokers by the queues they serve: whom to ask about one, and the same question about many."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from orbitmq.clock import Clock
from orbitmq.errors import BrokerError, ConnectFailed, NetworkError, NoRoute
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.links import Links
from orbitmq.spark.read_route import PRIMARY_ID, ReadRoute
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame

__all__ = ["Answers", "BrokerLinks", "Questions"]

_ROUTE_AGE_MAX_MS: Final = 30_000
"""How long a route is used without asking again; Java's clients poll as often."""
_ANSWERED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})

T = TypeVar("T")
Questions = Callable[[MessageQueue], tuple[Header, ...]]
"""What to ask about a queue."""


class Answers(NamedTuple):
    """What a broker says of one queue: an answer to each question."""

    frames: Sequence[Frame]
    is_replica: bool


class BrokerLinks:
    """Connections to brokers, found by the routes of topics; for one thread at a time.

    Args:
        links: connections by address.
        find_route: asks nameservers for the route of a topic.
        clock: tells how old a route is.

    """

    def __init__(self, links: Links, find_route: Callable[[str], ReadRoute], clock: Clock) -> None:
        self._links = links
        self._find_route = find_route
        self._clock = clock
        self._routes: dict[str, tuple[int, ReadRoute]] = {}

    def __repr__(self) -> str:
        return f"<BrokerLinks {len(self._routes)} routes, {self._links!r}>"

    def remember(self, routes: Mapping[str, ReadRoute]) -> None:
        """Use routes that were found just now."""
        now_ms = self._clock.monotonic_ms()
        self._routes.update({topic: (now_ms, route) for topic, route in routes.items()})

    def forget(self, queue: MessageQueue) -> None:
        """Ask for the route of a queue again, and dial its broker anew: after a failure."""
        known = self._routes.pop(queue.topic, None)
        if known is not None:
            for _id, address in known[1].replicas(queue.broker_name):
                self._links.drop(address, "it failed")

    def forget_all(self) -> None:
        """Forget all routes."""
        self._routes.clear()

    def connection(self, queue: MessageQueue, broker_id: int) -> BlockingConnection:
        """Return a connection to who serves a queue; see ``Cluster.connection``."""
        _id, address = self._reached(queue, broker_id)
        return self._links.to(address)

    def ask(
        self, queues: Iterable[MessageQueue], questions: Questions, read: Callable[[Answers], T]
    ) -> dict[MessageQueue, T]:
        """Ask the same about all queues, and return what ``read`` makes of the answers.

        The questions about the queues of one broker travel together. A broker that fails is asked
        once more, by a new route, unless its route is new.

        Raises:
            NetworkError: a broker can't be reached, nor a replica of it.
            NoRoute: a broker is in no route any more.
            BrokerError: it refuses. That it found nothing is left to ``read``.

        """
        by_broker: dict[str, dict[MessageQueue, tuple[Header, ...]]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, {})[queue] = questions(queue)
        found: dict[MessageQueue, T] = {}
        for asked in by_broker.values():
            first = next(iter(asked))
            was_known = first.topic in self._routes
            try:
                answers = self._answers(first, asked)
            except (NetworkError, NoRoute):
                self.forget(first)
                if not was_known:
                    raise
                answers = self._answers(first, asked)
            found.update((queue, read(answer)) for queue, answer in answers)
        return found

    def _answers(
        self, any_queue: MessageQueue, asked: Mapping[MessageQueue, tuple[Header, ...]]
    ) -> list[tuple[MessageQueue, Answers]]:
        broker_id, address = self._reached(any_queue, PRIMARY_ID)
        frames = self._links.ask(address, (one for some in asked.values() for one in some))
        for frame in frames:
            if frame.code not in _ANSWERED:
                raise BrokerError.of(frame.code, frame.remark, address=str(address))
        left = iter(frames)
        is_replica = broker_id != PRIMARY_ID
        return [
            (queue, Answers([next(left) for _ in some], is_replica))
            for queue, some in asked.items()
        ]

    def _reached(self, queue: MessageQueue, broker_id: int) -> tuple[int, Address]:
        """Return who serves a queue, and where: there is a connection now."""
        failure: ConnectFailed | None = None
        for number, address in self._route(queue.topic).replicas(queue.broker_name, broker_id):
            try:
                self._links.to(address)
            except ConnectFailed as error:
                failure = failure or error
            else:
                return number, address
        raise failure or NoRoute(
            f"broker {queue.broker_name} is not in the route of topic {queue.topic}; is it up?",
            topic=queue.topic,
            is_missing=False,
            answers={},
        )

    def _route(self, topic: str) -> ReadRoute:
        known = self._routes.get(topic)
        if known is None or self._clock.monotonic_ms() - known[0] > _ROUTE_AGE_MAX_MS:
            self.remember({topic: self._find_route(topic)})
        return self._routes[topic][1]
