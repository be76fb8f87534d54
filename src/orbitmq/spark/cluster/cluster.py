"""A cluster for the driver and the tasks of Spark: queues, offsets, connections. Blocking.

>>> from orbitmq.embedded import start
>>> with start() as running, Cluster(Access(nameserver=running.nameserver)) as cluster:
...     queue = cluster.queues("BenchmarkTest")[0]
...     cluster.bounds([queue])[queue].max
0

It is for one thread at a time, like its connections. A process has one per `Access`
(``cluster_for``), so that tasks reuse the connections of earlier tasks.
"""

import atexit
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import (
    BrokerError,
    GroupNotFound,
    InvalidOption,
    NetworkError,
    NoRoute,
    OrbitError,
)
from orbitmq.message import names
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.brokers import Brokers, QueueAnswers, QueueConnection
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.cluster.group_registration import register_group
from orbitmq.spark.cluster.key_search import KeySearch
from orbitmq.spark.cluster.nameservers import Nameservers
from orbitmq.spark.cluster.read_route import PRIMARY_ID
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Range
from orbitmq.spark.options.options import DEFAULT_PULL_GROUP, Access, Topics
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.offset import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
    UpdateConsumerOffset,
)

__all__ = ["Cluster", "cluster_for"]

log = logging.getLogger("orbitmq.spark")

_CLUSTERS_MAX: Final = 16
"""Clusters of one process; beyond that, the least recently used one is closed."""


class Cluster:
    """One cluster; a context manager. It may be used after ``close``, and connects again."""

    def __init__(self, access: Access, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._access = access
        self._connections = Connections(access, clock)
        self._nameservers = Nameservers(access, self._connections)
        self._brokers = Brokers(self._connections, self._nameservers.route, clock)
        self._registered: set[tuple[str, str]] = set()  # groups, and brokers that have them
        self._refusals: set[tuple[str, str]] = set()  # groups, and brokers whose refusal was logged

    def __repr__(self) -> str:
        return f"<Cluster {self._access.nameserver} {self._brokers!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and forget all routes."""
        self._brokers.forget_all()
        self._connections.close()

    def wire_name(self, name: str) -> str:
        """Return the name of a topic or group on the wire: with the namespace."""
        return names.wrap_namespace(self._access.namespace, name)

    # Topics and queues, looked up at nameservers each time

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return self._nameservers.topics()

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that can be read from a primary or a replica, sorted.

        Raise NoRoute if the topic is missing (``is_missing``), or can't be read now.
        """
        return self.resolve(Topics(names=(topic,)))

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        """Return the queues that options select, sorted; a pattern may match none.

        Queues of a broker that has unregistered are not among them. Raise as ``queues`` does, and
        InvalidOption if ``assign`` names a queue that doesn't exist.
        """
        if topics.pattern is not None:
            return self._matching(topics.pattern)
        assigned = set(topics.assigned)
        routes = self._nameservers.all_routes(
            sorted({queue.topic for queue in assigned}) or topics.names
        )
        self._brokers.remember(routes)
        queues = sorted(queue for route in routes.values() for queue in route.queues)
        _check_assigned(assigned, queues)
        return tuple(sorted(assigned) if assigned else queues)

    def _matching(self, pattern: str) -> tuple[MessageQueue, ...]:
        """Return the queues of the topics whose whole names match, without RocketMQ's own topics.

        Retry and dead-letter topics match only a pattern that begins with ``%``.
        """
        matches = re.compile(pattern).fullmatch
        found = [
            topic
            for topic in self._nameservers.topics()
            if matches(topic)
            and not names.is_system_topic(topic)
            and not topic.endswith(names.REPLY_TOPIC_SUFFIX)
            and (pattern.startswith("%") or not topic.startswith("%"))
        ]
        routes = self._nameservers.routes(found)
        self._brokers.remember(routes)
        users = [route for route in routes.values() if not route.is_system]
        return tuple(sorted(queue for route in users for queue in route.queues))

    # Offsets

    def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return the first offset and the end of each queue.

        Raise NetworkError if neither a broker nor a replica of it can be reached, and BrokerError
        if it refuses. Raise NoRoute if no route has a broker, or no nameserver knows a topic
        (``is_missing``): it was deleted, or they have all just started and brokers have not
        registered yet.
        """
        return self._brokers.ask(queues, self._range_requests, _range)

    def offsets_at(
        self, queues: Iterable[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        """Return the offset of the first message of each queue stored at or after a time.

        If there is none, it is the end of the queue. Brokers before 5.1.1 return the nearest
        message in time, which may be an earlier one (Java's ``ConsumeQueue``).
        """

        def requests(queue: MessageQueue) -> tuple[Header, ...]:
            search = SearchOffset(
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                timestamp=timestamp_ms,
                boundary_type="LOWER",
            )
            return (*self._range_requests(queue), search)

        def read(answers: QueueAnswers) -> int:
            has = _range(answers)
            return min(max(answers.frames[2].read(SearchOffsetAnswer).offset, has.min), has.max)

        return self._brokers.ask(queues, requests, read)

    def committed(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """Return the committed offsets of a group; None for a queue without one."""

        def request(queue: MessageQueue) -> tuple[Header]:
            header = QueryConsumerOffset(
                consumer_group=self.wire_name(group),
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                set_zero_if_not_found=False,
            )
            return (header,)

        def read(answers: QueueAnswers) -> int | None:
            (answer,) = answers.frames
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            return answer.read(QueryConsumerOffsetAnswer).offset

        return self._brokers.ask(queues, request, read)

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the offsets of a group, so that tools show its lag.

        A broker that lacks the group creates it if it may. Missing topics are skipped. An error is
        raised after all brokers have been asked. Raise GroupNotFound if a broker lacks the group
        and may not create it; else as ``bounds`` does.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in offsets:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        failures: list[OrbitError] = []
        for queues in by_broker.values():
            try:
                self._register_group(group, queues)
                self._commit_to_broker(group, {queue: offsets[queue] for queue in queues})
            except OrbitError as error:
                self._log_refusal(group, queues[0].broker_name, error)
                failures.append(error)
        # An operator may not want the group on a broker, so any other error comes first.
        failures.sort(key=lambda error: isinstance(error, GroupNotFound))
        if failures:
            raise failures[0]

    def _register_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Register a group with the broker of some queues, once."""
        one = group, queues[0].broker_name
        if one in self._registered:
            return
        for queue in queues:
            try:
                connection, broker_id = self._brokers.connection(queue, PRIMARY_ID)
                if broker_id == PRIMARY_ID:  # a replica creates no topics
                    register_group(self.wire_name(group), connection)
                    self._registered.add(one)
            except NetworkError:
                self._brokers.forget(queue)
                raise
            except NoRoute as error:
                if not error.is_missing:
                    raise
            else:
                return

    def _commit_to_broker(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        def request(queue: MessageQueue) -> tuple[Header]:
            header = UpdateConsumerOffset(
                consumer_group=self.wire_name(group),
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                commit_offset=offsets[queue],
            )
            return (header,)

        self._brokers.ask(offsets, request, lambda _answers: None, skip_missing=True)

    def _log_refusal(self, group: str, broker_name: str, error: OrbitError) -> None:
        """Log once that a broker refuses the offsets of a group."""
        if isinstance(error, BrokerError) and (group, broker_name) not in self._refusals:
            self._refusals.add((group, broker_name))
            log.warning(
                "broker %s refuses the offsets of group %s, so tools don't show its lag there: %s",
                *(broker_name, group, error),
            )

    def _range_requests(self, queue: MessageQueue) -> tuple[Header, Header]:
        topic, queue_id = self.wire_name(queue.topic), queue.queue_id
        return (
            GetMinOffset(topic=topic, queue_id=queue_id),
            GetMaxOffset(topic=topic, queue_id=queue_id),
        )

    # Messages

    def offsets_of_key(
        self, queues: Iterable[MessageQueue], key: str, *, group: str = DEFAULT_PULL_GROUP
    ) -> dict[MessageQueue, list[int]] | None:
        """Return the offsets of messages with a key, sorted; None if indexes may be incomplete."""
        wanted = list(queues)
        search = KeySearch(self._brokers, self.bounds(wanted), self.wire_name, group)
        return search.offsets(key)

    def connection(
        self, queue: MessageQueue, broker_id: int = PRIMARY_ID, *, exact: bool = False
    ) -> QueueConnection:
        """Return a connection to a broker of a queue, and its id; the caller doesn't close it.

        If the broker with the preferred id is down, another one of the same name is used, unless
        ``exact`` is set. Raise ConnectFailed if none of them can be reached, and NoRoute if no
        route has such a broker.
        """
        return self._brokers.connection(queue, broker_id, exact=exact)

    def forget(self, queue: MessageQueue) -> None:
        """Look up the route of a queue again, and redial its broker: after a failure.

        Another replica may serve the queue then.
        """
        self._brokers.forget(queue)


def _range(answers: QueueAnswers) -> Range:
    """Return a valid range: a store whose queue has no file yet may answer -1."""
    least, most = answers.frames[:2]
    end = max(most.read(GetMaxOffsetAnswer).offset, 0)
    start = min(max(least.read(GetMinOffsetAnswer).offset, 0), end)
    return Range(start, end, answers.is_replica)


def _check_assigned(assigned: set[MessageQueue], queues: Sequence[MessageQueue]) -> None:
    missing = sorted(assigned.difference(queues))
    if missing:
        there = [queue_name(queue) for queue in queues if queue.topic == missing[0].topic]
        raise InvalidOption(
            f"assign names queue {queue_name(missing[0])} of topic {missing[0].topic}, which "
            f"doesn't exist; there are {', '.join(there[:20])}",
            field="assign",
        )


_clusters: dict[tuple[int, Access], Cluster] = {}


def cluster_for(access: Access) -> Cluster:
    """Return this process's cluster for an access, with its open connections.

    Spark forks its Python workers and reuses them. A connection belongs to the process that opened
    it, so a fork drops those of its parent.
    """
    pid = os.getpid()
    for key in [key for key in _clusters if key[0] != pid]:
        _clusters.pop(key).close()
    cluster = _clusters.pop((pid, access), None) or Cluster(access)
    _clusters[pid, access] = cluster  # the last entry is the last used
    if len(_clusters) > _CLUSTERS_MAX:
        _clusters.pop(next(iter(_clusters))).close()
    return cluster


@atexit.register
def _close_all() -> None:
    while _clusters:
        _clusters.popitem()[1].close()
