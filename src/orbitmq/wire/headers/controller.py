"""Requests that Java's controller answers, for groups that elect their master."""

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, declares, without_fields

__all__ = [
    "CleanControllerBrokerData",
    "ElectMaster",
    "ElectMasterAnswer",
    "GetMetaDataAnswer",
    "GetReplicaInfo",
    "GetReplicaInfoAnswer",
]


class ElectMasterAnswer(Header):
    """The master that was elected."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@declares(RequestCode.CONTROLLER_ELECT_MASTER, answer=ElectMasterAnswer)
class ElectMaster(Header):
    """Let a broker be the master; a Java broker asks for an election at all, not designated."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class GetReplicaInfoAnswer(Header):
    """The master of a group."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


@declares(RequestCode.CONTROLLER_GET_REPLICA_INFO, answer=GetReplicaInfoAnswer)
class GetReplicaInfo(Header):
    """Ask who is the master of the brokers of one name."""

    broker_name: str | None = None


class GetMetaDataAnswer(Header):
    """Where to ask for changes; in Java, the leader of the controllers."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


without_fields(RequestCode.CONTROLLER_GET_METADATA_INFO, answer=GetMetaDataAnswer)


@declares(RequestCode.CLEAN_BROKER_DATA)
class CleanControllerBrokerData(Header):
    """Forget brokers of one name: those with the ids, separated by ``;``, or all."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0
