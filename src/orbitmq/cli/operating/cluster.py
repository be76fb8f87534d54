"""``orbitmq cluster``: all nodes of a cluster at a glance."""

import argparse
import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict

from orbitmq.cli.asking import add_command, ask, counted, family, fitted, wrapped
from orbitmq.cli.cluster import pairs, print_found
from orbitmq.cli.missing import tell_no_broker
from orbitmq.cli.operating.broker import (
    add_config,
    all_brokers,
    broker_row,
    chosen_settings,
    config_lines,
    tell_missing_settings,
    version_shown,
)
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.results import Broker, BrokerStatus, Cluster
from orbitmq.errors import InvalidInput, OrbitError

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = ["Node", "add_arguments", "node_lines", "rate_lines"]

_INCOMPLETE: Final = 1
_NAMESERVER: Final = "nameserver"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A nameserver or a broker; what only brokers have is None, and all but names if it is silent.

    ``problem`` says why it did not answer.
    """

    role: str
    address: str
    cluster: str = ""
    name: str = ""
    number: int | None = None
    version: str | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    put_today: int | None = None
    got_today: int | None = None
    disk_used: float | None = None
    problem: str | None = None


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the commands of ``orbitmq cluster``."""
    commands = family(command)
    add_command(
        commands,
        "list",
        _list,
        "list clusters, with their brokers",
        examples=["cluster list"],
        status="0 listed, 1 no broker is registered, 2 no nameserver answers",
    )
    add_command(
        commands,
        "nodes",
        _nodes,
        "show nameservers and brokers, with their versions, rates and disks",
        examples=["cluster nodes", "cluster nodes --json"],
        status="0 all answer, 1 some don't, or no broker is registered, 2 no nameserver answers",
    )
    _add_rate(commands)
    add_config(
        commands.add_parser("config", help="show and change settings of all nameservers"),
        _get,
        _set,
        whose="the nameservers",
        on=False,
        family_name="cluster",
    )


def _list(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.clusters())
    as_json = [
        {"cluster": one.name, "brokers": [broker_row(broker) for broker in one.brokers]}
        for one in found
    ]
    rows = [(one.name, _names(one)) for one in found]
    lines = fitted(("CLUSTER", "BROKERS"), rows, left=2, names=(0, 1))
    print_found(as_json, lines, as_json=arguments.json)
    return 0 if found else tell_no_broker(arguments)


def _names(cluster: Cluster) -> str:
    return ", ".join(dict.fromkeys(broker.name for broker in cluster.brokers))


# Nodes


def _nodes(arguments: argparse.Namespace) -> int:
    found = ask(arguments, _asked)
    print_found([asdict(one) for one in found], node_lines(found), as_json=arguments.json)
    if all(one.role == _NAMESERVER for one in found):
        return tell_no_broker(arguments)
    return _INCOMPLETE if any(one.problem for one in found) else 0


async def _asked(admin: Admin) -> list[Node]:
    brokers = await all_brokers(admin)
    nameservers = [
        Node(role=_NAMESERVER, address=address, problem=_problem(answer))
        for address, answer in (await admin.clusters_by_nameserver()).items()
    ]
    return nameservers + list(await asyncio.gather(*(_node(admin, one) for one in brokers)))


def _problem(answer: object) -> str | None:
    return str(answer) if isinstance(answer, OrbitError) else None


async def _node(admin: Admin, broker: Broker) -> Node:
    named = Node(
        role="master" if broker.is_master else "slave",
        address=broker.address,
        cluster=broker.cluster,
        name=broker.name,
        number=broker.number,
    )
    try:
        status = await admin.broker_status(broker.address)
    except OrbitError as error:
        return msgspec.structs.replace(named, problem=str(error))
    return msgspec.structs.replace(named, **_figures(status))


def _figures(status: BrokerStatus) -> dict[str, object]:
    names = ("version", "put_tps", "get_tps", "put_today", "got_today", "disk_used")
    return {name: getattr(status, name) for name in names}


_NODE_HEADS: Final = ("NODE", "ROLE", "ADDRESS", "VERSION", "IN/S", "OUT/S", "DISK")


def node_lines(nodes: list[Node]) -> Iterator[str]:
    """Yield what ``nodes`` prints; problems come below the table."""
    rows = [
        (
            f"{one.name}/{one.number}" if one.name else "-",
            one.role,
            one.address,
            version_shown(one.version),
            _number(one.put_tps),
            _number(one.get_tps),
            "-" if one.disk_used is None else f"{one.disk_used:.0%}",
        )
        for one in nodes
    ]
    yield from fitted(_NODE_HEADS, rows, left=4, names=(0, 2))
    silent = [one for one in nodes if one.problem]
    if silent:
        yield ""
    for one in silent:
        yield from wrapped(f"{one.address} does not answer: {one.problem}")


def _number(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.1f}"


# Rate


def _add_rate(commands: "Family") -> None:
    rate = add_command(
        commands,
        "rate",
        _rate,
        "show how many messages are stored and delivered per second",
        about="The figures are those of the last ten seconds, and of today.",
        examples=["cluster rate", "cluster rate --every 10"],
        status="0 shown, 1 some brokers don't answer, or none is registered, 2 no nameserver "
        "answers",
    )
    rate.add_argument(
        "--every", type=int, metavar="SECONDS", help="show it again and again, until ^C"
    )


def _rate(arguments: argparse.Namespace) -> int:
    if arguments.every is not None and arguments.every < 1:
        raise InvalidInput(f"--every is {arguments.every}; it must be 1 or more", field="every")

    async def work(admin: Admin) -> int:
        while True:
            brokers = await all_brokers(admin)
            found = list(await asyncio.gather(*(_node(admin, one) for one in brokers)))
            as_json = [asdict(one) for one in found]
            print_found(as_json, rate_lines(found), as_json=arguments.json)
            if arguments.every is None:
                if not found:
                    return tell_no_broker(arguments)
                return _INCOMPLETE if any(one.problem for one in found) else 0
            await asyncio.sleep(arguments.every)

    return ask(arguments, work)


_RATE_HEADS: Final = ("BROKER", "STORED/S", "DELIVERED/S", "STORED TODAY", "DELIVERED TODAY")


def rate_lines(nodes: list[Node]) -> Iterator[str]:
    """Yield what ``rate`` prints: masters and slaves, and the sum of all."""
    rows = [_rate_row(f"{one.name}/{one.number}", [one]) for one in nodes]
    if len(nodes) > 1:
        rows.append(_rate_row(counted(len(nodes), "broker"), nodes))
    yield from fitted(_RATE_HEADS, rows)
    for one in nodes:
        if one.problem:
            yield from wrapped(f"{one.address} does not answer: {one.problem}")


def _rate_row(name: str, nodes: list[Node]) -> tuple[str, ...]:
    return (
        name,
        _number(sum(one.put_tps or 0 for one in nodes)),
        _number(sum(one.get_tps or 0 for one in nodes)),
        f"{sum(one.put_today or 0 for one in nodes):,}",
        f"{sum(one.got_today or 0 for one in nodes):,}",
    )


# Settings of nameservers


def _get(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.nameserver_config())
    chosen = {address: chosen_settings(of, arguments.names) for address, of in found.items()}
    lines = [line for address, of in chosen.items() for line in (f"# {address}", *config_lines(of))]
    print_found(chosen, lines, as_json=arguments.json)
    return tell_missing_settings(found, arguments)


def _set(arguments: argparse.Namespace) -> int:
    settings = pairs(arguments.settings, "NAME=VALUE")
    addresses = ask(arguments, lambda admin: admin.set_nameserver_config(settings))
    found = {"settings": dict(settings), "nameservers": addresses}
    line = f"{', '.join(addresses)}: {', '.join(config_lines(settings))}"
    print_found(found, [line], as_json=arguments.json)
    return 0
