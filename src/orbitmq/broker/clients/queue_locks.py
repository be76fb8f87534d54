"""Locks for ordered consumption: one per group and queue, which the client renews."""

from collections.abc import Iterable
from typing import Final

import msgspec

from orbitmq.message.model import MessageQueue

__all__ = ["LOCK_MS", "QueueLocks"]

LOCK_MS: Final = 60_000
"""A lock expires if it is not renewed for this long. Clients renew every 20 s."""


class _Lock(msgspec.Struct, gc=False):
    client_id: str
    renewed_ms: int


class QueueLocks:
    """The locks of all groups. The time is an argument.

    >>> locks = QueueLocks()
    >>> queue = MessageQueue("orders", "broker-a", 0)
    >>> locks.lock("billing", [queue], "client-1", now_ms=0)
    [MessageQueue(topic='orders', broker_name='broker-a', queue_id=0)]
    >>> locks.lock("billing", [queue], "client-2", now_ms=60_000)
    []
    >>> locks.lock("billing", [queue], "client-2", now_ms=60_001)
    [MessageQueue(topic='orders', broker_name='broker-a', queue_id=0)]
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def __repr__(self) -> str:
        return f"<QueueLocks of {len(self._groups)} groups>"

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Lock queues or renew the locks; return the queues that the client holds now."""
        locks = self._groups.setdefault(group, {})
        mine = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or now_ms - lock.renewed_ms > LOCK_MS or lock.client_id == client_id:
                locks[queue] = _Lock(client_id, now_ms)
                mine.append(queue)
        return mine

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Unlock queues; locks of other clients stay."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            del self._groups[group]

    def is_locking(self, group: str, now_ms: int) -> bool:
        """Return whether a client of a group holds a lock, so that the group consumes in order."""
        locks = self._groups.get(group, {})
        return any(now_ms - lock.renewed_ms <= LOCK_MS for lock in locks.values())

    def expire(self, now_ms: int) -> None:
        """Remove the expired locks; call it now and then."""
        for group, locks in list(self._groups.items()):
            held = {
                queue: lock for queue, lock in locks.items() if now_ms - lock.renewed_ms <= LOCK_MS
            }
            if held:
                self._groups[group] = held
            else:
                del self._groups[group]
