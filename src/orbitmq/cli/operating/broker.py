"""``orbitmq broker``: the brokers of a cluster: state, settings, counters, clean-ups."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from orbitmq.cli.asking import Run, add_command, add_on, ask, counted, family, fitted
from orbitmq.cli.cluster import pairs, print_found
from orbitmq.cli.missing import tell_no_broker
from orbitmq.cli.operating.election import add_election_commands
from orbitmq.cli.operating.replicas import add_replicas_command
from orbitmq.cli.problems import nearest, tell_missing
from orbitmq.cli.render import local_time, width
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.results import Broker, BrokerStats, BrokerStatus
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = [
    "add_broker_commands",
    "add_config",
    "all_brokers",
    "broker_row",
    "chosen_settings",
    "config_lines",
    "status_lines",
    "tell_missing_settings",
    "version_shown",
]


def add_broker_commands(commands: "Family") -> None:
    """Add the commands about running brokers."""
    add_command(
        commands,
        "list",
        _list,
        "list brokers, with their addresses",
        examples=["broker list", "broker list --json"],
        status="0 listed, 1 no broker is registered, 2 no nameserver answers",
    )
    _add_status(commands)
    add_config(
        commands.add_parser("config", help="show and change settings of running brokers"),
        _get,
        _set,
        whose="a broker",
        on=True,
        family_name="broker",
    )
    _add_stats(commands)
    _add_clean(commands)
    _add_writes(commands)
    add_replicas_command(commands)
    add_election_commands(commands)


# List and status


def _list(arguments: argparse.Namespace) -> int:
    found = ask(arguments, all_brokers)
    rows = [
        (
            one.name,
            one.cluster,
            str(one.number),
            one.address,
            _role(one),
        )
        for one in found
    ]
    heads = ("BROKER", "CLUSTER", "ID", "ADDRESS", "ROLE")
    lines = fitted(heads, rows, left=5, names=(0, 1, 3))
    as_json = [broker_row(one) for one in found]
    print_found(as_json, lines, as_json=arguments.json)
    return 0 if found else tell_no_broker(arguments)


def broker_row(broker: Broker) -> dict[str, object]:
    """Return what ``--json`` says of a broker."""
    return {
        "cluster": broker.cluster,
        "broker_name": broker.name,
        "broker_id": broker.number,
        "address": broker.address,
        "role": _role(broker),
    }


def _role(broker: Broker) -> str:
    return "master" if broker.is_master else "slave"


async def all_brokers(admin: Admin) -> list[Broker]:
    """Return the brokers of all clusters."""
    return [broker for cluster in await admin.clusters() for broker in cluster.brokers]


def _add_status(commands: "Family") -> None:
    status = add_command(
        commands,
        "status",
        _status,
        "show the state of a broker: rates, latencies, queues, disk",
        examples=["broker status broker-a", "broker status 10.0.0.7:10911 --json"],
        status="0 shown, 2 there is no such broker, or it can't be reached",
    )
    status.add_argument("broker", metavar="BROKER", help="its name or its address")
    status.add_argument("--all", action="store_true", help="all figures, under RocketMQ's names")


def _status(arguments: argparse.Namespace) -> int:
    status = ask(arguments, lambda admin: admin.broker_status(arguments.broker))
    lines: Iterator[str] = status_lines(arguments.broker, status)
    if arguments.all:
        lines = iter(config_lines(status.figures))
    print_found(asdict(status), lines, as_json=arguments.json)
    return 0


def version_shown(description: str | None) -> str:
    """Return a version as people write it.

    >>> version_shown("V5_4_0")
    '5.4.0'
    """
    return (description or "-").removeprefix("V").replace("_", ".")


def status_lines(broker: str, status: BrokerStatus) -> Iterator[str]:
    """Yield what ``status`` prints."""
    yield f"Broker     {broker}, {version_shown(status.version)}"
    yield f"Started    {local_time(status.started_ms or None)}"
    yield f"Stored     {status.put_tps:,.1f} per second, {status.put_today:,} today"
    yield f"Delivered  {status.get_tps:,.1f} per second, {status.got_today:,} today"
    puts = {span: count for span, count in status.put_latency.items() if count}
    if puts:
        shown = ", ".join(f"{count:,} in {span}" for span, count in puts.items())
        line = f"Puts       of the last minute: {shown}"
        yield from textwrap.wrap(line, width(), subsequent_indent=" " * 11)
    waited = f", the first for {status.send_queue_wait_ms} ms" if status.send_queue else ""
    yield f"Waiting    {counted(status.send_queue, 'send')}{waited}"
    yield f"Behind     {status.dispatch_behind_bytes:,} bytes stored and not in queues yet"
    yield f"Disk       {status.disk_used:.0%} of the log's disk is in use"


# Settings


def add_config(
    command: argparse.ArgumentParser,
    get: Run,
    change: Run,
    *,
    whose: str,
    on: bool,
    family_name: str,
) -> None:
    """Add ``get`` and ``set``, for the settings of brokers or of nameservers."""
    names, settings = "waitSecondsForService", "waitSecondsForService=45"
    if on:
        names, settings = "broker-a fileReservedTime", "fileReservedTime=72"
    commands = family(command)
    shown = add_command(
        commands,
        "get",
        get,
        f"show the settings of {whose}, under RocketMQ's names",
        examples=[f"{family_name} config get {names}"],
        status="0 shown, 1 it has no such setting, 2 it can't be reached",
    )
    if on:
        shown.add_argument("broker", metavar="BROKER", help="its name or its address")
    shown.add_argument("names", metavar="NAME", nargs="*", help="only these settings")
    changed = add_command(
        commands,
        "set",
        change,
        f"change settings of {whose} while it runs, and in its file",
        examples=[f"{family_name} config set {settings}"],
    )
    changed.add_argument("settings", metavar="NAME=VALUE", nargs="+")
    if on:
        add_on(changed)


def _get(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.broker_config(arguments.broker))
    chosen = chosen_settings(found, arguments.names)
    print_found(chosen, config_lines(chosen), as_json=arguments.json)
    return tell_missing_settings({arguments.broker: found}, arguments)


def tell_missing_settings(
    settings: Mapping[str, Mapping[str, str]], arguments: argparse.Namespace
) -> int:
    """Print which of the named settings a server lacks; return the exit status, 1, or 0."""
    status = 0
    for server, of in settings.items():
        for name in dict.fromkeys(arguments.names):
            if name not in of:
                meant = nearest(name, of)
                advice = "" if meant is None else f"; did you mean {meant}?"
                text = f"{server} has no setting {name}{advice}"
                status = tell_missing(text, as_json=arguments.json)
    return status


def chosen_settings(settings: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the named settings that exist; all of them, sorted, if none is named.

    >>> chosen_settings({"b": "2", "a": "1"}, [])
    {'a': '1', 'b': '2'}
    """
    return {name: settings[name] for name in names or sorted(settings) if name in settings}


def config_lines(settings: Mapping[str, str]) -> list[str]:
    """Return a line for each setting, as in a file of properties.

    >>> config_lines({"brokerName": "broker-a"})
    ['brokerName=broker-a']
    """
    return [f"{name}={value}" for name, value in settings.items()]


def _set(arguments: argparse.Namespace) -> int:
    settings = pairs(arguments.settings, "NAME=VALUE")
    brokers = ask(arguments, lambda admin: admin.set_broker_config(settings, on=arguments.on))
    found = {"settings": dict(settings), "brokers": brokers}
    line = f"{', '.join(brokers)}: {', '.join(config_lines(settings))}"
    print_found(found, [line], as_json=arguments.json)
    return 0


# Counters


_PERIODS: Final = ("minute", "hour", "day")


def _add_stats(commands: "Family") -> None:
    stats = add_command(
        commands,
        "stats",
        _stats,
        "show a counter of a broker over the last minute, hour and day",
        about="Counters have Java's names: TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, "
        "GROUP_GET_LATENCY and others. Brokers sample them every ten seconds.",
        examples=[
            "broker stats broker-a TOPIC_PUT_NUMS orders",
            "broker stats broker-a GROUP_GET_NUMS orders@billing",
        ],
        status="0 shown, 2 nothing was counted under that name, or the broker can't be reached",
    )
    stats.add_argument("broker", metavar="BROKER", help="its name or its address")
    stats.add_argument("name", metavar="COUNTER")
    stats.add_argument("key", metavar="KEY", help="TOPIC, TOPIC@GROUP, or QUEUE@TOPIC")


def _stats(arguments: argparse.Namespace) -> int:
    stats = ask(
        arguments,
        lambda admin: admin.broker_stats(arguments.broker, arguments.name, arguments.key),
    )
    found = {period: asdict(getattr(stats, period)) for period in _PERIODS}
    print_found(found, _stats_lines(stats), as_json=arguments.json)
    return 0


def _stats_lines(stats: BrokerStats) -> list[str]:
    rows = [
        (period, f"{rate.sum:,}", f"{rate.tps:,.2f}", f"{rate.average:,.2f}")
        for period in _PERIODS
        for rate in [getattr(stats, period)]
    ]
    return fitted(("LAST", "SUM", "PER SECOND", "AVERAGE"), rows)


# Clean-ups and write permissions


_CLEANS: Final = {
    "queues": ("clean_expired_queues", "consume queues whose messages are all gone"),
    "topics": ("clean_unused_topics", "consume queues of topics that are gone"),
    "log": ("delete_expired_log_files", "files of the log that are past their time"),
}


def _add_clean(commands: "Family") -> None:
    clean = add_command(
        commands,
        "clean",
        _clean,
        "delete what is not needed",
        about="Brokers do the same by themselves, by age, disk use and time of day. "
        + "; ".join(f"{name}: {means}" for name, (_, means) in _CLEANS.items())
        + ".",
        examples=["broker clean queues", "broker clean log --on broker-a"],
    )
    clean.add_argument("what", choices=_CLEANS)
    add_on(clean)


def _clean(arguments: argparse.Namespace) -> int:
    method, means = _CLEANS[arguments.what]

    async def work(admin: Admin) -> tuple[str, ...]:
        cleaned: tuple[str, ...] = await getattr(admin, method)(on=arguments.on)
        return cleaned

    brokers = ask(arguments, work)
    line = f"{', '.join(brokers)}: deleted {means}"
    print_found({"what": arguments.what, "brokers": brokers}, [line], as_json=arguments.json)
    return 0


def _add_writes(commands: "Family") -> None:
    for name, run, what in (
        ("stop-writes", _stop_writes, "have producers leave a broker, before it is stopped"),
        ("allow-writes", _allow_writes, "let producers use a broker again"),
    ):
        command = add_command(
            commands,
            name,
            run,
            what,
            about="All nameservers change the routes of its topics; producers see it when they "
            "refresh theirs, within 30 s.",
            examples=[f"broker {name} broker-a"],
        )
        command.add_argument("broker", metavar="BROKER", help="its name")


def _stop_writes(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.wipe_write_perm(arguments.broker))
    return _told_writes(arguments, found, "takes no more writes")


def _allow_writes(arguments: argparse.Namespace) -> int:
    found = ask(arguments, lambda admin: admin.add_write_perm(arguments.broker))
    return _told_writes(arguments, found, "takes writes again")


def _told_writes(arguments: argparse.Namespace, found: dict[str, int], what: str) -> int:
    if not any(found.values()):
        raise InvalidInput(
            f"no nameserver has a topic of broker {arguments.broker}; orbitmq broker list shows "
            "the names",
            field="broker",
        )
    lines = [
        f"{arguments.broker} {what}: {counted(count, 'topic')} changed on {nameserver}"
        for nameserver, count in found.items()
    ]
    as_json = {"broker": arguments.broker, "topics_changed": found}
    print_found(as_json, lines, as_json=arguments.json)
    return 0
