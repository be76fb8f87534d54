"""The route table: which brokers live, and which topics they have. Pure; time is an argument.

::

    clusters   cluster ──▶ broker names
    brokers    broker name ──▶ addresses by broker id; 0 is the master
    topics     topic ──▶ broker name ──▶ numbers of queues, permission (``topic_table``)
    live       (cluster, address) ──▶ last heard, version of its topics, connection

Laws (``RouteInfoManager`` in Java):

- A broker is in the table from its first registration until it unregisters, its connection closes,
  or nothing was heard of it for its timeout. Its name and topics go with its last address.
- Topics come from the master. Where a replica may act as master, the one with the least id brings
  them too, without the permission to write.
- A registration whose data version is known only adds what is missing, so that a permission taken
  away here lasts until the broker itself changes.
- A first registration with one topic alone is refused: brokers tell a new topic by such a one, and
  who restarted must send all of them first.
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

__all__ = ["BROKER_TIMEOUT_MS", "MASTER_ID", "Expired", "LeastIdChange", "Registered", "RouteTable"]

BROKER_TIMEOUT_MS: Final = 120_000
"""A broker that is silent for so long is gone, unless it named another time."""
BROKERS_MAX: Final = 10_000
"""Far over what clusters have, far below what memory would bear; one client could fill it else."""

MASTER_ID: Final = 0
_NO_STAND_IN: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics by which brokers of one name talk to each other: never served by a replica."""


class Registered(NamedTuple):
    """What a broker that registered is told: its master, if it is a replica and that lives."""

    master_addr: str | None = None
    ha_server_addr: str | None = None
    change: "LeastIdChange | None" = None


class LeastIdChange(NamedTuple):
    """The least broker id of a name is another one now: what to say, and to which addresses."""

    notice: NotifyMinBrokerIdChange
    addresses: tuple[str, ...]


class Expired(NamedTuple):
    """A broker that fell silent: its connection, still to be closed, and what others must know."""

    address: str
    channel: object
    change: LeastIdChange | None


class _Key(NamedTuple):
    cluster: str
    address: str


class _Broker(msgspec.Struct, kw_only=True):
    """All brokers of one name."""

    name: str
    cluster: str
    addresses: dict[int, str] = msgspec.field(default_factory=dict)
    acting_master: bool = False
    zone: str | None = None

    def leave_other_ids(self, address: str, broker_id: int) -> None:
        """Take an address out that has another id now: it changed its role."""
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


class _Live(msgspec.Struct, kw_only=True):
    """What is known of one address."""

    heard_ms: int
    timeout_ms: int
    version: DataVersion
    channel: object
    ha_address: str
    filter_servers: tuple[str, ...]


class RouteTable:
    """Brokers and topics, as they registered.

    ``channel`` is whatever stands for a broker's connection: it is kept and compared, never used.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, dict[str, None]] = {}  # a set that keeps its order
        self._brokers: dict[str, _Broker] = {}
        self._live: dict[_Key, _Live] = {}
        self.topics = TopicTable()
        """What they serve."""

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
        """Take a broker and its topics in, or note that it lives.

        An address that lost its broker id to another one with a later state is passed over.

        Args:
            who: the header of its request.
            body: its topics.
            channel: its connection; when that closes, call ``drop``.
            now_ms: the time, of any clock that only runs forward.
            delete_missing: take topics away that the broker has no more.

        Raises:
            Refusal: it told of one topic before it told of all, or a bound of the table is met.

        """
        key = _Key(who.cluster_name, who.broker_addr)
        broker = self._brokers.get(who.broker_name)
        if broker is None:
            broker = _Broker(name=who.broker_name, cluster=who.cluster_name)
        self._check(who, broker, body.topics)
        least_id_before = min(broker.addresses, default=MASTER_ID)
        broker.leave_other_ids(who.broker_addr, who.broker_id)
        if self._is_overtaken(who, broker, body.topics.data_version):
            self._live.pop(key, None)
            return Registered()
        self._clusters.setdefault(who.cluster_name, {})[who.broker_name] = None
        self._brokers[who.broker_name] = broker
        broker.acting_master = bool(who.enable_acting_master)
        broker.zone = who.zone
        is_first = who.broker_id not in broker.addresses
        broker.addresses[who.broker_id] = who.broker_addr
        if self._brings_topics(who, broker):
            if delete_missing:
                self._delete_missing(who.broker_name, body.topics)
            self._take_topics(who, body.topics, is_first=is_first)
        own_timeout_ms = who.heartbeat_timeout_millis
        self._live[key] = _Live(
            heard_ms=now_ms,
            timeout_ms=BROKER_TIMEOUT_MS if own_timeout_ms is None else own_timeout_ms,
            version=body.topics.data_version,
            channel=channel,
            ha_address=who.ha_server_addr,
            filter_servers=body.filter_server_list,
        )
        change = None
        if who.broker_id < least_id_before:
            change = _least_id_change(broker, ha_address=who.ha_server_addr)
        return self._registered(who, broker, change)

    def heard(self, cluster: str, address: str, now_ms: int) -> None:
        """Note that a broker lives; one that is not registered is none of ours."""
        live = self._live.get(_Key(cluster, address))
        if live is not None:
            live.heard_ms = now_ms

    def version_of(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version of the topics that a broker registered last; None if it did not."""
        live = self._live.get(_Key(cluster, address))
        return None if live is None else live.version

    def unregister(self, who: UnregisterBroker) -> LeastIdChange | None:
        """Forget a broker, and return what the others of its name should know."""
        return self._forget(_Key(who.cluster_name, who.broker_addr), who.broker_name, who.broker_id)

    def drop(self, channel: object) -> list[LeastIdChange]:
        """Forget every broker behind a connection that closed.

        Several brokers of one process may share it; Java would find the first alone.
        """
        gone = [key for key, live in self._live.items() if live.channel is channel]
        return [change for key in gone if (change := self._forget_address(key)) is not None]

    def expire(self, now_ms: int) -> list[Expired]:
        """Forget the brokers that fell silent; the caller closes their connections."""
        gone = [
            (key, live)
            for key, live in self._live.items()
            if live.heard_ms + live.timeout_ms < now_ms
        ]
        return [Expired(key.address, live.channel, self._forget_address(key)) for key, live in gone]

    # Topics

    def register_topic(self, topic: str, queues: tuple[QueueData, ...]) -> bool:
        """Set the queues of a topic on some brokers; False, and nothing, if one isn't known."""
        if not queues or any(one.broker_name not in self._brokers for one in queues):
            return False
        self.topics.check_room([topic])
        for queue in queues:
            self.topics.put(topic, queue)
        return True

    def delete_topic(self, topic: str, cluster: str = "") -> None:
        """Forget the route of a topic, in one cluster or in all."""
        names = self._clusters.get(cluster, {}) if cluster else self.topics.queues(topic)
        for name in list(names):
            self.topics.remove(topic, name)

    # What is asked

    def route(self, topic: str, *, acting_master: bool = False) -> TopicRouteData | None:
        """Return where the queues of a topic are; None if nowhere.

        With ``acting_master`` a replica that may, and whose master is gone, has the master's id.
        """
        queues = self.topics.queues(topic)
        names = sorted(queues)  # the same answer from every nameserver
        brokers = [self._brokers[name] for name in names if name in self._brokers]
        if not brokers:
            return None
        stands_in = acting_master and not topic.startswith(_NO_STAND_IN)
        return TopicRouteData(
            broker_datas=tuple(
                _with_acting_master(one.data(), queues[one.name]) if stands_in else one.data()
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
        """Return the addresses of all brokers of one name; none if it isn't known."""
        broker = self._brokers.get(broker_name)
        addresses = {} if broker is None else dict(sorted(broker.addresses.items()))
        return BrokerMemberGroup(broker_addrs=addresses, broker_name=broker_name, cluster=cluster)

    def topics_of(self, cluster: str) -> TopicList:
        """Return the names of the topics of a cluster; none if it isn't known."""
        found = {
            topic
            for name in self._clusters.get(cluster, {})
            for topic in self.topics.of_broker(name)
        }
        return TopicList(topic_list=tuple(sorted(found)))

    def system_topics(self) -> TopicList:
        """Return the topics named after clusters and brokers, and the address of some broker."""
        names = {name for cluster, of in self._clusters.items() for name in (cluster, *of)}
        addresses = (at for broker in self._brokers.values() for at in broker.addresses.values())
        return TopicList(broker_addr=next(addresses, None), topic_list=tuple(sorted(names)))

    # The parts of a registration

    def _check(
        self, who: RegisterBroker, broker: _Broker, topics: TopicConfigAndMappingTable
    ) -> None:
        if who.broker_id not in broker.addresses and len(topics.topic_config_table) == 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {who.broker_name} {who.broker_addr} tells of one topic, "
                "and has not registered all of its topics before",
            )
        is_new = _Key(who.cluster_name, who.broker_addr) not in self._live
        if is_new and len(self._live) >= BROKERS_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {len(self._live)} brokers are here, the most allowed",
            )
        self.topics.check_room(topics.topic_config_table)

    def _is_overtaken(self, who: RegisterBroker, broker: _Broker, version: DataVersion) -> bool:
        """Tell whether another address has this broker id, and a later state."""
        holder = broker.addresses.get(who.broker_id)
        if holder is None or holder == who.broker_addr:
            return False
        held = self.version_of(who.cluster_name, holder)
        return held is not None and held.state_version > version.state_version

    def _brings_topics(self, who: RegisterBroker, broker: _Broker) -> bool:
        if who.broker_id == MASTER_ID:
            return True
        # Brokers of 4.x don't say whether they may act as master: they may not.
        return who.enable_acting_master is not None and who.broker_id == min(broker.addresses)

    def _take_topics(
        self, who: RegisterBroker, topics: TopicConfigAndMappingTable, *, is_first: bool
    ) -> None:
        known = self.version_of(who.cluster_name, who.broker_addr)
        is_changed = is_first or known != topics.data_version
        stands_in = who.broker_id != MASTER_ID and bool(who.enable_acting_master)
        name = who.broker_name
        for topic in topics.topic_config_table.values():
            if is_changed or name not in self.topics.queues(topic.topic_name):
                queue = QueueData(
                    broker_name=name,
                    perm=topic.perm & ~WRITE if stands_in else topic.perm,
                    read_queue_nums=topic.read_queue_nums,
                    topic_sys_flag=topic.topic_sys_flag,
                    write_queue_nums=topic.write_queue_nums,
                )
                self.topics.put(topic.topic_name, queue)
        if is_changed:
            for topic_name, mapping in topics.topic_queue_mapping_info_map.items():
                self.topics.put_mapping(topic_name, mapping)

    def _delete_missing(self, broker_name: str, topics: TopicConfigAndMappingTable) -> None:
        if topics.topic_queue_mapping_info_map:  # as in Java, not where there are static topics
            return
        for topic in self.topics.of_broker(broker_name):
            if topic not in topics.topic_config_table:
                self.topics.remove(topic, broker_name)

    def _registered(
        self, who: RegisterBroker, broker: _Broker, change: LeastIdChange | None
    ) -> Registered:
        master = broker.addresses.get(MASTER_ID)
        if who.broker_id != MASTER_ID and master is not None:
            live = self._live.get(_Key(who.cluster_name, master))
            if live is not None:
                return Registered(master, live.ha_address, change)
        return Registered(change=change)

    # The parts of a farewell

    def _forget_address(self, key: _Key) -> LeastIdChange | None:
        for broker in self._brokers.values():
            for broker_id, address in broker.addresses.items():
                if broker.cluster == key.cluster and address == key.address:
                    return self._forget(key, broker.name, broker_id)
        del self._live[key]
        return None

    def _forget(self, key: _Key, broker_name: str, broker_id: int) -> LeastIdChange | None:
        self._live.pop(key, None)
        broker = self._brokers.get(broker_name)
        if broker is None:
            return None
        was_least = bool(broker.addresses) and broker_id == min(broker.addresses)
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
        return _least_id_change(broker, offline=key.address) if was_least else None

    def _forget_name(self, cluster: str, broker_name: str) -> None:
        del self._brokers[broker_name]
        names = self._clusters.get(cluster, {})
        names.pop(broker_name, None)
        if not names:
            self._clusters.pop(cluster, None)
        for topic in self.topics.of_broker(broker_name):
            self.topics.remove(topic, broker_name)

    def _filter_servers(self, brokers: list[_Broker]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for broker in brokers:
            for address in broker.addresses.values():
                live = self._live.get(_Key(broker.cluster, address))
                if live is not None and live.filter_servers:
                    yield address, live.filter_servers


def _least_id_change(
    broker: _Broker, *, ha_address: str | None = None, offline: str | None = None
) -> LeastIdChange:
    """Return the notice; of a newcomer the others are told, of a farewell all that are left."""
    least = min(broker.addresses)
    told = broker.addresses
    if offline is None and len(told) > 1:
        told = {one: address for one, address in told.items() if one != least}
    notice = NotifyMinBrokerIdChange(
        min_broker_id=least,
        min_broker_addr=broker.addresses[least],
        offline_broker_addr=offline,
        ha_broker_addr=ha_address,
    )
    return LeastIdChange(notice, tuple(told.values()))


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    addresses = broker.broker_addrs
    if MASTER_ID in addresses or not broker.enable_acting_master or queue.perm & WRITE:
        return broker
    least = min(addresses)
    others = {one: address for one, address in addresses.items() if one != least}
    return msgspec.structs.replace(broker, broker_addrs={MASTER_ID: addresses[least], **others})
