"""Tokens, files and reasons without an etcd; with one, they are in the tests of interop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import trustme

from orbitmq.errors import InvalidInput
from orbitmq.failover.etcd_client import EtcdClient, Metadata, check_files, why
from orbitmq.failover.settings import FailoverSettings
from orbitmq.net.address import Address
from tests.net.conftest import Certificates

NOWHERE = Address("127.0.0.1", 1)
USER = FailoverSettings(etcd_user="broker", etcd_password="open sesame")


class Refused(grpc.RpcError):  # type: ignore[misc]
    """A call that a server has refused, with its words."""


class Server:
    """Gives out a token for each authentication; knows the newest alone, unless it is confused."""

    def __init__(self) -> None:
        self.given = 0
        self.is_confused = False
        self.refusal = ""

    async def authenticate(self, asked: Any) -> SimpleNamespace:
        if self.refusal:
            raise Refused(self.refusal)
        assert (asked.name, asked.password) == ("broker", "open sesame")
        self.given += 1
        return SimpleNamespace(token=str(self.given))

    async def call(self, said: Metadata) -> Metadata:
        if self.is_confused or said != (("token", str(self.given)),):
            raise Refused("etcdserver: invalid auth token")
        return said


def play(scene: Callable[[EtcdClient, Server], Any], settings: FailoverSettings = USER) -> None:
    async def main() -> None:
        client, server = EtcdClient(NOWHERE, settings), Server()
        client._auth = SimpleNamespace(Authenticate=server.authenticate)
        await scene(client, server)
        await client.close()

    asyncio.run(main())


def test_a_token_is_asked_for_once_and_again_when_it_has_ended() -> None:
    async def scene(client: EtcdClient, server: Server) -> None:
        first = await asyncio.gather(*(client.ask(server.call) for _ in range(3)))
        assert first == [(("token", "1"),)] * 3
        server.given = 7  # as after a restart of etcd
        again = await asyncio.gather(*(client.ask(server.call) for _ in range(3)))
        assert again == [(("token", "8"),)] * 3

    play(scene)


def test_a_token_that_is_never_known_is_a_failure() -> None:
    async def scene(client: EtcdClient, server: Server) -> None:
        server.is_confused = True
        with pytest.raises(Refused, match="invalid auth token"):
            await client.ask(server.call)
        assert server.given == 2

    play(scene)


def test_a_wrong_password_is_a_failure_and_users_that_are_not_enabled_are_none() -> None:
    async def scene(client: EtcdClient, server: Server) -> None:
        server.refusal = "etcdserver: authentication failed, invalid user ID or password"
        with pytest.raises(Refused):
            await client.ask(server.call)
        server.refusal = "etcdserver: authentication is not enabled"

        async def open_to_all(said: Metadata) -> Metadata:
            return said

        assert await client.ask(open_to_all) == ()

    play(scene)


def test_without_a_user_nobody_is_authenticated() -> None:
    async def scene(client: EtcdClient, server: Server) -> None:
        with pytest.raises(Refused):
            await client.ask(server.call)
        assert server.given == 0

    play(scene, FailoverSettings())


def test_the_reason_is_what_is_to_be_mended_and_what_was_said() -> None:
    tls = FailoverSettings(etcd_tls_enable=True)
    closed = Refused("failed to connect to all addresses; last error: Socket closed")
    assert "may want TLS (etcdTlsEnable): failed" in why(closed, FailoverSettings())
    assert why(closed, tls) == str(closed)
    assert why(Refused("Socket closed"), FailoverSettings()) == "Socket closed"  # it was connected
    assert why(TimeoutError(), tls) == "no answer in time, or the connection was closed"
    wrong = Refused("authentication failed, invalid user ID or password")
    assert why(wrong, USER).startswith("it has no such user, or the password is another (etcdUser)")


def test_certificates_are_checked_before_the_first_connection(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    ca, client = str(certificates.ca), str(certificates.client)
    stranger = tmp_path / "stranger.key"
    trustme.CA().issue_cert("mallory@example.org").private_key_pem.write_to_path(stranger)

    def files(**given: str) -> FailoverSettings:
        fields = {f"etcd_tls_{name}_path": path for name, path in given.items()}
        return FailoverSettings(etcd_tls_enable=True, **fields)  # type: ignore[arg-type]

    check_files(files(trust_cert=ca, cert=client))
    check_files(files())
    missing = str(tmp_path / "no.pem")
    with pytest.raises(
        InvalidInput, match=r"etcdTlsTrustCertPath: .*no\.pem can't be read: No such"
    ):
        check_files(files(trust_cert=missing))
    with pytest.raises(InvalidInput, match="etcdTlsKeyPath: .* can't be read"):
        check_files(files(cert=client, key=missing))
    with pytest.raises(InvalidInput, match="can't be loaded"):
        check_files(files(trust_cert=ca, cert=client, key=str(stranger)))
    with pytest.raises(InvalidInput, match="can't be loaded"):
        check_files(files(trust_cert=str(stranger)))


def test_the_password_is_the_line_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    settings = FailoverSettings(etcd_user="broker", etcd_password_file=str(file))
    with pytest.raises(InvalidInput, match="etcdPasswordFile: .*password can't be read: No such"):
        check_files(settings)
    file.write_text("open sesame\n")

    async def scene(client: EtcdClient, server: Server) -> None:
        assert await client.ask(server.call)

    play(scene, settings)
