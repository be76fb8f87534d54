"""The queues of topics on all brokers, which nameservers know: Java's ``TopicRouteInfoManager``."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import READ, ResponseCode
from orbitmq.wire.headers.route import GetRouteInfo

__all__ = ["TopicQueues"]

log = logging.getLogger("orbitmq.broker")

_TIMEOUT_MS: Final = 3_000
_TOPICS_MAX: Final = 10_000
"""The most topics that are remembered; the one looked up first is forgotten first."""

_QUEUES_MAX: Final = 65_536
"""Queues of one broker, as in `tables.topics`: a wrong route must not fill the memory."""


class _Found(NamedTuple):
    at_ms: int
    queues: tuple[MessageQueue, ...]


class TopicQueues:
    """The queues that consumers read, each topic remembered for ``fresh_ms()``."""

    def __init__(
        self,
        nameservers: Sequence[Address],
        dialer: Dialer,
        clock: Clock,
        fresh_ms: Callable[[], int],
    ) -> None:
        self._nameservers = tuple(nameservers)
        self._dialer = dialer
        self._clock = clock
        self._fresh_ms = fresh_ms
        self._found: OrderedDict[str, _Found] = OrderedDict()

    def __repr__(self) -> str:
        return f"<TopicQueues of {len(self._found)} topics>"

    async def of(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the queues of a topic, sorted; None if no nameserver knows it.

        While no nameserver answers, what the last one said holds.
        """
        known = self._found.get(topic)
        if known is not None and self._clock.monotonic_ms() < known.at_ms + self._fresh_ms():
            return known.queues
        for nameserver in self._nameservers:
            try:
                answer = await self._dialer.request(
                    nameserver, GetRouteInfo(topic=topic), timeout_ms=_TIMEOUT_MS
                )
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._found.pop(topic, None)
                    return None
                if answer.code == ResponseCode.SUCCESS:
                    return self._note(topic, TopicRouteData.from_json(answer.body))
                log.warning("nameserver %s refused the route of %s: %r", nameserver, topic, answer)
            except OrbitError as error:
                log.warning("nameserver %s gave no route of %s: %s", nameserver, topic, error)
        return None if known is None else known.queues

    def _note(self, topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
        queues = sorted(
            MessageQueue(topic, one.broker_name, queue_id)
            for one in route.queue_datas
            if one.perm & READ
            for queue_id in range(min(one.read_queue_nums, _QUEUES_MAX))
        )
        self._found.pop(topic, None)
        self._found[topic] = _Found(self._clock.monotonic_ms(), tuple(queues))
        if len(self._found) > _TOPICS_MAX:
            self._found.popitem(last=False)
        return tuple(queues)
