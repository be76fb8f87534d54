"""Which broker is asked, and what happens when it fails; routes are the test's."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from orbitmq import embedded
from orbitmq.clock import SystemClock
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    NameserversFailed,
    NoRoute,
)
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.spark.cluster.brokers import Brokers, QueueAnswers
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.cluster.read_route import ReadRoute
from orbitmq.spark.options.options import Access
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Response
from tests.net.test_blocking import peer, requests, until_closed
from tests.spark.fake_cluster import FakeClock

NOBODY = Address("127.0.0.1", 1)
QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)
INVOICE = MessageQueue("invoices", "broker-a", 7)


def max_offset(queue: MessageQueue) -> tuple[Header, ...]:
    return (GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id),)


def read(answers: QueueAnswers) -> tuple[int, bool]:
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
        self.is_silent = False
        self.deleted: set[str] = set()
        self.unreadable: set[str] = set()

    def __call__(self, topic: str) -> ReadRoute:
        self.asked += 1
        if self.is_silent:
            raise NameserversFailed("no nameserver answers", answers={str(NOBODY): "gone"})
        if topic in self.deleted | self.unreadable:
            is_missing = topic in self.deleted
            raise NoRoute(f"no {topic}", topic=topic, is_missing=is_missing, answers={})
        return ReadRoute((QUEUE, OTHER), {"broker-a": dict(self.where)})


@contextmanager
def brokers(routes: Routes, clock: FakeClock | None = None) -> Iterator[Brokers]:
    links = Connections(Access(nameserver=str(NOBODY)), SystemClock())
    try:
        yield Brokers(links, routes, clock or FakeClock())
    finally:
        links.close()


def test_requests_about_the_queues_of_a_broker_are_each_answered() -> None:
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


def test_a_second_failure_is_raised() -> None:
    with peer(hang_up) as dead:
        routes = Routes(b0=dead)
        with brokers(routes) as found:
            found.connection(QUEUE, 0)
            routes.where = {}
            with pytest.raises(NoRoute, match="broker-a is not in the route"):
                found.ask([QUEUE], max_offset, read)


def test_a_connection_that_breaks_on_a_new_route_is_an_error() -> None:
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


def test_an_old_route_is_looked_up_again() -> None:
    clock = FakeClock()
    with peer(until_closed) as primary:
        routes = Routes(b0=primary)
        with brokers(routes, clock) as found:
            first = found.connection(QUEUE, 0).connection
            clock.pass_ms(30_000)
            assert found.connection(QUEUE, 0).connection is first
            assert routes.asked == 1
            clock.pass_ms(1)
            assert found.connection(QUEUE, 0).connection is first
            assert routes.asked == 2


def test_routes_that_were_found_are_used() -> None:
    routes = Routes()
    with peer(until_closed) as primary, brokers(routes) as found:
        found.remember({"orders": ReadRoute((QUEUE,), {"broker-a": {0: primary}})})
        assert found.connection(QUEUE, 0).connection.is_open
        assert routes.asked == 0
        assert repr(found).startswith("<Brokers 1 routes")
        found.forget_all()
        assert repr(found).startswith("<Brokers 0 routes")


# Which broker is connected


def test_a_connection_has_the_id_of_its_broker() -> None:
    with peer(until_closed) as replica, brokers(Routes(b0=NOBODY, b1=replica)) as found:
        assert found.connection(QUEUE, 0).broker_id == 1
        assert found.connection(QUEUE, 1).broker_id == 1


def test_no_replica_replaces_a_primary_that_is_required() -> None:
    routes = Routes(b0=NOBODY)
    with peer(until_closed) as replica, brokers(routes) as found:
        routes.where[1] = replica
        with pytest.raises(ConnectFailed, match="no connection to 127.0.0.1:1"):
            found.connection(QUEUE, 0, exact=True)
        del routes.where[0]
        found.forget(QUEUE)
        with pytest.raises(NoRoute, match="the primary of broker broker-a is not in the route"):
            found.connection(QUEUE, 0, exact=True)
        assert found.connection(QUEUE, 0).broker_id == 1


# Topics that are missing


@pytest.mark.parametrize("queues", [[INVOICE, QUEUE, OTHER], [QUEUE, INVOICE, OTHER]])
def test_a_missing_topic_does_not_hide_others(
    queues: list[MessageQueue],
) -> None:
    clock = FakeClock()
    with peer(counting(5)) as primary:
        routes = Routes(b0=primary)
        with brokers(routes, clock) as found:
            everything = found.ask(queues, max_offset, read, skip_missing=True)
            assert everything == {QUEUE: (0, False), OTHER: (1, False), INVOICE: (7, False)}
            routes.deleted = {"invoices"}
            clock.pass_ms(30_001)
            left = found.ask(queues, max_offset, read, skip_missing=True)
            assert left == {QUEUE: (0, False), OTHER: (1, False)}
            with pytest.raises(NoRoute) as caught:
                found.ask(queues, max_offset, read)
            assert caught.value.is_missing


def test_an_unreadable_topic_is_asked_about_by_the_route_of_another() -> None:
    with peer(counting(2)) as primary:
        routes = Routes(b0=primary)
        routes.unreadable = {"invoices"}
        with brokers(routes) as found:
            answers = found.ask([INVOICE, OTHER], max_offset, read, skip_missing=True)
            assert answers == {INVOICE: (7, False), OTHER: (1, False)}
            with pytest.raises(NoRoute) as caught:
                found.ask([INVOICE], max_offset, read, skip_missing=True)
            assert not caught.value.is_missing


def test_a_missing_topic_is_looked_up_now_and_then_and_found_again() -> None:
    clock = FakeClock()
    with peer(counting(1)) as primary:
        routes = Routes(b0=primary)
        routes.deleted = {"invoices"}
        with brokers(routes, clock) as found:
            for _ in range(20):
                assert found.ask([INVOICE], max_offset, read, skip_missing=True) == {}
            assert routes.asked == 1
            clock.pass_ms(5_001)
            routes.deleted = set()
            found_again = found.ask([INVOICE], max_offset, read, skip_missing=True)
            assert found_again == {INVOICE: (7, False)}


def test_a_topic_that_goes_while_its_broker_fails_is_left_out() -> None:
    with peer(hang_up) as dead, peer(counting(1)) as alive:
        routes = Routes(b0=dead)
        with brokers(routes) as found:
            found.connection(INVOICE, 0)
            found.connection(QUEUE, 0)
            routes.where, routes.deleted = {0: alive}, {"invoices"}
            # The broker is looked up again by the route of the first.
            found.forget(INVOICE)
            left = found.ask([INVOICE, OTHER], max_offset, read, skip_missing=True)
            assert left == {OTHER: (1, False)}


def test_a_connection_is_found_by_the_last_route_of_a_topic_that_is_missing() -> None:
    with peer(until_closed) as primary:
        routes = Routes(b0=primary)
        with brokers(routes) as found:
            assert found.connection(QUEUE, 0).connection.is_open
            routes.deleted = {"orders"}  # by nameservers that have just started
            found.forget(QUEUE)
            assert found.connection(QUEUE, 0).connection.is_open
            routes.deleted = {"invoices"}
            with pytest.raises(NoRoute, match="no invoices"):
                found.connection(INVOICE, 0)


# Nameservers that are down


def test_while_nameservers_are_down_the_last_routes_are_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()

    def stay(accepted: socket.socket) -> None:
        counting(3)(accepted)
        until_closed(accepted)

    with peer(stay) as primary:
        routes = Routes(b0=primary)
        with brokers(routes, clock) as found:
            link = found.connection(QUEUE, 0).connection
            routes.is_silent = True
            for _ in range(3):
                clock.pass_ms(30_001)
                assert found.ask([OTHER], max_offset, read) == {OTHER: (1, False)}
                assert found.connection(QUEUE, 0).connection is link
            assert routes.asked == 4  # not by each question
            assert len(caplog.messages) == 1
            assert "using the last known routes: no nameserver answers" in caplog.messages[0]
            routes.is_silent = False
            clock.pass_ms(30_001)
            assert found.connection(QUEUE, 0).connection.peer == str(primary)
            assert caplog.messages[1:] == ["nameservers answer again"]


def test_a_broker_that_fails_is_redialled_while_nameservers_are_down() -> None:
    with peer(until_closed) as primary:
        routes = Routes(b0=primary)
        with brokers(routes) as found:
            first = found.connection(QUEUE, 0).connection
            routes.is_silent = True
            found.forget(QUEUE)
            assert not first.is_open
            again = found.connection(QUEUE, 0).connection
            assert again.is_open
            assert again.peer == str(primary)
            assert routes.asked == 2  # they may be back


def test_a_missing_topic_stays_missing_while_nameservers_are_down() -> None:
    with peer(until_closed) as primary:
        routes = Routes(b0=primary)
        with brokers(routes) as found:
            found.connection(QUEUE, 0)
            routes.deleted = {"orders"}
            found.forget(QUEUE)
            assert found.ask([QUEUE], max_offset, read, skip_missing=True) == {}
            routes.is_silent = True
            found.forget(QUEUE)
            assert found.ask([QUEUE], max_offset, read, skip_missing=True) == {}


def test_without_a_route_and_nameservers_a_request_fails() -> None:
    routes = Routes()
    routes.is_silent = True
    with brokers(routes) as found:
        with pytest.raises(NameserversFailed):
            found.ask([QUEUE], max_offset, read, skip_missing=True)
        with pytest.raises(NameserversFailed):
            found.connection(QUEUE, 0)
