"""The tunnel between a client and a server."""

import socket

import pytest

from orbitmq.net.address import Address
from tests.interop.tunnel import Tunnel


def test_both_ways_are_forwarded_and_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with Tunnel(Address(*server.getsockname())) as tunnel:
            with socket.create_connection(tunnel.at) as client:
                client.sendall(b"question")
                peer, _ = server.accept()
                with peer:
                    assert peer.recv(100) == b"question"
                    peer.sendall(b"answer")
                    assert client.recv(100) == b"answer"
                assert client.recv(100) == b""  # the server has closed, and so does the tunnel
    assert tunnel.heard == [b"question"]
    assert tunnel.told == [b"answer"]


def test_what_is_held_never_arrives_and_the_connection_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with Tunnel(Address(*server.getsockname())) as tunnel:
            with socket.create_connection(tunnel.at) as client:
                client.sendall(b"one")
                peer, _ = server.accept()
                with peer:
                    assert peer.recv(100) == b"one"
                    tunnel.hold()
                    client.sendall(b"two")
                    peer.setblocking(False)
                    with pytest.raises(BlockingIOError):
                        peer.recv(100)
        assert tunnel.heard[0].startswith(b"one")


def test_its_end_is_the_end_of_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with Tunnel(Address(*server.getsockname())) as tunnel:
            client = socket.create_connection(tunnel.at)
            peer, _ = server.accept()
    with client, peer:
        assert (client.recv(100), peer.recv(100)) == (b"", b"")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(tunnel.at)
