"""A Java group that elects its master: a nameserver with the controller inside, and its brokers.

::

    with JavaElected("5.4.0", tmp_path) as group:
        first = group.broker("a")
        with first:
            ...
"""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.json.properties_text import properties_to_text
from tests.interop.java_cluster import LOOPBACK, READ_WRITE, JavaBroker, JavaNameserver
from tests.interop.java_server import Settings, free_port

NAME = "elected"
PEER = "n0"
QUICK: Settings = {
    "brokerHeartbeatInterval": 500,
    "syncBrokerMetadataPeriod": 500,
    "checkSyncStateSetPeriod": 500,
    "syncControllerMetadataPeriod": 1_000,
    "haSendHeartbeatInterval": 1_000,
}
QUICK_CONTROLLER: Settings = {"scanNotActiveBrokerInterval": 500, "scanInactiveMasterInterval": 500}


class JavaElected:
    """The nameserver and the controller; for a ``with`` statement. A test starts the brokers.

    ``controller`` has settings of the controller beyond those that make it one.
    """

    def __init__(
        self, version: str, directory: Path, controller: Settings = QUICK_CONTROLLER
    ) -> None:
        self.version = version
        self.directory = directory
        peer = free_port()
        self.controller = Address(LOOPBACK, peer)
        self.nameserver = JavaNameserver(
            version,
            directory / "nameserver",
            settings={
                "enableControllerInNamesrv": "true",
                "controllerDLegerGroup": "group",
                "controllerDLegerPeers": f"{PEER}-{self.controller}",
                "controllerDLegerSelfId": PEER,
                "controllerStorePath": str(directory / "controller"),
                "mappedFileSize": 16 * 1024 * 1024,
                **controller,
            },
        )

    def broker(self, directory: str, **settings: str | int) -> JavaBroker:
        """Return a member of the group, which is not started yet."""
        return JavaBroker(
            self.version,
            self.directory / directory,
            nameserver=self.nameserver.address,
            settings={
                "brokerClusterName": NAME,
                "brokerName": NAME,
                "brokerId": -1,
                "enableControllerMode": "true",
                "controllerAddr": str(self.controller),
                "inSyncReplicas": 1,
                "haListenPort": free_port(),
                **QUICK,
                **settings,
            },
        )

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            started.enter_context(self.nameserver)
            self._servers = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._servers.close()

    def __repr__(self) -> str:
        return f"<JavaElected {self.nameserver!r}>"


def ha_address(broker: JavaBroker) -> Address:
    """Return where a broker listens for replicas."""
    return Address(LOOPBACK, int(broker.settings["haListenPort"]))


def name_ha_port(broker: JavaBroker, port: int) -> None:
    """Let a broker tell others that replicas connect elsewhere; it listens where it did.

    A change of the permission, be it to what it was, makes the broker register at once.
    """
    change = properties_to_text({"haListenPort": str(port), "brokerPermission": str(READ_WRITE)})
    with broker.connect() as connection:
        connection.request(NoFields(), change, code=RequestCode.UPDATE_BROKER_CONFIG)
