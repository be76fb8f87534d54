"""A broker of a group that elects its master in etcd: it changes its role while it runs.

A role is for one life of the inside, a `Broker`: a change closes it and opens another on the same
directory, as a restart of the process would. So what a master has in memory (delays, timers, open
transactions, deduplication) always comes from the log and the tables, in one way::

    start ─▶ SLAVE, of nobody ──── another is elected ──▶ SLAVE, of that one ◀──┐
                │                                           │                  │
                └──────────────┬────── is elected ──────────┘                  │
                               ▼                                               │
                            MASTER of an epoch ──────── another is elected ────┘
                               │        ▲
                               └────────┘ is elected again, for a later epoch

While nobody is master, a slave keeps what it has, and a master refuses messages: by its own clock
it knows when its lease may have ended (`Member.holds`), so also after the process was stopped for a
while, or when etcd is away. If a life can't begin, such as for a disk that failed, the broker
leaves the elections, so that another is elected, and says so. If another process has its identity,
its life ends, too. ``ended`` then has the owner end the process: one that does nothing would look
alive to whatever restarts processes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Final, Self

from orbitmq.broker.leadership import GroupRole, Leadership
from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import InvalidInput, MissingExtra, OrbitError
from orbitmq.failover.administration import Administration
from orbitmq.failover.consensus import ConsensusStore
from orbitmq.failover.group import GroupState
from orbitmq.failover.identity import Identity
from orbitmq.failover.member import LogPlace, Member, Standing
from orbitmq.failover.settings import FailoverSettings
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.settings import Property
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import make_durable_directory, read_file, replace_file

__all__ = ["ElectedBroker"]

log = logging.getLogger("orbitmq.broker")


class ElectedBroker:
    """A broker with elections; an async context manager, or ``start`` and ``close``.

    The arguments are those of `Broker`. ``consensus`` replaces etcd, for tests. Raise InvalidInput
    if settings contradict each other or a file that they name can't be read, and MissingExtra if
    ``aetcd`` is not installed.
    """

    def __init__(
        self,
        settings: LiveSettings,
        machine: Machine | None = None,
        *,
        insecure: bool = False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        consensus: ConsensusStore | None = None,
    ) -> None:
        _check(settings)
        self.settings = settings
        self._machine = machine or Machine()
        self._insecure = insecure
        self._progress = progress
        self._dialer = Dialer(
            settings=settings.net,
            network=self._machine.network,
            tls=settings.tls.client_context(),
        )
        broker, failover = settings.broker, settings.failover
        self.member = Member(
            store=consensus or _etcd(failover),
            group=Identity(broker.broker_cluster_name, broker.broker_name, 0),
            settings=lambda: settings.failover,
            files=_Files(self._machine.disk, broker.store_path_root_dir),
            clock=self._machine.clock,
            randomness=self._machine.randomness,
            place=self._place,
            on_standing=lambda _standing: self._changed.set(),
        )
        """Its part in the group."""
        self._groups = Administration(
            self.member.store, prefix=failover.etcd_key_prefix, cluster=broker.broker_cluster_name
        )
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._why_ended = OrbitError("another process runs with the id of this broker")
        self._tasks: list[asyncio.Task[None]] = []
        self._inside: Broker | None = None
        self._last_place = LogPlace("", "", 0, 0)

    def __repr__(self) -> str:
        return f"<ElectedBroker {self._inside or self.settings.broker.broker_name}>"

    @property
    def broker(self) -> Broker:
        """The broker as it is now; another one after a change of the role."""
        assert self._inside is not None, "start it first"
        return self._inside

    @property
    def has_role(self) -> bool:
        """Whether ``broker`` is there: not before the start, nor while the role changes."""
        return self._inside is not None

    @property
    def has_ended(self) -> bool:
        """Whether it can't go on, as ``ended`` waits for."""
        return self._ended.is_set()

    @property
    def advertised(self) -> Address:
        """The address in routes, as `Broker.advertised`."""
        return self.broker.advertised

    # Start and stop

    async def start(self) -> None:
        """Get an id, begin as a slave, and take part in elections.

        Raise ConsensusFailed if this broker has no id yet and etcd does not answer, and what
        `Broker.start` raises.
        """
        await self.member.join()
        await self._begin(None)
        self._tasks = [
            asyncio.create_task(self._take_part(self._run_member())),
            asyncio.create_task(self._take_part(self._change_roles())),
        ]

    def reload(self, properties: Iterable[Property]) -> None:
        """Take over what can be changed of settings read again, as `Broker.reload` does.

        Raise OrbitError while the role changes.
        """
        if self._inside is None:
            raise OrbitError("the role of the broker is being changed; reload them again")
        self._inside.reload(properties)

    async def ended(self) -> OrbitError:
        """Return why this broker can't go on, when it is so; then close it."""
        await self._ended.wait()
        return self._why_ended

    async def close(self) -> None:
        """Leave the elections, so that another is elected at once, and stop as `Broker.close`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if self._inside is not None:
                await self._inside.close()
        finally:
            await self.member.leave()
            await self._dialer.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Roles

    async def _take_part(self, work: Coroutine[None, None, None]) -> None:
        """Do one part of the work; if it fails, leave it to the other brokers to lead."""
        try:
            await work
        except Exception as error:
            log.critical(
                "this broker takes part in no election any more: %s; mend that and restart it",
                error,
                exc_info=not isinstance(error, OrbitError),
            )
            self._why_ended = OrbitError(f"it takes part in no election any more: {error}")
            self._ended.set()
            for task in self._tasks:
                if task is not asyncio.current_task():
                    task.cancel()
            await self.member.leave()

    async def _run_member(self) -> None:
        """Take part in elections; end the inside if another process has this identity.

        As a slave it would tell the master what its own log has, under the id of the other: a send
        would be acknowledged that the other lacks, which may be elected.
        """
        await self.member.run()
        changes = self._tasks[1]
        changes.cancel()
        await asyncio.gather(changes, return_exceptions=True)
        try:
            if self._inside is not None:
                await self._inside.close()
                self._inside = None
        finally:
            await self.member.leave()
            self._ended.set()

    async def _change_roles(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._take(self.member.standing)

    async def _take(self, standing: Standing) -> None:
        """Be what a standing says; where nobody is master, nothing changes."""
        leadership, state = self.broker.state.leadership, standing.state
        if standing.leads and state is not None:
            if leadership is not None and leadership.state.epoch == state.epoch:
                leadership.note(state)
            else:
                await self._begin(state)
        elif standing.master is not None and state is not None:
            if leadership is not None:
                await self._begin(None)
            self.broker.replicas.follow_elected(
                state.epoch, standing.master.address, standing.master.ha_address
            )

    async def _begin(self, lead: GroupState | None) -> None:
        """End the life that there is, and begin one as master of an epoch, or as a slave."""
        before, self._inside = self._inside, None
        if before is not None:
            log.warning(
                "broker %d becomes %s", self.member.broker_id,
                "a slave" if lead is None else f"the master of epoch {lead.epoch}",
            )  # fmt: skip
            await before.close(for_good=False)
        self.settings.become(broker_id=self.member.broker_id, is_master=lead is not None)
        role = GroupRole(
            broker_id=self.member.broker_id,
            epoch=0 if lead is None else lead.epoch,
            groups=self._groups,
            dialer=self._dialer,
            port_closed=self.member.port_closed,
            leadership=None
            if lead is None
            else Leadership(self.member, lead, lambda: self.settings.replication),
        )
        inside = Broker(
            self.settings,
            self._machine,
            insecure=self._insecure,
            progress=self._progress,
            role=role,
        )
        try:
            await inside.start()
        except BaseException:
            await inside.close(for_good=False)
            raise
        self._inside = inside

    def _place(self) -> LogPlace:
        if self._inside is not None:
            self._last_place = self._inside.place()
        return self._last_place


class _Files:
    """The identity of a broker, in its store directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def read(self, name: str) -> str | None:
        data = read_file(self._disk, f"{self._directory}/{name}")
        return None if data is None else data.decode(errors="replace")

    def replace(self, name: str, text: str) -> None:
        make_durable_directory(self._disk, self._directory)
        replace_file(self._disk, f"{self._directory}/{name}", text.encode())

    def remove(self, name: str) -> None:
        path = f"{self._directory}/{name}"
        if self._disk.exists(path):
            self._disk.remove(path)
            self._disk.sync_directory(self._directory)


def _etcd(settings: FailoverSettings) -> ConsensusStore:
    try:
        from orbitmq.failover.etcd import EtcdStore  # noqa: PLC0415 - heavy, and an extra
    except ImportError as error:
        raise MissingExtra("a group with elections (etcdEndpoints)", extra="failover") from error
    return EtcdStore(settings)


_FIXED: Final = "the brokers of its group remember where it is"


def _check(settings: LiveSettings) -> None:
    if not settings.broker.listen_port:
        raise InvalidInput(
            f"a broker with elections needs a port of its own, not 0: {_FIXED}; give listenPort",
            field="listen_port",
        )
    if settings.replication.master_address:
        raise InvalidInput(
            "haMasterAddress says whom to copy, and enableControllerMode that this is elected; "
            "remove one of them",
            field="master_address",
        )
