"""Each check of slaves and elections finds its cause, and nothing else does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from orbitmq.cli.doctor.command import diagnosed
from orbitmq.cli.doctor.facts import ElectionFacts, Facts, NameserverFacts
from orbitmq.cli.doctor.findings import Level
from orbitmq.client.admin.results import Broker, HARuntimeInfo, ReplicaIdentity, ReplicasInfo
from orbitmq.wire.bodies.replication import HAConnectionRuntimeInfo
from tests.cli.doctor.facts_of import BROKER, broker, facts, settings

SLAVE = changed(BROKER, number=1, address="10.0.0.8:10911")
FOLLOWS = HAConnectionRuntimeInfo(addr="10.0.0.8:40000", in_sync=True)
BEHIND = HAConnectionRuntimeInfo(addr="10.0.0.8:40000", diff=300_000_000)
SYNC = dict(settings(brokerRole="SYNC_MASTER", inSyncReplicas="2", slaveTimeout="3000"))
ASYNC = settings(brokerRole="ASYNC_MASTER", inSyncReplicas="2")


def pair(*links: HAConnectionRuntimeInfo, config: Mapping[str, str] = ASYNC) -> Facts:
    """Return a master with these connections of slaves, and one slave that is registered."""
    state = HARuntimeInfo(
        master=True,
        ha_connection_info=links,
        in_sync_slave_nums=sum(one.in_sync for one in links),
    )
    slave = broker(broker=SLAVE, replication=HARuntimeInfo())
    return facts(
        nameservers=knowing(BROKER, SLAVE),
        brokers=(broker(replication=state, config=config), slave),
    )


def knowing(*brokers: Broker) -> tuple[NameserverFacts, ...]:
    return tuple(replace(one, brokers=brokers) for one in facts().nameservers)


def elected(**state: Any) -> Facts:
    """Return a group of three, all in sync but for what is changed."""
    sound = ReplicasInfo(master_broker_id=1, in_sync_replicas=(at(1), at(2), at(3)))
    group = ElectionFacts(name="broker-a", cluster="C", asked="10.0.0.7:10911", in_sync_min=2)
    return facts(elections=(replace(group, state=changed(sound, **state)),))


def at(number: int, *, alive: bool = True) -> ReplicaIdentity:
    return ReplicaIdentity(
        broker_id=number, broker_address=f"10.0.0.{6 + number}:10911", alive=alive
    )


UNREAD = facts(
    elections=(
        ElectionFacts(name="broker-a", cluster="C", asked="10.0.0.7:10911", problem="etcd is away"),
    )
)

PROBLEMS = [
    (pair(config=SYNC), "slaves", "sends wait for 1 slave, and has 0 slaves in sync"),
    (pair(BEHIND, config=SYNC), "slaves", "answered after slaveTimeout (3000 ms)"),
    (UNREAD, "elections", "the group broker-a can't be read: etcd is away. Its master refuses"),
    (elected(master_broker_id=None), "elections", "the group broker-a has no master"),
    (
        elected(in_sync_replicas=(at(1),)),
        "elections",
        "refuses messages: 1 of its brokers are in sync, and minInSyncReplicas is 2",
    ),
]
RISKS = [
    (pair(), "slaves", "0 slaves of the 1 that are registered follow broker-a"),
    (pair(BEHIND), "slaves", "1 slave of broker-a can't keep up: 300,000,000 bytes behind"),
    (
        elected(not_in_sync_replicas=(at(3, alive=False),)),
        "elections",
        "broker 3 of broker-a (10.0.0.9:10911) is gone: it can't become the master",
    ),
    (elected(not_in_sync_replicas=(at(3),)), "elections", "is not in sync"),
]


@pytest.mark.parametrize(
    ("given", "level", "check", "says"),
    [
        *((given, Level.PROBLEM, check, says) for given, check, says in PROBLEMS),
        *((given, Level.RISK, check, says) for given, check, says in RISKS),
    ],
)
def test_a_cause_is_found_alone(given: Facts, level: Level, check: str, says: str) -> None:
    (finding,), _ = diagnosed(given)
    assert (finding.level, finding.check) == (level, check)
    assert says in finding.says
    assert finding.do


@pytest.mark.parametrize(
    "given",
    [
        pair(FOLLOWS),
        pair(FOLLOWS, config=SYNC),
        pair(FOLLOWS, config=SYNC | {"inSyncReplicas": "1"}),
        elected(),
    ],
)
def test_what_is_sound_passes(given: Facts) -> None:
    findings, fine = diagnosed(given)
    assert findings == []
    assert "slaves" in fine


def test_a_broker_that_does_not_come_back_can_be_forgotten() -> None:
    (finding,), _ = diagnosed(elected(not_in_sync_replicas=(at(3, alive=False),)))
    assert finding.run == "orbitmq broker forget 10.0.0.7:10911 broker-a --cluster C --id 3"


def test_an_elected_group_without_a_master_is_not_promoted_by_hand() -> None:
    without = elected(master_broker_id=None)
    given = facts(
        nameservers=knowing(SLAVE),
        brokers=(broker(broker=SLAVE),),
        elections=without.elections,
    )
    says = {one.check: one.do for one in diagnosed(given)[0]}
    assert says.keys() == {"masters", "elections"}
    assert "Its brokers elect one" in says["masters"]
