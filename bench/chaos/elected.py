"""Three brokers that elect their master in etcd; see `orbitmq.failover`."""

import asyncio
from pathlib import Path
from typing import Final, Self

from bench.chaos.pair import Node, NotInstalled, Pair
from bench.chaos.plan import Configuration
from orbitmq.errors import OrbitError
from tests.interop import counterparts
from tests.interop.etcd import Etcd
from tests.interop.java_cluster import brokers_known_to
from tests.interop.waiting import until

__all__ = ["Elected"]

_BROKERS: Final = 3
_ELECTED_S: Final = 60.0
_MASTER_ID: Final = 0


class Elected(Pair):
    """A group; its master is whom the nameservers name."""

    def __init__(self, directory: Path, configuration: Configuration) -> None:
        super().__init__(directory, configuration, brokers=_BROKERS)
        self._etcd = Etcd(directory)

    async def __aenter__(self) -> Self:
        if counterparts.etcd_command() is None:
            raise NotInstalled("there is no etcd: run 'make counterparts'")
        await asyncio.to_thread(self._etcd.start)
        self.stack.callback(self._etcd.kill)
        await super().__aenter__()
        await self._until(self.nodes)
        return self

    def role_of(self, _node: Node) -> dict[str, str]:
        return {
            "enableControllerMode": "true",
            "etcdEndpoints": str(self._etcd.address),
            "minInSyncReplicas": "2",
        }

    async def replaced(self) -> None:
        await self._until([node for node in self.nodes if node is not self.master])

    async def behind(self) -> int | None:
        found = await asyncio.to_thread(self._leader)
        self.master = self.master if found is None else found
        return await super().behind()

    async def _until(self, nodes: list[Node]) -> None:
        """Wait until one of some brokers is the master; raise TimeoutError if it takes long."""

        def leads() -> Node | None:
            found = self._leader()
            return found if found in nodes else None

        what = "another broker is the master"
        self.master = await asyncio.to_thread(until, leads, what=what, seconds=_ELECTED_S)

    def _leader(self) -> Node | None:
        for nameserver in self.nameservers:
            try:
                known = brokers_known_to(nameserver.address)
            except OrbitError:  # it is dead
                continue
            for brokers in known.values():
                for node in self.nodes:
                    if brokers.get(_MASTER_ID) == str(node.clients.at):
                        return node
        return None
