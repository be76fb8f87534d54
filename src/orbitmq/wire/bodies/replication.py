"""The state of replication, for admin tools: the answer to GET_BROKER_HA_STATUS."""

from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = ["HAClientRuntimeInfo", "HAConnectionRuntimeInfo", "HARuntimeInfo"]


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
