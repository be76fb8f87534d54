import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq import embedded
from orbitmq.clock import SystemClock
from orbitmq.errors import ConnectFailed, ConnectionClosed, InvalidInput
from orbitmq.net.address import Address
from orbitmq.net.transport.tls import server_context
from orbitmq.spark.cluster.connections import Connections
from orbitmq.spark.options.options import Access
from orbitmq.wire.headers.route import GetRouteInfo
from tests.net.conftest import Certificates
from tests.net.test_blocking import echoing, peer, requests, until_closed

ASK = GetRouteInfo(topic="orders")


def hang_up(accepted: socket.socket) -> None:
    """Close as soon as something is asked."""
    accepted.recv(65536)


def links(**access: object) -> Connections:
    return Connections(Access(nameserver="127.0.0.1:1", **access), SystemClock())  # type: ignore[arg-type]


@pytest.fixture
def plain() -> Iterator[Connections]:
    found = links()
    yield found
    found.close()


def test_many_requests_are_answered_in_order(
    plain: Connections, shared_cluster: embedded.RunningCluster
) -> None:
    nameserver = Address.parse(shared_cluster.nameserver)
    topics = ["TBW102" if number % 3 else "missing" for number in range(1000)]
    answers = plain.ask(nameserver, [GetRouteInfo(topic=topic) for topic in topics])
    assert [answer.code == 0 for answer in answers] == [topic == "TBW102" for topic in topics]
    assert repr(plain) == f"<Connections to {nameserver}>"


def test_a_connection_that_the_peer_closed_is_reopened(plain: Connections) -> None:
    with peer(echoing(1)) as address:  # it closes after one answer
        plain.ask(address, [ASK])
    known = plain._open[address]
    assert known.is_open  # not polled yet
    with pytest.raises(ConnectFailed):
        plain.to(address)
    assert not known.is_open


def test_after_a_failure_the_connection_is_not_used_again(plain: Connections) -> None:
    with peer(hang_up) as address:
        with pytest.raises(ConnectionClosed):
            plain.ask(address, [ASK])
    assert repr(plain) == "<Connections to none>"


def test_an_address_that_does_not_answer_is_an_error(plain: Connections) -> None:
    with peer(until_closed) as address:
        plain.to(address)
        plain.drop(address)
        plain.drop(address)
    with pytest.raises(ConnectFailed, match=f"no connection to {address}"):
        plain.to(address)


def test_requests_are_signed_with_the_keys() -> None:
    seen: list[str | None] = []

    def note(accepted: socket.socket) -> None:
        seen.extend(frame.texts().get("AccessKey") for _, frame in requests(accepted, 1))

    signing = links(access_key="alice", secret_key="open sesame")
    with peer(note) as address, pytest.raises(ConnectionClosed):
        signing.ask(address, [ASK])
    assert seen == ["alice"]


def test_a_missing_authority_is_an_error_when_it_is_needed() -> None:
    secure = links(tls=True, tls_ca_file="no-such-file.pem")
    with pytest.raises(InvalidInput, match="no-such-file.pem"):
        secure.to(Address("127.0.0.1", 1))


def test_tls_uses_the_given_authority(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server = server_context(certificates.of_server)

    def secure(accepted: socket.socket) -> None:
        with server.wrap_socket(accepted, server_side=True) as wrapped:
            echoing(1)(wrapped)

    trusting = links(tls=True, tls_ca_file=certificates.of_client.ca_file)
    with peer(secure) as address:
        assert len(trusting.ask(address, [ASK])) == 1
        trusting.close()
