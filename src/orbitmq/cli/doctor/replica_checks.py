"""Checks of slaves, and of groups that elect their master. Pure: facts in, findings out."""

from collections.abc import Iterator
from typing import Final

from orbitmq.cli.asking import counted
from orbitmq.cli.doctor.facts import BrokerFacts, ElectionFacts, Facts
from orbitmq.cli.doctor.findings import Finding, problem, risk
from orbitmq.client.admin.results import ReplicasInfo

__all__ = ["check_elections", "check_slaves"]

_JAVA_IN_SYNC: Final = "1"


def check_slaves(facts: Facts) -> Iterator[Finding]:
    """Check that masters have the slaves that they wait for, and that slaves copy their masters."""
    elected = {one.name for one in facts.elections}
    for master in facts.masters:
        if master.replication is None or master.broker.name in elected:
            continue
        yield from _lacks_slaves(master) or _copies_nothing(master, facts)


def _lacks_slaves(master: BrokerFacts) -> list[Finding]:
    """Return what is wrong if a SYNC_MASTER waits for more slaves than are in sync."""
    state, config = master.replication, master.config
    assert state is not None
    wanted = int(config.get("inSyncReplicas", _JAVA_IN_SYNC))
    if config.get("brokerRole") != "SYNC_MASTER" or state.in_sync_slave_nums + 1 >= wanted:
        return []
    name, address = master.broker.name, master.broker.address
    having = counted(state.in_sync_slave_nums, "slave")
    return [
        problem(
            "slaves",
            f"{name} is a SYNC_MASTER whose sends wait for {counted(wanted - 1, 'slave')}, and has "
            f"{having} in sync: a send is stored by fewer brokers than asked for, and answered "
            f"after slaveTimeout ({config.get('slaveTimeout', '3000')} ms). Producers that wait no "
            "longer see a timeout.",
            "Start its slaves, or look at their logs: why don't they follow? To do without them "
            "for a while:",
            f"orbitmq broker config set inSyncReplicas={state.in_sync_slave_nums + 1} "
            f"--on {address}",
        )
    ]


def _copies_nothing(master: BrokerFacts, facts: Facts) -> Iterator[Finding]:
    state, name = master.replication, master.broker.name
    assert state is not None
    slaves = [one for one in facts.brokers if one.broker.name == name and not one.broker.is_master]
    following = len(state.ha_connection_info)
    if following < len(slaves):
        yield risk(
            "slaves",
            f"{counted(following, 'slave')} of the {len(slaves)} that are registered "
            f"{'follows' if following == 1 else 'follow'} {name}: the others have what they "
            "copied before, and nothing since.",
            "Look at their logs: one whose log differs from the master's says so once, and stops.",
            f"orbitmq broker replicas {name}",
        )
    behind = [one for one in state.ha_connection_info if not one.in_sync]
    if behind:
        most = max(one.diff for one in behind)
        yield risk(
            "slaves",
            f"{counted(len(behind), 'slave')} of {name} can't keep up: {most:,} bytes behind.",
            "Look at its disk, and at the network between both.",
            f"orbitmq broker replicas {name}",
        )


def check_elections(facts: Facts) -> Iterator[Finding]:
    """Check that groups that elect their master have one, and all their brokers in sync."""
    for one in facts.elections:
        if one.state is None:
            yield problem(
                "elections",
                f"the group {one.name} can't be read: {one.problem}. Its master refuses messages "
                "when its lease ends, within seconds.",
                "See that a majority of the etcd servers runs, and that etcdEndpoints are right.",
            )
        else:
            yield from _of_group(one, one.state)


def _of_group(group: ElectionFacts, state: ReplicasInfo) -> Iterator[Finding]:
    if state.master_broker_id is None:
        yield problem(
            "elections",
            f"the group {group.name} has no master: no broker in sync is there to be elected.",
            "Start the brokers that were in sync:",
            f"orbitmq broker in-sync {group.asked} {group.name}",
        )
    if len(state.in_sync_replicas) < group.in_sync_min:
        yield problem(
            "elections",
            f"the master of {group.name} refuses messages: {len(state.in_sync_replicas)} of its "
            f"brokers are in sync, and minInSyncReplicas is {group.in_sync_min}.",
            "Start its other brokers, or look at their logs: why don't they follow?",
        )
    for one in state.not_in_sync_replicas:
        is_gone = not one.alive
        yield risk(
            "elections",
            f"broker {one.broker_id} of {group.name} ({one.broker_address}) is "
            f"{'gone' if is_gone else 'not in sync'}: it can't become the master.",
            "Start it; if it does not come back:" if is_gone else "Look at its log and its disk.",
            f"orbitmq broker forget {group.asked} {group.name} --cluster {group.cluster} "
            f"--id {one.broker_id}"
            if is_gone
            else None,
        )
