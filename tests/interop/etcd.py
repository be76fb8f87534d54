"""A real etcd: one server with its own files, on free ports of loopback."""

import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from aetcd import rpc
from aetcd.utils import prefix_range_end

from orbitmq.net.address import Address
from tests.interop import counterparts
from tests.interop.java_server import free_port
from tests.interop.waiting import until
from tests.net.conftest import Certificates

LOOPBACK = "127.0.0.1"
PASSWORD = "open sesame"


class Etcd:
    """An etcd server; it can be killed and comes back where it was, on its files.

    With ``certificates`` it speaks TLS, and wants one of each client.
    """

    def __init__(
        self, directory: Path, *, certificates: Certificates | None = None, token_ttl_s: int = 300
    ) -> None:
        self.address = Address(LOOPBACK, free_port())
        self._peer = Address(LOOPBACK, free_port())
        self._directory = directory
        self._certificates = certificates
        self._token_ttl_s = token_ttl_s
        self.has_users = False
        """Whether it wants a user."""
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Etcd {self.address}>"

    @property
    def keys(self) -> dict[str, str]:
        """What a broker has in its settings to connect."""
        endpoints = {"etcdEndpoints": str(self.address)}
        if self._certificates is None:
            return endpoints
        return endpoints | {
            "etcdTlsEnable": "true",
            "etcdTlsTrustCertPath": str(self._certificates.ca),
            "etcdTlsCertPath": str(self._certificates.client),
        }

    def user_keys(self, password: str = PASSWORD) -> dict[str, str]:
        """Return what a broker has in its settings as a user, and write its password file."""
        file = self._directory / "password"
        file.write_text(f"{password}\n")
        return {"etcdUser": "broker", "etcdPasswordFile": str(file)}

    @property
    def pid(self) -> int:
        """The process, for signals."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; return when it listens."""
        command = counterparts.etcd_command()
        assert command is not None
        client = f"{'https' if self._certificates else 'http'}://{self.address}"
        peer = f"http://{self._peer}"
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(command),
                    *("--name", "only", "--data-dir", str(self._directory / "etcd")),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"only={peer}"),
                    *("--auth-token-ttl", str(self._token_ttl_s), "--bcrypt-cost", "4"),
                    *self._tls_options(),
                ],
                stdout=log,
                stderr=log,
            )
        until(self._listens, what="etcd listens")

    async def enable_users(self, prefix: str) -> None:
        """Demand a user from now on: ``broker`` may use the keys below a prefix, ``root`` all."""
        async with self._channel() as channel:
            auth = rpc.AuthStub(channel)
            for user in ("root", "broker"):
                await auth.UserAdd(rpc.AuthUserAddRequest(name=user, password=PASSWORD))
                await auth.RoleAdd(rpc.AuthRoleAddRequest(name=user))
                await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=user, role=user))
            end = prefix_range_end(prefix.encode())
            permission = rpc.Permission(
                permType=rpc.Permission.READWRITE, key=prefix.encode(), range_end=end
            )
            await auth.RoleGrantPermission(
                rpc.AuthRoleGrantPermissionRequest(name="broker", perm=permission)
            )
            await auth.AuthEnable(rpc.AuthEnableRequest())
        self.has_users = True

    async def change_password(self, password: str = PASSWORD) -> None:
        """Change the password of ``broker``; its tokens are not valid any more."""
        async with self._channel() as channel:
            auth = rpc.AuthStub(channel)
            root = await auth.Authenticate(rpc.AuthenticateRequest(name="root", password=PASSWORD))
            change = rpc.AuthUserChangePasswordRequest(name="broker", password=password)
            await auth.UserChangePassword(change, metadata=(("token", root.token),))

    def _channel(self) -> grpc.aio.Channel:
        if self._certificates is None:
            return grpc.aio.insecure_channel(str(self.address))
        client, authority = (
            self._certificates.client.read_bytes(),
            self._certificates.ca.read_bytes(),
        )
        credentials = grpc.ssl_channel_credentials(authority, client, client)
        return grpc.aio.secure_channel(str(self.address), credentials)

    def _tls_options(self) -> list[str]:
        if self._certificates is None:
            return []
        server, authority = str(self._certificates.server), str(self._certificates.ca)
        return [
            *("--cert-file", server, "--key-file", server),
            *("--client-cert-auth", "--trusted-ca-file", authority),
        ]

    def kill(self) -> None:
        """End it at once; return when it is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "etcd.log").read_text()
        try:
            socket.create_connection((self.address.host, self.address.port), 1).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()
