"""``orbitmq offset``: where queues begin and end, and where groups are in them."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from orbitmq.cli.asking import add_command, ask, counted, family, fitted, queue_text, short_time
from orbitmq.cli.cluster import print_found
from orbitmq.cli.operating.offset_reset import add_reset
from orbitmq.cli.times import past_ms
from orbitmq.client.admin.admin import Admin
from orbitmq.message.model import MessageQueue

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = ["QueuePlaces", "add_arguments", "show_lines"]


class QueuePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of one queue; those that were not asked for are None."""

    queue: MessageQueue
    begin: int
    end: int
    last_stored_ms: int
    at_time: int | None = None
    committed: int | None = None


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the commands of ``orbitmq offset``."""
    commands = family(command)
    _add_show(commands)
    add_reset(commands, "offset")
    clone = add_command(
        commands,
        "clone",
        _clone,
        "give a group the offsets of another one",
        examples=["offset clone billing billing-copy", "offset clone old new --topic orders"],
    )
    clone.add_argument("source", metavar="SOURCE", help="the group whose offsets are copied")
    clone.add_argument("target", metavar="TARGET", help="the group that gets them; it must exist")
    clone.add_argument("--topic", help="only in this topic")


def _add_show(commands: "Family") -> None:
    show = add_command(
        commands,
        "show",
        _show,
        "show the offsets of a topic's queues",
        about="With --time, the first offset stored at or after it; with --group, what it has "
        "committed.",
        examples=[
            "offset show orders",
            "offset show orders --time 2h",
            "offset show orders --group billing",
        ],
        status="0 shown, 2 the topic or the group is unknown, or a server can't be reached",
    )
    show.add_argument("topic", metavar="TOPIC")
    show.add_argument("--group", help="with the offsets that this group committed")
    show.add_argument(
        "--time", metavar="TIME", help="with the offsets of a time, or of how long ago: 30s, 2h"
    )


def _show(arguments: argparse.Namespace) -> int:
    time_ms = None if arguments.time is None else past_ms(arguments.time, "time")
    found = ask(arguments, lambda admin: _places(admin, arguments, time_ms))
    as_json = [
        {
            "broker_name": one.queue.broker_name,
            "queue_id": one.queue.queue_id,
            "begin": one.begin,
            "end": one.end,
            "last_stored_ms": one.last_stored_ms,
            **({} if time_ms is None else {"at_time": one.at_time}),
            **({} if arguments.group is None else {"committed": one.committed}),
        }
        for one in found
    ]
    lines = show_lines(found, with_time=time_ms is not None, with_group=arguments.group is not None)
    print_found(as_json, lines, as_json=arguments.json)
    return 0


async def _places(
    admin: Admin, arguments: argparse.Namespace, time_ms: int | None
) -> list[QueuePlaces]:
    if arguments.group is not None:
        await admin.group_config(arguments.group)  # raises for a misspelled group
    return [
        QueuePlaces(
            queue=one.queue,
            begin=one.min_offset,
            end=one.max_offset,
            last_stored_ms=one.last_stored_ms,
            at_time=None if time_ms is None else await admin.search_offset(one.queue, time_ms),
            committed=None
            if arguments.group is None
            else await admin.consumer_offset(arguments.group, one.queue),
        )
        for one in (await admin.topic_stats(arguments.topic)).queues
    ]


def show_lines(
    found: list[QueuePlaces], *, with_time: bool = False, with_group: bool = False
) -> Iterator[str]:
    """Yield what ``show`` prints."""
    heads = ["QUEUE", "BEGIN", "END", "MESSAGES"]
    heads += ["AT TIME"] * with_time + ["COMMITTED"] * with_group + ["LAST STORED"]
    rows = []
    for one in found:
        cells = [queue_text(one.queue), str(one.begin), str(one.end), f"{one.end - one.begin:,}"]
        cells += [str(one.at_time)] * with_time
        cells += ["-" if one.committed is None else str(one.committed)] * with_group
        rows.append([*cells, short_time(one.last_stored_ms)])
    yield from fitted(heads, rows)
    yield ""
    total = sum(one.end - one.begin for one in found)
    yield f"{counted(total, 'message')} in {counted(len(found), 'queue')}"


def _clone(arguments: argparse.Namespace) -> int:
    ask(
        arguments,
        lambda admin: admin.clone_offsets(arguments.source, arguments.target, arguments.topic),
    )
    found = {"source": arguments.source, "target": arguments.target, "topic": arguments.topic}
    where = "all topics" if arguments.topic is None else arguments.topic
    line = f"{arguments.target} has the offsets of {arguments.source} in {where}"
    print_found(found, [line], as_json=arguments.json)
    return 0
