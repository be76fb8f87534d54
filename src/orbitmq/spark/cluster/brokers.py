"""Brokers by the queues they serve: whom to ask about one, and the same question about many.

A route is used until it is old, and asked for again then. While no nameserver answers, the last
route there was is used, as Java's clients do it. For connections it is used also if none knows the
topic: they may just have started, and brokers know best which topics they have.
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
from orbitmq.spark.cluster.connections import Links
from orbitmq.spark.cluster.read_route import PRIMARY_ID, ReadRoute
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame

__all__ = ["Answers", "BrokerLinks", "Questions", "Reached"]

log = logging.getLogger("orbitmq.spark")

_ROUTE_AGE_MAX_MS: Final = 30_000
"""How long a route is used without asking again; Java's clients poll as often."""
_MISSING_AGE_MAX_MS: Final = 5_000
"""How long a topic is missing without asking again: news is asked for twenty times a second."""
_ANSWERED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})

T = TypeVar("T")
Questions = Callable[[MessageQueue], tuple[Header, ...]]
"""What to ask about a queue."""
_Asked = Mapping[MessageQueue, tuple[Header, ...]]


class Answers(NamedTuple):
    """What a broker says of one queue: an answer to each question."""

    frames: Sequence[Frame]
    is_replica: bool


class Reached(NamedTuple):
    """A connection, and to whom: 0 is the primary, any other number one of its replicas."""

    link: BlockingConnection
    broker_id: int


class _Known(NamedTuple):
    """What nameservers said of a topic.

    Attributes:
        route: the last route there was, None if there never was one.
        asked_ms: when they said so; None if they have to be asked again.
        missing: that they don't know the topic, if so.

    """

    route: ReadRoute | None
    asked_ms: int | None
    missing: NoRoute | None = None


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
        self._routes: dict[str, _Known] = {}
        self._silent_ms: int | None = None  # when nameservers last gave no answer

    def __repr__(self) -> str:
        return f"<BrokerLinks {len(self._routes)} routes, {self._links!r}>"

    def remember(self, routes: Mapping[str, ReadRoute]) -> None:
        """Use routes that were found just now."""
        now_ms = self._clock.monotonic_ms()
        self._routes.update({topic: _Known(route, now_ms) for topic, route in routes.items()})
        if routes and self._silent_ms is not None:
            log.warning("nameservers answer again")
            self._silent_ms = None

    def forget(self, queue: MessageQueue) -> None:
        """Ask for the route of a queue again, and dial its broker anew: after a failure.

        Unless nameservers give another one, it is still the route.
        """
        known = self._routes.get(queue.topic)
        if known is None:
            return
        self._routes[queue.topic] = known._replace(asked_ms=None)
        if known.route is not None:
            for _id, address in known.route.replicas(queue.broker_name):
                self._links.drop(address, "it failed")

    def forget_all(self) -> None:
        """Forget all routes."""
        self._routes.clear()

    def connection(self, queue: MessageQueue, broker_id: int, *, alone: bool = False) -> Reached:
        """Return a connection to who serves a queue; see ``Cluster.connection``."""
        try:
            route = self._route(queue.topic)
        except NoRoute as error:
            last = self._routes.get(queue.topic)
            if not error.is_missing or last is None or last.route is None:
                raise
            route = last.route  # a nameserver that has just started knows no topic yet
        number, address = self._reached(queue, route, broker_id, alone=alone)
        return Reached(self._links.to(address), number)

    def ask(
        self,
        queues: Iterable[MessageQueue],
        questions: Questions,
        read: Callable[[Answers], T],
        *,
        skip_missing: bool = False,
    ) -> dict[MessageQueue, T]:
        """Ask the same about all queues, and return what ``read`` makes of the answers.

        The questions about the queues of one broker travel together. A broker that fails is asked
        once more, by a new route, unless its route is new.

        Args:
            queues: the queues.
            questions: what to ask about each.
            read: is given the answers.
            skip_missing: leave queues out of the result whose topic no nameserver knows.

        Raises:
            NetworkError: a broker can't be reached, nor a replica of it.
            NoRoute: a broker is in no route any more; or a topic is missing (``is_missing``), and
                nobody was asked about the others of its broker.
            BrokerError: it refuses. That it found nothing is left to ``read``.

        """
        by_broker: dict[str, dict[MessageQueue, tuple[Header, ...]]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, {})[queue] = questions(queue)
        found: dict[MessageQueue, T] = {}
        for asked in by_broker.values():
            answers = self._of_broker(asked, skip_missing=skip_missing)
            found.update((queue, read(answer)) for queue, answer in answers)
        return found

    def _of_broker(
        self, asked: _Asked, *, skip_missing: bool, is_last_try: bool = False
    ) -> list[tuple[MessageQueue, Answers]]:
        """Return what one broker says of its queues, but for those of topics that are missing."""
        was_old = {queue.topic: self._is_old(queue.topic) for queue in asked}
        routes, missing = self._routes_of(was_old)
        if missing and not skip_missing:
            raise next(iter(missing.values()))
        left = {queue: some for queue, some in asked.items() if queue.topic not in missing}
        if not left:
            return []
        # Any of the topics leads to the broker, unless its route has it no more.
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
        """Return the routes of topics, and which of them are missing: one of both, at least.

        Raises:
            NoRoute: they are there, and none of them can be read now.
            NameserversFailed: no nameserver answers.

        """
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
        self, any_queue: MessageQueue, route: ReadRoute, asked: _Asked
    ) -> list[tuple[MessageQueue, Answers]]:
        broker_id, address = self._reached(any_queue, route, PRIMARY_ID)
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

    def _reached(
        self, queue: MessageQueue, route: ReadRoute, broker_id: int, *, alone: bool = False
    ) -> tuple[int, Address]:
        """Return who serves a queue, and where: there is a connection now."""
        failure: ConnectFailed | None = None
        for number, address in route.replicas(queue.broker_name, broker_id):
            if alone and number != broker_id:
                continue
            try:
                self._links.to(address)
            except ConnectFailed as error:
                failure = failure or error
            else:
                return number, address
        who = "the primary of broker" if alone and broker_id == PRIMARY_ID else "broker"
        raise failure or NoRoute(
            f"{who} {queue.broker_name} is not in the route of topic {queue.topic}; is it up?",
            topic=queue.topic,
            is_missing=False,
            answers={},
        )

    # Routes

    def _route(self, topic: str) -> ReadRoute:
        """Return the route of a topic: as it was found, or the last one if nobody can be asked.

        Raises:
            NoRoute: no nameserver knows it (``is_missing``), or it can't be read now.
            NameserversFailed: no nameserver answers, and there never was a route.

        """
        if self._is_old(topic):
            self._look_up(topic)
        known = self._routes[topic]
        if known.missing is not None:
            raise known.missing
        assert known.route is not None  # or it were missing
        return known.route

    def _is_old(self, topic: str) -> bool:
        """Return whether nameservers have to be asked about a topic."""
        known = self._routes.get(topic)
        if known is None or known.asked_ms is None:
            return True
        age_max_ms = _ROUTE_AGE_MAX_MS if known.missing is None else _MISSING_AGE_MAX_MS
        now_ms = self._clock.monotonic_ms()
        if self._silent_ms is not None and now_ms - self._silent_ms <= _ROUTE_AGE_MAX_MS:
            return False  # they did not answer just now
        return now_ms - known.asked_ms > age_max_ms

    def _look_up(self, topic: str) -> None:
        known = self._routes.get(topic)
        try:
            route = self._find_route(topic)
        except NameserversFailed as error:
            if known is None:
                raise
            if self._silent_ms is None:
                log.warning("brokers are asked by the last routes there were: %s", error)
            self._silent_ms = self._clock.monotonic_ms()
        except NoRoute as error:
            if not error.is_missing:
                raise
            last = None if known is None else known.route
            self._routes[topic] = _Known(last, self._clock.monotonic_ms(), error)
        else:
            self.remember({topic: route})
