"""What is printed of a group that elects its master; a live one is compared with Java's tool."""

import pytest

from orbitmq.cli.operating.election import (
    elected_lines,
    epoch_lines,
    metadata_lines,
    sync_state_lines,
)
from orbitmq.wire.bodies.cluster import BrokerMemberGroup
from orbitmq.wire.bodies.replication import (
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
)
from orbitmq.wire.headers.controller import ElectMasterAnswer, GetMetaDataAnswer
from tests.cli.operating.conftest import Shop

ALIVE = ReplicaIdentity(broker_name="a", broker_id=1, broker_address="h:1", alive=True)
DEAD = ReplicaIdentity(broker_name="a", broker_id=2)
IN_SYNC = (
    "InSyncReplica:\tReplicaIdentity{brokerName='a', brokerId=1, brokerAddress='h:1', alive=true}"
)
NOT_IN_SYNC = (
    "NotInSyncReplica:\tReplicaIdentity{brokerName='a', brokerId=2, brokerAddress='null', "
    "alive=false}"
)


def test_metadata() -> None:
    found = GetMetaDataAnswer(group="C/a", controller_leader_id="1", peers="e:1;e:2")
    assert [*metadata_lines(found)] == [
        *("", "#ControllerGroup\tC/a", "#ControllerLeaderId\t1"),
        *("#ControllerLeaderAddress\tnull", "#Peer:\te:1", "#Peer:\te:2"),
    ]


def test_a_group_without_a_master() -> None:
    group = ReplicasInfo(
        in_sync_replicas=(ALIVE,),
        not_in_sync_replicas=(DEAD,),
        master_epoch=7,
        sync_state_set_epoch=9,
    )
    assert [*sync_state_lines({"a": group})] == [
        *("", "#brokerName\ta", "#MasterBrokerId\tnull", "#MasterAddr\tnull"),
        *("#MasterEpoch\t7", "#SyncStateSetEpoch\t9", "#SyncStateSetNums\t1"),
        "",
        IN_SYNC,
        "",
        NOT_IN_SYNC,
    ]


def test_the_last_epoch_ends_with_the_log() -> None:
    epochs = (EpochEntry(epoch=1, end_offset=40), EpochEntry(epoch=3, start_offset=40))
    found = EpochEntryCache(
        cluster_name="C", broker_name="a", broker_id=1, epoch_list=epochs, max_offset=90
    )
    assert [*epoch_lines("h:1", found)] == [
        *("", "#clusterName\tC", "#brokerName\ta", "#brokerAddr\th:1", "#brokerId\t1"),
        "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=40}",
        "#Epoch: EpochEntry{epoch=3, startOffset=40, endOffset=90}",
    ]


def test_an_elected_master() -> None:
    elected = ElectMasterAnswer(master_address="h:2", master_epoch=4, sync_state_set_epoch=5)
    group = BrokerMemberGroup(cluster="C", broker_name="a", broker_addrs={2: "h:2"})
    assert [*elected_lines("C", "a", elected, group)] == [
        *("", "#ClusterName\tC", "#BrokerName\ta", "#BrokerMasterAddr\th:2"),
        *("#MasterEpoch\t4", "#SyncStateSetEpoch\t5", "\t#Broker\t2\th:2"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("broker controller {broker}", "of no group with elections"),
        ("broker election-settings {broker} a=b", "of no group with elections"),
        ("broker election-settings {broker} a", "NAME=VALUE"),
        ("broker in-sync {broker}", "give the name of a broker, or --cluster"),
        ("broker in-sync {broker} --cluster nowhere", "there is no cluster nowhere"),
        ("broker epochs broker-a", "no enableControllerMode"),
        ("broker epochs --cluster DefaultCluster", "no enableControllerMode"),
        ("broker epochs nobody", "no broker is named nobody"),
        ("broker elect {broker} C broker-a two", "two"),
        ("broker forget {broker} broker-a", "give --cluster, or --living"),
    ],
)
def test_what_can_not_be_done_is_said(shop: Shop, line: str, says: str) -> None:
    status, said = shop.ended(line.format(broker=shop.broker))
    assert status == 2
    assert says in said
