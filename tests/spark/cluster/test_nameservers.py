"""Nameservers that know different things, or nothing; brokers are played by routes."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from orbitmq.clock import SystemClock
from orbitmq.errors import NameserversFailed, NoPermission, NoRoute
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.cluster.nameservers import Nameservers
from orbitmq.spark.options.options import Access
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.session import Response, Session
from tests.net.test_blocking import peer

ROUTE = TopicRouteData(
    broker_datas=(BrokerData(broker_name="a", broker_addrs={0: "127.0.0.1:1"}),),
    queue_datas=(QueueData(broker_name="a", read_queue_nums=1, perm=6),),
)
WRITE_ONLY = TopicRouteData(queue_datas=(QueueData(broker_name="a", read_queue_nums=1, perm=2),))
NOBODY = "127.0.0.1:1"


def answer(routes: Mapping[str, TopicRouteData], request: Frame) -> Response:
    if request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
        return Response(body=TopicList(topic_list=tuple(routes)).to_json())
    topic = request.read(GetRouteInfo).topic
    if topic in routes:
        return Response(body=routes[topic].to_standard_json())
    return Response(ResponseCode.TOPIC_NOT_EXIST, remark=f"no route of {topic}")


@contextmanager
def nameservers(*tables: Mapping[str, TopicRouteData]) -> Iterator[Nameservers]:
    """Nameservers that know the routes of a table each; None of them serves two clients."""

    def serving(routes: Mapping[str, TopicRouteData]) -> object:
        def script(accepted: socket.socket) -> None:
            session: Session[None] = Session()
            while data := accepted.recv(65536):
                for request in session.receive(data):
                    for part in session.answer(request, answer(routes, request)):
                        accepted.sendall(part)

        return script

    with ExitStack() as stack:
        addresses = [stack.enter_context(peer(serving(one))) for one in tables]  # type: ignore[arg-type]
        access = Access(nameserver=";".join(map(str, addresses)))
        links = Connections(access, SystemClock())
        stack.callback(links.close)
        for address in addresses:
            links.to(address)
        yield Nameservers(access, links)


def test_what_one_nameserver_misses_another_may_know() -> None:
    with nameservers({"a": ROUTE}, {"b": ROUTE}) as lookup:
        assert set(lookup.all_routes(["a", "b"])) == {"a", "b"}
        assert set(lookup.routes(["a", "b", "c"])) == {"a", "b"}
        assert lookup.route("b").queues


def test_a_topic_that_none_of_them_knows_is_missing() -> None:
    with nameservers({"orders": ROUTE}, {}) as lookup:
        with pytest.raises(NoRoute, match="topic order is missing; did you mean orders") as caught:
            lookup.route("order")
    assert caught.value.is_missing
    assert len(caught.value.answers) == 2
    assert all("no route of order" in said for said in caught.value.answers.values())


def test_answers_of_nameservers_are_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(routes: object, request: Frame) -> Response:
        return Response(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info.\nSee: \n\n faq")

    monkeypatch.setitem(globals(), "answer", refuse)
    with nameservers({}) as lookup:
        with pytest.raises(NoRoute) as caught:
            lookup.route("order")
    assert str(caught.value).endswith("No topic route info. See: faq")
    assert len(str(caught.value).splitlines()) == 1


def test_a_topic_that_can_not_be_read_now_is_not_missing() -> None:
    with nameservers({"orders": WRITE_ONLY}) as lookup:
        with pytest.raises(NoRoute, match="topic orders can't be read now") as caught:
            lookup.route("orders")
    assert not caught.value.is_missing


def test_no_topics_send_no_request() -> None:
    access = Access(nameserver=NOBODY)
    assert Nameservers(access, Connections(access, SystemClock())).routes([]) == {}


def test_one_that_answers_is_asked_first_the_next_time() -> None:
    with nameservers({"a": ROUTE}, {}) as lookup:
        before = repr(lookup)
        assert lookup.route("a").queues
        assert repr(lookup) == before


def test_a_refusal_is_no_list_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(routes: object, request: Frame) -> Response:
        return Response(ResponseCode.NO_PERMISSION, remark="not for you")

    monkeypatch.setitem(globals(), "answer", refuse)
    with nameservers({}) as lookup:
        with pytest.raises(NoPermission, match="not for you"):
            lookup.topics()


def test_one_that_fails_is_asked_last_from_then_on() -> None:
    with nameservers({"a": ROUTE}) as lookup:
        good = str(lookup).removeprefix("<Nameservers ").removesuffix(">")
        both = Nameservers(Access(nameserver=f"{NOBODY};{good}"), lookup._connections)
        assert both.topics() == ["a"]
        assert str(both) == f"<Nameservers {good}, {NOBODY}>"
        assert both.topics() == ["a"]
        assert str(both) == f"<Nameservers {good}, {NOBODY}>"


def test_all_that_were_asked_are_named() -> None:
    access = Access(nameserver=f"{NOBODY};127.0.0.1:2")
    lookup = Nameservers(access, Connections(access, SystemClock()))
    with pytest.raises(NameserversFailed) as caught:
        lookup.routes(["orders"])
    assert set(caught.value.answers) == {NOBODY, "127.0.0.1:2"}
