"""The state of replication, for admin tools: of a broker, and of groups that elect their master."""

from msgspec import field

from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "BrokerReplicasInfo",
    "EpochEntry",
    "EpochEntryCache",
    "HAClientRuntimeInfo",
    "HAConnectionRuntimeInfo",
    "HARuntimeInfo",
    "ReplicaIdentity",
    "ReplicasInfo",
    "SyncStateSet",
]


class HAClientRuntimeInfo(Body, frozen=True, kw_only=True):
    """A replica's connection to its master; times are 0 until there was one."""

    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_addr: str | None = None
    master_flush_offset: Int64 = 0
    max_offset: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HAConnectionRuntimeInfo(Body, frozen=True, kw_only=True):
    """A replica, as its master sees it."""

    addr: str = ""
    diff: Int64 = 0
    in_sync: bool = False
    slave_ack_offset: Int64 = 0
    transfer_from_where: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HARuntimeInfo(Body, frozen=True, kw_only=True):
    """A master with its replicas, or a replica."""

    ha_client_runtime_info: HAClientRuntimeInfo = HAClientRuntimeInfo()
    ha_connection_info: tuple[HAConnectionRuntimeInfo, ...] = ()
    in_sync_slave_nums: Int32 = 0
    master: bool = False
    master_commit_log_max_offset: Int64 = 0


class EpochEntry(Body, frozen=True, kw_only=True):
    """An epoch of a log; the end of the newest is open, in Java the greatest number."""

    end_offset: Int64 = 2**63 - 1
    epoch: Int32 = 0
    start_offset: Int64 = 0


class EpochEntryCache(Body, frozen=True, kw_only=True):
    """The epochs of a broker's log: the answer to GET_BROKER_EPOCH_CACHE."""

    broker_id: Int64 = 0
    broker_name: str = ""
    cluster_name: str = ""
    epoch_list: tuple[EpochEntry, ...] = ()
    max_offset: Int64 = 0


class ReplicaIdentity(Body, frozen=True, kw_only=True):
    """One broker of a group."""

    alive: bool = False
    broker_address: str | None = None
    broker_id: Int64 | None = None
    broker_name: str | None = None


class ReplicasInfo(Body, frozen=True, kw_only=True):
    """The master of a group, and who is in sync with it."""

    in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = 0
    not_in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    sync_state_set_epoch: Int32 = 0


class BrokerReplicasInfo(Body, frozen=True, kw_only=True):
    """Groups by broker name: the answer to CONTROLLER_GET_SYNC_STATE_DATA."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


class SyncStateSet(Body, frozen=True, kw_only=True):
    """The ids of the brokers in sync, with the answer to CONTROLLER_GET_REPLICA_INFO."""

    sync_state_set: tuple[Int64, ...] = ()
    sync_state_set_epoch: Int32 = 0
