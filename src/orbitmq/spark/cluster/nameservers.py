"""Looks up topics and routes at nameservers, some of which may be down."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from orbitmq.errors import BrokerError, NameserversFailed, NoRoute, OrbitError
from orbitmq.message import names
from orbitmq.net.address import Address, parse_addresses
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.cluster.read_route import ReadRoute, read_route
from orbitmq.spark.options.options import Access
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode, name_of_response
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo

__all__ = ["Nameservers"]

_REMARK_MAX: Final = 200


class Nameservers:
    """The nameservers of one cluster. Topic names are the user's, without the namespace."""

    def __init__(self, access: Access, connections: Connections) -> None:
        self._connections = connections
        self._namespace = access.namespace
        self._address_map = access.address_map
        self._addresses = list(parse_addresses(access.nameserver))

    def __repr__(self) -> str:
        return f"<Nameservers {', '.join(map(str, self._addresses))}>"

    def topics(self) -> list[str]:
        """Return the names of all topics of the namespace, sorted."""
        failures: dict[str, str] = {}
        for address in self._in_turn():
            try:
                (answer,) = self._connections.ask(
                    address, [NoFields()], code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
                )
            except OrbitError as error:
                failures[str(address)] = str(error)
                continue
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerError.of(answer.code, answer.remark, address=str(address))
            return sorted(self._of_namespace(TopicList.from_json(answer.body).topic_list))
        raise _silence("can't list topics", failures)

    def routes(self, topics: Iterable[str]) -> dict[str, ReadRoute]:
        """Return the routes of topics; leaves out those that no nameserver knows."""
        found, _ = self._find(topics)
        return found

    def route(self, topic: str) -> ReadRoute:
        """Return the route of a topic, which has at least one queue.

        Raise NoRoute if no nameserver knows the topic, or it can't be read now.
        """
        return self.all_routes([topic])[topic]

    def all_routes(self, topics: Iterable[str]) -> dict[str, ReadRoute]:
        """Return the routes of topics, each with at least one queue."""
        wanted = list(topics)
        found, answers_by_topic = self._find(wanted)
        for topic in wanted:
            if topic not in found:
                raise self._missing(topic, answers_by_topic.get(topic, {}))
            if not found[topic].queues:
                raise NoRoute(
                    f"topic {topic} can't be read now: it has no queue with read permission "
                    "(perm 4 or 6) on a running broker",
                    topic=topic,
                    is_missing=False,
                    answers={},
                )
        return found

    def _find(
        self, topics: Iterable[str]
    ) -> tuple[dict[str, ReadRoute], dict[str, dict[str, str]]]:
        """Return routes, and what each nameserver answered about topics that have none.

        A nameserver that doesn't know a topic may have missed its registration, so the next one is
        asked too.
        """
        left = list(topics)
        found: dict[str, ReadRoute] = {}
        answers_by_topic: dict[str, dict[str, str]] = {topic: {} for topic in left}
        failures: dict[str, str] = {}
        if not left:
            return {}, {}
        for address in self._in_turn():
            try:
                answers = self._connections.ask(address, map(self._question, left))
            except OrbitError as error:
                failures[str(address)] = str(error)
                continue
            for topic, answer in zip(left, answers, strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    found[topic] = self._read(topic, answer)
                else:
                    answers_by_topic[topic][str(address)] = _shown(answer)
            left = [topic for topic in left if topic not in found]
            if not left:
                return found, {}
        if len(failures) == len(self._addresses):
            raise _silence("can't look up the route", failures)
        return found, answers_by_topic

    def _question(self, topic: str) -> GetRouteInfo:
        wrapped = names.wrap_namespace(self._namespace, topic)
        return GetRouteInfo(topic=wrapped, accept_standard_json_only=True)

    def _read(self, topic: str, answer: Frame) -> ReadRoute:
        return read_route(topic, TopicRouteData.from_json(answer.body), self._address_map)

    def _missing(self, topic: str, answers: Mapping[str, str]) -> NoRoute:
        try:
            near = get_close_matches(topic, self.topics(), n=1)
        except OrbitError:  # only the hint is lost
            near = []
        hint = f"did you mean {near[0]}?" if near else "create it (orbitmq topic create …)."
        details = "; ".join(f"{address}: {words}" for address, words in answers.items())
        return NoRoute(
            f"topic {topic} is missing; {hint} Check the name, the namespace and the "
            f"nameservers: {details}",
            topic=topic,
            is_missing=True,
            answers=answers,
        )

    def _of_namespace(self, topics: Iterable[str]) -> Iterator[str]:
        for topic in topics:
            if not self._namespace or names.has_namespace(topic, self._namespace):
                yield names.strip_namespace(topic, self._namespace)

    def _in_turn(self) -> Iterator[Address]:
        """Yield each nameserver once; one that fails comes last from then on."""
        for address in list(self._addresses):
            yield address
            if address is self._addresses[0]:
                self._addresses.append(self._addresses.pop(0))


def _shown(answer: Frame) -> str:
    # On one line, since many readers see only the last line of an error.
    remark = " ".join((answer.remark or "").split()) or "(no remark)"
    return f"{name_of_response(answer.code)}: {remark:.{_REMARK_MAX}}"


def _silence(what: str, failures: Mapping[str, str]) -> NameserversFailed:
    details = "; ".join(f"{address}: {error}" for address, error in failures.items())
    return NameserversFailed(f"{what}: no nameserver answers: {details}", answers=failures)
