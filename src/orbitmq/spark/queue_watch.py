"""What the queues of a stream have, asked again and again while brokers come and go.

Spark asks a hundred times a second where an idle stream ends. Brokers are asked at most twenty
times, and nameservers for new queues every few seconds.

A broker that doesn't answer has no news: the others are read on, and it is read again when it is
back. That is told once. If it stays away for minutes, the stream fails with the error that it met,
unless data may be lost.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

from orbitmq.clock import Clock, pause
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Range
from orbitmq.spark.options import ReadOptions, Topics

__all__ = ["ABSENCE_MAX_MS", "ROUTE_AGE_MS", "QueueWatch", "Queues"]

log = logging.getLogger("orbitmq.spark")

RANGES_AGE_MS: Final = 50
ROUTE_AGE_MS: Final = 5_000
# A nameserver forgets a broker that went without a word after two minutes (Java's
# RouteInfoManager); who is away for longer has not just been restarted.
ABSENCE_MAX_MS: Final = 5 * 60_000
_PAUSES_MS: Final = (100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400)
"""Between tries to plan a batch; together they outlast the restart of a broker."""


class Queues(Protocol):
    """What a watch asks of a cluster; see ``Cluster``."""

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        """Return the queues of topics."""
        ...

    def bounds(self, queues: Iterable[MessageQueue]) -> Mapping[MessageQueue, Range]:
        """Return where queues begin and end."""
        ...


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
        cluster: Queues,
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
        self._last_seen: dict[MessageQueue, Range] = {}
        self._answered: dict[MessageQueue, Range] = {}
        self._routed_ms: int | None = None
        self._asked_ms: int | None = None
        self._away_since_ms: int | None = None

    @property
    def last_seen(self) -> Mapping[MessageQueue, Range]:
        """What all queues had when they last answered."""
        return self._last_seen

    def see(self) -> dict[MessageQueue, Range]:
        """Return what all queues of the topics have now.

        Raises:
            OrbitError: one of them can't be asked.

        """
        now = self._clock.monotonic_ms()
        self._queues, self._routed_ms = frozenset(self._cluster.resolve(self._topics)), now
        self._note(dict(self._cluster.bounds(sorted(self._queues))), now)
        return self._answered

    def news(self, known: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        """Return what the queues of the topics and others that are known have, if they answer.

        Those others are queues that a route has no more; they may have messages nevertheless.

        Raises:
            OrbitError: some have not answered for minutes.

        """
        now = self._clock.monotonic_ms()
        if _is_younger(self._asked_ms, RANGES_AGE_MS, now):
            return self._answered
        self._note(self._ask(frozenset(known), now), now)
        return self._answered

    def of(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Range]:
        """Return what some queues have, which has to be known; wait for a broker that restarts.

        Raises:
            OrbitError: one of them can't be asked.

        """
        now = self._clock.monotonic_ms()
        if _is_younger(self._asked_ms, RANGES_AGE_MS, now) and self._answered.keys() >= {*queues}:
            return self._answered
        for pause_ms in _PAUSES_MS:
            try:
                return self._cluster.bounds(sorted(queues))
            except OrbitError as error:
                if not error.retriable:
                    raise
                log.debug("asked again in %d ms: %s", pause_ms, error)
            self._pause(pause_ms)
        return self._cluster.bounds(sorted(queues))

    def _note(self, answered: dict[MessageQueue, Range], now: int) -> None:
        self._answered, self._asked_ms = answered, now
        self._last_seen |= answered

    def _ask(self, queues: frozenset[MessageQueue], now: int) -> dict[MessageQueue, Range]:
        answered: dict[MessageQueue, Range] = {}
        failures: list[OrbitError] = []
        try:
            self._look_for_queues(now)
        except OrbitError as error:
            failures.append(error)
        by_broker = sorted(queues | self._queues, key=_broker_name)
        for _, of_broker in groupby(by_broker, key=_broker_name):
            try:
                answered |= self._cluster.bounds(list(of_broker))
            except OrbitError as error:
                failures.append(error)
        self._judge(failures, now)
        return answered

    def _look_for_queues(self, now: int) -> None:
        if self._topics.assigned or _is_younger(self._routed_ms, ROUTE_AGE_MS, now):
            return
        self._queues = frozenset(self._cluster.resolve(self._topics))
        self._routed_ms = now

    def _judge(self, failures: Sequence[OrbitError], now: int) -> None:
        """Bear with errors that time may cure; raise any other, and one that lasts."""
        if not failures:
            if self._away_since_ms is not None:
                log.warning("all brokers of the stream answer again")
            self._away_since_ms = None
            return
        lasting = [error for error in failures if not error.retriable]
        if lasting:
            raise lasting[0]
        self._routed_ms = None  # queues may have moved
        if self._away_since_ms is None:
            self._away_since_ms = now
            log.warning("reading on without the queues that don't answer: %s", failures[0])
        elif now - self._away_since_ms > ABSENCE_MAX_MS and not self._patient:
            raise failures[0]


def _is_younger(then_ms: int | None, age_ms: int, now_ms: int) -> bool:
    return then_ms is not None and now_ms - then_ms < age_ms


def _broker_name(queue: MessageQueue) -> str:
    return queue.broker_name
