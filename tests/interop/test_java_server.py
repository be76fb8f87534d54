"""A Java server comes back where it was, and its failures tell why."""

import socket
from pathlib import Path

import pytest

from orbitmq.errors import ConnectFailed
from tests.interop.java_cluster import JavaCluster, JavaNameserver
from tests.interop.java_server import JavaServerFailed, free_port, is_free


@pytest.fixture
def version(java_cluster_540: JavaCluster) -> str:
    """A version whose servers start here."""
    return java_cluster_540.version


def test_a_server_comes_back_where_it_was(version: str, tmp_path: Path) -> None:
    with JavaNameserver(version, tmp_path) as nameserver:
        nameserver.kill()
        assert not nameserver.is_running
        with pytest.raises(ConnectFailed):
            nameserver.connect()
        nameserver.start()
        assert nameserver.brokers() == {}
    assert not nameserver.is_running


def test_a_server_that_does_not_start_shows_its_log(version: str, tmp_path: Path) -> None:
    nameserver = JavaNameserver(version, tmp_path, settings={"listenPort": 70_000})
    with pytest.raises(JavaServerFailed, match="ended with status(.|\n)*output.log(.|\n)*70000"):
        nameserver.start()


def test_a_version_that_is_not_here_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JavaServerFailed, match="run 'make counterparts'"):
        JavaNameserver("1.0.0", tmp_path).start()


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("", free_port())) as listening:
        assert not is_free(listening.getsockname()[1])


def test_the_ports_around_are_free_too() -> None:
    port = free_port(below=2, above=1)
    assert all(is_free(near) for near in range(port - 2, port + 2))
