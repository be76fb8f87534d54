"""Brokers as members of clusters, and tables of texts for admin tools."""

from msgspec import field

from orbitmq.wire.bodies.route import BrokerData
from orbitmq.wire.fields import Int64
from orbitmq.wire.json.body import Body

__all__ = ["BrokerMemberGroup", "BrokerMembers", "BrokerSyncInfo", "ClusterInfo", "KVTable"]


class ClusterInfo(Body, frozen=True, kw_only=True):
    """All clusters a nameserver knows: its answer to GET_BROKER_CLUSTER_INFO.

    Java writes bare numbers as keys for clients of all versions: old peers need
    ``to_json(java_keys=True)``.
    """

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[str, ...]] = field(default_factory=dict)


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """The addresses of all brokers of one name, by broker id."""

    broker_addrs: dict[Int64, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""


class BrokerMembers(Body, frozen=True, kw_only=True):
    """The brokers that share a name, from a nameserver; Java: GetBrokerMemberGroupResponseBody."""

    broker_member_group: BrokerMemberGroup | None = None


class BrokerSyncInfo(Body, frozen=True, kw_only=True):
    """Where a slave copies from: a master's answer to EXCHANGE_BROKER_HA_INFO."""

    master_address: str | None = None
    master_flush_offset: Int64 = 0
    master_ha_address: str | None = None


class KVTable(Body, frozen=True, kw_only=True):
    """Texts by name: runtime information of a broker, or a namespace of nameserver settings."""

    table: dict[str, str] = field(default_factory=dict)
