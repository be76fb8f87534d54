"""The brokers that have all that is confirmed: one of them becomes the primary if this one is gone.

::

    report at the end of the log, in this epoch ──▶ proposed with it ──▶ agreed ──▶ a member
    silent or behind for 15 s, or disconnected  ──▶ proposed without ──▶ agreed ──▶ no member

A change counts when the one that elects primaries has agreed to it. Until then members, and those
proposed, are all waited for: whichever of the two sets it has, each in it has what is confirmed.

Invariants:

- All members have the log before ``confirmed``, which never decreases.
- One proposal at a time is under way.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from orbitmq.replication.settings import ReplicationSettings

__all__ = ["InSyncSet"]

log = logging.getLogger("orbitmq.replication")

_NOTHING: Final = -1


class _Replica(msgspec.Struct):
    """One connected replica."""

    acked: int
    caught_up_ms: int
    """When it last had all that the log had then."""
    end_then: int
    """The end of the log at its last report, and when that was."""
    reported_ms: int


class InSyncSet:
    """The in-sync replicas of an elected primary, with the id ``own_id``; itself is a member.

    ``log_end`` is the end of its log, ``epoch_start`` where its epoch begins there. ``confirmed``
    is what was confirmed of the log before. Replicas that are ``members`` at first have to connect
    within the time that a silent one is given. Times are monotonic, in milliseconds.

    >>> members = InSyncSet(
    ...     1, members={1}, epoch_start=0, settings=ReplicationSettings, log_end=lambda: 640,
    ...     now_ms=0,
    ... )
    >>> members.on_proposed = lambda proposed: print("propose", sorted(proposed))
    >>> members.confirmed
    640
    >>> members.reported(2, 640, now_ms=10)
    propose [1, 2]
    >>> members.agreed({1, 2})
    >>> sorted(members.members)
    [1, 2]
    """

    def __init__(
        self,
        own_id: int,
        *,
        members: Collection[int],
        epoch_start: int,
        settings: Callable[[], ReplicationSettings],
        log_end: Callable[[], int],
        now_ms: int,
        confirmed: int = 0,
    ) -> None:
        self.own_id = own_id
        self.members = frozenset(members) | {own_id}
        """Those that were agreed on, this broker among them."""
        self.proposed: frozenset[int] | None = None
        """Those of a proposal under way."""
        self.on_proposed: Callable[[frozenset[int]], None] = lambda _proposed: None
        """Called with a proposal. ``agreed`` or ``refused`` answers it, soon or at once."""
        self.on_confirmed: Callable[[int], None] = lambda _offset: None
        """Called with ``confirmed`` when it has increased."""
        self._epoch_start = epoch_start
        self._settings = settings
        self._log_end = log_end
        self._begun_ms = now_ms
        self._confirmed = confirmed
        self._replicas: dict[int, _Replica] = {}
        self._note_confirmed()

    def __repr__(self) -> str:
        proposed = "" if self.proposed is None else f", proposed {sorted(self.proposed)}"
        return f"<InSyncSet {sorted(self.members)}{proposed}, confirmed {self._confirmed}>"

    @property
    def awaited(self) -> frozenset[int]:
        """All brokers that an acknowledgement has to wait for."""
        return self.members | (self.proposed or frozenset())

    @property
    def confirmed(self) -> int:
        """All in-sync replicas have the log before this offset: consumers may read up to it."""
        self._note_confirmed()
        return self._confirmed

    def acked(self, broker_id: int) -> int:
        """Return what a connected replica has; -1 if it is not connected."""
        replica = self._replicas.get(broker_id)
        return _NOTHING if replica is None else replica.acked

    def reported(
        self, broker_id: int, acked: int, now_ms: int, *, is_learner: bool = False
    ) -> None:
        """Note what a replica has; it may become a member, unless it is a learner."""
        end = self._log_end()
        replica = self._replicas.get(broker_id)
        if replica is None:
            replica = self._replicas[broker_id] = _Replica(acked, now_ms, end, now_ms)
        elif acked >= end:
            replica.caught_up_ms = now_ms
        elif acked >= replica.end_then:
            replica.caught_up_ms = replica.reported_ms
        has_caught_up = acked >= min(replica.end_then, end)
        replica.acked, replica.end_then, replica.reported_ms = acked, end, now_ms
        self._note_confirmed()
        is_in_sync = has_caught_up and acked >= max(self._confirmed, self._epoch_start)
        if is_in_sync and not is_learner and broker_id not in self.awaited:
            log.info("broker %d has caught up, at offset %d", broker_id, acked)
            self._propose(self.members | {broker_id})

    def left(self, broker_id: int) -> None:
        """Note that a replica is not connected any more; it should be no member then."""
        if self._replicas.pop(broker_id, None) is not None and broker_id in self.members:
            self._propose(self.members - {broker_id})

    def tick(self, now_ms: int) -> None:
        """Propose to leave out the members that have not caught up for too long."""
        limit_ms = now_ms - self._settings().not_caught_up_ms_max
        behind = {one for one in self.members - {self.own_id} if self._caught_up_ms(one) < limit_ms}
        if behind and self.proposed is None:
            log.warning("brokers %s are not in sync any more", sorted(behind))
            self._propose(self.members - behind)
        self._note_confirmed()

    def agreed(self, members: Collection[int]) -> None:
        """Take the set that is agreed on; a proposal is not under way any more."""
        self.members = frozenset(members) | {self.own_id}
        self.proposed = None
        log.info("in-sync brokers: %s", sorted(self.members))
        self._note_confirmed()

    def refused(self) -> None:
        """Note that a proposal has certainly not been taken; a later one is made if due."""
        self.proposed = None

    def _propose(self, members: frozenset[int]) -> None:
        if self.proposed is None and members != self.members:
            self.proposed = members
            self.on_proposed(members)

    def _caught_up_ms(self, broker_id: int) -> int:
        replica = self._replicas.get(broker_id)
        return self._begun_ms if replica is None else replica.caught_up_ms

    def _note_confirmed(self) -> None:
        """Move ``confirmed`` to the least offset that an awaited broker has."""
        others = self.awaited - {self.own_id}
        least = min([self._log_end(), *map(self.acked, others)])
        if least > self._confirmed:
            self._confirmed = least
            self.on_confirmed(least)
