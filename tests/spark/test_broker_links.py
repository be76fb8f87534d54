"""Which broker is asked, and what happens when it fails; routes are the test's."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from orbitmq import embedded
from orbitmq.clock import SystemClock
from orbitmq.errors import BrokerError, ConnectFailed, ConnectionClosed, NoRoute
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.spark.broker_links import Answers, BrokerLinks
from orbitmq.spark.links import Links
from orbitmq.spark.options import Access
from orbitmq.spark.read_route import ReadRoute
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Response
from tests.net.test_blocking import peer, requests, until_closed
from tests.spark.fake_cluster import FakeClock

NOBODY = Address("127.0.0.1", 1)
QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def max_offset(queue: MessageQueue) -> tuple[Header, ...]:
    return (GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id),)


def read(answers: Answers) -> tuple[int, bool]:
    (answer,) = answers.frames
    return answer.read(GetMaxOffsetAnswer).offset, answers.is_replica


def hang_up(accepted: socket.socket) -> None:
    """Close as soon as something is asked."""
    accepted.recv(65536)


def counting(count: int) -> Callable[[socket.socket], None]:
    """A broker that answers some requests with the id of the queue, and closes."""

    def script(accepted: socket.socket) -> None:
        for session, request in requests(accepted, count):
            number = request.read(GetMaxOffset).queue_id
            answer = session.answer(request, Response(header=GetMaxOffsetAnswer(offset=number)))
            accepted.sendall(b"".join(answer))

    return script


class Routes:
    """A nameserver of one broker, whose addresses may change; counts how often it is asked."""

    def __init__(self, **addresses: Address) -> None:
        self.asked = 0
        self.where = {int(name.strip("b")): address for name, address in addresses.items()}

    def __call__(self, topic: str) -> ReadRoute:
        self.asked += 1
        return ReadRoute((QUEUE, OTHER), {"broker-a": dict(self.where)})


@contextmanager
def brokers(routes: Routes, clock: FakeClock | None = None) -> Iterator[BrokerLinks]:
    links = Links(Access(nameserver=str(NOBODY)), SystemClock())
    try:
        yield BrokerLinks(links, routes, clock or FakeClock())
    finally:
        links.close()


def test_questions_about_the_queues_of_a_broker_are_answered_each() -> None:
    with peer(counting(2)) as primary, brokers(Routes(b0=primary)) as found:
        answers = found.ask([QUEUE, OTHER], max_offset, read)
        assert answers == {QUEUE: (0, False), OTHER: (1, False)}


def test_a_replica_answers_where_the_primary_is_gone() -> None:
    with peer(counting(1)) as replica, brokers(Routes(b0=NOBODY, b1=replica)) as found:
        assert found.ask([OTHER], max_offset, read) == {OTHER: (1, True)}


def test_a_broker_that_fails_is_asked_once_more_by_a_new_route() -> None:
    with peer(hang_up) as dead, peer(counting(1)) as alive:
        routes = Routes(b0=dead)
        with brokers(routes) as found:
            found.connection(QUEUE, 0)  # the route is known now
            routes.where = {0: alive}
            assert found.ask([OTHER], max_offset, read) == {OTHER: (1, False)}
            assert routes.asked == 2


def test_a_new_route_that_fails_is_not_tried_again() -> None:
    routes = Routes(b0=NOBODY)
    with brokers(routes) as found:
        with pytest.raises(ConnectFailed, match="no connection to 127.0.0.1:1"):
            found.ask([QUEUE], max_offset, read)
    assert routes.asked == 1


def test_a_second_failure_is_the_callers() -> None:
    with peer(hang_up) as dead:
        routes = Routes(b0=dead)
        with brokers(routes) as found:
            found.connection(QUEUE, 0)
            routes.where = {}
            with pytest.raises(NoRoute, match="broker-a is not in the route"):
                found.ask([QUEUE], max_offset, read)


def test_a_connection_that_breaks_on_a_new_route_is_told() -> None:
    with peer(hang_up) as dead, brokers(Routes(b0=dead)) as found:
        with pytest.raises(ConnectionClosed):
            found.ask([QUEUE], max_offset, read)


def test_a_refusal_is_an_error_of_the_broker(shared_cluster: embedded.RunningCluster) -> None:
    address = Address.parse(shared_cluster.brokers[0])

    class Unknown(Header):
        code = 99_999

    with brokers(Routes(b0=address)) as found:
        with pytest.raises(BrokerError, match=f"{address} answered 3"):
            found.ask([QUEUE], lambda _queue: (Unknown(),), read)


def test_a_route_is_asked_for_again_when_it_is_old() -> None:
    clock = FakeClock()
    with peer(until_closed) as primary:
        routes = Routes(b0=primary)
        with brokers(routes, clock) as found:
            first = found.connection(QUEUE, 0)
            clock.pass_ms(30_000)
            assert found.connection(QUEUE, 0) is first
            assert routes.asked == 1
            clock.pass_ms(1)
            assert found.connection(QUEUE, 0) is first
            assert routes.asked == 2


def test_routes_that_were_found_are_used() -> None:
    routes = Routes()
    with peer(until_closed) as primary, brokers(routes) as found:
        found.remember({"orders": ReadRoute((QUEUE,), {"broker-a": {0: primary}})})
        assert found.connection(QUEUE, 0).is_open
        assert routes.asked == 0
        assert repr(found).startswith("<BrokerLinks 1 routes")
        found.forget_all()
        assert repr(found).startswith("<BrokerLinks 0 routes")
