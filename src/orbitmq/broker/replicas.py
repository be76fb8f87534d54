"""The part of a broker in its group: a master that slaves copy, or a slave that copies a master.

::

    master   the log ──▶ Primary ──▶ slaves       reports ──▶ acks ──▶ waiting sends
    slave    registration answers ──▶ address of the master ──▶ Replica: the log
                                                           └──▶ MetadataSync: the tables
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from orbitmq.broker.settings import BrokerRole
from orbitmq.broker.state import State
from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.replication.follower import LogFollower
from orbitmq.replication.metadata_sync import MetadataSync, OwnOffset
from orbitmq.replication.primary import Primary
from orbitmq.replication.replica import Replica
from orbitmq.wire.bodies.group import SubscriptionGroupTable
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from orbitmq.wire.bodies.pop import RequestModeTable
from orbitmq.wire.bodies.replication import (
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from orbitmq.wire.bodies.topic import TopicConfigTable
from orbitmq.wire.epoch_stream import LinkState

__all__ = ["Replicas"]

log = logging.getLogger("orbitmq.broker")

_BEHIND: Final = 1
"""The port for slaves, counted from the broker's, unless a setting says which."""


class Replicas:
    """Starts and stops what the role of a broker needs."""

    def __init__(self, state: State, dialer: Dialer) -> None:
        self._state = state
        self._dialer = dialer
        self._tasks: list[asyncio.Task[None]] = []
        self.primary = Primary(
            tail=state.store.tail,
            acks=state.acks,
            settings=lambda: state.settings.replication,
            clock=state.clock,
            network=state.machine.network,
        )
        """What slaves are connected to, on a master."""
        self.sync = MetadataSync(dialer, _Tables(state))
        """What a slave asks its master for."""
        self.replica = Replica(
            store=state.store,
            settings=lambda: state.settings.replication,
            clock=state.clock,
            follower=LogFollower(
                state.store, lambda: state.settings.replication, state.clock.monotonic_ms()
            ),
            primary_range=self.sync.log_range,
            network=state.machine.network,
        )
        """What copies the log, on a slave."""
        state.store.on_written = self.primary.written
        state.follows = lambda: self.replica.follower.state is LinkState.TRANSFER

    def __repr__(self) -> str:
        return f"<Replicas {self.replica if self._state.is_slave else self.primary}>"

    def ha_port(self, broker_port: int) -> int:
        """Return the port that slaves connect to, as it is registered."""
        if (address := self.primary.address) is not None:
            return address.port
        return self._state.settings.replication.listen_port or broker_port + _BEHIND

    async def start(self, listening: Address) -> None:
        """Begin, once the broker listens. Raise InvalidInput if there is no port for slaves."""
        if self._state.is_slave:
            self._tasks = [
                asyncio.create_task(self.replica.run()),
                asyncio.create_task(self.sync.run()),
            ]
            return
        settings, broker = self._state.settings.replication, self._state.settings.broker
        any_port = not broker.listen_port and not settings.listen_port
        wanted = Address(listening.host, 0 if any_port else self.ha_port(listening.port))
        is_sync = broker.broker_role is BrokerRole.SYNC_MASTER
        if is_sync:
            _say_what_is_promised(settings.in_sync_replicas)
        try:
            await self.primary.start(wanted)
        except (OSError, OverflowError) as error:
            if settings.listen_port or is_sync:
                raise InvalidInput(
                    f"can't listen on {wanted} for slaves: {error}; choose another haListenPort",
                    field="listen_port",
                ) from error
            log.warning("can't listen on %s (%s); slaves can't follow this broker", wanted, error)

    async def close(self) -> None:
        """End it; waiting sends are answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.primary.close()

    def follow(self, master: str, ha_address: str) -> None:
        """Follow the master that a nameserver names."""
        try:
            self.sync.follow(Address.parse(master))
            self.replica.follow(Address.parse(ha_address))
        except InvalidInput as error:
            log.warning("a nameserver names a master that can't be followed: %s", error)

    def status(self) -> HARuntimeInfo:
        """Return the state of replication, for tools."""
        store, replica = self._state.store, self.replica
        if self._state.is_slave:
            address = replica.address
            client = HAClientRuntimeInfo(
                master_addr=None if address is None else str(address),
                max_offset=store.log.end,
                last_read_timestamp=replica.heard_at_ms,
                last_write_timestamp=replica.said_at_ms,
            )
            return HARuntimeInfo(master=False, ha_client_runtime_info=client)
        end, acks = store.log.end, self._state.acks
        links = [link for link in self.primary.links if link.feed.state is not LinkState.HANDSHAKE]
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=acks.in_sync,
            ha_connection_info=tuple(
                HAConnectionRuntimeInfo(
                    addr=link.peer,
                    slave_ack_offset=link.feed.acked,
                    diff=end - link.feed.acked,
                    in_sync=acks.is_near(link.feed.acked),
                    transfer_from_where=link.feed.position,
                )
                for link in links
            ),
        )


class _Tables:
    """The tables of a slave."""

    def __init__(self, state: State) -> None:
        self._state = state

    def take_topics(self, table: TopicConfigTable) -> None:
        self._state.topics.take(table)

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        self._state.groups.take(table)

    def take_offsets(self, table: ConsumerOffsetTable) -> Sequence[OwnOffset]:
        return [OwnOffset(*own) for own in self._state.offsets.take(table)]

    def returned(self, own: OwnOffset) -> None:
        self._state.offsets.returned(*own)

    def take_delay_offsets(self, table: DelayOffsetTable) -> None:
        self._state.delays.take(table)

    def take_request_modes(self, table: RequestModeTable) -> None:
        self._state.request_modes.take(table)


def _say_what_is_promised(replicas: int) -> None:
    if replicas > 1:
        log.info(
            "SYNC_MASTER: a send is acknowledged when %d brokers have it, this one included "
            "(inSyncReplicas; Java's default of 1 waits for no slave)",
            replicas,
        )
    else:
        log.warning("SYNC_MASTER with inSyncReplicas=1: sends wait for no slave")
