import ipaddress
import socket

import pytest

from orbitmq.net.transport.own_host import own_host


def test_it_is_an_address_of_this_machine() -> None:
    host = own_host()
    assert ipaddress.ip_address(host).version == 4
    with socket.socket() as probe:
        probe.bind((host, 0))


def test_without_a_way_out_it_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_self: socket.socket, _address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    assert own_host() == "127.0.0.1"
