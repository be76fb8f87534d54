import queue
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from orbitmq.errors import (
    ConnectFailed,
    ConnectionClosed,
    InvalidInput,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import client_context, server_context
from orbitmq.threads import start_thread
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import NotifyConsumerIdsChanged
from orbitmq.wire.session import Response, Session
from tests.net.conftest import Certificates
from tests.net.loopback import ASK

NOTIFY = NotifyConsumerIdsChanged(consumer_group="g")
Script = Callable[[socket.socket], None]


@contextmanager
def peer(script: Script) -> Iterator[Address]:
    """A peer that does as the script says with the one connection it accepts."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        accepted, _ = listening.accept()
        with accepted:
            script(accepted)

    thread = start_thread(serve, name="scripted peer", daemon=True)
    try:
        yield Address(*listening.getsockname())
    finally:
        thread.join(10)
        listening.close()
        assert not thread.is_alive()


def requests(accepted: socket.socket, count: int) -> Iterator[tuple[Session[None], Frame]]:
    session: Session[None] = Session()
    while count:
        for frame in session.receive(accepted.recv(65536)):
            yield session, frame
            count -= 1


def echoing(count: int) -> Script:
    def script(accepted: socket.socket) -> None:
        for session, request in requests(accepted, count):
            accepted.sendall(b"".join(session.answer(request, Response(body=bytes(request.body)))))

    return script


def until_closed(accepted: socket.socket) -> None:
    while accepted.recv(65536):
        pass


def test_a_request_is_answered() -> None:
    with peer(echoing(2)) as address, BlockingConnection(address) as connection:
        assert connection.request(ASK, b"one").body == b"one"
        assert connection.request(ASK, b"two").body == b"two"


def test_requests_are_pipelined_and_taken_in_any_order() -> None:
    def backwards(accepted: socket.socket) -> None:
        for session, request in reversed(list(requests(accepted, 5))):
            accepted.sendall(b"".join(session.answer(request, Response(body=bytes(request.body)))))

    with peer(backwards) as address, BlockingConnection(address) as connection:
        numbers = [connection.start(ASK, b"%d" % i) for i in range(5)]
        assert [connection.result(n).body for n in (numbers[2], *numbers[:2])] == [b"2", b"0", b"1"]
        assert [connection.result(n).body for n in numbers[3:]] == [b"3", b"4"]


def test_requests_leave_in_one_write_and_each_has_its_answer() -> None:
    def by_size(accepted: socket.socket) -> None:
        session: Session[None] = Session()
        together = list(session.receive(accepted.recv(65536)))
        for place, request in enumerate(together):
            answer = Response(body=b"%d of %d" % (place, len(together)))
            accepted.sendall(b"".join(session.answer(request, answer)))

    with peer(by_size) as address, BlockingConnection(address) as connection:
        numbers = connection.start_all([ASK] * 3)
        bodies = [bytes(connection.result(number).body) for number in numbers]
        assert bodies == [b"0 of 3", b"1 of 3", b"2 of 3"]


def test_of_requests_that_could_not_all_be_sent_none_is_waited_for() -> None:
    settings = NetSettings(in_flight_max=3)
    with peer(until_closed) as address:
        with BlockingConnection(address, settings=settings) as connection:
            with pytest.raises(TooManyRequests):
                connection.start_all([ASK] * 4)
            assert "open, 0 in flight" in repr(connection)


def test_the_answer_to_an_abandoned_request_is_dropped_come_or_not() -> None:
    with peer(echoing(3)) as address, BlockingConnection(address) as connection:
        first, second, third = (connection.start(ASK, b"%d" % number) for number in range(3))
        connection.abandon(first)  # on its way
        assert connection.result(third).body == b"2"
        connection.abandon(second)  # here
        for number in (first, second):
            with pytest.raises(InvalidInput, match="was not started here"):
                connection.result(number)


def test_no_answer_in_time_is_a_timeout_and_a_late_one_is_dropped() -> None:
    def late(accepted: socket.socket) -> None:
        both = requests(accepted, 2)
        (session, first), (_, second) = next(both), next(both)
        for request in (first, second):
            accepted.sendall(b"".join(session.answer(request, Response(body=bytes(request.body)))))

    with peer(late) as address, BlockingConnection(address) as connection:
        with pytest.raises(RequestTimeout, match="did not answer GET_MAX_OFFSET") as caught:
            connection.request(ASK, b"first", timeout_ms=20)
        assert caught.value.timeout_ms == 20
        assert connection.request(ASK, b"second").body == b"second"


def test_what_the_peer_asks_is_served_while_we_wait() -> None:
    answers: list[Frame] = []

    def asking(accepted: socket.socket) -> None:
        ((session, request),) = requests(accepted, 1)
        _, head = session.request(NOTIFY, waiter=None, now=0, timeout=1)
        accepted.sendall(session.oneway(NOTIFY) + head)
        answers.extend(session.receive(accepted.recv(65536)))
        accepted.sendall(b"".join(session.answer(request, Response())))

    with peer(asking) as address, BlockingConnection(address) as connection:
        assert connection.request(ASK).code == 0
    assert [answer.code for answer in answers] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


def test_a_handler_of_ours_answers_what_the_peer_asks() -> None:
    answers: list[Frame] = []

    def asking(accepted: socket.socket) -> None:
        ((session, request),) = requests(accepted, 1)
        accepted.sendall(session.request(NOTIFY, waiter=None, now=0, timeout=1)[1])
        answers.extend(session.receive(accepted.recv(65536)))
        accepted.sendall(b"".join(session.answer(request, Response())))

    def handler(request: Frame) -> Response:
        return Response(body=b"mine")

    with peer(asking) as address, BlockingConnection(address, handler=handler) as connection:
        connection.request(ASK)
    assert [bytes(answer.body) for answer in answers] == [b"mine"]


def test_a_peer_that_closes_fails_everything_with_the_reason() -> None:
    def leave(accepted: socket.socket) -> None:
        list(requests(accepted, 2))

    with peer(leave) as address, BlockingConnection(address) as connection:
        first, second = connection.start(ASK), connection.start(ASK)
        for number in (first, second):
            with pytest.raises(ConnectionClosed, match="has no answer: the peer closed it"):
                connection.result(number)
        assert not connection.is_open
        with pytest.raises(ConnectionClosed, match="the connection is closed"):
            connection.request(ASK)


def test_a_peer_that_sends_garbage_is_closed() -> None:
    def garbage(accepted: socket.socket) -> None:
        accepted.sendall(b"\xff" * 8)
        until_closed(accepted)

    with peer(garbage) as address, BlockingConnection(address) as connection:
        with pytest.raises(ConnectionClosed, match="the peer broke the protocol"):
            connection.request(ASK)


def test_a_peer_that_does_not_read_is_given_up_at_the_timeout() -> None:
    closed = start_event()

    def unread(accepted: socket.socket) -> None:
        closed.get(timeout=10)

    with peer(unread) as address, BlockingConnection(address) as connection:
        with pytest.raises(RequestTimeout, match="was not read by"):
            connection.request(ASK, bytes(15_000_000), timeout_ms=50)
        assert not connection.is_open
        closed.put(None)


def start_event() -> "queue.SimpleQueue[None]":
    return queue.SimpleQueue()


def test_closing_fails_what_was_started_and_not_taken() -> None:
    with peer(until_closed) as address:
        connection = BlockingConnection(address)
        number = connection.start(ASK)
        assert "open, 1 in flight" in repr(connection)
        connection.close()
        connection.close()
        with pytest.raises(ConnectionClosed, match="closed by this side"):
            connection.result(number)
        assert "closed by this side" in repr(connection)


def test_a_number_that_was_never_given_is_an_error_and_not_a_hang() -> None:
    with peer(until_closed) as address, BlockingConnection(address) as connection:
        with pytest.raises(InvalidInput, match="request 99 was not started here"):
            connection.result(99)


def test_the_bound_on_requests_in_flight_holds() -> None:
    settings = NetSettings(in_flight_max=1)
    with (
        peer(until_closed) as address,
        BlockingConnection(address, settings=settings) as connection,
    ):
        connection.start(ASK)
        with pytest.raises(TooManyRequests):
            connection.start(ASK)


def test_one_way_requests_are_sent() -> None:
    seen: list[Frame] = []

    def note(accepted: socket.socket) -> None:
        seen.extend(frame for _, frame in requests(accepted, 1))

    with peer(note) as address, BlockingConnection(address) as connection:
        connection.oneway(NOTIFY, b"x")
    assert [(frame.is_oneway, bytes(frame.body)) for frame in seen] == [(True, b"x")]


def test_an_unreachable_server_is_a_connect_failure() -> None:
    with peer(until_closed) as address:
        socket.create_connection(address).close()
    with pytest.raises(ConnectFailed, match=f"no connection to {address}"):
        BlockingConnection(address)


def test_tls_works_and_verifies(certificates: Certificates) -> None:
    server = server_context(certificates.of_server)

    def secure(accepted: socket.socket) -> None:
        with server.wrap_socket(accepted, server_side=True) as wrapped:
            echoing(1)(wrapped)

    with peer(secure) as address:
        tls = client_context(certificates.of_client)
        with BlockingConnection(address, tls=tls) as connection:
            assert connection.request(ASK, b"safe").body == b"safe"

    def refused(accepted: socket.socket) -> None:
        with pytest.raises(OSError, match=r".*"):
            server.wrap_socket(accepted, server_side=True)

    with peer(refused) as address:
        with pytest.raises(ConnectFailed, match="CERTIFICATE_VERIFY_FAILED"):
            BlockingConnection(address, tls=client_context())


class HandClock:
    now = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


def test_an_answer_that_came_in_time_counts_however_late_it_is_taken() -> None:
    clock = HandClock()
    answered = start_event()

    def at_once(accepted: socket.socket) -> None:
        echoing(1)(accepted)
        answered.put(None)

    with peer(at_once) as address, BlockingConnection(address, clock=clock) as connection:
        number = connection.start(ASK, b"in time", timeout_ms=300)
        answered.get(timeout=10)
        clock.now = 500
        assert connection.result(number).body == b"in time"


def test_a_silent_peer_is_left() -> None:
    clock = HandClock()

    def mute(accepted: socket.socket) -> None:
        while accepted.recv(4096):
            pass

    with peer(mute) as address, BlockingConnection(address, clock=clock) as connection:
        one, other = (connection.start(ASK, timeout_ms=limit) for limit in (3_000, 60_000))
        clock.now = 3_000
        with pytest.raises(RequestTimeout):
            connection.result(one)
        assert not connection.is_open
        with pytest.raises(ConnectionClosed, match=r"nothing was heard for 3\.0 s"):
            connection.result(other)


def test_a_peer_that_answers_others_is_only_slow() -> None:
    clock = HandClock()

    def second_only(accepted: socket.socket) -> None:
        for number, (session, request) in enumerate(requests(accepted, 3)):
            if number:
                accepted.sendall(session.answer(request, Response(body=request.body))[0])

    with peer(second_only) as address, BlockingConnection(address, clock=clock) as connection:
        slow = connection.start(ASK, timeout_ms=3_000)
        clock.now = 1_000
        connection.request(ASK, timeout_ms=3_000)
        clock.now = 3_000
        with pytest.raises(RequestTimeout):
            connection.result(slow)
        assert connection.request(ASK).code == ResponseCode.SUCCESS


def test_an_answer_that_had_to_wait_for_us_is_not_late() -> None:
    sent, read = start_event(), start_event()

    class WatchedClock(HandClock):
        def monotonic_ms(self) -> int:
            if self.now:
                read.put(None)
            return super().monotonic_ms()

    def in_parts(accepted: socket.socket) -> None:
        session: Session[None] = Session()
        (request,) = session.receive(accepted.recv(4096))
        first, *others = session.answer(request, Response(body=b"in time"))
        accepted.sendall(first)
        sent.put(None)
        for _ in ("to find out that it is late", "to see whether to read on"):
            read.get(timeout=10)
        accepted.sendall(b"".join(others))

    clock = WatchedClock()
    with peer(in_parts) as address, BlockingConnection(address, clock=clock) as connection:
        number = connection.start(ASK, timeout_ms=300)
        sent.get(timeout=10)
        clock.now = 500
        assert connection.result(number).body == b"in time"


def test_an_interrupt_in_the_middle_of_a_frame_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def __init__(self, real: socket.socket) -> None:
            self.real = real

        def settimeout(self, timeout: float) -> None:
            self.real.settimeout(timeout)

        def sendall(self, data: bytes) -> None:
            self.real.sendall(data[:10])
            raise KeyboardInterrupt

        def close(self) -> None:
            self.real.close()

    with peer(until_closed) as address:
        connection = BlockingConnection(address)
        monkeypatch.setattr(connection, "_socket", Interrupted(connection._socket))
        with pytest.raises(KeyboardInterrupt):
            connection.request(ASK, b"x" * 100)
        assert not connection.is_open
        assert "0 in flight" in repr(connection)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_at_all_is_a_timeout(timeout_ms: int) -> None:
    with peer(until_closed) as address, BlockingConnection(address) as connection:
        with pytest.raises(RequestTimeout):
            connection.request(ASK, b"x", timeout_ms=timeout_ms)


def test_a_result_is_taken_once() -> None:
    with peer(echoing(1)) as address, BlockingConnection(address) as connection:
        number = connection.start(ASK)
        connection.result(number)
        with pytest.raises(InvalidInput, match="was already taken"):
            connection.result(number)


def test_answers_that_are_never_taken_are_bounded() -> None:
    settings = NetSettings(in_flight_max=3)
    with peer(echoing(4)) as address, BlockingConnection(address, settings=settings) as connection:
        numbers = [connection.start(ASK) for _ in range(3)]
        connection.result(numbers[2])  # the other two have come with it, or before
        connection.result(connection.start(ASK))
        connection._answers.update(dict.fromkeys(range(100, 103), connection._answers[numbers[0]]))
        with pytest.raises(TooManyRequests, match="were never taken"):
            connection.start(ASK)


def test_a_poll_sees_that_the_peer_has_closed() -> None:
    with peer(echoing(1)) as address:
        connection = BlockingConnection(address)
        assert connection.poll()
        connection.request(ASK)
    assert connection.is_open  # nobody has looked
    assert not connection.poll()
    assert "the peer closed it" in repr(connection)
    assert not connection.poll()


def test_a_poll_takes_in_answers_that_came() -> None:
    answered = start_event()

    def at_once(accepted: socket.socket) -> None:
        echoing(1)(accepted)
        answered.put(None)
        until_closed(accepted)

    with peer(at_once) as address, BlockingConnection(address) as connection:
        number = connection.start(ASK, b"x")
        answered.get(timeout=10)
        assert connection.poll()
        assert connection.result(number).body == b"x"
