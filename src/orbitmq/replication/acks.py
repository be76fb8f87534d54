"""Sends that wait until enough replicas have them.

::

    wait(end) ──▶ waiters, by end ──┬── enough replicas have all before the end ──▶ PUT_OK
                                    ├── too late, replicas were in sync ──▶ FLUSH_SLAVE_TIMEOUT
                                    └── too late, too few were in sync ──▶ SLAVE_NOT_AVAILABLE

Enough are as many as ``inSyncReplicas`` says, or, with elections, all in sync: one of those becomes
the next primary. Java 5.4.0 answers FLUSH_SLAVE_TIMEOUT in both cases, 4.9 SLAVE_NOT_AVAILABLE
without a wait.

Waiters come in the order of the log, so what replicas have releases a group of them, in order.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.append import PutStatus

__all__ = ["ReplicaAcks"]

_NOTHING: Final = -1


class _Waiter(msgspec.Struct, gc=False):
    end: int
    deadline_ms: int
    notify: Callable[[PutStatus], None]


class ReplicaAcks:
    """What the replicas of a primary have, and who waits for it; ``log_end`` is the log's end."""

    def __init__(
        self, settings: Callable[[], ReplicationSettings], log_end: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._log_end = log_end
        self._acked: dict[Hashable, int] = {}
        self._waiters: deque[_Waiter] = deque()
        self.in_sync_set: InSyncSet | None = None
        """Who is in sync with an elected primary; None without elections. Call ``release`` when
        they have more."""

    def __repr__(self) -> str:
        return f"<ReplicaAcks of {len(self._acked)} replicas, {len(self._waiters)} waiters>"

    @property
    def in_sync(self) -> int:
        """How many replicas are in sync; without elections: near the end of the log."""
        if self.in_sync_set is not None:
            return len(self.in_sync_set.members) - 1
        return sum(map(self.is_near, self._acked.values()))

    def is_near(self, acked: int) -> bool:
        """Return whether a replica with everything before ``acked`` is in sync."""
        return self._log_end() - acked < self._settings().gap_bytes_max

    @property
    def reached(self) -> int:
        """As many replicas as sends wait for have all of the log before this; -1 if too few."""
        members = self.in_sync_set
        if members is not None and self._settings().all_ack_in_sync_set:
            return members.confirmed
        acked = list(self._acked.values())
        if members is not None:
            acked = [members.acked(one) for one in members.awaited - {members.own_id}]
        needed = self._settings().in_sync_replicas - 1
        if len(acked) < needed:
            return _NOTHING
        return sorted(acked, reverse=True)[needed - 1] if needed else self._log_end()

    def note(self, replica: Hashable, acked: int) -> None:
        """Note what a replica has, and release the waiters for it."""
        self._acked[replica] = acked
        self.release()

    def leave(self, replica: Hashable) -> None:
        """Forget a replica that is not connected any more."""
        self._acked.pop(replica, None)

    def wait_for(self, end: int, now_ms: int, notify: Callable[[PutStatus], None]) -> None:
        """Call ``notify`` once, when enough replicas have the log before ``end`` or it takes long.

        A lower end than that of the call before is released with it.
        """
        if end <= self.reached:
            notify(PutStatus.PUT_OK)
        else:
            deadline = now_ms + self._settings().slave_timeout_ms
            self._waiters.append(_Waiter(end, deadline, notify))

    def release(self) -> None:
        """Answer those who wait for nothing any more."""
        reached = self.reached
        while self._waiters and self._waiters[0].end <= reached:
            self._waiters.popleft().notify(PutStatus.PUT_OK)

    def tick(self, now_ms: int) -> None:
        """Answer the waiters that have waited too long."""
        while self._waiters and self._waiters[0].deadline_ms <= now_ms:
            self._waiters.popleft().notify(self._why_late())

    def close(self) -> None:
        """Answer all waiters: the broker stops."""
        while self._waiters:
            self._waiters.popleft().notify(self._why_late())

    def _why_late(self) -> PutStatus:
        is_elected = self.in_sync_set is not None
        if not is_elected and self.in_sync + 1 < self._settings().in_sync_replicas:
            return PutStatus.SLAVE_NOT_AVAILABLE
        return PutStatus.FLUSH_SLAVE_TIMEOUT
