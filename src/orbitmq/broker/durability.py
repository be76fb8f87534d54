"""What a stored message waits for before its send is acknowledged: the disk, replicas, or both.

::

    SYNC_FLUSH    ──▶ on disk, or FLUSH_DISK_TIMEOUT ──┐
                                                       ├──▶ one status; replicas decide, as in Java
    SYNC_MASTER   ──▶ on replicas, or one of two ──────┘

A master that can't prove any more that it leads its group acknowledges nothing, and answers
SERVICE_NOT_AVAILABLE.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import msgspec

from orbitmq.broker.settings import BrokerRole, LiveSettings
from orbitmq.clock import Clock
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode

__all__ = ["Durability", "Settled", "with_status"]

Settled: TypeAlias = Callable[[PutStatus], None]
"""Called once with PUT_OK, or with what was not achieved in time."""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Durability:
    """Waits for what the settings promise."""

    store: MessageStore
    settings: LiveSettings
    acks: ReplicaAcks
    clock: Clock
    leads: Callable[[], bool] | None = None
    """Whether this master is still that of its group; None without elections."""

    @property
    def waits(self) -> bool:
        """Whether there is anything to wait for."""
        return self._for_disk or self._for_replicas

    @property
    def _for_disk(self) -> bool:
        return self.store.settings.flush_mode is FlushMode.SYNC

    @property
    def _for_replicas(self) -> bool:
        is_sync = self.settings.broker.broker_role is BrokerRole.SYNC_MASTER
        is_awaited = self.settings.replication.in_sync_replicas > 1 or self.leads is not None
        return is_sync and is_awaited

    def wait_for(self, end: int, notify: Settled) -> None:
        """Call ``notify`` when the log before ``end`` is where it has to be, or that takes long."""
        if self.leads is not None:
            notify = partial(_from_leader, self.leads, notify)
        disk: Settled = notify
        replicas: Settled = notify
        if self._for_disk and self._for_replicas:
            both = _Both(notify)
            disk, replicas = both.from_disk, both.from_replicas
        if self._for_replicas:
            self.acks.wait_for(end, self.clock.monotonic_ms(), replicas)
        if self._for_disk:
            self.store.when_durable(end, partial(_from_disk, disk))
            self.store.flush_soon()


class _Both:
    """Two answers that become one."""

    __slots__ = ("_disk", "_notify", "_replicas")

    def __init__(self, notify: Settled) -> None:
        self._notify = notify
        self._disk: PutStatus | None = None
        self._replicas: PutStatus | None = None

    def from_disk(self, status: PutStatus) -> None:
        self._disk = status
        self._settle()

    def from_replicas(self, status: PutStatus) -> None:
        self._replicas = status
        self._settle()

    def _settle(self) -> None:
        disk, replicas = self._disk, self._replicas
        if disk is not None and replicas is not None:
            self._notify(disk if replicas is PutStatus.PUT_OK else replicas)


def _from_disk(notify: Settled, durable: bool) -> None:
    notify(PutStatus.PUT_OK if durable else PutStatus.FLUSH_DISK_TIMEOUT)


def _from_leader(leads: Callable[[], bool], notify: Settled, status: PutStatus) -> None:
    notify(status if leads() else PutStatus.SERVICE_NOT_AVAILABLE)


def with_status(result: PutResult, status: PutStatus) -> PutResult:
    """Return the result of a stored message with what was achieved."""
    return result if status is result.status else msgspec.structs.replace(result, status=status)
