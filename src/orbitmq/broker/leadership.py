"""One epoch of an elected master: which brokers are in sync, and what it may do meanwhile.

::

    replicas report ──▶ in-sync set ──▶ proposes ──▶ the group agrees ──▶ standing ──▶ in-sync set
                             │
                             └──▶ confirmed: what consumers see, and what is acknowledged

A proposal is made until the state of the group is another: after a failure nobody knows whether it
was taken, and until that is known both sets are waited for.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orbitmq.errors import ConsensusFailed
from orbitmq.failover.administration import Administration
from orbitmq.failover.election import ClosedPort
from orbitmq.failover.group import GroupState
from orbitmq.failover.member import Member
from orbitmq.net.dialer import Dialer
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings

__all__ = ["GroupRole", "Leadership"]

log = logging.getLogger("orbitmq.broker")

_AGAIN_S: Final = 0.5


class Leadership:
    """What an elected master may do; ``begin`` it when the store is open, then ``close`` it."""

    def __init__(
        self, member: Member, state: GroupState, settings: Callable[[], ReplicationSettings]
    ) -> None:
        self._member = member
        self._settings = settings
        self.state = state
        """The newest state of the group in this epoch."""
        self.in_sync: InSyncSet | None = None
        """The brokers in sync; None before the beginning."""
        self._begins_at = 0
        self._is_settled = False
        self._changed = asyncio.Event()
        self._proposing: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Leadership of epoch {self.state.epoch}, {self.in_sync!r}>"

    def begin(self, in_sync: InSyncSet, log_end: int) -> None:
        """Begin with the in-sync set of this epoch, which begins at ``log_end``."""
        self.in_sync = in_sync
        self._begins_at = log_end
        in_sync.on_proposed = self._propose

    def note(self, state: GroupState) -> None:
        """Take the state of the group, in which this broker leads in the same epoch."""
        if state == self.state:
            return
        is_agreed = state.in_sync != self.state.in_sync
        self.state = state
        self._changed.set()
        if is_agreed and self.in_sync is not None:
            self.in_sync.agreed(state.in_sync)

    def holds(self) -> bool:
        """Return whether it leads in this epoch, as `Member.holds` says, and is not closed.

        Others take a master for gone when its port for slaves is closed, so this is before that.
        """
        state = self._member.standing.state
        is_its_epoch = state is not None and state.epoch == self.state.epoch
        return self._member.holds() and is_its_epoch and not self._is_closed

    def confirmed_end(self) -> int:
        """Return the offset that all in-sync brokers have the log before."""
        return 0 if self.in_sync is None else self.in_sync.confirmed

    def why_refused(self) -> str:
        """Return why no messages are accepted now; empty if they are."""
        if not self.holds():
            return (
                "this broker can't prove any more that it is the master: another may have been "
                "elected, or etcd does not answer"
            )
        least = self._settings().min_in_sync_replicas
        have = 0 if self.in_sync is None else len(self.in_sync.members)
        if have < least:
            return f"in-sync replicas not enough: {have}, and minInSyncReplicas is {least}"
        return ""

    def why_unreadable(self) -> str:
        """Return why consumers are not served yet; empty if they are.

        What is in the log since before the election may be missing on a broker that is in sync.
        """
        if not self._is_settled and self.confirmed_end() < self._begins_at:
            return "this broker is the master since a moment, and waits for the brokers in sync"
        self._is_settled = True
        return ""

    async def close(self) -> None:
        """Accept and propose nothing any more.

        Connections that end because this broker stops say nothing about the others: one of them
        has to be in sync to be elected.
        """
        self._is_closed = True
        if self._proposing is not None:
            self._proposing.cancel()
            await asyncio.gather(self._proposing, return_exceptions=True)

    def _propose(self, brokers: frozenset[int]) -> None:
        if self._is_closed:
            return
        # The one before has ended: there is one proposal at a time.
        self._proposing = asyncio.get_running_loop().create_task(self._agree(brokers, self.state))

    async def _agree(self, brokers: frozenset[int], expected: GroupState) -> None:
        while self.state == expected:
            self._changed.clear()
            try:
                await self._member.alter_in_sync(brokers, expected)
            except ConsensusFailed as error:
                log.warning("in sync should be brokers %s: %s", sorted(brokers), error)
            try:
                async with asyncio.timeout(_AGAIN_S):
                    await self._changed.wait()
            except TimeoutError:
                continue


@dataclass(kw_only=True, slots=True, eq=False)
class GroupRole:
    """What the inside of a broker is in its group, from its start to its close."""

    broker_id: int
    epoch: int
    """The epoch of the master, this broker or the one that it follows; 0 if none is known."""
    groups: Administration
    """The groups of the cluster, for operators."""
    dialer: Dialer
    """Connections that outlive the role: a nameserver forgets a broker whose connection ends."""
    port_closed: Callable[[ClosedPort], None]
    """Called when nothing listens any more where the master did that it copied."""
    leadership: Leadership | None = None
    """Set for the master."""
