"""``orbitmq topic``: make topics, list them, and show where their queues are."""

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from orbitmq.cli.cluster import (
    add_client_options,
    add_json_option,
    client_settings,
    on_a_loop,
    pairs,
    print_found,
)
from orbitmq.cli.render import elided, table
from orbitmq.client.admin.admin import connect
from orbitmq.errors import InvalidInput, NoRoute
from orbitmq.message.names import AUTO_CREATE_TOPIC

__all__ = ["add_commands", "route_lines"]

if TYPE_CHECKING:
    from orbitmq.wire.bodies.route import TopicRouteData

    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_PERMISSIONS: Final = {"r": 4, "w": 2, "rw": 6}
_QUEUES_MAX: Final = 1024
"""A nameserver's answer grows with them, and each takes a file of its broker's."""


def add_commands(families: "Families") -> None:
    """Add the commands of this family to those of ``orbitmq``."""
    parser = families.add_parser("topic", help="make topics, list them, show where they are")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_create(commands)
    _add_list(commands)
    route = commands.add_parser(
        "route",
        help="show which brokers have the queues of a topic",
        description="Show which brokers have the queues of a topic.",
        epilog="Exit status: 0 it is shown, 2 nobody knows it, or nobody answers.",
    )
    route.add_argument("topic", metavar="TOPIC")
    add_client_options(route)
    add_json_option(route)
    route.set_defaults(run=_route)


def _add_create(commands: "Families") -> None:
    create = commands.add_parser(
        "create",
        help="make a topic, or change one",
        description="Make a topic, or change one that is there.",
        epilog="Exit status: 0 it is made, 2 a broker refused, or can't be reached.",
    )
    create.add_argument("topic", metavar="TOPIC")
    create.add_argument(
        "--queues", type=int, default=4, metavar="N", help="on each broker (%(default)s)"
    )
    create.add_argument(
        "--perm", choices=_PERMISSIONS, default="rw", help="read, write, or both (%(default)s)"
    )
    create.add_argument("--ordered", action="store_true", help="mark it as one of ordered messages")
    create.add_argument(
        "--attribute",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what else it is, such as message.type=FIFO; may be said again",
    )
    create.add_argument(
        "--on",
        metavar="NAME",
        help="a cluster, a broker, or a topic whose brokers are meant; all that make topics on "
        "demand if left out",
    )
    add_client_options(create)
    add_json_option(create)
    create.set_defaults(run=_create)


def _add_list(commands: "Families") -> None:
    names = commands.add_parser(
        "list",
        help="list the topics",
        description="List the topics, one on a line.",
        epilog="Exit status: 0 they are listed, 2 nobody answers.",
    )
    names.add_argument("--all", action="store_true", help="RocketMQ's own too")
    add_client_options(names)
    add_json_option(names)
    names.set_defaults(run=_list)


def _create(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.queues <= _QUEUES_MAX:
        raise InvalidInput(
            f"--queues is {arguments.queues}; it may be from 1 to {_QUEUES_MAX}", field="queues"
        )
    brokers = on_a_loop(_make(arguments))
    found = {"topic": arguments.topic, "queues": arguments.queues, "brokers": brokers}
    queues = "1 queue" if arguments.queues == 1 else f"{arguments.queues} queues"
    each = "" if len(brokers) == 1 else " each"
    line = f"{arguments.topic} has {queues} on {', '.join(brokers)}{each}"
    print_found(found, [line], as_json=arguments.json)
    return 0


async def _make(arguments: argparse.Namespace) -> tuple[str, ...]:
    attributes = pairs(arguments.attribute, "--attribute")
    async with connect(client_settings(arguments)) as admin:
        try:
            return await admin.create_topic(
                arguments.topic,
                queues=arguments.queues,
                perm=_PERMISSIONS[arguments.perm],
                is_ordered=arguments.ordered,
                attributes=attributes,
                after=arguments.on or AUTO_CREATE_TOPIC,
            )
        except NoRoute as error:
            if arguments.on or not error.is_missing:
                raise
            raise InvalidInput(
                "no broker makes topics on demand here, so say which brokers are meant: --on with "
                "the name of a cluster or a broker",
                field="on",
            ) from error


def _list(arguments: argparse.Namespace) -> int:
    async def ask() -> list[str]:
        async with connect(client_settings(arguments)) as admin:
            return await admin.topics(include_system=arguments.all)

    found = on_a_loop(ask())
    print_found(found, found, as_json=arguments.json)
    return 0


def _route(arguments: argparse.Namespace) -> int:
    async def ask() -> "TopicRouteData":
        async with connect(client_settings(arguments)) as admin:
            return await admin.route(arguments.topic)

    route = on_a_loop(ask())
    print_found(route, route_lines(route), as_json=arguments.json)
    return 0


_HEADS: Final = ("BROKER", "CLUSTER", "ID", "ADDRESS", "READ", "WRITE", "MAY")
_NAME_WIDTH: Final = 16
_ADDRESS_WIDTH: Final = 21  # 255.255.255.255:65535


def route_lines(route: "TopicRouteData") -> Iterator[str]:
    """Yield a table of the brokers, a line for each address, at most 80 columns wide."""
    queues = {one.broker_name: one for one in route.queue_datas}
    rows = []
    for broker in sorted(route.broker_datas, key=lambda one: one.broker_name):
        of_topic = queues.get(broker.broker_name)
        about = ("-", "-", "-")
        if of_topic is not None:
            may = "".join(letter for letter in "rw" if of_topic.perm & _PERMISSIONS[letter])
            about = (str(of_topic.read_queue_nums), str(of_topic.write_queue_nums), may or "-")
        names = (elided(broker.broker_name, _NAME_WIDTH), elided(broker.cluster, _NAME_WIDTH))
        for number, address in sorted(broker.broker_addrs.items()):
            rows.append((*names, str(number), elided(address, _ADDRESS_WIDTH), *about))
            names, about = ("", ""), ("", "", "")
    yield from _table(rows)


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    return table(_HEADS, list(rows), left=4)
