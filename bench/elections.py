"""How long a group takes no message after its elected master was killed, ours and Java's.

Ours elects in etcd when nothing listens any more where the dead one did, Java's controller, which
runs inside its nameserver here, when the connection of the dead one closes: both at once, if a
process is killed. If a machine is gone, both have nothing but its silence, for as long as a lease.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from bench.members import Member, member
from bench.parties import JAVA, JAVA_VERSION, OURS, Settings, stores
from bench.rounds import Result, Round, alternate, summed_up
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.wire.bodies.replication import ReplicasInfo
from tests.interop.elected import group_as_told_by, in_sync
from tests.interop.etcd import Etcd
from tests.interop.java_elected import JavaElected
from tests.interop.our_servers import a_nameserver
from tests.interop.waiting import until

__all__ = ["LEASES", "Group", "elections", "of_java", "of_ours"]

LEASES: Final[dict[str, Settings]] = {
    "elected": {},
    "elected_2s": {"controllerHeartBeatTimeoutMills": 2_000, "brokerHeartbeatInterval": 500},
}
"""The rows, and the settings of all their brokers."""
_NAME: Final = "elected"
_PATIENCE_S: Final = 120.0


class Group(NamedTuple):
    """Two running brokers that elect their master."""

    members: tuple[Member, Member]
    role: Settings
    controller: Address
    """Whom to ask about the group."""

    def start(self) -> None:
        """Start both; return when both are in sync."""
        for one in self.members:
            one.start(self.role)
        self._all_in_sync()

    def failed_over(self) -> Round:
        """Kill the master; return the milliseconds until the other one accepts a send."""
        leader = str(self._told().master_address)
        dead, other = sorted(self.members, key=lambda one: str(one.address) != leader)
        began = perf_counter()
        dead.kill()
        until(partial(stores, other.address), what="a send is accepted", seconds=_PATIENCE_S)
        took_ms = (perf_counter() - began) * 1000
        dead.start(self.role)
        self._all_in_sync()
        return Round(took_ms)

    def _all_in_sync(self) -> None:
        until(self._are_in_sync, what=f"{self.members} are in sync", seconds=_PATIENCE_S)
        leader = self._told().master_address
        (master,) = (one for one in self.members if str(one.address) == leader)
        until(partial(stores, master.address), what=f"{master} stores", seconds=_PATIENCE_S)

    def _are_in_sync(self) -> bool:
        try:
            return len(in_sync(self._told())) == len(self.members)
        except OrbitError:  # a broker that changes its role closes its connections
            return False

    def _told(self) -> ReplicasInfo:
        return group_as_told_by(self.controller, _NAME)


@contextmanager
def of_ours(directory: Path, lease: Settings) -> Iterator[Group]:
    """Give out two running brokers of ours, with a nameserver and an etcd of their own."""
    for name in ("etcd", "names"):
        (directory / name).mkdir(parents=True)
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(directory / "etcd"))
        names = stack.enter_context(a_nameserver(directory / "names")).address
        role: Settings = {
            "enableControllerMode": "true",
            "etcdEndpoints": str(etcd.address),
            **lease,
        }
        members = _members(stack, OURS, directory, names)
        yield _started(Group(members, role, members[0].address))


@contextmanager
def of_java(directory: Path, lease: Settings) -> Iterator[Group]:
    """Give out two running brokers of Java's, with a nameserver that has a controller."""
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        servers = stack.enter_context(JavaElected(JAVA_VERSION, directory / "java", controller={}))
        role: Settings = {
            "enableControllerMode": "true",
            "controllerAddr": str(servers.controller),
            "brokerId": -1,
            **lease,
        }
        members = _members(stack, JAVA, directory, servers.nameserver.address)
        yield _started(Group(members, role, servers.controller))


def _members(stack: ExitStack, kind: str, directory: Path, names: Address) -> tuple[Member, Member]:
    one, two = (
        stack.enter_context(member(kind, directory / number, _NAME, names))
        for number in ("one", "two")
    )
    return one, two


def _started(group: Group) -> Group:
    group.start()
    return group


def elections(directory: Path, kills: int) -> Iterator[Result]:
    """Kill masters of ours and of Java's in turn, some times for each setting of the lease."""
    for name, lease in LEASES.items():
        here = directory / name
        with of_ours(here / "ours", lease) as ours, of_java(here / "java", lease) as theirs:
            sides = {name: (ours.failed_over, theirs.failed_over)}
            ((mine, others),) = alternate(sides, kills).values()
        shutil.rmtree(here)
        yield summed_up(name, mine, others)
