"""``orbitmq topic show``, ``update``, ``delete``, ``stats``, ``allocate`` and ``probe``."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict

from orbitmq.cli.asking import (
    Run,
    add_command,
    add_on,
    ask,
    counted,
    fitted,
    queue_text,
    short_time,
)
from orbitmq.cli.cluster import pairs, print_found
from orbitmq.cli.operating.broker import all_brokers
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.results import BrokerStats, QueueStats, TopicStats
from orbitmq.client.consumer.assignment.strategies import by_name
from orbitmq.client.consumer.settings import STRATEGY_NAMES
from orbitmq.errors import BrokerFailed, InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family
    from orbitmq.wire.bodies.topic import TopicConfig

__all__ = ["TopicRates", "add_topic_commands", "rates_lines", "show_lines"]

_PERMISSIONS: Final = {"r": 4, "w": 2, "rw": 6, "none": 0}


def add_topic_commands(commands: "Family") -> None:
    """Add the commands about one topic."""
    show = add_command(
        commands,
        "show",
        _show,
        "show the settings of a topic, and how many messages its queues hold",
        examples=["topic show orders"],
        status="0 shown, 2 the topic is unknown, or a server can't be reached",
    )
    show.add_argument("topic", metavar="TOPIC")
    _add_update(commands)
    delete = add_command(
        commands,
        "delete",
        _delete,
        "delete a topic with its messages",
        examples=["topic delete orders", "topic delete orders --cluster DefaultCluster"],
    )
    delete.add_argument("topic", metavar="TOPIC")
    delete.add_argument("--cluster", metavar="NAME", help="only from this cluster")
    _add_stats(commands)
    _add_allocate(commands)
    _add_probe(commands)


# Show


def _show(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> "tuple[dict[str, TopicConfig], TopicStats]":
        return await admin.topic_config(arguments.topic), await admin.topic_stats(arguments.topic)

    configs, stats = ask(arguments, work)
    found = {
        "topic": stats.topic,
        "settings": {broker: asdict(one) for broker, one in configs.items()},
        "messages": stats.messages,
        "put_tps": stats.put_tps,
        "queues": [
            {
                "broker_name": one.queue.broker_name,
                "queue_id": one.queue.queue_id,
                "min_offset": one.min_offset,
                "max_offset": one.max_offset,
                "last_stored_ms": one.last_stored_ms,
            }
            for one in stats.queues
        ],
    }
    print_found(found, show_lines(configs, stats), as_json=arguments.json)
    return 0


def show_lines(configs: "dict[str, TopicConfig]", stats: TopicStats) -> Iterator[str]:
    """Yield what ``show`` prints."""
    yield f"Topic      {stats.topic}"
    for broker, config in configs.items():
        words = [f"{config.read_queue_nums} to read", f"{config.write_queue_nums} to write"]
        words.append(
            next((name for name, bits in _PERMISSIONS.items() if bits == config.perm), "?")
        )
        words += ["ordered"] if config.order else []
        words += [f"{name}={value}" for name, value in sorted(config.attributes.items())]
        yield f"On         {broker}: {', '.join(words)}"
    held = f"{counted(stats.messages, 'message')} in {counted(len(stats.queues), 'queue')}"
    yield f"Holds      {held}; {stats.put_tps:,.1f} stored per second"
    yield ""
    yield from fitted(
        ("QUEUE", "BEGIN", "END", "MESSAGES", "LAST STORED"),
        [_queue_row(one) for one in stats.queues],
    )


def _queue_row(one: QueueStats) -> tuple[str, ...]:
    return (
        queue_text(one.queue),
        str(one.min_offset),
        str(one.max_offset),
        f"{one.messages:,}",
        short_time(one.last_stored_ms),
    )


# Changes


def _add_update(commands: "Family") -> None:
    update = add_command(
        commands,
        "update",
        _update,
        "change some settings of a topic, and keep the others",
        about="To remove queues, lower --write-queues first, and --read-queues when consumers "
        "have emptied the others.",
        examples=[
            "topic update orders --write-queues 8 --read-queues 8",
            "topic update orders --perm r",
        ],
    )
    update.add_argument("topic", metavar="TOPIC")
    update.add_argument("--read-queues", type=int, metavar="N", help="queues that consumers read")
    update.add_argument("--write-queues", type=int, metavar="N", help="queues that get messages")
    update.add_argument("--perm", choices=_PERMISSIONS, help="read, write, both, or neither")
    update.add_argument("--ordered", action=argparse.BooleanOptionalAction, help="mark as ordered")
    update.add_argument(
        "--attribute",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set a topic attribute; an empty value removes it; may be repeated",
    )
    add_on(update, "all brokers of the topic")


def _update(arguments: argparse.Namespace) -> int:
    attributes = {
        name: value or None for name, value in pairs(arguments.attribute, "--attribute").items()
    }
    changes = {
        "read_queues": arguments.read_queues,
        "write_queues": arguments.write_queues,
        "perm": None if arguments.perm is None else _PERMISSIONS[arguments.perm],
        "is_ordered": arguments.ordered,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if not given and not attributes:
        raise InvalidInput(
            "no setting is given; orbitmq topic update --help lists them", field="arguments"
        )

    async def work(admin: Admin) -> tuple[str, ...]:
        return await admin.update_topic(
            arguments.topic, attributes=attributes, on=arguments.on, **given
        )

    brokers = ask(arguments, work)
    found = {"topic": arguments.topic, "brokers": brokers, **given, "attributes": attributes}
    line = f"{arguments.topic} is changed on {', '.join(brokers)}"
    print_found(found, [line], as_json=arguments.json)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> None:
        await admin.route(arguments.topic)  # brokers delete a misspelled topic with success
        await admin.delete_topic(arguments.topic, cluster=arguments.cluster)

    ask(arguments, work)
    where = "" if arguments.cluster is None else f" from {arguments.cluster}"
    found = {"topic": arguments.topic, "cluster": arguments.cluster}
    print_found(found, [f"{arguments.topic} is deleted{where}"], as_json=arguments.json)
    return 0


# Rates


class TopicRates(msgspec.Struct, frozen=True, kw_only=True):
    """A topic and one of its groups, or a topic without any: messages per second, and in a day."""

    topic: str
    group: str | None
    lag: int | None
    in_tps: float
    out_tps: float
    in_day: int
    out_day: int


def _add_stats(commands: "Family") -> None:
    stats = add_command(
        commands,
        "stats",
        _stats,
        "show rates and lag of topics and their groups",
        about="Rates are those of the last minute, counts those of the last day; brokers sample "
        "them every ten seconds.",
        examples=["topic stats", "topic stats orders"],
        status="0 shown, 2 the topic is unknown, or a server can't be reached",
    )
    stats.add_argument("topic", metavar="TOPIC", nargs="?", help="only this topic")
    stats.add_argument("--active", action="store_true", help="only what moved in the last day")
    stats.set_defaults(late="topic")


def _stats(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: _rates(admin, arguments.topic))
    if arguments.active:
        found = [one for one in found if one.in_day or one.out_day]
    print_found([asdict(one) for one in found], rates_lines(found), as_json=arguments.json)
    return 0


async def _rates(admin: Admin, topic: str | None) -> list[TopicRates]:
    topics = await admin.topics(include_system=False) if topic is None else [topic]
    brokers = [one.name for one in await all_brokers(admin) if one.is_master]
    found = []
    for name in topics:
        stored = await _counter(admin, brokers, "TOPIC_PUT_NUMS", name)
        groups: Sequence[str | None] = await admin.topic_groups(name)
        for group in groups or [None]:
            lag = None if group is None else (await admin.progress(group, name)).lag
            key = f"{name}@{group}"
            got = await _counter(admin, brokers if group else [], "GROUP_GET_NUMS", key)
            found.append(
                TopicRates(
                    topic=name,
                    group=group,
                    lag=lag,
                    in_tps=sum(one.minute.tps for one in stored),
                    out_tps=sum(one.minute.tps for one in got),
                    in_day=sum(one.day.sum for one in stored),
                    out_day=sum(one.day.sum for one in got),
                )
            )
    return found


async def _counter(admin: Admin, brokers: Sequence[str], name: str, key: str) -> list[BrokerStats]:
    """Return a counter of each broker; those that counted nothing under that key are left out."""

    async def one(broker: str) -> BrokerStats | None:
        try:
            return await admin.broker_stats(broker, name, key)
        except BrokerFailed:
            return None

    return [stats for stats in await asyncio.gather(*map(one, brokers)) if stats is not None]


_RATE_HEADS: Final = ("TOPIC", "GROUP", "LAG", "IN/S", "OUT/S", "IN/DAY", "OUT/DAY")


def rates_lines(found: Sequence[TopicRates]) -> list[str]:
    """Return what ``stats`` prints."""
    rows = [
        (
            one.topic,
            one.group or "-",
            "-" if one.lag is None else f"{one.lag:,}",
            f"{one.in_tps:,.1f}",
            f"{one.out_tps:,.1f}",
            f"{one.in_day:,}",
            f"{one.out_day:,}",
        )
        for one in found
    ]
    return fitted(_RATE_HEADS, rows, left=2, names=(0, 1))


# Allocation


def _add_allocate(commands: "Family") -> None:
    allocate = add_command(
        commands,
        "allocate",
        _allocate,
        "show which queues each of some consumers would get",
        examples=[
            "topic allocate orders 10.0.0.1 10.0.0.2",
            "topic allocate orders a b --strategy average_by_circle",
        ],
        status="0 shown, 2 the topic is unknown, or no nameserver answers",
    )
    allocate.add_argument("topic", metavar="TOPIC")
    allocate.add_argument("clients", metavar="CLIENT", nargs="+", help="ids of the consumers")
    allocate.add_argument(
        "--strategy",
        choices=STRATEGY_NAMES,
        default=STRATEGY_NAMES[0],
        metavar="NAME",
        help=f"how they share: {', '.join(STRATEGY_NAMES)} (%(default)s)",
    )


def _allocate(arguments: argparse.Namespace) -> int:
    stats = ask(arguments, lambda admin: admin.topic_stats(arguments.topic))
    queues = sorted(one.queue for one in stats.queues)
    clients = sorted(set(arguments.clients))
    strategy = by_name(arguments.strategy)
    found = {
        client: [queue_text(one) for one in strategy.assign("", client, queues, clients)]
        for client in clients
    }
    rows = [(client, str(len(of)), ", ".join(of) or "none") for client, of in found.items()]
    lines = fitted(("CONSUMER", "COUNT", "QUEUES"), rows, left=3, names=(0, 2))
    print_found(found, lines, as_json=arguments.json)
    return 0


# Probe


def _add_probe(commands: "Family") -> None:
    probe = add_command(
        commands,
        "probe",
        _probe,
        "send messages one after the other to each queue, and show how long the receipts took",
        about="The messages stay in the topic: use one whose consumers don't mind.",
        examples=["topic probe orders", "topic probe orders --count 100 --size 1024"],
        status="0 all were stored, 1 some failed, 2 the topic is unknown, or no nameserver answers",
    )
    probe.add_argument("topic", metavar="TOPIC")
    probe.add_argument(
        "--count", type=int, default=10, metavar="N", help="messages per queue (%(default)s)"
    )
    probe.add_argument(
        "--size", type=int, default=128, metavar="BYTES", help="of each body (%(default)s)"
    )


def _probe(arguments: argparse.Namespace) -> int:
    # Imported by this command alone: a producer is a fifth of what others would import.
    run: Run = import_module("orbitmq.cli.operating.topic_probe").probe
    return run(arguments)
