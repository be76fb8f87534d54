"""The part of a broker in its group: a master that slaves copy, or a slave that copies a master.

::

    master   the log ──▶ Primary ──▶ slaves       reports ──▶ acks ──▶ waiting sends
    slave    registration answers ──▶ address of the master ──▶ Replica: the log
                                                           └──▶ MetadataSync: the tables

With elections the ends are those of the stream with epochs, the in-sync set takes the place of the
acks, and the group says where the master is, not registration.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from orbitmq.broker.leadership import GroupRole
from orbitmq.broker.sending.delivered_copies import destination_of
from orbitmq.broker.settings import BrokerRole
from orbitmq.broker.state import State
from orbitmq.errors import InvalidInput
from orbitmq.failover.election import ClosedPort
from orbitmq.message.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_GROUP
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.replication.elected_primary import ElectedPrimary
from orbitmq.replication.epoch_feed import EpochFeed
from orbitmq.replication.epoch_follower import EpochFollower
from orbitmq.replication.epochs import NO_EPOCH, EpochFile, EpochHistory
from orbitmq.replication.follower import Follower, LogFollower
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.metadata_sync import MetadataSync, OwnOffset
from orbitmq.replication.primary import Primary, ReplicaLink, ReplicaPort
from orbitmq.replication.replica import Replica
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.timers.timer_files import forget_timers
from orbitmq.wire.bodies.group import SubscriptionGroupTable
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from orbitmq.wire.bodies.pop import RequestModeTable
from orbitmq.wire.bodies.replication import (
    EpochEntry,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from orbitmq.wire.bodies.topic import TopicConfigTable
from orbitmq.wire.epoch_stream import LinkState

__all__ = ["Replicas"]

log = logging.getLogger("orbitmq.broker")

Arrival = Callable[[list[Dispatched]], None]
_WAITING: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC)
_BEHIND: Final = 1
"""The port for slaves, counted from the broker's, unless a setting says which."""

_MISSED_S: Final = 40.0
"""A slave that starts before its master learns where it is when it registers again, after 30 s."""


class Replicas:
    """Starts and stops what the role of a broker needs; ``role`` is that by elections."""

    def __init__(self, state: State, dialer: Dialer, role: GroupRole | None = None) -> None:
        self._state = state
        self._dialer = dialer
        self._role = role
        self._tasks: list[asyncio.Task[None]] = []
        self._epochs: EpochFile | None = None
        self.primary: ReplicaPort = Primary(
            tail=state.store.tail,
            acks=state.acks,
            settings=lambda: state.settings.replication,
            clock=state.clock,
            network=state.machine.network,
        )
        """What slaves are connected to, on a master."""
        self.sync = MetadataSync(dialer, _Tables(state), self._epoch_followed)
        """What a slave asks its master for."""
        self.replica = self._new_replica(
            LogFollower(state.store, lambda: state.settings.replication, state.clock.monotonic_ms())
        )
        """What copies the log, on a slave."""
        state.store.on_written = self._written
        state.follows = lambda: self.replica.follower.state is LinkState.TRANSFER
        state.why_unreadable = self.why_unreadable
        self._filed_end = 0  # of what a slave has filed at its start, confirmed or not

    def __repr__(self) -> str:
        return f"<Replicas {self.replica if self._state.is_slave else self.primary}>"

    @property
    def epochs(self) -> EpochHistory:
        """The epochs of the log; empty without elections."""
        return EpochHistory() if self._epochs is None else self._epochs.history

    def why_unreadable(self) -> str:
        """Return why consumers are not served now, in a group with elections; empty if they are."""
        if self._state.leadership is not None:
            return self._state.leadership.why_unreadable()
        if self._state.store.confirmed < self._filed_end:
            return "this slave has messages that its master has to confirm, or to cut"
        self._filed_end = 0
        return ""

    def ha_port(self, broker_port: int) -> int:
        """Return the port that slaves connect to, as it is registered."""
        if (address := self.primary.address) is not None:
            return address.port
        return self._state.settings.replication.listen_port or broker_port + _BEHIND

    async def start(self, listening: Address) -> None:
        """Begin, once the broker listens.

        Raise InvalidInput if there is no port for slaves, and StoreDamaged if the epochs of the log
        can't be read.
        """
        if self._role is not None:
            self._elect(self._role)
        if self._state.is_slave:
            self._state.store.on_arrival = self._arrived(self._state.store.on_arrival)
            for queue in self._state.store.queues:
                self._learn(queue.topic, queue.queue_id)
            self._tasks = [
                asyncio.create_task(self.replica.run()),
                asyncio.create_task(self.sync.run()),
            ]
            if self._role is None:
                self._tasks.append(asyncio.create_task(self._miss_the_master()))
            return
        settings, broker = self._state.settings.replication, self._state.settings.broker
        any_port = not broker.listen_port and not settings.listen_port
        wanted = Address(listening.host, 0 if any_port else self.ha_port(listening.port))
        is_sync = broker.broker_role is BrokerRole.SYNC_MASTER
        if is_sync and self._role is None:
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

    async def _miss_the_master(self) -> None:
        """Log it if no master to follow is known after a while: it may never be."""
        await asyncio.sleep(_MISSED_S)
        if self.replica.address is None:
            broker = self._state.settings.broker
            log.warning(
                "no master is known, so nothing is copied: the nameservers (namesrvAddr=%s) name "
                "none with brokerName=%s in brokerClusterName=%s, and haMasterAddress is not set",
                broker.namesrv_addr,
                broker.broker_name,
                broker.broker_cluster_name,
            )

    def _arrived(self, then: Arrival) -> Arrival:
        """Return what a slave does with new messages.

        It asks for topics that it doesn't know, and has them at once with the queues that it sees:
        if it is promoted before the master has answered, what it has can be read. Messages that
        wait (delayed, timed, halves) have a destination, too, which gets them later.
        """

        def arrived(entries: list[Dispatched]) -> None:
            known = self._state.topics.table
            for entry in entries:
                topic, queue_id = entry.topic, entry.queue_id
                if topic in _WAITING:
                    record = self._state.store.record(entry.commit_log_offset)
                    found = None if record is None else destination_of(record.properties)
                    topic, queue_id = found or (topic, queue_id)
                if topic not in known:
                    self.sync.ask_for(topic)
                self._learn(topic, queue_id)
            then(entries)

        return arrived

    def _learn(self, topic: str, queue_id: int) -> None:
        if not self._state.store.queues.has_batches(topic):  # a kind that the master has to say
            self._state.topics.learn(topic, queue_id)

    def _elect(self, role: GroupRole) -> None:
        """Take the ends of the stream with epochs; the store is open, and nothing writes to it."""
        state, store = self._state, self._state.store
        self._epochs = epochs = EpochFile(state.machine.disk, store.directory)
        epochs.cut(store.log.end)
        if role.leadership is None:
            follower = EpochFollower(
                store,
                epochs,
                lambda: state.settings.replication,
                role.broker_id,
                state.clock.monotonic_ms(),
            )
            store.confirmed_end = lambda: follower.confirmed
            store.on_truncate = self._truncated
            self._filed_end = store.log.end
            self.replica = self._new_replica(follower)
            self.replica.on_refused = self._refused
            return
        end = store.log.end
        epochs.begin(role.epoch, end, log_start=store.log.first_offset)
        in_sync = InSyncSet(
            role.broker_id,
            members=role.leadership.state.in_sync,
            epoch_start=end,
            settings=lambda: state.settings.replication,
            log_end=lambda: store.log.end,
            now_ms=state.clock.monotonic_ms(),
            confirmed=store.confirmed,
        )
        state.acks.in_sync_set = in_sync
        in_sync.on_confirmed = self._confirmed
        store.confirmed = in_sync.confirmed
        role.leadership.begin(in_sync, end)
        self.primary = ElectedPrimary(
            tail=store.tail,
            epochs=epochs,
            in_sync=in_sync,
            settings=lambda: state.settings.replication,
            clock=state.clock,
            network=state.machine.network,
        )

    def _truncated(self, end: int) -> None:
        self._filed_end = min(self._filed_end, end)
        forget_timers(self._state.machine.disk, self._state.store.directory)

    def _refused(self, address: Address) -> None:
        """Report that a master is gone, once for each connection that there was to it."""
        role, follower = self._role, self.replica.follower
        assert role is not None
        assert isinstance(follower, EpochFollower)
        epoch, follower.met_epoch = follower.met_epoch, NO_EPOCH
        if epoch != NO_EPOCH:
            role.port_closed(ClosedPort(epoch, str(address)))

    def _confirmed(self, offset: int) -> None:
        self._state.store.confirmed = offset
        self._state.store.dispatch_confirmed()
        self._state.acks.release()

    def _new_replica(self, follower: Follower) -> Replica:
        state = self._state
        return Replica(
            store=state.store,
            settings=lambda: state.settings.replication,
            clock=state.clock,
            follower=follower,
            primary_range=self.sync.log_range,
            network=state.machine.network,
        )

    def tick(self) -> None:
        """Do what is due on a master; call it about every hundred milliseconds."""
        self.primary.tick()
        if self._epochs is not None:
            self._state.acks.release()
            self._state.acks.tick(self._state.clock.monotonic_ms())
            self._epochs.trim(self._state.store.log.first_offset)

    def _epoch_followed(self) -> int | None:
        """Return the epoch of the master that is followed now, 0 for none; None if not elected."""
        if self._role is None:
            return None
        return self._role.epoch if self._state.follows() else 0

    def _written(self) -> None:
        self.primary.written()

    def _is_in_sync(self, link: ReplicaLink) -> bool:
        leadership, feed = self._state.leadership, link.feed
        if leadership is not None and leadership.in_sync is not None:
            return isinstance(feed, EpochFeed) and feed.broker_id in leadership.in_sync.members
        return self._state.acks.is_near(feed.acked)

    async def close(self) -> None:
        """End it; waiting sends are answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._state.leadership is not None:
            await self._state.leadership.close()
        await self.primary.close()
        self._state.acks.close()

    def follow_elected(self, epoch: int, master: str, ha_address: str) -> None:
        """Follow the master of an epoch, which the group has elected."""
        assert self._role is not None
        self._role.epoch = epoch
        follower = self.replica.follower
        assert isinstance(follower, EpochFollower)
        follower.least_epoch = epoch
        self._follow(master, ha_address)

    def follow(self, master: str, ha_address: str) -> None:
        """Follow the master that a nameserver names, unless the group elects it."""
        if self._role is None:
            self._follow(master, ha_address)

    def _follow(self, master: str, ha_address: str) -> None:
        try:
            self.sync.follow(Address.parse(master))
            self.replica.follow(Address.parse(ha_address))
        except InvalidInput as error:
            log.warning("the master that is named can't be followed: %s", error)

    def epoch_cache(self) -> EpochEntryCache:
        """Return the epochs of the log, for tools."""
        broker, end = self._state.settings.broker, self._state.store.log.end
        return EpochEntryCache(
            cluster_name=broker.broker_cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            epoch_list=tuple(
                EpochEntry(
                    epoch=one.epoch, start_offset=one.start_offset, end_offset=one.end_offset
                )
                for one in self.epochs.ranges(end)
            ),
            max_offset=end,
        )

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
                    in_sync=self._is_in_sync(link),
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
        table = _of_transactions(table, wanted=False)
        return [OwnOffset(*own) for own in self._state.offsets.take(table)]

    def returned(self, own: OwnOffset) -> None:
        self._state.offsets.returned(*own)

    def has_log_before(self, end: int) -> bool:
        return self._state.store.log.end >= end

    def take_progress(self, offsets: ConsumerOffsetTable, delays: DelayOffsetTable) -> None:
        self._state.offsets.take(_of_transactions(offsets, wanted=True))
        self._state.delays.take(delays)

    def take_request_modes(self, table: RequestModeTable) -> None:
        self._state.request_modes.take(table)


def _of_transactions(table: ConsumerOffsetTable, *, wanted: bool) -> ConsumerOffsetTable:
    """Return the part of a table that says how far transactions were ended, or all the rest."""
    part = {
        key: offsets
        for key, offsets in table.offset_table.items()
        if key.endswith(f"@{TRANSACTION_GROUP}") is wanted
    }
    return replace(table, offset_table=part)


def _say_what_is_promised(replicas: int) -> None:
    if replicas > 1:
        log.info(
            "SYNC_MASTER: a send is acknowledged when %d brokers have it, this one included "
            "(inSyncReplicas; Java's default of 1 waits for no slave)",
            replicas,
        )
    else:
        log.warning("SYNC_MASTER with inSyncReplicas=1: sends wait for no slave")
