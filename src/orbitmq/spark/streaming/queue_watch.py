"""Polls the offsets of a stream's queues while brokers come and go.

Spark polls an idle stream a hundred times a second. Brokers are asked at most twenty times a
second, and nameservers for new queues every few seconds.

Which queues a stream reads, whatever its trigger::

    in the route of a selected topic        all; a new one from its beginning
    in the checkpoint, of a selected topic  all, including those that are in no route: their broker
                                            is down, or their topic is gone
    in the checkpoint, of another topic     none; their offsets are kept

Selected are the topics or queues that the options name now. Brokers refuse to read queues beyond
the current number of queues of a topic: these are *closed*.

If a broker doesn't answer, the stream reads the others, and continues with it when it is back. This
is logged once. If it stays down for minutes, the stream fails with the broker's error, unless data
loss is accepted. A topic that no nameserver knows is treated the same way, since its broker may be
down. While no nameserver answers, known queues are read for any length of time.

Brokers answer that a queue they don't have begins and ends at 0; also for a topic that is being
deleted, shortly before nameservers know. So if a queue that had messages is empty, this counts only
after its topic was known for some seconds. If data loss is accepted, it counts at once, so that the
topic is read from its beginning when it is created again.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from typing import Final, NamedTuple

from orbitmq.clock import Clock, pause
from orbitmq.errors import NameserversFailed, NetworkError, NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import Range
from orbitmq.spark.options.options import ReadOptions, Topics

__all__ = ["ABSENCE_MAX_MS", "ROUTE_AGE_MS", "QueueWatch"]

log = logging.getLogger("orbitmq.spark")

RANGES_AGE_MS: Final = 50
ROUTE_AGE_MS: Final = 5_000
# A nameserver drops a silent broker after two minutes (Java's RouteInfoManager); one that is down
# for longer is not merely restarting.
ABSENCE_MAX_MS: Final = 5 * 60_000
_PAUSES_MS: Final = (100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400)
"""Pauses between retries while a batch is planned; together they outlast a broker's restart."""
_PATIENCE_MS: Final = sum(_PAUSES_MS)


_BrokerTopic = tuple[str, str]
"""Names of a broker and a topic, whose queues come and go together; empty for any."""


class _PollResult(NamedTuple):
    """The offsets of the queues that answered, and the errors of the others."""

    ranges: dict[MessageQueue, Range]
    failures: dict[_BrokerTopic, OrbitError]


class QueueWatch:
    """The queues of one stream, and their last known offsets."""

    def __init__(
        self,
        cluster: Cluster,
        options: ReadOptions,
        clock: Clock,
        pause_for: Callable[[int], None] = pause,
    ) -> None:
        self._cluster = cluster
        self._pause = pause_for
        self._topics = options.topics
        self._accepts_loss = not options.fail_on_data_loss
        self._clock = clock
        self._queues: frozenset[MessageQueue] = frozenset()
        self._broker_topics: frozenset[_BrokerTopic] = frozenset()  # of the queues
        self._last_seen: dict[MessageQueue, Range] = {}
        self._answered: dict[MessageQueue, Range] = {}
        self._routed_ms: int | None = None
        self._asked_ms: int | None = None
        self._unrouted: dict[_BrokerTopic, OrbitError] = {}  # at the last look-up of routes
        self._unknown: dict[_BrokerTopic, NoRoute] = {}  # since then
        self._away_since_ms: dict[_BrokerTopic, int] = {}
        self._emptied_since_ms: dict[MessageQueue, int] = {}

    @property
    def last_seen(self) -> Mapping[MessageQueue, Range]:
        """The offsets of all queues when they last answered."""
        return self._last_seen

    def is_read(self, queue: MessageQueue) -> bool:
        """Return whether the stream reads a queue of the checkpoint, and its topic exists."""
        return _is_selected(self._topics, queue) and _broker_topic(queue) not in self._unknown

    def closed(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return the closed queues: their topic has fewer queues now."""
        self._look_up_queues(self._clock.monotonic_ms())
        if self._topics.assigned:  # these are read or refused one by one
            return set()
        return {
            one
            for one in queues
            if one not in self._queues and _broker_topic(one) in self._broker_topics
        }

    def all_ranges(self) -> dict[MessageQueue, Range]:
        """Return the current offsets of all queues of the topics."""
        now = self._clock.monotonic_ms()
        self._set_queues(self._cluster.resolve(self._topics))
        self._routed_ms, self._unrouted, self._unknown = now, {}, {}
        self._remember(dict(self._cluster.bounds(sorted(self._queues))), now)
        return self._answered

    def current_ranges(self, known: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return the current offsets of the queues that the stream reads and that answer.

        ``known`` are the queues of the checkpoint. Some may have left the routes and still have
        messages. Raise OrbitError if some have not answered for minutes.
        """
        now = self._clock.monotonic_ms()
        if _is_younger(self._asked_ms, RANGES_AGE_MS, now):
            return self._answered
        found = self._poll(frozenset(known), now)
        self._remove_emptied(found.ranges, now)
        self._tolerate(found.failures, now)
        self._remember(found.ranges, now)
        return self._answered

    def answering_ranges(self) -> dict[MessageQueue, Range]:
        """Return the current offsets of the queues of the topics that answer.

        ``all_ranges`` and ``final_ranges`` raise the errors of the others.
        """
        now = self._clock.monotonic_ms()
        self._remember(self._poll(frozenset(), now).ranges, now)
        return self._answered

    def final_ranges(self, known: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return the current offsets of the queues of a stream that ends, without waiting.

        Raise OrbitError if some don't answer and data loss is an error.
        """
        now = self._clock.monotonic_ms()
        found = self._poll(frozenset(known), now)
        if found.failures and not self._accepts_loss:
            raise _with_advice(next(iter(found.failures.values())))
        self._tolerate(found.failures, now)
        self._remember(found.ranges, now)
        return self._answered

    def ranges_of(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Range]:
        """Return the offsets of some queues; wait for a broker that restarts.

        If data loss is accepted, queues of topics that no nameserver has known for minutes are left
        out.
        """
        now = self._clock.monotonic_ms()
        if _is_younger(self._asked_ms, RANGES_AGE_MS, now) and self._answered.keys() >= {*queues}:
            return self._answered
        left, waited_ms, pauses = sorted(queues), 0, chain(_PAUSES_MS, repeat(_PAUSES_MS[-1]))
        while True:
            try:
                return self._cluster.bounds(left)
            except OrbitError as error:
                if not error.retriable:
                    raise
                failure = error
            if self._accepts_loss and isinstance(failure, NoRoute) and failure.is_missing:
                if waited_ms > ABSENCE_MAX_MS:
                    log.warning("continuing although data is lost: %s", failure)
                    return self.ranges_of([one for one in left if one.topic != failure.topic])
            elif waited_ms >= _PATIENCE_MS:
                raise _with_advice(failure)
            pause_ms = next(pauses)
            log.debug("retrying in %d ms: %s", pause_ms, failure)
            self._pause(pause_ms)
            waited_ms += pause_ms

    def _remember(self, answered: dict[MessageQueue, Range], now: int) -> None:
        self._answered, self._asked_ms = answered, now
        self._last_seen |= answered

    def _poll(self, known: frozenset[MessageQueue], now: int) -> _PollResult:
        self._look_up_queues(now)
        selected = {one for one in known if _is_selected(self._topics, one)} | self._queues
        found = _PollResult({}, {**self._unrouted, **self._unknown})
        asked = (one for one in selected if _broker_topic(one) not in self._unknown)
        for _, of_broker in groupby(sorted(asked, key=_broker_topic), key=_broker_name):
            self._poll_broker(list(of_broker), found)
        # When a queue is first seen empty, and before that counts: its topic may be deleted.
        since_ms = self._emptied_since_ms
        self._look_up_topics(
            one.topic
            for one in self._emptied(found.ranges)
            if not _is_younger(since_ms.get(one), ROUTE_AGE_MS, now)
        )
        self._remove_deleted(found)
        return found

    def _emptied(self, ranges: Mapping[MessageQueue, Range]) -> set[MessageQueue]:
        """Return the empty queues that had messages before."""
        if self._accepts_loss:
            return set()
        return {
            one
            for one, has in ranges.items()
            if has.max == 0 and self._last_seen.get(one, has).max > 0
        }

    def _remove_emptied(self, ranges: dict[MessageQueue, Range], now: int) -> None:
        """Remove queues that were emptied just now: their topic may be about to be deleted."""
        since_ms = self._emptied_since_ms
        self._emptied_since_ms = {one: since_ms.get(one, now) for one in self._emptied(ranges)}
        for one, then_ms in self._emptied_since_ms.items():
            if _is_younger(then_ms, ROUTE_AGE_MS, now):
                del ranges[one]

    def _remove_deleted(self, found: _PollResult) -> None:
        """Turn empty queues of missing topics into failures.

        Brokers answer that a queue they don't have begins and ends at 0. A queue with messages
        exists even if no nameserver knows its topic: they may have just restarted.
        """
        for queue in [one for one, has in found.ranges.items() if has.max == 0]:
            if (error := self._missing(queue.topic)) is not None:
                del found.ranges[queue]
                found.failures[_broker_topic(queue)] = error

    def _missing(self, topic: str) -> OrbitError | None:
        """Return an error if no nameserver knew a topic at the last look-up of routes."""
        error = self._unrouted.get(("", topic))
        if error is not None and _is_missing(error):
            return error
        is_listed = any(topic == routed for _broker, routed in self._broker_topics)
        if is_listed or self._unrouted or self._topics.pattern is None:
            return None
        return NoRoute(
            f"topic {topic} is missing: no nameserver lists it",
            topic=topic,
            is_missing=True,
            answers={},
        )

    def _poll_broker(self, queues: Sequence[MessageQueue], found: _PollResult) -> None:
        """Ask a broker about all its queues at once; topic by topic if that fails."""
        try:
            found.ranges.update(self._cluster.bounds(queues))
            return
        except OrbitError as error:
            failure = error
        parts = {part: list(some) for part, some in groupby(queues, key=_broker_topic)}
        if len(parts) > 1 and not isinstance(failure, NetworkError):
            for some in parts.values():
                self._poll_broker(some, found)
            return
        found.failures.update(dict.fromkeys(parts, failure))
        if isinstance(failure, NoRoute) and failure.is_missing:
            self._unknown.update(dict.fromkeys(parts, failure))

    def _look_up_queues(self, now: int) -> None:
        if _is_younger(self._routed_ms, ROUTE_AGE_MS, now):
            return
        self._routed_ms, self._unknown = now, {}
        if self._topics.assigned:
            self._set_queues(self._topics.assigned)
            self._look_up_topics([topic for _broker, topic in self._unrouted])
            return
        try:
            self._set_queues(self._cluster.resolve(self._topics))
            self._unrouted = {}
        except NoRoute as error:
            self._unrouted = {("", error.topic): error}
            if len(self._topics.names) > 1:
                self._look_up_each()
        except OrbitError as error:
            self._unrouted = {("", ""): error}

    def _look_up_topics(self, topics: Iterable[str]) -> None:
        """Look up topics at nameservers, and note the errors."""
        for topic in {*topics}:
            self._unrouted.pop(("", topic), None)
            try:
                self._cluster.resolve(Topics(names=(topic,)))
            except OrbitError as error:
                self._unrouted["", topic] = error

    def _look_up_each(self) -> None:
        """Look up the queues topic by topic, so that a missing topic doesn't hide the others."""
        queues: set[MessageQueue] = set()
        self._unrouted = {}
        for name in self._topics.names:
            try:
                queues.update(self._cluster.resolve(Topics(names=(name,))))
            except OrbitError as error:
                self._unrouted["", name] = error
                queues.update(one for one in self._queues if one.topic == name)
        self._set_queues(queues)

    def _set_queues(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        self._broker_topics = frozenset(map(_broker_topic, self._queues))

    def _tolerate(self, failures: Mapping[_BrokerTopic, OrbitError], now: int) -> None:
        """Tolerate errors that may pass; raise others, and those that last."""
        for (broker_name, _topic), error in failures.items():
            if not error.retriable:
                raise error
            if broker_name and not _is_missing(error):
                self._routed_ms = None  # queues may have moved
        for text in dict.fromkeys(str(error) for error in self._new_failures(failures)):
            log.warning("continuing without the queues that don't answer: %s", text)
        if self._away_since_ms and not failures:
            log.warning("all brokers of the stream answer again")
        self._away_since_ms = {part: self._away_since_ms.get(part, now) for part in failures}
        for part, since_ms in self._away_since_ms.items():
            error = failures[part]
            is_broker = bool(part[0]) or not isinstance(error, NameserversFailed)
            if is_broker and now - since_ms > ABSENCE_MAX_MS and not self._accepts_loss:
                raise _with_advice(error)

    def _new_failures(self, failures: Mapping[_BrokerTopic, OrbitError]) -> Iterator[OrbitError]:
        known_topics = {topic for _broker, topic in self._away_since_ms}
        for part, error in failures.items():
            # A missing topic is reported by its route first, and later by each of its brokers.
            is_known = _is_missing(error) and part[1] in known_topics
            if part not in self._away_since_ms and not is_known:
                yield error


def _is_selected(topics: Topics, queue: MessageQueue) -> bool:
    """Return whether the options select a queue.

    >>> _is_selected(Topics(names=("orders",)), MessageQueue("orders", "broker-a", 7))
    True
    >>> _is_selected(Topics(pattern="ord.*"), MessageQueue("bills", "broker-a", 7))
    False
    """
    if topics.assigned:
        return queue in topics.assigned
    if topics.pattern is not None:
        return re.fullmatch(topics.pattern, queue.topic) is not None
    return queue.topic in topics.names


def _is_missing(error: OrbitError) -> bool:
    return isinstance(error, NoRoute) and error.is_missing


def _with_advice(error: OrbitError) -> OrbitError:
    """Return an error that says what to do about a topic that went missing."""
    if not isinstance(error, NoRoute) or not error.is_missing:
        return error
    advised = NoRoute(
        f"topic {error.topic} is missing: no nameserver knows it any more. If it was deleted, "
        "remove it from the query, or set failOnDataLoss to false to continue without it; if not, "
        f"check its brokers and the nameservers {', '.join(error.answers)}".rstrip(),
        topic=error.topic,
        is_missing=True,
        answers=error.answers,
    )
    advised.__cause__ = error
    return advised


def _is_younger(then_ms: int | None, age_ms: int, now_ms: int) -> bool:
    return then_ms is not None and now_ms - then_ms < age_ms


def _broker_topic(queue: MessageQueue) -> _BrokerTopic:
    return queue.broker_name, queue.topic


def _broker_name(queue: MessageQueue) -> str:
    return queue.broker_name
