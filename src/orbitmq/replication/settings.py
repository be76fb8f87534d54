"""The settings of replication, which ``broker.conf`` names as Java does."""

from typing import Final

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address
from orbitmq.wire.replica_stream import CHUNK_BYTES_MAX

__all__ = ["REPLICATION_NAMES", "ReplicationSettings"]

_PORT_MAX: Final = 65_535
_INT32_MAX: Final = 2**31 - 1


class ReplicationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of both ends of the stream; times are in milliseconds.

    Raises:
        InvalidInput: a value is out of range.
    """

    listen_port: int = 0
    """The port that replicas connect to; 0 is the one after the broker's."""
    heartbeat_ms: int = 5_000
    """How long either end may have nothing to say; then it says so."""
    housekeeping_ms: int = 20_000
    """A connection whose other end is silent for this long is closed."""
    piece_bytes: int = 32_768
    """The most bytes of the log in one piece."""
    master_address: str = ""
    """Where a slave copies from; empty: what nameservers say. Java 5.4.0 ignores it."""
    gap_bytes_max: int = 256 * 1024 * 1024
    """A replica that is behind by this much is not in sync."""
    in_sync_replicas: int = 2
    """How many brokers, the master among them, have a message that a SYNC_MASTER acknowledges."""
    slave_timeout_ms: int = 3_000
    """How long a send waits for them."""
    from_last_file: bool = False
    """Whether an empty slave copies the master's last file only, as Java's always does."""
    not_caught_up_ms_max: int = 15_000
    """A replica of an elected primary that is behind for so long leaves the in-sync set."""
    min_in_sync_replicas: int = 1
    """With fewer in the in-sync set, a SYNC_MASTER that is an elected primary refuses messages."""
    all_ack_in_sync_set: bool = True
    """Whether its sends wait for the whole in-sync set. Java's false waits for inSyncReplicas, of
    which none need be the next primary."""
    is_learner: bool = False
    """Whether a slave never becomes a member of the in-sync set, nor the primary."""

    def __post_init__(self) -> None:
        limits = {
            "listen_port": (0, _PORT_MAX),
            "piece_bytes": (1, CHUNK_BYTES_MAX),
        }
        for name in self.__struct_fields__:
            low, high = limits.get(name, (1, _INT32_MAX))
            value = getattr(self, name)
            if type(value) is int and not low <= value <= high:
                raise InvalidInput(
                    f"{name} is {value}; it must be from {low} to {high}", field=name
                )
        self.master()

    def master(self) -> Address | None:
        """Return ``master_address``; None if it is empty."""
        if not self.master_address:
            return None
        try:
            address = Address.parse(self.master_address)
        except InvalidInput as error:
            raise InvalidInput(f"master_address: {error}", field="master_address") from error
        if not address.port:
            raise InvalidInput(
                f"master_address is {address}; give the haListenPort of the master",
                field="master_address",
            )
        return address


REPLICATION_NAMES: Final = {
    "haListenPort": "listen_port",
    "haSendHeartbeatInterval": "heartbeat_ms",
    "haHousekeepingInterval": "housekeeping_ms",
    "haTransferBatchSize": "piece_bytes",
    "haMasterAddress": "master_address",
    "haMaxGapNotInSync": "gap_bytes_max",
    "inSyncReplicas": "in_sync_replicas",
    "slaveTimeout": "slave_timeout_ms",
    "syncFromLastFile": "from_last_file",
    "haMaxTimeSlaveNotCatchup": "not_caught_up_ms_max",
    "minInSyncReplicas": "min_in_sync_replicas",
    "allAckInSyncStateSet": "all_ack_in_sync_set",
    "asyncLearner": "is_learner",
}
"""Keys → fields of `ReplicationSettings`."""
