"""Brokers that are started in one role and then in another: orbitmq's, and Java's."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bench.load import Target
from bench.parties import JAVA, JAVA_VERSION, OURS, Java, Settings, TunedBroker
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.replication import HAConnectionRuntimeInfo, HARuntimeInfo
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from tests.interop.java_cluster import JavaBroker
from tests.interop.java_server import PATIENT, free_port
from tests.interop.our_servers import LOOPBACK, OurServer

__all__ = ["KINDS", "TOPIC", "Member", "member"]

TOPIC: Final = "bench"
_CLUSTER: Final[Settings] = {"brokerClusterName": "pairs"}
"""A nameserver tells a slave of a master in the same cluster only."""


class Member(ABC):
    """A broker of a pair, which is started in one role and then perhaps in another."""

    def __init__(self, directory: Path, name: str, nameserver: Address) -> None:
        self.directory = directory
        self._name = name
        """Its broker name, which its pair shares."""
        self._nameserver = nameserver

    @property
    @abstractmethod
    def address(self) -> Address:
        """Where it serves."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} {self.address}>"

    @abstractmethod
    def launch(self, role: Settings) -> None:
        """Start its process on its files; it may not answer yet."""

    @abstractmethod
    def start(self, role: Settings) -> None:
        """Start it on its files; return when it is registered."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once; nothing if it does not run."""

    def target(self) -> Target:
        """Return it as the target of a load."""
        return Target(self.address, self.pid, TOPIC)

    def copies(self) -> Sequence[HAConnectionRuntimeInfo]:
        """Return what it knows of its slaves, or nothing if it does not answer."""
        with (
            suppress(OrbitError),
            BlockingConnection(self.address, settings=PATIENT) as connection,
        ):
            answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_HA_STATUS)
            return HARuntimeInfo.from_json(answer.body).ha_connection_info
        return ()


class _Ours(Member):
    def __init__(self, directory: Path, name: str, nameserver: Address) -> None:
        super().__init__(directory, name, nameserver)
        self._address = Address(LOOPBACK, free_port(below=2, above=1))
        self._server: OurServer | None = None

    @property
    def address(self) -> Address:
        return self._address

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def launch(self, role: Settings) -> None:
        said: Settings = {
            "brokerName": self._name,
            "listenPort": self.address.port,
            "namesrvAddr": str(self._nameserver),
            "storePathRootDir": str(self.directory),
            **_CLUSTER,
            **role,
        }
        server = OurServer(
            self.address, "broker", *(f"--set={name}={value}" for name, value in said.items())
        )
        server.start()
        self._server = server

    def start(self, role: Settings) -> None:
        self.launch(role)  # it is registered when it says that it is ready

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server = None


class _JavaReplica(TunedBroker):
    """Ready when it is registered: a slave stores no messages, and a master waits for its slave."""

    def _is_ready(self) -> bool:
        return JavaBroker._is_ready(self)


class _Java(Member):
    def __init__(self, directory: Path, name: str, nameserver: Address) -> None:
        super().__init__(directory, name, nameserver)
        self._broker = _JavaReplica(
            JAVA_VERSION,
            directory,
            nameserver=nameserver,
            settings={**Java.DEFAULT_SIZES, **_CLUSTER, "brokerName": name},
        )

    @property
    def address(self) -> Address:
        return self._broker.address

    @property
    def pid(self) -> int:
        return self._broker.pid

    def launch(self, role: Settings) -> None:
        self._broker.settings = {**self._broker.settings, **role}
        self._broker.launch()

    def start(self, role: Settings) -> None:
        self.launch(role)
        self._broker.wait_until_it_serves()

    def kill(self) -> None:
        self._broker.kill()


KINDS: Final[Mapping[str, type[Member]]] = {OURS: _Ours, JAVA: _Java}


@contextmanager
def member(kind: str, directory: Path, name: str, nameserver: Address) -> Iterator[Member]:
    """Give out a broker that does not run yet; it is dead at the end, and its files are gone."""
    one = KINDS[kind](directory, name, nameserver)
    try:
        yield one
    finally:
        one.kill()
        shutil.rmtree(directory, ignore_errors=True)
