"""Finds the broker of a queue by its route, and sends the same requests about many queues.

A route is looked up again when it is old. While no nameserver answers, the last route is used, as
in Java clients. For connections it is also used if no nameserver knows the topic: nameservers may
have just started, and brokers know best which topics they have.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from orbitmq.clock import Clock
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    NameserversFailed,
    NetworkError,
    NoRoute,
    OrbitError,
)
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.cluster.read_route import PRIMARY_ID, ReadRoute
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame

__all__ = ["Brokers", "QueueAnswers", "QueueConnection", "Requests"]

log = logging.getLogger("orbitmq.spark")

_ROUTE_AGE_MAX_MS: Final = 30_000
"""Age at which a route is looked up again; Java clients poll as often."""
_MISSING_AGE_MAX_MS: Final = 5_000
"""Age at which a missing topic is looked up again; streams ask twenty times a second."""
_ANSWERED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})

T = TypeVar("T")
Requests = Callable[[MessageQueue], tuple[Header, ...]]
"""Returns the requests to send about a queue."""
_RequestsByQueue = Mapping[MessageQueue, tuple[Header, ...]]


class QueueAnswers(NamedTuple):
    """The answers of a broker about one queue, one per request."""

    frames: Sequence[Frame]
    is_replica: bool


class QueueConnection(NamedTuple):
    """A connection to a broker of a queue; its id is 0 for the primary, else a replica's."""

    connection: BlockingConnection
    broker_id: int


class _KnownRoute(NamedTuple):
    """What nameservers answered about a topic.

    ``route`` is the last one, None if there never was one. ``asked_ms`` is when they answered, None
    if the next use must look the route up again. ``missing`` is set if they don't know the topic.
    """

    route: ReadRoute | None
    asked_ms: int | None
    missing: NoRoute | None = None


class Brokers:
    """Connections to brokers, found by the routes of topics; for one thread at a time."""

    def __init__(
        self, connections: Connections, find_route: Callable[[str], ReadRoute], clock: Clock
    ) -> None:
        self._connections = connections
        self._find_route = find_route
        self._clock = clock
        self._routes: dict[str, _KnownRoute] = {}
        self._silent_ms: int | None = None  # when nameservers last failed to answer

    def __repr__(self) -> str:
        return f"<Brokers {len(self._routes)} routes, {self._connections!r}>"

    def remember(self, routes: Mapping[str, ReadRoute]) -> None:
        """Use routes that were just found."""
        now_ms = self._clock.monotonic_ms()
        self._routes.update({topic: _KnownRoute(route, now_ms) for topic, route in routes.items()})
        if routes and self._silent_ms is not None:
            log.warning("nameservers answer again")
            self._silent_ms = None

    def forget(self, queue: MessageQueue) -> None:
        """Look up the route of a queue again, and redial its broker: after a failure.

        The known route stays in use unless nameservers return another one.
        """
        known = self._routes.get(queue.topic)
        if known is None:
            return
        self._routes[queue.topic] = known._replace(asked_ms=None)
        if known.route is not None:
            for _id, address in known.route.replicas(queue.broker_name):
                self._connections.drop(address, "it failed")

    def forget_all(self) -> None:
        """Forget all routes."""
        self._routes.clear()

    def connection(
        self, queue: MessageQueue, broker_id: int, *, exact: bool = False
    ) -> QueueConnection:
        """Return a connection to a broker of a queue; see ``Cluster.connection``."""
        try:
            route = self._route(queue.topic)
        except NoRoute as error:
            last = self._routes.get(queue.topic)
            if not error.is_missing or last is None or last.route is None:
                raise
            route = last.route  # a nameserver that has just started knows no topics yet
        number, address = self._reached(queue, route, broker_id, exact=exact)
        return QueueConnection(self._connections.to(address), number)

    def ask(
        self,
        queues: Iterable[MessageQueue],
        requests: Requests,
        read: Callable[[QueueAnswers], T],
        *,
        skip_missing: bool = False,
    ) -> dict[MessageQueue, T]:
        """Send the same requests about all queues; return what ``read`` makes of the answers.

        The requests about all queues of a broker are in flight together. If a broker fails, its
        route is looked up again and the requests are repeated once, unless the route is new. With
        ``skip_missing``, queues whose topic no nameserver knows are left out.

        Raise NetworkError if neither a broker nor a replica of it can be reached, BrokerError if it
        refuses (an answer "not found" is left to ``read``), and NoRoute if no route has the broker
        or a topic is missing (``is_missing``). After NoRoute, the other queues of that broker were
        not asked about.
        """
        by_broker: dict[str, dict[MessageQueue, tuple[Header, ...]]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, {})[queue] = requests(queue)
        found: dict[MessageQueue, T] = {}
        for asked in by_broker.values():
            answers = self._of_broker(asked, skip_missing=skip_missing)
            found.update((queue, read(answer)) for queue, answer in answers)
        return found

    def _of_broker(
        self, asked: _RequestsByQueue, *, skip_missing: bool, is_last_try: bool = False
    ) -> list[tuple[MessageQueue, QueueAnswers]]:
        """Return the answers of one broker; skips queues of missing topics."""
        was_old = {queue.topic: self._is_old(queue.topic) for queue in asked}
        routes, missing = self._routes_of(was_old)
        if missing and not skip_missing:
            raise next(iter(missing.values()))
        left = {queue: some for queue, some in asked.items() if queue.topic not in missing}
        if not left:
            return []
        # The route of any topic leads to the broker, unless the broker has left it.
        routed = [queue for queue in left if queue.topic in routes]
        serving = (one for one in routed if one.broker_name in routes[one.topic].addresses)
        any_queue = next(serving, routed[0])
        try:
            return self._answers(any_queue, routes[any_queue.topic], left)
        except (NetworkError, NoRoute):
            self.forget(any_queue)
            if is_last_try or was_old[any_queue.topic]:
                raise
        return self._of_broker(left, skip_missing=skip_missing, is_last_try=True)

    def _routes_of(self, topics: Iterable[str]) -> tuple[dict[str, ReadRoute], dict[str, NoRoute]]:
        """Return the routes of topics, and an error per missing topic."""
        routes: dict[str, ReadRoute] = {}
        missing: dict[str, NoRoute] = {}
        failure: OrbitError | None = None
        for topic in topics:
            try:
                routes[topic] = self._route(topic)
            except (NoRoute, NameserversFailed) as error:
                if isinstance(error, NoRoute) and error.is_missing:
                    missing[topic] = error
                else:
                    failure = failure or error
        if failure is not None and not routes:
            raise failure
        return routes, missing

    def _answers(
        self, any_queue: MessageQueue, route: ReadRoute, asked: _RequestsByQueue
    ) -> list[tuple[MessageQueue, QueueAnswers]]:
        broker_id, address = self._reached(any_queue, route, PRIMARY_ID)
        frames = self._connections.ask(address, (one for some in asked.values() for one in some))
        for frame in frames:
            if frame.code not in _ANSWERED:
                raise BrokerError.of(frame.code, frame.remark, address=str(address))
        left = iter(frames)
        is_replica = broker_id != PRIMARY_ID
        return [
            (queue, QueueAnswers([next(left) for _ in some], is_replica))
            for queue, some in asked.items()
        ]

    def _reached(
        self, queue: MessageQueue, route: ReadRoute, broker_id: int, *, exact: bool = False
    ) -> tuple[int, Address]:
        """Return the id and address of a broker of a queue; it is connected now."""
        failure: ConnectFailed | None = None
        for number, address in route.replicas(queue.broker_name, broker_id):
            if exact and number != broker_id:
                continue
            try:
                self._connections.to(address)
            except ConnectFailed as error:
                failure = failure or error
            else:
                return number, address
        who = "the primary of broker" if exact and broker_id == PRIMARY_ID else "broker"
        raise failure or NoRoute(
            f"{who} {queue.broker_name} is not in the route of topic {queue.topic}; is it up?",
            topic=queue.topic,
            is_missing=False,
            answers={},
        )

    # Routes

    def _route(self, topic: str) -> ReadRoute:
        """Return the route of a topic; the last one if no nameserver answers."""
        if self._is_old(topic):
            self._look_up(topic)
        known = self._routes[topic]
        if known.missing is not None:
            raise known.missing
        assert known.route is not None  # else it would be missing
        return known.route

    def _is_old(self, topic: str) -> bool:
        """Return whether the route of a topic has to be looked up."""
        known = self._routes.get(topic)
        if known is None or known.asked_ms is None:
            return True
        age_max_ms = _ROUTE_AGE_MAX_MS if known.missing is None else _MISSING_AGE_MAX_MS
        now_ms = self._clock.monotonic_ms()
        if self._silent_ms is not None and now_ms - self._silent_ms <= _ROUTE_AGE_MAX_MS:
            return False  # they failed to answer just now
        return now_ms - known.asked_ms > age_max_ms

    def _look_up(self, topic: str) -> None:
        known = self._routes.get(topic)
        try:
            route = self._find_route(topic)
        except NameserversFailed as error:
            if known is None:
                raise
            if self._silent_ms is None:
                log.warning("using the last known routes: %s", error)
            self._silent_ms = self._clock.monotonic_ms()
        except NoRoute as error:
            if not error.is_missing:
                raise
            last = None if known is None else known.route
            self._routes[topic] = _KnownRoute(last, self._clock.monotonic_ms(), error)
        else:
            self.remember({topic: route})
