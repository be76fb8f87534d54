"""``orbitmq group``: consumer groups, their members, and how far behind they are."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict

from orbitmq.cli.asking import (
    add_command,
    add_on,
    ask,
    counted,
    family,
    fitted,
    queue_text,
    short_time,
)
from orbitmq.cli.cluster import print_found
from orbitmq.cli.operating.group_changes import add_changes
from orbitmq.cli.operating.members import add_members
from orbitmq.cli.operating.offset_reset import add_reset
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.consumers import ConsumerConnections
from orbitmq.client.admin.results import GroupProgress, QueueProgress
from orbitmq.errors import ConsumerNotOnline

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family
    from orbitmq.wire.bodies.group import SubscriptionGroupConfig

__all__ = ["add_arguments", "progress_lines", "show_lines"]

_ASKED_AT_ONCE: Final = 16
_BEHIND: Final = 1


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the commands of ``orbitmq group``."""
    commands = family(command)
    _add_list(commands)
    _add_show(commands)
    _add_progress(commands)
    add_members(commands)
    add_changes(commands)
    add_reset(commands, "group")


# List


class _Listed(msgspec.Struct, kw_only=True):
    """A group in the list; members and lag are None if they were not asked for."""

    group: str
    brokers: tuple[str, ...]
    members: int | None = None
    lag: int | None = None
    consume_tps: float | None = None


def _add_list(commands: "Family") -> None:
    listing = add_command(
        commands,
        "list",
        _list,
        "list groups, with their brokers",
        examples=["group list", "group list --lag"],
        status="0 listed, 2 a broker or nameserver can't be reached",
    )
    listing.add_argument(
        "--lag", action="store_true", help="with the members, the lag and the rate of each group"
    )
    listing.add_argument("--all", action="store_true", help="include RocketMQ's own groups")
    add_on(listing)


def _list(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: _listed(admin, arguments))
    fields = _Listed.__struct_fields__ if arguments.lag else ("group", "brokers")
    as_json = [{name: getattr(one, name) for name in fields} for one in found]
    lines = _lag_lines(found) if arguments.lag else _list_lines(found)
    print_found(as_json, lines, as_json=arguments.json)
    return 0


def _list_lines(found: Sequence[_Listed]) -> list[str]:
    rows = [(one.group, ", ".join(one.brokers)) for one in found]
    return fitted(("GROUP", "BROKERS"), rows, left=2, names=(0, 1))


def _lag_lines(found: Sequence[_Listed]) -> list[str]:
    rows = [
        (one.group, f"{one.members:,}", f"{one.lag:,}", f"{one.consume_tps:,.1f}") for one in found
    ]
    return fitted(("GROUP", "MEMBERS", "LAG", "PER SECOND"), rows)


async def _listed(admin: Admin, arguments: argparse.Namespace) -> list[_Listed]:
    groups = await admin.groups(on=arguments.on, include_system=arguments.all)
    found = [_Listed(group=group, brokers=brokers) for group, brokers in groups.items()]
    if not arguments.lag:
        return found
    brokers = sorted({broker for one in found for broker in one.brokers})
    totals: dict[str, GroupProgress] = {}
    for answer in await asyncio.gather(*map(admin.broker_progress, brokers)):
        for one in answer:
            before = totals.get(one.group, GroupProgress(one.group, (), 0.0))
            queues = before.queues + one.queues
            totals[one.group] = GroupProgress(
                one.group, queues, before.consume_tps + one.consume_tps
            )
    at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def complete(one: _Listed) -> None:
        progress = totals.get(one.group, GroupProgress(one.group, (), 0.0))
        async with at_once:
            connected = await _connected(admin, one.group)
        one.members = 0 if connected is None else len(connected.clients)
        one.lag, one.consume_tps = progress.lag, progress.consume_tps

    await asyncio.gather(*map(complete, found))
    return found


async def _connected(admin: Admin, group: str) -> ConsumerConnections | None:
    try:
        return await admin.consumer_connections(group)
    except ConsumerNotOnline:
        return None


# Show


def _add_show(commands: "Family") -> None:
    show = add_command(
        commands,
        "show",
        _show,
        "show a group: settings, members, lag by topic",
        examples=["group show billing", "group show billing --json"],
        status="0 shown, 2 no broker has the group, or a server can't be reached",
    )
    show.add_argument("group", metavar="GROUP")


def _show(arguments: argparse.Namespace) -> int:
    async def work(
        admin: Admin,
    ) -> "tuple[dict[str, SubscriptionGroupConfig], ConsumerConnections | None, GroupProgress]":
        settings = await admin.group_config(arguments.group)
        connected = await _connected(admin, arguments.group)
        return settings, connected, await admin.progress(arguments.group)

    settings, connected, progress = ask(arguments, work)
    found = {
        "group": arguments.group,
        "settings": {broker: asdict(one) for broker, one in settings.items()},
        "members": [] if connected is None else [asdict(one) for one in connected.clients],
        "lag": progress.lag,
        "consume_tps": progress.consume_tps,
        "topics": [{"topic": topic, "lag": _lag(of)} for topic, of in by_topic(progress)],
    }
    print_found(found, show_lines(settings, connected, progress), as_json=arguments.json)
    return 0


def show_lines(
    settings: "dict[str, SubscriptionGroupConfig]",
    connected: ConsumerConnections | None,
    progress: GroupProgress,
) -> Iterator[str]:
    """Yield what ``show`` prints."""
    yield f"Group      {progress.group}"
    for text in dict.fromkeys(map(settings_text, settings.values())):
        brokers = [broker for broker, one in settings.items() if settings_text(one) == text]
        yield f"On         {', '.join(brokers)}: {text}"
    yield f"Lag        {counted(progress.lag, 'message')}; {progress.consume_tps:,.1f} per second"
    if connected is None:
        yield "Members    none is connected"
    else:
        model = "" if connected.message_model is None else f", {connected.message_model.lower()}"
        yield f"Members    {counted(len(connected.clients), 'consumer')}{model}"
        yield ""
        yield from fitted(
            ("MEMBER", "ADDRESS", "LANGUAGE", "VERSION"),
            [(one.client_id, one.address, one.language, one.version) for one in connected.clients],
            left=4,
        )
    if progress.queues:
        yield ""
        yield from fitted(
            ("TOPIC", "SUBSCRIPTION", "QUEUES", "LAG"),
            [
                (topic, _subscription(connected, topic), str(len(of)), f"{_lag(of):,}")
                for topic, of in by_topic(progress)
            ],
            left=2,
            names=(0, 1),
        )


def settings_text(config: "SubscriptionGroupConfig") -> str:
    """Return the settings of a group that decide what it gets, in words."""
    retries = f"{counted(config.retry_max_times, 'retry', 'retries')}"
    words = [retries, counted(config.retry_queue_nums, "retry queue")]
    words += ["ordered"] if config.consume_message_orderly else []
    words += [] if config.consume_broadcast_enable else ["no broadcasting"]
    words += [] if config.consume_enable else ["consuming is off"]
    return ", ".join(words)


def _subscription(connected: ConsumerConnections | None, topic: str) -> str:
    found = None if connected is None else connected.subscriptions.get(topic)
    return "-" if found is None else found.sub_string or "*"


def by_topic(progress: GroupProgress) -> list[tuple[str, list[QueueProgress]]]:
    """Return the queues of each topic of a group."""
    found: dict[str, list[QueueProgress]] = {}
    for one in progress.queues:
        found.setdefault(one.queue.topic, []).append(one)
    return list(found.items())


def _lag(queues: Sequence[QueueProgress]) -> int:
    return sum(one.lag for one in queues)


# Progress


def _add_progress(commands: "Family") -> None:
    progress = add_command(
        commands,
        "progress",
        _progress,
        "show how far a group is in each queue",
        examples=["group progress billing", "group progress billing --topic orders --max-lag 1000"],
        status="0 shown, 1 the lag is over --max-lag, 2 there is no such group, or a server can't "
        "be reached",
    )
    progress.add_argument("group", metavar="GROUP")
    progress.add_argument("--topic", help="only this topic")
    progress.add_argument(
        "--max-lag", type=int, metavar="N", help="exit with 1 if the group is further behind"
    )


def _progress(arguments: argparse.Namespace) -> int:
    progress = ask(arguments, lambda admin: admin.progress(arguments.group, arguments.topic))
    found = {
        "group": progress.group,
        "lag": progress.lag,
        "in_flight": progress.in_flight,
        "consume_tps": progress.consume_tps,
        "queues": [
            {
                "topic": one.queue.topic,
                "broker_name": one.queue.broker_name,
                "queue_id": one.queue.queue_id,
                "broker_offset": one.broker_offset,
                "consumer_offset": one.consumer_offset,
                "lag": one.lag,
                "in_flight": one.in_flight,
                "last_consumed_ms": one.last_consumed_ms,
            }
            for one in progress.queues
        ],
    }
    print_found(found, progress_lines(progress), as_json=arguments.json)
    return _BEHIND if arguments.max_lag is not None and progress.lag > arguments.max_lag else 0


_HEADS: Final = ("TOPIC", "QUEUE", "END", "COMMITTED", "LAG", "PULLED", "CONSUMED UP TO")


def progress_lines(progress: GroupProgress) -> Iterator[str]:
    """Yield what ``progress`` prints."""
    if progress.queues:
        yield from fitted(
            _HEADS,
            [
                (
                    one.queue.topic,
                    queue_text(one.queue),
                    str(one.broker_offset),
                    str(one.consumer_offset),
                    str(one.lag),
                    str(one.in_flight),
                    short_time(one.last_consumed_ms),
                )
                for one in progress.queues
            ],
            left=2,
            names=(0, 1),
        )
        yield ""
    yield (
        f"{progress.group} is {counted(progress.lag, 'message')} behind in "
        f"{counted(len(progress.queues), 'queue')}; {progress.consume_tps:,.1f} per second"
    )
