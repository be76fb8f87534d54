"""What a group that elects its master says of itself: our brokers, or Java's controller."""

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.replication import BrokerReplicasInfo, ReplicasInfo
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from tests.interop.java_server import PATIENT


def group_as_told_by(address: Address, name: str) -> ReplicasInfo:
    """Return the group of a broker name, as any broker of ours or a controller tells it."""
    with BlockingConnection(address, settings=PATIENT) as connection:
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = connection.request(NoFields(), b'["%s"]' % name.encode(), code=code)
    return BrokerReplicasInfo.from_json(answer.body).replicas_info_table.get(name, ReplicasInfo())


def in_sync(group: ReplicasInfo) -> list[str]:
    """Return the addresses of the brokers of a group that are alive and in sync."""
    return sorted(str(one.broker_address) for one in group.in_sync_replicas if one.alive)
