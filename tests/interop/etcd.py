"""A real etcd: one server with its own files, on free ports of loopback."""

import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address
from tests.interop import counterparts
from tests.interop.java_server import free_port
from tests.interop.waiting import until

LOOPBACK = "127.0.0.1"


class Etcd:
    """An etcd server; it can be killed and comes back where it was, on its files."""

    def __init__(self, directory: Path) -> None:
        self.address = Address(LOOPBACK, free_port())
        self._peer = Address(LOOPBACK, free_port())
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Etcd {self.address}>"

    @property
    def pid(self) -> int:
        """The process, for signals."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; return when it listens."""
        command = counterparts.etcd_command()
        assert command is not None
        client, peer = f"http://{self.address}", f"http://{self._peer}"
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(command),
                    *("--name", "only", "--data-dir", str(self._directory / "etcd")),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"only={peer}"),
                ],
                stdout=log,
                stderr=log,
            )
        until(self._listens, what="etcd listens")

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
