"""The routes of topics: looked up when needed, cached, and refreshed periodically.

::

    publish_route(topic) ── cached, with queues ──────────────────────────▶ the route
                         └─ not ──▶ each nameserver in turn ── found ─────▶ the route, or NoRoute
                                                            └─ missing ──▶ the default topic's

- There is one look-up at a time per topic; a cancelled caller does not cancel it for the others.
- A route stays in use until another one is found, even while nameservers are down or don't know the
  topic, as after their restart.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from orbitmq.client.core.nameservers import Nameservers, not_a_nameserver
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.client.core.publish_route import (
    MASTER_ID,
    BrokerAddresses,
    DefaultTopic,
    PublishRoute,
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
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo

__all__ = ["DefaultTopic", "PublishRoute", "RouteCache", "Routes"]

log = logging.getLogger("orbitmq.client")

_TOPICS_MAX: Final = 100_000
"""Topics whose routes are cached; beyond them the oldest is dropped."""
_POLLS_AT_ONCE: Final = 16
_AGAIN_MS: Final = 1_000
"""After failed sends a topic is looked up again at most once in this time."""

_DEFAULT_TOPIC: Final = DefaultTopic()


class KnownRoute(msgspec.Struct):
    """What is known of a topic."""

    data: TopicRouteData
    route: PublishRoute
    raw: bytes | None = None
    """The answer, if there was one: equal bytes are not parsed again."""
    asked_ms: int = 0
    default: DefaultTopic | None = None
    """How a topic that is missing would be created; None if it exists."""


class RouteCache:
    """Routes by topic, and the masters in them. Pure.

    >>> from orbitmq.client.settings import ClientSettings
    >>> table = RouteCache(BrokerAddresses(ClientSettings()))
    >>> table.put("orders", TopicRouteData()), table.put("orders", TopicRouteData())
    (True, False)
    """

    def __init__(self, where: BrokerAddresses, *, topics_max: int = _TOPICS_MAX) -> None:
        self._where = where
        self._topics_max = topics_max
        self._known: dict[str, KnownRoute] = {}
        self._masters: dict[Address, int] = {}
        self.published: dict[str, PublishRoute] = {}
        """The routes for producers; read-only."""

    def __repr__(self) -> str:
        return f"<RouteCache {len(self._known)} topics, {len(self._masters)} masters>"

    def __len__(self) -> int:
        return len(self._known)

    @property
    def topics(self) -> list[str]:
        """The topics whose routes are known."""
        return list(self._known)

    @property
    def masters(self) -> list[Address]:
        """The addresses of the masters in all routes, those for sends included."""
        return list(self._masters)

    @property
    def slaves(self) -> list[Address]:
        """The addresses of the other brokers; consumers may pull from them."""
        advertised = (
            text
            for known in self._known.values()
            for broker in known.data.broker_datas
            for number, text in broker.broker_addrs.items()
            if number != MASTER_ID
        )
        distinct = dict.fromkeys(advertised)  # in their order, which a set would not keep
        return [one for one in map(self._where.address, distinct) if one is not None]

    def has_master(self, address: Address) -> bool:
        """Return whether an address is that of a master."""
        return address in self._masters

    def get(self, topic: str) -> KnownRoute | None:
        """Return what is known of a topic."""
        return self._known.get(topic)

    def put(
        self,
        topic: str,
        data: TopicRouteData,
        raw: bytes | None = None,
        *,
        default: DefaultTopic | None = None,
    ) -> bool:
        """Store a route, and return whether it has changed; an invalid one leaves the old one."""
        data = _in_order(data)
        before = self._known.get(topic)
        if before is not None and before.data == data and before.default == default:
            before.raw = raw
            return False
        route = publish_route(topic, data, self._where, is_default=default is not None)
        self._known[topic] = KnownRoute(data, route, raw, default=default)
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


class _Lookup(NamedTuple):
    """The result of a look-up."""

    known: KnownRoute | None
    answers: Mapping[str, str]
    """The answer of each nameserver that had no route."""
    is_answered: bool = True
    """Whether any of them answered."""
    is_missing: bool = False
    """Whether all answers were that the topic does not exist."""


class Routes:
    """The routes of one client; ``timeout_ms`` is for the answer of one nameserver."""

    def __init__(
        self,
        nameservers: Nameservers,
        where: BrokerAddresses,
        *,
        workers: Workers,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self._nameservers = nameservers
        self.where = where
        """The addresses of brokers."""
        self._workers = workers
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._looking: dict[str, asyncio.Task[_Lookup]] = {}
        self._asking: dict[str, dict[str, str]] = {}  # the answers so far, by topic
        self._is_cut_off = False
        self._listeners: list[Callable[[str, PublishRoute], None]] = []
        self.cache = RouteCache(where)
        self.published: Mapping[str, PublishRoute] = self.cache.published
        """The routes that are cached; ``publish_route`` looks up others."""

    def __repr__(self) -> str:
        return f"<Routes {len(self.cache)} topics, {len(self._looking)} being looked up>"

    def when_changed(self, listener: Callable[[str, PublishRoute], None]) -> None:
        """Call ``listener`` with each topic whose route has changed, and the new route."""
        self._listeners.append(listener)

    def when_changed_no_more(self, listener: Callable[[str, PublishRoute], None]) -> None:
        """Undo ``when_changed``."""
        self._listeners.remove(listener)

    async def publish_route(
        self, topic: str, default: DefaultTopic | None = _DEFAULT_TOPIC
    ) -> PublishRoute:
        """Return the route for sends to a topic, with at least one queue.

        ``topic`` is the name on the wire; ``default`` says how a missing topic would be created,
        None that it must exist. Raise NoRoute if the topic is missing or takes no writes now, and
        NameserversFailed if no nameserver answers and the topic is not cached.
        """
        route = self.published.get(topic)
        if route is not None and route.queues and not (default is None and route.is_default):
            return route
        result = await self._find(topic)
        known = result.known
        if result.is_missing and default is not None and default.name != topic:
            known = await self._created_after(topic, default)
        if known is None or not known.route.queues:
            before = self.cache.get(topic)
            is_there = before is not None and not before.route.is_default
            raise _no_route(topic, result, before if is_there else None, self.where)
        return known.route

    async def route(self, topic: str) -> TopicRouteData:
        """Look up a topic, and return the answer of a nameserver.

        Raise NoRoute if no nameserver knows it, and NameserversFailed if none answers.
        """
        result = await self._find(topic)
        if result.known is None:
            raise _no_route(topic, result, None, self.where)
        return result.known.data

    @property
    def unanswered(self) -> dict[str, str]:
        """The state of the look-ups in progress, by nameserver: no answer yet, or an error."""
        return {where: text for answers in self._asking.values() for where, text in answers.items()}

    def invalidate(self, topic: str) -> None:
        """Look up a topic again in the background, after a failure; its route stays until then."""
        known = self.cache.get(topic)
        now_ms = self._clock.monotonic_ms()
        if known is None or topic in self._looking or now_ms - known.asked_ms < _AGAIN_MS:
            return
        self._look_up(topic)

    async def refresh(self) -> None:
        """Look up all topics again, some at a time; stop if no nameserver answers."""
        topics = iter(self.cache.topics)
        silent: list[_Lookup] = []
        unclear: list[str] = []

        async def some() -> None:
            for topic in topics:
                result = await self._find(topic)
                if not result.is_answered:
                    silent.append(result)
                elif result.known is None and not result.is_missing:
                    unclear.append(f"{topic}: {_text(result)}")
                if silent:
                    return

        await asyncio.gather(*(some() for _ in range(_POLLS_AT_ONCE)))
        self._note_silence(silent)
        if unclear:
            log.warning(
                "%d routes can't be refreshed, such as that of %s", len(unclear), unclear[0]
            )

    async def run(self, interval_ms: int) -> None:
        """Refresh periodically, until cancelled."""
        work = lambda: self.refresh()  # noqa: E731, PLW0108 - looked up each time, for tests
        await run_periodically(interval_ms, work, "routes can't be refreshed")

    async def close(self) -> None:
        """Cancel all look-ups."""
        await cancel_all(self._looking.values())

    # Looking up

    async def _find(self, topic: str) -> _Lookup:
        task = self._looking.get(topic) or self._look_up(topic)
        try:
            # One caller's cancellation must not cancel the look-up for the others.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and not (caller is not None and caller.cancelling()):
                raise ConnectionClosed("the client was closed") from None
            raise

    def _look_up(self, topic: str) -> asyncio.Task[_Lookup]:
        known = self.cache.get(topic)
        if known is not None:
            known.asked_ms = self._clock.monotonic_ms()
        task = asyncio.create_task(self._ask_again(topic), name=f"route of {topic}")
        self._looking[topic] = task
        task.add_done_callback(lambda _done: self._looked_up(topic))
        return task

    def _looked_up(self, topic: str) -> None:
        self._looking.pop(topic, None)
        self._asking.pop(topic, None)

    async def _ask_again(self, topic: str) -> _Lookup:
        """Ask for a topic; if it is still missing, where it would be created may have changed."""
        result = await self._ask(topic)
        known = self.cache.get(topic)
        if result.is_missing and known is not None and known.default is not None:
            await self._created_after(topic, known.default)
        return result

    async def _ask(self, topic: str) -> _Lookup:
        """Ask one nameserver after another, until one knows the topic.

        Each gets its share of the time, so that a silent one does not use up the time of sends. The
        last gets all of it if none has answered.
        """
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        answers = self._asking[topic] = {}
        codes: set[int] = set()
        addresses = list(self._nameservers.in_turn())
        for address in addresses:
            is_last_hope = address == addresses[-1] and not codes
            share_ms = None if is_last_hope else self._timeout_ms // len(addresses)
            answers[str(address)] = "no answer yet"
            try:
                answer = await self._nameservers.ask(
                    address, header, timeout_ms=self._timeout_ms, share_ms=share_ms
                )
                codes.add(answer.code)
                if answer.code == ResponseCode.SUCCESS:
                    del answers[str(address)]
                    return _Lookup(await self._take(topic, bytes(answer.body)), answers)
                answers[str(address)] = _answer_text(address, answer)
            except OrbitError as error:
                answers[str(address)] = str(error)
        return _Lookup(None, answers, bool(codes), codes == {ResponseCode.TOPIC_NOT_EXIST})

    async def _take(self, topic: str, raw: bytes) -> KnownRoute:
        known = self.cache.get(topic)
        if known is None or known.raw != raw:
            data = await read_body(TopicRouteData, raw, self._workers)
            known = self._put(topic, data, raw)
        return known

    async def _created_after(self, topic: str, default: DefaultTopic) -> KnownRoute | None:
        model = self.cache.get(default.name)
        now_ms = self._clock.monotonic_ms()
        # Its master may be another by now.
        if model is None or not model.route.queues or now_ms - model.asked_ms >= _AGAIN_MS:
            result = await self._find(default.name)
            model = result.known or (None if result.is_missing else model)
        if model is None:
            return None
        return self._put(topic, spread_over(model.data, default.queues), default=default)

    def _put(
        self,
        topic: str,
        data: TopicRouteData,
        raw: bytes | None = None,
        *,
        default: DefaultTopic | None = None,
    ) -> KnownRoute:
        is_changed = self.cache.put(topic, data, raw, default=default)
        known = self.cache.get(topic)
        assert known is not None
        if is_changed:
            known.asked_ms = self._clock.monotonic_ms()
            log.debug("route of %s: %d queues to write to", topic, len(known.route.queues))
            for listener in self._listeners:
                listener(topic, known.route)
        return known

    def _note_silence(self, silent: list[_Lookup]) -> None:
        """Log once that no nameserver answers, and once that they answer again."""
        if silent and not self._is_cut_off:
            log.warning("no nameserver answers, so routes are not refreshed: %s", _text(silent[0]))
        elif self._is_cut_off and not silent:
            log.info("nameservers answer again")
        self._is_cut_off = bool(silent)


def _in_order(data: TopicRouteData) -> TopicRouteData:
    """Return a route with brokers and queues sorted."""
    return replace(
        data,
        broker_datas=tuple(sorted(data.broker_datas, key=lambda one: one.broker_name)),
        queue_datas=tuple(sorted(data.queue_datas, key=lambda one: one.broker_name)),
    )


def _text(result: _Lookup) -> str:
    """Return the answers in one line; further lines of a remark only give advice."""
    lines = (
        text if address in text else f"{address}: {text}"
        for address, text in result.answers.items()
    )
    return "; ".join(line.partition("\n")[0].rstrip(". ") for line in lines)


def _answer_text(address: Address, answer: Frame) -> str:
    """Return what a nameserver answered that has no route."""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return not_a_nameserver(address)
    return f"{name_of_response(answer.code)}: {answer.remark or '(no remark)':.200}"


def _no_route(
    topic: str, result: _Lookup, known: KnownRoute | None, where: BrokerAddresses
) -> OrbitError:
    """Return the error with the answer of each nameserver, and what to do."""
    if not result.is_answered:
        return NameserversFailed(
            f"the route of {topic} is unknown, since no nameserver answers: {_text(result)}",
            answers=result.answers,
        )
    known = result.known or known
    if known is None and not result.is_missing:
        text = f"the route of topic {topic} can't be looked up: {_text(result)}"
        return NoRoute(text, topic=topic, is_missing=False, answers=result.answers)
    if known is None:
        # A nameserver forgets a topic with the last broker that has it.
        text = (
            f"topic {topic} is missing at {', '.join(result.answers)}: create it (orbitmq topic "
            f"create {topic}), correct the name, or start the broker that has it"
        )
        return NoRoute(text, topic=topic, is_missing=True, answers=result.answers)
    reasons = ", ".join(_unwritable(known.data, where)) or "it has no queues"
    text = (
        f"topic {topic} exists, but takes no writes now ({reasons}). Give it write permission "
        "(perm 6) and queues, or start the brokers' masters; check address_map if you have one"
    )
    return NoRoute(text, topic=topic, is_missing=False, answers=result.answers)


def _unwritable(data: TopicRouteData, where: BrokerAddresses) -> Iterator[str]:
    masters = {one.broker_name: one.broker_addrs.get(MASTER_ID) for one in data.broker_datas}
    for queues in data.queue_datas:
        name = queues.broker_name
        advertised = masters.get(name)
        if not advertised:
            yield f"{name} has no master"
        elif where.address(advertised) is None:
            yield f"{name} advertises {advertised[:80]}, which is no host:port"
        else:
            yield f"{name} has perm {queues.perm} and {queues.write_queue_nums} queues to write to"
