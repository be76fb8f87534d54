"""``orbitmq broker`` for groups that elect their master; what it prints is that of Java's mqadmin.

A broker of the group is asked. A controller of Java answers as well.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from orbitmq.cli.asking import add_command, ask
from orbitmq.cli.cluster import pairs, print_found
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.results import (
    BrokerMemberGroup,
    ElectMasterAnswer,
    EpochEntryCache,
    GetMetaDataAnswer,
    ReplicaIdentity,
    ReplicasInfo,
)
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = [
    "add_election_commands",
    "elected_lines",
    "epoch_lines",
    "metadata_lines",
    "sync_state_lines",
]


def add_election_commands(commands: "Family") -> None:
    """Add the commands to the family ``broker``."""
    command = add_command(
        commands,
        "controller",
        _metadata,
        "show whom to ask about a group that elects its master",
        examples=["broker controller 10.0.0.7:10911"],
    )
    _add_at(command)
    command = add_command(
        commands,
        "in-sync",
        _in_sync,
        "show the elected masters, and who is in sync with them",
        examples=["broker in-sync 10.0.0.7:10911 broker-a"],
    )
    _add_at(command)
    command.add_argument("names", metavar="NAME", nargs="*", help="a broker name")
    command.add_argument("--cluster", help="all broker names of a cluster")
    command = add_command(
        commands,
        "epochs",
        _epochs,
        "show which master wrote which part of the log",
        examples=["broker epochs broker-a", "broker epochs --cluster DefaultCluster"],
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="a broker name")
    command.add_argument("--cluster", help="all brokers of a cluster")
    command = add_command(
        commands,
        "elect",
        _elect,
        "make a broker that is in sync the master of its group",
        examples=["broker elect 10.0.0.7:10911 DefaultCluster broker-a 2"],
    )
    _add_at(command)
    command.add_argument("cluster", metavar="CLUSTER")
    command.add_argument("name", metavar="NAME", help="the name of the broker")
    command.add_argument("id", metavar="ID", type=int, help="its id in the group")
    _add_forget(commands)
    _add_settings(commands)


def _add_forget(commands: "Family") -> None:
    command = add_command(
        commands,
        "forget",
        _forget,
        "have a group forget brokers that don't come back",
        examples=["broker forget 10.0.0.7:10911 broker-a --cluster DefaultCluster --id 3"],
    )
    _add_at(command)
    command.add_argument("name", metavar="NAME", help="the name of the broker")
    command.add_argument("--cluster", help="its cluster; needed without --living")
    command.add_argument("--id", type=int, action="append", help="one broker; may be repeated")
    command.add_argument("--living", action="store_true", help="also such as are alive")


def _add_settings(commands: "Family") -> None:
    command = add_command(
        commands,
        "election-settings",
        _settings,
        "show or change the settings of elections of running brokers",
        examples=["broker election-settings 10.0.0.7:10911 enableElectUncleanMaster=true"],
    )
    _add_at(command, "the address of a broker; several are separated by ';'")
    command.add_argument("settings", metavar="NAME=VALUE", nargs="*", help="what to change")


def _add_at(
    command: argparse.ArgumentParser, what: str = "the address of a broker of the group"
) -> None:
    command.add_argument("at", metavar="HOST:PORT", help=what)


# Running


def _metadata(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.controller_metadata(arguments.at))
    print_found(found, metadata_lines(found), as_json=arguments.json)
    return 0


def _in_sync(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> Mapping[str, ReplicasInfo]:
        names = arguments.names or await _names(admin, arguments.cluster)
        found = await admin.sync_state(names, controller=arguments.at)
        return found.replicas_info_table

    found = ask(arguments, work)
    print_found(found, sync_state_lines(found), as_json=arguments.json)
    return 0


async def _names(admin: Admin, cluster: str | None) -> Sequence[str]:
    """Return the broker names of a cluster."""
    if cluster is None:
        raise InvalidInput("give the name of a broker, or --cluster", field="names")
    found = [one for one in await admin.clusters() if one.name == cluster]
    if not found:
        raise InvalidInput(f"there is no cluster {cluster}", field="cluster")
    return sorted({broker.name for broker in found[0].brokers})


def _epochs(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> dict[str, EpochEntryCache]:
        names = [arguments.name] if arguments.name else await _names(admin, arguments.cluster)
        addresses = [
            broker.address
            for one in await admin.clusters()
            for broker in one.brokers
            if broker.name in names
        ]
        if not addresses:
            raise InvalidInput(f"no broker is named {', '.join(names)}", field="name")
        return {one: await admin.broker_epochs(one) for one in addresses}

    found = ask(arguments, work)
    lines = [line for at, epochs in found.items() for line in epoch_lines(at, epochs)]
    print_found(found, lines, as_json=arguments.json)
    return 0


def _elect(arguments: argparse.Namespace) -> int:
    of = (arguments.cluster, arguments.name, arguments.id)
    elected, group = ask(arguments, lambda admin: admin.elect_master(*of, controller=arguments.at))
    lines = elected_lines(arguments.cluster, arguments.name, elected, group)
    print_found({"elected": elected, "group": group}, lines, as_json=arguments.json)
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    if not arguments.living and not arguments.cluster:
        raise InvalidInput("give --cluster, or --living", field="cluster")
    ask(
        arguments,
        lambda admin: admin.clean_broker_metadata(
            arguments.name,
            controller=arguments.at,
            cluster=arguments.cluster,
            ids=arguments.id or (),
            living=arguments.living,
        ),
    )
    line = f"clear broker {arguments.name} metadata from controller success!"
    print_found({"forgotten": arguments.name}, [line], as_json=arguments.json)
    return 0


def _settings(arguments: argparse.Namespace) -> int:
    addresses = [one for one in arguments.at.split(";") if one]
    change = pairs(arguments.settings, "NAME=VALUE")

    async def work(admin: Admin) -> dict[str, dict[str, str]]:
        if not change:
            return {one: await admin.controller_config(one) for one in addresses}
        for one in addresses:
            await admin.set_controller_config(change, address=one)
        return {one: dict(change) for one in addresses}

    found = ask(arguments, work)
    lines = [
        f"update controller config success![{', '.join(addresses)}]",
        *(f"{name} : {value}" for name, value in change.items()),
    ]
    print_found(found, lines if change else _setting_lines(found), as_json=arguments.json)
    return 0


# Lines, as those of mqadmin


def metadata_lines(found: GetMetaDataAnswer) -> Iterator[str]:
    """Yield what getControllerMetaData prints."""
    yield ""
    yield f"#ControllerGroup\t{_text(found.group)}"
    yield f"#ControllerLeaderId\t{_text(found.controller_leader_id)}"
    yield f"#ControllerLeaderAddress\t{_text(found.controller_leader_address)}"
    for peer in filter(None, (found.peers or "").split(";")):
        yield f"#Peer:\t{peer}"


def sync_state_lines(found: Mapping[str, ReplicasInfo]) -> Iterator[str]:
    """Yield what getSyncStateSet prints."""
    for name, group in found.items():
        yield ""
        yield f"#brokerName\t{name}"
        yield f"#MasterBrokerId\t{_text(group.master_broker_id)}"
        yield f"#MasterAddr\t{_text(group.master_address)}"
        yield f"#MasterEpoch\t{group.master_epoch}"
        yield f"#SyncStateSetEpoch\t{group.sync_state_set_epoch}"
        yield f"#SyncStateSetNums\t{len(group.in_sync_replicas)}"
        for one in group.in_sync_replicas:
            yield from ("", f"InSyncReplica:\t{_identity(one)}")
        for one in group.not_in_sync_replicas:
            yield from ("", f"NotInSyncReplica:\t{_identity(one)}")


def _identity(one: ReplicaIdentity) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{_text(one.broker_name)}', "
        f"brokerId={_text(one.broker_id)}, brokerAddress='{_text(one.broker_address)}', "
        f"alive={str(one.alive).lower()}}}"
    )


def epoch_lines(address: str, found: EpochEntryCache) -> Iterator[str]:
    """Yield what getBrokerEpoch prints of a broker."""
    yield ""
    yield f"#clusterName\t{found.cluster_name}"
    yield f"#brokerName\t{found.broker_name}"
    yield f"#brokerAddr\t{address}"
    yield f"#brokerId\t{found.broker_id}"
    for one in found.epoch_list:
        end = found.max_offset if one is found.epoch_list[-1] else one.end_offset
        yield (
            f"#Epoch: EpochEntry{{epoch={one.epoch}, startOffset={one.start_offset}, "
            f"endOffset={end}}}"
        )


def elected_lines(
    cluster: str, name: str, elected: ElectMasterAnswer, group: BrokerMemberGroup
) -> Iterator[str]:
    """Yield what electMaster prints."""
    yield ""
    yield f"#ClusterName\t{cluster}"
    yield f"#BrokerName\t{name}"
    yield f"#BrokerMasterAddr\t{_text(elected.master_address)}"
    yield f"#MasterEpoch\t{_text(elected.master_epoch)}"
    yield f"#SyncStateSetEpoch\t{_text(elected.sync_state_set_epoch)}"
    for number, address in group.broker_addrs.items():
        yield f"\t#Broker\t{number}\t{address}"


def _setting_lines(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for address, settings in found.items():
        yield f"============{address}============"
        for name, value in settings.items():
            yield f"{name:<50}=  {value}"


def _text(value: object) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else str(value)
