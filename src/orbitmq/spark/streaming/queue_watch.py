"""What the queues of a stream have, asked again and again while brokers come and go.

Spark asks a hundred times a second where an idle stream ends. Brokers are asked at most twenty
times, and nameservers for new queues every few seconds.

Which queues a stream reads, whatever its trigger::

    in the route of a chosen topic         all; one that is new from its beginning
    in the checkpoint, of a chosen topic   all, also those that the route has lost: a broker that is
                                           away, a topic that is gone
    in the checkpoint, of another topic    none: their places stay as they are

Chosen are the topics, or the queues, that the options name now. Brokers let nobody read queues
beyond the number that a topic has by now: these are *closed*.

A broker that doesn't answer has no news: the others are read on, and it is read again when it is
back. That is told once. If it stays away for minutes, the stream fails with the error that it met,
unless data may be lost. A topic that no nameserver knows is treated alike, since it may be that of
a broker that is away. While no nameserver answers, known queues are read on, however long: a new
one is read from its beginning when it is heard of.

Of a queue that they don't have, brokers say that it begins and ends at 0; also of a topic that is
being deleted, a moment before nameservers know. So of a queue that had messages this is believed
only after seconds in which its topic was known; or at once if data may be lost, so that the topic
is read from its beginning when it is made anew.
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
# A nameserver forgets a broker that went without a word after two minutes (Java's
# RouteInfoManager); who is away for longer has not just been restarted.
ABSENCE_MAX_MS: Final = 5 * 60_000
_PAUSES_MS: Final = (100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400)
"""Between tries to plan a batch; together they outlast the restart of a broker."""
_PATIENCE_MS: Final = sum(_PAUSES_MS)


_Part = tuple[str, str]
"""Queues that are there or away together: the names of broker and topic, empty for any."""


class _Sight(NamedTuple):
    """What queues have, as far as they answer; and why others don't."""

    ranges: dict[MessageQueue, Range]
    failures: dict[_Part, OrbitError]


class QueueWatch:
    """The queues of one stream, as they were last seen.

    Args:
        cluster: whom to ask.
        options: what the stream was told.
        clock: what ages are measured with.
        pause_for: waits between tries.

    """

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
        self._patient = not options.fail_on_data_loss
        self._clock = clock
        self._queues: frozenset[MessageQueue] = frozenset()
        self._parts: frozenset[_Part] = frozenset()  # those that the queues are of
        self._last_seen: dict[MessageQueue, Range] = {}
        self._answered: dict[MessageQueue, Range] = {}
        self._routed_ms: int | None = None
        self._asked_ms: int | None = None
        self._unrouted: dict[_Part, OrbitError] = {}  # when the routes were last asked for
        self._unknown: dict[_Part, NoRoute] = {}  # since then
        self._away_since_ms: dict[_Part, int] = {}
        self._emptied_since_ms: dict[MessageQueue, int] = {}

    @property
    def last_seen(self) -> Mapping[MessageQueue, Range]:
        """What all queues had when they last answered."""
        return self._last_seen

    def reads(self, queue: MessageQueue) -> bool:
        """Return whether a queue of the checkpoint is read on, and its topic is there."""
        return _is_chosen(self._topics, queue) and _part(queue) not in self._unknown

    def closed(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return the queues that brokers let nobody read: their topic has fewer by now."""
        self._look_for_queues(self._clock.monotonic_ms())
        if self._topics.assigned:  # those are read or refused as they are named
            return set()
        return {one for one in queues if one not in self._queues and _part(one) in self._parts}

    def see(self) -> dict[MessageQueue, Range]:
        """Return what all queues of the topics have now.

        Raises:
            OrbitError: one of them can't be asked.

        """
        now = self._clock.monotonic_ms()
        self._know(self._cluster.resolve(self._topics))
        self._routed_ms, self._unrouted, self._unknown = now, {}, {}
        self._note(dict(self._cluster.bounds(sorted(self._queues))), now)
        return self._answered

    def news(self, known: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return what the queues have that the stream reads, if they answer.

        Args:
            known: the queues of the checkpoint. Some may be in no route any more, and have messages
                nevertheless.

        Raises:
            OrbitError: some have not answered for minutes.

        """
        now = self._clock.monotonic_ms()
        if _is_younger(self._asked_ms, RANGES_AGE_MS, now):
            return self._answered
        found = self._ask(frozenset(known), now)
        self._leave_out_emptied(found.ranges, now)
        self._judge(found.failures, now)
        self._note(found.ranges, now)
        return self._answered

    def glance(self) -> dict[MessageQueue, Range]:
        """Return what the queues of the topics have now, as far as they answer.

        What is wrong with others shows when they have to be known: see ``see`` and ``ending``.
        """
        now = self._clock.monotonic_ms()
        self._note(self._ask(frozenset(), now).ranges, now)
        return self._answered

    def ending(self, known: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return what the queues have that a stream reads which is to end: it doesn't wait.

        Args:
            known: the queues of the checkpoint.

        Raises:
            OrbitError: some don't answer, and no data may be lost.

        """
        now = self._clock.monotonic_ms()
        found = self._ask(frozenset(known), now)
        if found.failures and not self._patient:
            raise _told(next(iter(found.failures.values())))
        self._judge(found.failures, now)
        self._note(found.ranges, now)
        return self._answered

    def of(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Range]:
        """Return what some queues have, which has to be known; wait for a broker that restarts.

        If data may be lost, queues of topics that no nameserver has known for minutes are left out.

        Raises:
            OrbitError: one of them can't be asked.

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
            if self._patient and isinstance(failure, NoRoute) and failure.is_missing:
                if waited_ms > ABSENCE_MAX_MS:
                    log.warning("reading on although data is lost: %s", failure)
                    return self.of([one for one in left if one.topic != failure.topic])
            elif waited_ms >= _PATIENCE_MS:
                raise _told(failure)
            pause_ms = next(pauses)
            log.debug("asked again in %d ms: %s", pause_ms, failure)
            self._pause(pause_ms)
            waited_ms += pause_ms

    def _note(self, answered: dict[MessageQueue, Range], now: int) -> None:
        self._answered, self._asked_ms = answered, now
        self._last_seen |= answered

    def _ask(self, known: frozenset[MessageQueue], now: int) -> _Sight:
        self._look_for_queues(now)
        chosen = {one for one in known if _is_chosen(self._topics, one)} | self._queues
        found = _Sight({}, {**self._unrouted, **self._unknown})
        asked = (one for one in chosen if _part(one) not in self._unknown)
        for _, of_broker in groupby(sorted(asked, key=_part), key=_broker_name):
            self._ask_broker(list(of_broker), found)
        # Before it is believed, and when it first shows, so that a deleted topic is told as such.
        since_ms = self._emptied_since_ms
        self._look_for_topics(
            one.topic
            for one in self._emptied(found.ranges)
            if not _is_younger(since_ms.get(one), ROUTE_AGE_MS, now)
        )
        self._leave_out_deleted(found)
        return found

    def _emptied(self, ranges: Mapping[MessageQueue, Range]) -> set[MessageQueue]:
        """Return the queues of which it is doubted that they are empty, for they had messages."""
        if self._patient:
            return set()
        return {
            one
            for one, has in ranges.items()
            if has.max == 0 and self._last_seen.get(one, has).max > 0
        }

    def _leave_out_emptied(self, ranges: dict[MessageQueue, Range], now: int) -> None:
        """Leave out what was emptied just now: its topic may be about to be deleted."""
        since_ms = self._emptied_since_ms
        self._emptied_since_ms = {one: since_ms.get(one, now) for one in self._emptied(ranges)}
        for one, then_ms in self._emptied_since_ms.items():
            if _is_younger(then_ms, ROUTE_AGE_MS, now):
                del ranges[one]

    def _leave_out_deleted(self, found: _Sight) -> None:
        """Take what brokers say of queues that are gone for what it is.

        Of a queue that they don't have, brokers say that it begins and ends at 0. But what a
        nameserver doesn't know may be there: it was restarted, and has yet to hear of it.
        """
        for queue in [one for one, has in found.ranges.items() if has.max == 0]:
            if (error := self._missing(queue.topic)) is not None:
                del found.ranges[queue]
                found.failures[_part(queue)] = error

    def _missing(self, topic: str) -> OrbitError | None:
        """Return an error if no nameserver knew a topic when the routes were last asked for."""
        error = self._unrouted.get(("", topic))
        if error is not None and _is_missing(error):
            return error
        is_listed = any(topic == routed for _broker, routed in self._parts)
        if is_listed or self._unrouted or self._topics.pattern is None:
            return None
        return NoRoute(
            f"topic {topic} is missing: no nameserver has it in its list of topics",
            topic=topic,
            is_missing=True,
            answers={},
        )

    def _ask_broker(self, queues: Sequence[MessageQueue], found: _Sight) -> None:
        """Ask about the queues of a broker, all at once; by topics if some can't be asked about."""
        try:
            found.ranges.update(self._cluster.bounds(queues))
            return
        except OrbitError as error:
            failure = error
        parts = {part: list(some) for part, some in groupby(queues, key=_part)}
        if len(parts) > 1 and not isinstance(failure, NetworkError):
            for some in parts.values():
                self._ask_broker(some, found)
            return
        found.failures.update(dict.fromkeys(parts, failure))
        if isinstance(failure, NoRoute) and failure.is_missing:
            self._unknown.update(dict.fromkeys(parts, failure))

    def _look_for_queues(self, now: int) -> None:
        if _is_younger(self._routed_ms, ROUTE_AGE_MS, now):
            return
        self._routed_ms, self._unknown = now, {}
        if self._topics.assigned:
            self._know(self._topics.assigned)
            self._look_for_topics([topic for _broker, topic in self._unrouted])
            return
        try:
            self._know(self._cluster.resolve(self._topics))
            self._unrouted = {}
        except NoRoute as error:
            self._unrouted = {("", error.topic): error}
            if len(self._topics.names) > 1:
                self._look_for_each()
        except OrbitError as error:
            self._unrouted = {("", ""): error}

    def _look_for_topics(self, topics: Iterable[str]) -> None:
        """Look whether nameservers know topics, whatever the last routes were."""
        for topic in {*topics}:
            self._unrouted.pop(("", topic), None)
            try:
                self._cluster.resolve(Topics(names=(topic,)))
            except OrbitError as error:
                self._unrouted["", topic] = error

    def _look_for_each(self) -> None:
        """Look for the queues of topics one by one: that one is gone must not hide the others."""
        queues: set[MessageQueue] = set()
        self._unrouted = {}
        for name in self._topics.names:
            try:
                queues.update(self._cluster.resolve(Topics(names=(name,))))
            except OrbitError as error:
                self._unrouted["", name] = error
                queues.update(one for one in self._queues if one.topic == name)
        self._know(queues)

    def _know(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        self._parts = frozenset(map(_part, self._queues))

    def _judge(self, failures: Mapping[_Part, OrbitError], now: int) -> None:
        """Bear with errors that time may cure; raise any other, and one that lasts."""
        for (broker_name, _topic), error in failures.items():
            if not error.retriable:
                raise error
            if broker_name and not _is_missing(error):
                self._routed_ms = None  # queues may have moved
        for text in dict.fromkeys(str(error) for error in self._not_told_yet(failures)):
            log.warning("reading on without the queues that don't answer: %s", text)
        if self._away_since_ms and not failures:
            log.warning("all brokers of the stream answer again")
        self._away_since_ms = {part: self._away_since_ms.get(part, now) for part in failures}
        for part, since_ms in self._away_since_ms.items():
            error = failures[part]
            is_broker = bool(part[0]) or not isinstance(error, NameserversFailed)
            if is_broker and now - since_ms > ABSENCE_MAX_MS and not self._patient:
                raise _told(error)

    def _not_told_yet(self, failures: Mapping[_Part, OrbitError]) -> Iterator[OrbitError]:
        known_topics = {topic for _broker, topic in self._away_since_ms}
        for part, error in failures.items():
            # That a topic is missing is found out by its route, and later by each of its brokers.
            is_known = _is_missing(error) and part[1] in known_topics
            if part not in self._away_since_ms and not is_known:
                yield error


def _is_chosen(topics: Topics, queue: MessageQueue) -> bool:
    """Return whether options name a queue, or its topic.

    >>> _is_chosen(Topics(names=("orders",)), MessageQueue("orders", "broker-a", 7))
    True
    >>> _is_chosen(Topics(pattern="ord.*"), MessageQueue("bills", "broker-a", 7))
    False
    """
    if topics.assigned:
        return queue in topics.assigned
    if topics.pattern is not None:
        return re.fullmatch(topics.pattern, queue.topic) is not None
    return queue.topic in topics.names


def _is_missing(error: OrbitError) -> bool:
    return isinstance(error, NoRoute) and error.is_missing


def _told(error: OrbitError) -> OrbitError:
    """Return an error with what to do about a topic that was there when the stream began."""
    if not isinstance(error, NoRoute) or not error.is_missing:
        return error
    told = NoRoute(
        f"topic {error.topic} is missing: no nameserver knows it any more. If it was deleted, "
        "leave it out of the query, or set failOnDataLoss to false to go on without it; if not, "
        f"look at its brokers and the nameservers {', '.join(error.answers)}".rstrip(),
        topic=error.topic,
        is_missing=True,
        answers=error.answers,
    )
    told.__cause__ = error
    return told


def _is_younger(then_ms: int | None, age_ms: int, now_ms: int) -> bool:
    return then_ms is not None and now_ms - then_ms < age_ms


def _part(queue: MessageQueue) -> _Part:
    return queue.broker_name, queue.topic


def _broker_name(queue: MessageQueue) -> str:
    return queue.broker_name
