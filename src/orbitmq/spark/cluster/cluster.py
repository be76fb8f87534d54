"""A cluster as the driver and the tasks of Spark see it: queues, offsets, connections. Blocking.

>>> from orbitmq.embedded import start
>>> with start() as running, Cluster(Access(nameserver=running.nameserver)) as cluster:
...     queue = cluster.queues("BenchmarkTest")[0]
...     cluster.bounds([queue])[queue].max
0

One thread uses it at a time, as its connections want it. A process has one for each `Access`
(``cluster_for``), so that tasks find the connections of those before them.
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
from orbitmq.spark.cluster.brokers import Answers, BrokerLinks, Reached
from orbitmq.spark.cluster.connections import Links
from orbitmq.spark.cluster.group_registration import introduce
from orbitmq.spark.cluster.key_search import KeySearch
from orbitmq.spark.cluster.nameservers import RouteLookup
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
"""Clusters of one process; beyond them the one used longest ago is closed, to connect anew."""


class Cluster:
    """One cluster; a context manager. After ``close`` it may be used again, and connects anew.

    Args:
        access: whom to ask, and as whom.
        clock: the time.

    """

    def __init__(self, access: Access, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._access = access
        self._links = Links(access, clock)
        self._lookup = RouteLookup(access, self._links)
        self._brokers = BrokerLinks(self._links, self._lookup.route, clock)
        self._introduced: set[tuple[str, str]] = set()  # groups, with brokers that know them
        self._refusals: set[tuple[str, str]] = set()  # and with those that refused, as was told

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
        self._links.close()

    def wire_name(self, name: str) -> str:
        """Return a topic or group as brokers know it: inside the namespace."""
        return names.wrap_namespace(self._access.namespace, name)

    # Topics and queues; nameservers are asked each time

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted.

        Raises:
            NameserversFailed: no nameserver answers; which were asked.
            BrokerError: the one that does gives no list.

        """
        return self._lookup.topics()

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that can be read, from a primary or a replica; sorted.

        Raises:
            NoRoute: there is no such topic (``is_missing``), or it can't be read now.
            NameserversFailed: no nameserver answers; which were asked.

        """
        return self.resolve(Topics(names=(topic,)))

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        """Return the queues that a read was told to read, sorted; a pattern may match none.

        The queues of a broker that is down are not among them.

        Raises:
            NoRoute, NameserversFailed: as ``queues`` does.
            InvalidOption: a queue that is named by ``assign`` is not there.

        """
        if topics.pattern is not None:
            return self._matching(topics.pattern)
        assigned = set(topics.assigned)
        routes = self._lookup.all_routes(
            sorted({queue.topic for queue in assigned}) or topics.names
        )
        self._brokers.remember(routes)
        queues = sorted(queue for route in routes.values() for queue in route.queues)
        _check_assigned(assigned, queues)
        return tuple(sorted(assigned) if assigned else queues)

    def _matching(self, pattern: str) -> tuple[MessageQueue, ...]:
        """Return the queues of the topics whose whole names match, RocketMQ's own left out.

        Topics of retries and dead letters are meant only by a pattern that begins as they do.
        """
        matches = re.compile(pattern).fullmatch
        found = [
            topic
            for topic in self._lookup.topics()
            if matches(topic)
            and not names.is_system_topic(topic)
            and not topic.endswith(names.REPLY_TOPIC_SUFFIX)
            and (pattern.startswith("%") or not topic.startswith("%"))
        ]
        routes = self._lookup.routes(found)
        self._brokers.remember(routes)
        users = [route for route in routes.values() if not route.is_system]
        return tuple(sorted(queue for route in users for queue in route.queues))

    # Offsets

    def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return where queues begin and end.

        Who wants to wait for a broker that restarts calls again; who wants to know about the queues
        of other topics although one is missing asks without that one.

        Raises:
            NetworkError: a broker can't be reached, nor a replica of it.
            NoRoute: no nameserver knows a topic (``is_missing``): it was deleted, or they have all
                just started, and brokers have not told them yet. Or a broker is in no route.
            BrokerError: it refuses.

        """
        return self._brokers.ask(queues, self._where_it_is, _range)

    def offsets_at(
        self, queues: Iterable[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        """Return the offset of the first message of each queue that was stored then or later.

        Where there is none, it is the end of the queue. Brokers before 5.1.1 answer with the
        message that is nearest in time, which may be one before (Java's ``ConsumeQueue``).

        Raises:
            NetworkError, NoRoute, BrokerError: as ``bounds`` does.

        """

        def questions(queue: MessageQueue) -> tuple[Header, ...]:
            search = SearchOffset(
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                timestamp=timestamp_ms,
                boundary_type="LOWER",
            )
            return (*self._where_it_is(queue), search)

        def read(answers: Answers) -> int:
            has = _range(answers)
            return min(max(answers.frames[2].read(SearchOffsetAnswer).offset, has.min), has.max)

        return self._brokers.ask(queues, questions, read)

    def committed(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """Return how far a group has come in queues; None where it never committed.

        Raises:
            NetworkError, NoRoute, BrokerError: as ``bounds`` does.

        """

        def question(queue: MessageQueue) -> tuple[Header]:
            header = QueryConsumerOffset(
                consumer_group=self.wire_name(group),
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                set_zero_if_not_found=False,
            )
            return (header,)

        def read(answers: Answers) -> int | None:
            (answer,) = answers.frames
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            return answer.read(QueryConsumerOffsetAnswer).offset

        return self._brokers.ask(queues, question, read)

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Record how far a group has come, so that tools show its lag.

        Each broker is told on its own, and gets the group if it has none and may make one. Topics
        that are missing are left out. An error is raised when all brokers have been told.

        Raises:
            GroupNotFound: a broker doesn't have the group, and may not make it.
            NetworkError, NoRoute, BrokerError: as ``bounds`` does.

        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in offsets:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        failures: list[OrbitError] = []
        for queues in by_broker.values():
            try:
                self._introduce(group, queues)
                self._commit_to_broker(group, {queue: offsets[queue] for queue in queues})
            except OrbitError as error:
                self._tell_refusal(group, queues[0].broker_name, error)
                failures.append(error)
        # That a broker lacks the group may be its operator's will; any other error counts more.
        failures.sort(key=lambda error: isinstance(error, GroupNotFound))
        if failures:
            raise failures[0]

    def _introduce(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Make a group known to the broker of some queues, once."""
        one = group, queues[0].broker_name
        if one in self._introduced:
            return
        for queue in queues:
            try:
                link, broker_id = self._brokers.connection(queue, PRIMARY_ID)
                if broker_id == PRIMARY_ID:  # a replica makes no topics
                    introduce(self.wire_name(group), link)
                    self._introduced.add(one)
            except NetworkError:
                self._brokers.forget(queue)
                raise
            except NoRoute as error:
                if not error.is_missing:
                    raise
            else:
                return

    def _commit_to_broker(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        def question(queue: MessageQueue) -> tuple[Header]:
            header = UpdateConsumerOffset(
                consumer_group=self.wire_name(group),
                topic=self.wire_name(queue.topic),
                queue_id=queue.queue_id,
                commit_offset=offsets[queue],
            )
            return (header,)

        self._brokers.ask(offsets, question, lambda _answers: None, skip_missing=True)

    def _tell_refusal(self, group: str, broker_name: str, error: OrbitError) -> None:
        """Tell once that a broker doesn't take the offsets of a group."""
        if isinstance(error, BrokerError) and (group, broker_name) not in self._refusals:
            self._refusals.add((group, broker_name))
            log.warning(
                "broker %s takes no offsets of group %s, whose lag tools don't show there: %s",
                *(broker_name, group, error),
            )

    def _where_it_is(self, queue: MessageQueue) -> tuple[Header, Header]:
        topic, queue_id = self.wire_name(queue.topic), queue.queue_id
        return (
            GetMinOffset(topic=topic, queue_id=queue_id),
            GetMaxOffset(topic=topic, queue_id=queue_id),
        )

    # Messages

    def offsets_of_key(
        self, queues: Iterable[MessageQueue], key: str, *, group: str = DEFAULT_PULL_GROUP
    ) -> dict[MessageQueue, list[int]] | None:
        """Return where messages with a key are, sorted; None if indexes can't tell for sure.

        Args:
            queues: the queues.
            key: one of the keys of a message.
            group: in whose name brokers are asked for a message, to try their indexes.

        Raises:
            NetworkError, NoRoute, BrokerError: as ``bounds`` does.

        """
        wanted = list(queues)
        search = KeySearch(self._brokers, self.bounds(wanted), self.wire_name, group)
        return search.offsets(key)

    def connection(
        self, queue: MessageQueue, broker_id: int = PRIMARY_ID, *, alone: bool = False
    ) -> Reached:
        """Return a connection to who serves a queue, and who that is; the caller doesn't close it.

        Args:
            queue: the queue.
            broker_id: who is asked first; the others of its broker's name if that one is not there.
            alone: whether the first alone will do.

        Raises:
            ConnectFailed: none of them can be reached.
            NoRoute: no nameserver knows of any.
            NameserversFailed: no nameserver answers, and none has told the route before.

        """
        return self._brokers.connection(queue, broker_id, alone=alone)

    def forget(self, queue: MessageQueue) -> None:
        """Have the route of a queue asked for again, and its broker dialled anew: after a failure.

        Another replica may serve it then.
        """
        self._brokers.forget(queue)


def _range(answers: Answers) -> Range:
    """Return a range that is one: a store whose queue has no file yet may say -1."""
    least, most = answers.frames[:2]
    end = max(most.read(GetMaxOffsetAnswer).offset, 0)
    start = min(max(least.read(GetMinOffsetAnswer).offset, 0), end)
    return Range(start, end, answers.is_replica)


def _check_assigned(assigned: set[MessageQueue], queues: Sequence[MessageQueue]) -> None:
    missing = sorted(assigned.difference(queues))
    if missing:
        there = [queue_name(queue) for queue in queues if queue.topic == missing[0].topic]
        raise InvalidOption(
            f"assign names queue {queue_name(missing[0])} of topic {missing[0].topic}, and there "
            f"is none; there are {', '.join(there[:20])}",
            field="assign",
        )


_clusters: dict[tuple[int, Access], Cluster] = {}


def cluster_for(access: Access) -> Cluster:
    """Return this process's cluster for an access, with the connections it has by now.

    Spark forks its Python workers and reuses them. A connection belongs to the process that opened
    it, so that a fork leaves those of its parent behind.
    """
    pid = os.getpid()
    for key in [key for key in _clusters if key[0] != pid]:
        _clusters.pop(key).close()
    cluster = _clusters.pop((pid, access), None) or Cluster(access)
    _clusters[pid, access] = cluster  # the last is the one used last
    if len(_clusters) > _CLUSTERS_MAX:
        _clusters.pop(next(iter(_clusters))).close()
    return cluster


@atexit.register
def _close_all() -> None:
    while _clusters:
        _clusters.popitem()[1].close()
