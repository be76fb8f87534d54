"""The route table: live brokers and their topics. Pure; time is an argument.

::

    clusters   cluster ──▶ broker names
    brokers    broker name ──▶ addresses by broker id; 0 is the master
    topics     topic ──▶ broker name ──▶ numbers of queues, permission (``topic_table``)
    live       (cluster, address) ──▶ last heartbeat, version of its topics, connection

Rules (``RouteInfoManager`` in Java):

- A broker is in the table from its first registration until it unregisters, its connection closes,
  or its heartbeats time out. Its name and topics are removed with its last address.
- The master registers topics. If replicas may act as master, so does the one with the lowest id,
  without the write permission.
- A registration with a known data version only adds what is missing, so that a permission removed
  here stays removed until the broker's topics change.
- A first registration with a single topic is refused: brokers announce a new topic that way, and
  one that restarted must first register all of its topics.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from orbitmq.nameserver.topic_table import TopicTable
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.cluster import BrokerMemberGroup, ClusterInfo
from orbitmq.wire.bodies.registration import BrokerRegistration, TopicConfigAndMappingTable
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.bodies.topic import DataVersion, TopicList
from orbitmq.wire.codes import WRITE, ResponseCode
from orbitmq.wire.headers.route import NotifyMinBrokerIdChange, RegisterBroker, UnregisterBroker

__all__ = [
    "BROKER_TIMEOUT_MS",
    "MASTER_ID",
    "Expired",
    "MinBrokerIdChange",
    "Registered",
    "RouteTable",
]

BROKER_TIMEOUT_MS: Final = 120_000
"""A broker without heartbeats for that long is removed, unless it set another timeout."""
BROKERS_MAX: Final = 10_000
"""More than any cluster has; keeps a single client from filling the memory."""

MASTER_ID: Final = 0
_NEVER_ACTING_MASTER: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""The prefix of topics for messages between brokers of one name; replicas never serve them."""


class Registered(NamedTuple):
    """The result of a registration: for a replica, the addresses of its master if that lives.

    ``rival`` is the address that had the same broker id until now, with the same state, and has not
    left: two brokers may be set to be the same one.
    """

    master_addr: str | None = None
    ha_server_addr: str | None = None
    change: "MinBrokerIdChange | None" = None
    rival: str | None = None


class MinBrokerIdChange(NamedTuple):
    """A change of the lowest broker id of a name: the notice, and the addresses to notify."""

    notice: NotifyMinBrokerIdChange
    addresses: tuple[str, ...]


class Expired(NamedTuple):
    """A broker whose heartbeats timed out; the caller closes its connection."""

    address: str
    channel: object
    change: MinBrokerIdChange | None


class _Key(NamedTuple):
    cluster: str
    address: str


class _BrokerGroup(msgspec.Struct, kw_only=True):
    """All brokers of one name."""

    name: str
    cluster: str
    addresses: dict[int, str] = msgspec.field(default_factory=dict)
    acting_master: bool = False
    zone: str | None = None

    def leave_other_ids(self, address: str, broker_id: int) -> None:
        """Remove other ids of an address, which changed its role."""
        for one, at in list(self.addresses.items()):
            if at == address and one != broker_id:
                del self.addresses[one]

    def data(self) -> BrokerData:
        return BrokerData(
            broker_addrs=dict(sorted(self.addresses.items())),
            broker_name=self.name,
            cluster=self.cluster,
            enable_acting_master=self.acting_master,
            zone_name=self.zone,
        )


class _LiveBroker(msgspec.Struct, kw_only=True):
    """The state of one broker address."""

    heard_ms: int
    timeout_ms: int
    version: DataVersion
    channel: object
    ha_address: str
    filter_servers: tuple[str, ...]


class RouteTable:
    """The registered brokers and topics.

    ``channel`` identifies a broker's connection: it is only stored and compared.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, dict[str, None]] = {}  # a set that keeps its order
        self._brokers: dict[str, _BrokerGroup] = {}
        self._live: dict[_Key, _LiveBroker] = {}
        self.topics = TopicTable()
        """The topics of all brokers."""

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._live)} brokers, {self.topics!r}>"

    # Brokers come and go

    def register(
        self,
        who: RegisterBroker,
        body: BrokerRegistration,
        *,
        channel: object,
        now_ms: int,
        delete_missing: bool = False,
    ) -> Registered:
        """Register a broker and its topics, or record its heartbeat.

        An address whose broker id belongs to another address with a later state is ignored.

        Call ``drop`` when ``channel``, its connection, closes. ``now_ms`` is of a monotonic clock.
        ``delete_missing`` removes topics that the broker no longer has. Raise Refusal if it
        registered a single topic before all of them, or the table is full.
        """
        key = _Key(who.cluster_name, who.broker_addr)
        broker = self._brokers.get(who.broker_name)
        if broker is None:
            broker = _BrokerGroup(name=who.broker_name, cluster=who.cluster_name)
        self._check(who, broker, body.topics)
        min_id_before = min(broker.addresses, default=MASTER_ID)
        broker.leave_other_ids(who.broker_addr, who.broker_id)
        if self._is_overtaken(who, broker, body.topics.data_version):
            self._live.pop(key, None)
            return Registered()
        self._clusters.setdefault(who.cluster_name, {})[who.broker_name] = None
        self._brokers[who.broker_name] = broker
        broker.acting_master = bool(who.enable_acting_master)
        broker.zone = who.zone
        is_first = who.broker_id not in broker.addresses
        rival = self._rival(who, broker, body.topics.data_version)
        broker.addresses[who.broker_id] = who.broker_addr
        if self._brings_topics(who, broker):
            if delete_missing:
                self._delete_missing(who.broker_name, body.topics)
            self._take_topics(who, body.topics, is_first=is_first)
        own_timeout_ms = who.heartbeat_timeout_millis
        self._live[key] = _LiveBroker(
            heard_ms=now_ms,
            timeout_ms=BROKER_TIMEOUT_MS if own_timeout_ms is None else own_timeout_ms,
            version=body.topics.data_version,
            channel=channel,
            ha_address=who.ha_server_addr,
            filter_servers=body.filter_server_list,
        )
        change = None
        if who.broker_id < min_id_before:
            change = _min_id_change(broker, ha_address=who.ha_server_addr)
        return self._registered(who, broker, change)._replace(rival=rival)

    def heard(self, cluster: str, address: str, now_ms: int) -> None:
        """Record a heartbeat of a broker; ignored if it is not registered."""
        live = self._live.get(_Key(cluster, address))
        if live is not None:
            live.heard_ms = now_ms

    def version_of(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version of a broker's topics; None if it is not registered."""
        live = self._live.get(_Key(cluster, address))
        return None if live is None else live.version

    def unregister(self, who: UnregisterBroker) -> MinBrokerIdChange | None:
        """Remove a broker; return the change of its name's lowest id, if any."""
        return self._forget(_Key(who.cluster_name, who.broker_addr), who.broker_name, who.broker_id)

    def drop(self, channel: object) -> list[MinBrokerIdChange]:
        """Remove all brokers of a closed connection.

        Several brokers of one process may share it; Java removes only the first.
        """
        gone = [key for key, live in self._live.items() if live.channel is channel]
        return [change for key in gone if (change := self._forget_address(key)) is not None]

    def expire(self, now_ms: int) -> list[Expired]:
        """Remove brokers whose heartbeats timed out; the caller closes their connections."""
        gone = [
            (key, live)
            for key, live in self._live.items()
            if live.heard_ms + live.timeout_ms < now_ms
        ]
        return [Expired(key.address, live.channel, self._forget_address(key)) for key, live in gone]

    # Topics

    def register_topic(self, topic: str, queues: tuple[QueueData, ...]) -> bool:
        """Set the queues of a topic; return False and change nothing if a broker is unknown."""
        if not queues or any(one.broker_name not in self._brokers for one in queues):
            return False
        self.topics.check_room([topic])
        for queue in queues:
            self.topics.put(topic, queue)
        return True

    def delete_topic(self, topic: str, cluster: str = "") -> None:
        """Delete the route of a topic, in one cluster or in all."""
        names = self._clusters.get(cluster, {}) if cluster else self.topics.queues(topic)
        for name in list(names):
            self.topics.remove(topic, name)

    # Queries

    def route(self, topic: str, *, acting_master: bool = False) -> TopicRouteData | None:
        """Return the route of a topic; None if no broker has it.

        With ``acting_master``, a replica that may act for its missing master gets the master's id.
        """
        queues = self.topics.queues(topic)
        names = sorted(queues)  # so that all nameservers give the same answer
        brokers = [self._brokers[name] for name in names if name in self._brokers]
        if not brokers:
            return None
        acting = acting_master and not topic.startswith(_NEVER_ACTING_MASTER)
        return TopicRouteData(
            broker_datas=tuple(
                _with_acting_master(one.data(), queues[one.name]) if acting else one.data()
                for one in brokers
            ),
            filter_server_table=dict(self._filter_servers(brokers)),
            queue_datas=tuple(queues[name] for name in names),
            topic_queue_mapping_by_broker=self.topics.mappings(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        """Return all clusters and their brokers."""
        return ClusterInfo(
            broker_addr_table={name: one.data() for name, one in self._brokers.items()},
            cluster_addr_table={name: tuple(sorted(of)) for name, of in self._clusters.items()},
        )

    def members(self, cluster: str, broker_name: str) -> BrokerMemberGroup:
        """Return the addresses of all brokers of one name; none if the name is unknown."""
        broker = self._brokers.get(broker_name)
        addresses = {} if broker is None else dict(sorted(broker.addresses.items()))
        return BrokerMemberGroup(broker_addrs=addresses, broker_name=broker_name, cluster=cluster)

    def topics_of(self, cluster: str) -> TopicList:
        """Return the names of a cluster's topics; none if the cluster is unknown."""
        found = {
            topic
            for name in self._clusters.get(cluster, {})
            for topic in self.topics.of_broker(name)
        }
        return TopicList(topic_list=tuple(sorted(found)))

    def system_topics(self) -> TopicList:
        """Return the topics that are named after clusters and brokers, and a broker's address."""
        names = {name for cluster, of in self._clusters.items() for name in (cluster, *of)}
        addresses = (at for broker in self._brokers.values() for at in broker.addresses.values())
        return TopicList(broker_addr=next(addresses, None), topic_list=tuple(sorted(names)))

    # Registration

    def _check(
        self, who: RegisterBroker, broker: _BrokerGroup, topics: TopicConfigAndMappingTable
    ) -> None:
        if who.broker_id not in broker.addresses and len(topics.topic_config_table) == 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {who.broker_name} {who.broker_addr} sent a single topic "
                "before it registered all of its topics",
            )
        is_new = _Key(who.cluster_name, who.broker_addr) not in self._live
        if is_new and len(self._live) >= BROKERS_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {len(self._live)} brokers are registered, the limit",
            )
        self.topics.check_room(topics.topic_config_table)

    def _is_overtaken(
        self, who: RegisterBroker, broker: _BrokerGroup, version: DataVersion
    ) -> bool:
        """Return whether another address has this broker id and a later state."""
        holder = broker.addresses.get(who.broker_id)
        if holder is None or holder == who.broker_addr:
            return False
        held = self.version_of(who.cluster_name, holder)
        return held is not None and held.state_version > version.state_version

    def _rival(self, who: RegisterBroker, broker: _BrokerGroup, version: DataVersion) -> str | None:
        """Return the other address that has this broker id; None if an election replaced it."""
        holder = broker.addresses.get(who.broker_id)
        if holder is None or holder == who.broker_addr:
            return None
        held = self.version_of(who.cluster_name, holder)
        is_same = held is not None and held.state_version == version.state_version
        return holder if is_same else None

    def _brings_topics(self, who: RegisterBroker, broker: _BrokerGroup) -> bool:
        if who.broker_id == MASTER_ID:
            return True
        # Brokers of 4.x don't set the field, and can't act as master.
        return who.enable_acting_master is not None and who.broker_id == min(broker.addresses)

    def _take_topics(
        self, who: RegisterBroker, topics: TopicConfigAndMappingTable, *, is_first: bool
    ) -> None:
        known = self.version_of(who.cluster_name, who.broker_addr)
        is_changed = is_first or known != topics.data_version
        acting = who.broker_id != MASTER_ID and bool(who.enable_acting_master)
        name = who.broker_name
        for topic in topics.topic_config_table.values():
            if is_changed or name not in self.topics.queues(topic.topic_name):
                queue = QueueData(
                    broker_name=name,
                    perm=topic.perm & ~WRITE if acting else topic.perm,
                    read_queue_nums=topic.read_queue_nums,
                    topic_sys_flag=topic.topic_sys_flag,
                    write_queue_nums=topic.write_queue_nums,
                )
                self.topics.put(topic.topic_name, queue)
        if is_changed:
            for topic_name, mapping in topics.topic_queue_mapping_info_map.items():
                self.topics.put_mapping(topic_name, mapping)

    def _delete_missing(self, broker_name: str, topics: TopicConfigAndMappingTable) -> None:
        if topics.topic_queue_mapping_info_map:  # as in Java, not for brokers with static topics
            return
        for topic in self.topics.of_broker(broker_name):
            if topic not in topics.topic_config_table:
                self.topics.remove(topic, broker_name)

    def _registered(
        self, who: RegisterBroker, broker: _BrokerGroup, change: MinBrokerIdChange | None
    ) -> Registered:
        master = broker.addresses.get(MASTER_ID)
        if who.broker_id != MASTER_ID and master is not None:
            live = self._live.get(_Key(who.cluster_name, master))
            if live is not None:
                return Registered(master, live.ha_address, change)
        return Registered(change=change)

    # Removal

    def _forget_address(self, key: _Key) -> MinBrokerIdChange | None:
        for broker in self._brokers.values():
            for broker_id, address in broker.addresses.items():
                if broker.cluster == key.cluster and address == key.address:
                    return self._forget(key, broker.name, broker_id)
        del self._live[key]
        return None

    def _forget(self, key: _Key, broker_name: str, broker_id: int) -> MinBrokerIdChange | None:
        self._live.pop(key, None)
        broker = self._brokers.get(broker_name)
        if broker is None:
            return None
        had_min_id = bool(broker.addresses) and broker_id == min(broker.addresses)
        broker.addresses = {
            one: address for one, address in broker.addresses.items() if address != key.address
        }
        if not broker.addresses:
            self._forget_name(key.cluster, broker_name)
            return None
        if not broker.acting_master:
            return None
        if MASTER_ID not in broker.addresses:
            self.topics.set_writable(broker_name, writable=False)
        return _min_id_change(broker, offline=key.address) if had_min_id else None

    def _forget_name(self, cluster: str, broker_name: str) -> None:
        del self._brokers[broker_name]
        names = self._clusters.get(cluster, {})
        names.pop(broker_name, None)
        if not names:
            self._clusters.pop(cluster, None)
        for topic in self.topics.of_broker(broker_name):
            self.topics.remove(topic, broker_name)

    def _filter_servers(self, brokers: list[_BrokerGroup]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for broker in brokers:
            for address in broker.addresses.values():
                live = self._live.get(_Key(broker.cluster, address))
                if live is not None and live.filter_servers:
                    yield address, live.filter_servers


def _min_id_change(
    broker: _BrokerGroup, *, ha_address: str | None = None, offline: str | None = None
) -> MinBrokerIdChange:
    """Return the change: a new broker is announced to the others, a removal to all left."""
    min_id = min(broker.addresses)
    notified = broker.addresses
    if offline is None and len(notified) > 1:
        notified = {one: address for one, address in notified.items() if one != min_id}
    notice = NotifyMinBrokerIdChange(
        min_broker_id=min_id,
        min_broker_addr=broker.addresses[min_id],
        offline_broker_addr=offline,
        ha_broker_addr=ha_address,
    )
    return MinBrokerIdChange(notice, tuple(notified.values()))


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    addresses = broker.broker_addrs
    if MASTER_ID in addresses or not broker.enable_acting_master or queue.perm & WRITE:
        return broker
    min_id = min(addresses)
    others = {one: address for one, address in addresses.items() if one != min_id}
    return msgspec.structs.replace(broker, broker_addrs={MASTER_ID: addresses[min_id], **others})
