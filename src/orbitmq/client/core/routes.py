"""Where topics are: a cache of routes, looked up when needed and looked at again all the time.

::

    publish_route(topic) ── cached, with queues ──────────────────────────▶ the route
                         └─ not ──▶ each nameserver in turn ── found ─────▶ the route, or NoRoute
                                                            └─ missing ──▶ the default topic's

- One look-up at a time for each topic, however many wait for it; a caller that goes away takes it
  from nobody.
- A route stays in force until another one is found: not when nameservers are down, and not when
  they have forgotten the topic, as one does that was just started.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from orbitmq.client.core.nameservers import Nameservers
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.client.core.publish_route import (
    MASTER_ID,
    DefaultTopic,
    PublishRoute,
    Whereabouts,
    publish_route,
    spread_over,
)
from orbitmq.clock import Clock
from orbitmq.errors import ConnectionClosed, NameserversFailed, NoRoute, OrbitError
from orbitmq.net.address import Address
from orbitmq.net.bodies import read_body
from orbitmq.threads import Workers
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import ResponseCode, name_of_response
from orbitmq.wire.headers.route import GetRouteInfo

__all__ = ["DefaultTopic", "PublishRoute", "RouteTable", "Routes"]

log = logging.getLogger("orbitmq.client")

_TOPICS_MAX: Final = 100_000
"""Topics whose routes are kept; beyond them the one found first is forgotten, to be found again."""
_POLLS_AT_ONCE: Final = 16
_AGAIN_MS: Final = 1_000
"""A topic that many sends failed on is looked up again once in so long, not once for each."""

_DEFAULT_TOPIC: Final = DefaultTopic()


class Known(msgspec.Struct):
    """What is known of a topic."""

    data: TopicRouteData
    route: PublishRoute
    raw: bytes | None = None
    """The answer as it came, if one did: the same bytes are not read again."""
    asked_ms: int = 0


class RouteTable:
    """Routes by topic, and the masters in them. Pure: it is told, and tells what changed.

    >>> from orbitmq.client.settings import ClientSettings
    >>> table = RouteTable(Whereabouts(ClientSettings()))
    >>> table.put("orders", TopicRouteData()), table.put("orders", TopicRouteData())
    (True, False)
    """

    def __init__(self, where: Whereabouts, *, topics_max: int = _TOPICS_MAX) -> None:
        self._where = where
        self._topics_max = topics_max
        self._known: dict[str, Known] = {}
        self._masters: dict[Address, int] = {}
        self.published: dict[str, PublishRoute] = {}
        """What producers send by; to be read only."""

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._known)} topics, {len(self._masters)} masters>"

    def __len__(self) -> int:
        return len(self._known)

    @property
    def topics(self) -> list[str]:
        """The topics whose routes are known."""
        return list(self._known)

    @property
    def masters(self) -> list[Address]:
        """Where the masters of all routes are reached, those for sends among them."""
        return list(self._masters)

    def has_master(self, address: Address) -> bool:
        """Tell whether a master is reached at an address."""
        return address in self._masters

    def get(self, topic: str) -> Known | None:
        """Return what is known of a topic."""
        return self._known.get(topic)

    def put(
        self,
        topic: str,
        data: TopicRouteData,
        raw: bytes | None = None,
        *,
        is_default: bool = False,
    ) -> bool:
        """Take in a route, and return whether it is another one than before.

        Raises:
            InvalidBody, InvalidInput: it can't be, see `publish_route`; the one before stays.

        """
        data = _in_order(data)
        before = self._known.get(topic)
        if before is not None and before.data == data and before.route.is_default == is_default:
            before.raw = raw
            return False
        route = publish_route(topic, data, self._where, is_default=is_default)
        self._known[topic] = Known(data, route, raw)
        self.published[topic] = route
        self._count(data, 1)
        if before is not None:
            self._count(before.data, -1)
        if len(self._known) > self._topics_max:
            self._forget(next(iter(self._known)))
        return True

    def _forget(self, topic: str) -> None:
        self._count(self._known.pop(topic).data, -1)
        del self.published[topic]

    def _count(self, data: TopicRouteData, step: int) -> None:
        for address in self._masters_in(data):
            self._masters[address] = self._masters.get(address, 0) + step
            if not self._masters[address]:
                del self._masters[address]

    def _masters_in(self, data: TopicRouteData) -> Iterator[Address]:
        for broker in data.broker_datas:
            advertised = broker.broker_addrs.get(MASTER_ID, "")
            for address in {self._where.address(advertised), self._where.send_address(advertised)}:
                if address is not None:
                    yield address


class _Finding(NamedTuple):
    """What became of a look-up."""

    known: Known | None
    answers: Mapping[str, str]
    """What each nameserver said, where none had a route."""
    is_answered: bool = True
    """Whether one of them spoke at all."""
    is_missing: bool = False
    """Whether all that spoke say that there is no such topic."""


class Routes:
    """The routes of one client.

    Args:
        nameservers: whom to ask.
        where: where brokers are reached.
        workers: where a large answer is read.
        clock: the time.
        timeout_ms: how long one nameserver may take to answer.

    """

    def __init__(
        self,
        nameservers: Nameservers,
        where: Whereabouts,
        *,
        workers: Workers,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self._nameservers = nameservers
        self.where = where
        """Where brokers are reached."""
        self._workers = workers
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._looking: dict[str, asyncio.Task[_Finding]] = {}
        self._is_cut_off = False
        self._listeners: list[Callable[[str, PublishRoute], None]] = []
        self.table = RouteTable(where)
        self.published: Mapping[str, PublishRoute] = self.table.published
        """The routes that are known, for those who must not wait; ``publish_route`` finds more."""

    def __repr__(self) -> str:
        return f"<Routes {len(self.table)} topics, {len(self._looking)} being looked up>"

    def when_changed(self, listener: Callable[[str, PublishRoute], None]) -> None:
        """Have ``listener`` called with each topic whose route is another one, and with that."""
        self._listeners.append(listener)

    async def publish_route(
        self, topic: str, default: DefaultTopic | None = _DEFAULT_TOPIC
    ) -> PublishRoute:
        """Return where to send messages of a topic; it has at least one queue.

        Args:
            topic: the topic, as it is called on the wire.
            default: how a topic that is not there yet would be made; None if it must be there.

        Raises:
            NoRoute: the topic is missing, can't be told of, or takes no writes now.
            NameserversFailed: no nameserver answers, and nothing is known of the topic.

        """
        route = self.published.get(topic)
        if route is not None and route.queues and not (default is None and route.is_default):
            return route
        finding = await self._find(topic)
        known = finding.known
        if finding.is_missing and default is not None and default.name != topic:
            known = await self._made_after(topic, default)
        if known is None or not known.route.queues:
            before = self.table.get(topic)
            is_there = before is not None and not before.route.is_default
            raise _no_route(topic, finding, before if is_there else None, self.where)
        return known.route

    async def route(self, topic: str) -> TopicRouteData:
        """Return what nameservers say of a topic now.

        Raises:
            NoRoute: none of them knows it.
            NameserversFailed: none of them answers.

        """
        finding = await self._find(topic)
        if finding.known is None:
            raise _no_route(topic, finding, None, self.where)
        return finding.known.data

    def invalidate(self, topic: str) -> None:
        """Have a topic looked up again soon, as after a failure; until then its route stays."""
        known = self.table.get(topic)
        now_ms = self._clock.monotonic_ms()
        if known is None or topic in self._looking or now_ms - known.asked_ms < _AGAIN_MS:
            return
        self._look_up(topic)

    async def refresh(self) -> None:
        """Look all topics up again, some at a time; stop if no nameserver answers."""
        topics = iter(self.table.topics)
        silent: list[_Finding] = []
        unclear: list[str] = []

        async def some() -> None:
            for topic in topics:
                finding = await self._find(topic)
                if not finding.is_answered:
                    silent.append(finding)
                elif finding.known is None and not finding.is_missing:
                    unclear.append(f"{topic}: {_told(finding)}")
                if silent:
                    return

        await asyncio.gather(*(some() for _ in range(_POLLS_AT_ONCE)))
        self._note_silence(silent)
        if unclear:
            log.warning("%d routes stay as they are, such as that of %s", len(unclear), unclear[0])

    async def run(self, interval_ms: int) -> None:
        """Refresh again and again, until cancelled."""
        work = lambda: self.refresh()  # noqa: E731, PLW0108 - found anew each time, as it is now
        await run_periodically(interval_ms, work, "routes can't be refreshed")

    async def close(self) -> None:
        """Give up what is being looked up."""
        await cancel_all(self._looking.values())

    # Looking up

    async def _find(self, topic: str) -> _Finding:
        task = self._looking.get(topic) or self._look_up(topic)
        try:
            # One caller's cancellation must not take the look-up away from the others.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and not (caller is not None and caller.cancelling()):
                raise ConnectionClosed("the client was closed") from None
            raise

    def _look_up(self, topic: str) -> asyncio.Task[_Finding]:
        known = self.table.get(topic)
        if known is not None:
            known.asked_ms = self._clock.monotonic_ms()
        task = asyncio.create_task(self._ask(topic), name=f"route of {topic}")
        self._looking[topic] = task
        task.add_done_callback(lambda _done: self._looking.pop(topic, None))
        return task

    async def _ask(self, topic: str) -> _Finding:
        """Ask one nameserver after another, until one knows the topic.

        Each has its share of the time, unless it is the last and nobody has answered yet: one that
        is silent would else take all of it, and that of the sends that wait.
        """
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        answers: dict[str, str] = {}
        codes: set[int] = set()
        addresses = list(self._nameservers.in_turn())
        for address in addresses:
            is_last_hope = address == addresses[-1] and not codes
            share_ms = None if is_last_hope else self._timeout_ms // len(addresses)
            try:
                answer = await self._nameservers.ask(
                    address, header, timeout_ms=self._timeout_ms, share_ms=share_ms
                )
                codes.add(answer.code)
                if answer.code == ResponseCode.SUCCESS:
                    return _Finding(await self._take(topic, bytes(answer.body)), answers)
                remark = answer.remark or "(no remark)"
                answers[str(address)] = f"{name_of_response(answer.code)}: {remark:.200}"
            except OrbitError as error:
                answers[str(address)] = str(error)
        return _Finding(None, answers, bool(codes), codes == {ResponseCode.TOPIC_NOT_EXIST})

    async def _take(self, topic: str, raw: bytes) -> Known:
        known = self.table.get(topic)
        if known is None or known.raw != raw:
            data = await read_body(TopicRouteData, raw, self._workers)
            known = self._put(topic, data, raw)
        return known

    async def _made_after(self, topic: str, default: DefaultTopic) -> Known | None:
        model = self.table.get(default.name) or (await self._find(default.name)).known
        if model is None:
            return None
        return self._put(topic, spread_over(model.data, default.queues), is_default=True)

    def _put(
        self,
        topic: str,
        data: TopicRouteData,
        raw: bytes | None = None,
        *,
        is_default: bool = False,
    ) -> Known:
        is_changed = self.table.put(topic, data, raw, is_default=is_default)
        known = self.table.get(topic)
        assert known is not None
        if is_changed:
            known.asked_ms = self._clock.monotonic_ms()
            log.debug("route of %s: %d queues to write to", topic, len(known.route.queues))
            for listener in self._listeners:
                listener(topic, known.route)
        return known

    def _note_silence(self, silent: list[_Finding]) -> None:
        """Say once that no nameserver answers, and once that they do again."""
        if silent and not self._is_cut_off:
            log.warning("no nameserver answers, routes stay as they are: %s", _told(silent[0]))
        elif self._is_cut_off and not silent:
            log.info("nameservers answer again")
        self._is_cut_off = bool(silent)


def _in_order(data: TopicRouteData) -> TopicRouteData:
    """Return a route in an order that depends on nothing but what it says."""
    return replace(
        data,
        broker_datas=tuple(sorted(data.broker_datas, key=lambda one: one.broker_name)),
        queue_datas=tuple(sorted(data.queue_datas, key=lambda one: one.broker_name)),
    )


def _told(finding: _Finding) -> str:
    """Return what each said, as far as it is about this: a remark's other lines give advice."""
    lines = ((address, said.partition("\n")[0]) for address, said in finding.answers.items())
    return "; ".join(f"{address}: {line.rstrip('. ')}" for address, line in lines)


def _no_route(topic: str, finding: _Finding, known: Known | None, where: Whereabouts) -> OrbitError:
    """Return the error that tells who was asked, what each answered, and what to try.

    Args:
        topic: the topic.
        finding: what nameservers say of it now.
        known: what was known of it before.
        where: where brokers are reached.

    """
    if not finding.is_answered:
        return NameserversFailed(
            f"the route of {topic} is not known, since no nameserver answers: {_told(finding)}",
            answers=finding.answers,
        )
    known = finding.known or known
    if known is None and not finding.is_missing:
        text = f"the route of topic {topic} can't be had: {_told(finding)}"
        return NoRoute(text, topic=topic, is_missing=False, answers=finding.answers)
    if known is None:
        text = (
            f"topic {topic} is missing: {_told(finding)}. Create it (orbitmq topic create "
            f"{topic}), or let brokers do so (autoCreateTopicEnable=true); look at the name, the "
            "namespace and the nameservers too"
        )
        return NoRoute(text, topic=topic, is_missing=True, answers=finding.answers)
    reasons = ", ".join(_unwritable(known.data, where)) or "it has no queues"
    text = (
        f"topic {topic} is there, and takes no writes now ({reasons}). Give it write permission "
        "(perm 6) and queues, or start the brokers' masters; look at address_map, if you have one"
    )
    return NoRoute(text, topic=topic, is_missing=False, answers=finding.answers)


def _unwritable(data: TopicRouteData, where: Whereabouts) -> Iterator[str]:
    masters = {one.broker_name: one.broker_addrs.get(MASTER_ID) for one in data.broker_datas}
    for queues in data.queue_datas:
        name = queues.broker_name
        advertised = masters.get(name)
        if not advertised:
            yield f"{name} has no master"
        elif where.address(advertised) is None:
            yield f"{name} advertises {advertised[:80]}, which leads to no host:port"
        else:
            yield f"{name} has perm {queues.perm} and {queues.write_queue_nums} queues to write to"
