"""``orbitmq topic``: create and list topics, and show their routes."""

import argparse
from typing import TYPE_CHECKING, Final, TypeAlias

from orbitmq.cli.asking import QUEUES_MAX, described
from orbitmq.cli.cluster import (
    add_client_options,
    add_json_option,
    client_settings,
    on_a_loop,
    pairs,
    print_found,
)
from orbitmq.cli.missing import tell_no_broker
from orbitmq.cli.operating.topics import add_topic_commands
from orbitmq.cli.render import elided, table
from orbitmq.client.admin.admin import Admin
from orbitmq.errors import InvalidInput, NoRoute
from orbitmq.message.names import AUTO_CREATE_TOPIC

__all__ = ["add_arguments", "route_lines"]

if TYPE_CHECKING:
    from orbitmq.wire.bodies.route import TopicRouteData

    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_PERMISSIONS: Final = {"r": 4, "w": 2, "rw": 6}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq topic``."""
    commands = command.add_subparsers(metavar="COMMAND")
    _add_create(commands)
    _add_list(commands)
    route = commands.add_parser(
        "route",
        help="show which brokers have the queues of a topic",
    )
    described(
        route,
        "Show which brokers have the queues of a topic.",
        examples=["topic route orders"],
        status="0 shown, 2 the topic is unknown or no nameserver answers",
    )
    route.add_argument("topic", metavar="TOPIC")
    add_client_options(route)
    add_json_option(route)
    route.set_defaults(run=_route)
    add_topic_commands(commands)


def _add_create(commands: "Families") -> None:
    create = commands.add_parser(
        "create",
        help="create or change a topic",
    )
    described(
        create,
        "Create a topic, or change an existing one.",
        examples=[
            "topic create orders --queues 8",
            "topic create transfers --on broker-a --attribute message.type=FIFO",
        ],
        status="0 created or changed, 2 a broker refused or can't be reached",
    )
    create.add_argument("topic", metavar="TOPIC")
    create.add_argument(
        "--queues", type=int, default=4, metavar="N", help="queues on each broker (%(default)s)"
    )
    create.add_argument(
        "--perm", choices=_PERMISSIONS, default="rw", help="read, write, or both (%(default)s)"
    )
    create.add_argument("--ordered", action="store_true", help="mark the topic as ordered")
    create.add_argument(
        "--attribute",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a topic attribute, such as message.type=FIFO; may be repeated",
    )
    create.add_argument(
        "--on",
        metavar="NAME",
        help="a cluster, a broker, or a topic whose brokers to use (all brokers with "
        "autoCreateTopicEnable)",
    )
    add_client_options(create)
    add_json_option(create)
    create.set_defaults(run=_create)


def _add_list(commands: "Families") -> None:
    names = commands.add_parser(
        "list",
        help="list topics",
    )
    described(
        names,
        "List topics, one per line.",
        examples=["topic list", "topic list --all --json"],
        status="0 listed, 1 no broker is registered, 2 no nameserver answers",
    )
    names.add_argument("--all", action="store_true", help="include RocketMQ's own topics")
    add_client_options(names)
    add_json_option(names)
    names.set_defaults(run=_list)


def _create(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.queues <= QUEUES_MAX:
        raise InvalidInput(
            f"--queues is {arguments.queues}; it must be from 1 to {QUEUES_MAX}", field="queues"
        )
    brokers = on_a_loop(_create_on_brokers(arguments))
    found = {"topic": arguments.topic, "queues": arguments.queues, "brokers": brokers}
    queues = "1 queue" if arguments.queues == 1 else f"{arguments.queues} queues"
    each = "" if len(brokers) == 1 else " each"
    line = f"{arguments.topic} has {queues} on {', '.join(brokers)}{each}"
    print_found(found, [line], as_json=arguments.json)
    return 0


async def _create_on_brokers(arguments: argparse.Namespace) -> tuple[str, ...]:
    attributes = pairs(arguments.attribute, "--attribute")
    async with Admin(client=client_settings(arguments)) as admin:
        try:
            return await admin.create_topic(
                arguments.topic,
                queues=arguments.queues,
                perm=_PERMISSIONS[arguments.perm],
                is_ordered=arguments.ordered,
                attributes=attributes,
                on=arguments.on or AUTO_CREATE_TOPIC,
            )
        except NoRoute as error:
            if arguments.on or not error.is_missing or not await admin.clusters():
                raise
            raise InvalidInput(
                "no broker creates topics automatically here (autoCreateTopicEnable); name the "
                "brokers: --on with the name of a cluster or a broker",
                field="on",
            ) from error


def _list(arguments: argparse.Namespace) -> int:
    async def ask() -> tuple[list[str], bool]:
        async with Admin(client=client_settings(arguments)) as admin:
            found = await admin.topics(include_system=arguments.all)
            return found, bool(found or await admin.clusters())

    found, has_brokers = on_a_loop(ask())
    print_found(found, found, as_json=arguments.json)
    return 0 if has_brokers else tell_no_broker(arguments)


def _route(arguments: argparse.Namespace) -> int:
    async def ask() -> "TopicRouteData":
        async with Admin(client=client_settings(arguments)) as admin:
            return await admin.route(arguments.topic)

    route = on_a_loop(ask())
    found = {"topic": arguments.topic, "brokers": route_rows(route)}
    print_found(found, route_lines(route), as_json=arguments.json)
    return 0


def route_rows(route: "TopicRouteData") -> list[dict[str, object]]:
    """Return what ``--json`` says of each broker; one without queues of the topic has 0."""
    queues = {one.broker_name: one for one in route.queue_datas}
    rows: list[dict[str, object]] = []
    for broker in sorted(route.broker_datas, key=lambda one: one.broker_name):
        of_topic = queues.get(broker.broker_name)
        rows.append(
            {
                "broker_name": broker.broker_name,
                "cluster": broker.cluster,
                "addresses": {
                    str(key): value for key, value in sorted(broker.broker_addrs.items())
                },
                "read_queues": 0 if of_topic is None else of_topic.read_queue_nums,
                "write_queues": 0 if of_topic is None else of_topic.write_queue_nums,
                "perm": "-" if of_topic is None else _perm(of_topic.perm),
            }
        )
    return rows


def _perm(bits: int) -> str:
    return "".join(letter for letter in "rw" if bits & _PERMISSIONS[letter]) or "-"


_HEADS: Final = ("BROKER", "CLUSTER", "ID", "ADDRESS", "READ", "WRITE", "PERM")
_NAME_WIDTH: Final = 16
_ADDRESS_WIDTH: Final = 21  # 255.255.255.255:65535


def route_lines(route: "TopicRouteData") -> list[str]:
    """Return a table of brokers, a line per address, at most 80 columns wide."""
    queues = {one.broker_name: one for one in route.queue_datas}
    rows = []
    for broker in sorted(route.broker_datas, key=lambda one: one.broker_name):
        of_topic = queues.get(broker.broker_name)
        about = ("-", "-", "-")
        if of_topic is not None:
            counts = (str(of_topic.read_queue_nums), str(of_topic.write_queue_nums))
            about = (*counts, _perm(of_topic.perm))
        names = (elided(broker.broker_name, _NAME_WIDTH), elided(broker.cluster, _NAME_WIDTH))
        for number, address in sorted(broker.broker_addrs.items()):
            rows.append((*names, str(number), elided(address, _ADDRESS_WIDTH), *about))
            names, about = ("", ""), ("", "", "")
    return table(_HEADS, rows, left=4)
