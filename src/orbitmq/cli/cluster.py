"""What the commands that talk to a running cluster share: whom to ask, and how to answer.

Whom: ``--nameserver``, or else a file of properties, ``NAMESRV_ADDR``, and 127.0.0.1:9876. Keys,
certificates and whatever else a client needs are properties too, under RocketMQ's own names.
"""

import argparse
import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from orbitmq.client.settings import (
    CLIENT_NAMES,
    PRODUCER_NAMES,
    ClientSettings,
    ProducerSettings,
    load,
)
from orbitmq.errors import InvalidInput
from orbitmq.net.event_loop import new_event_loop
from orbitmq.settings import Property, about_unknown, environment, from_arguments, read, unknown

__all__ = [
    "add_client_options",
    "add_group_option",
    "add_json_option",
    "client_settings",
    "on_a_loop",
    "pairs",
    "print_found",
    "producer_settings",
]

log = logging.getLogger("orbitmq.cli")

_NAMESERVER: Final = "127.0.0.1:9876"

T = TypeVar("T")


def add_client_options(command: argparse.ArgumentParser) -> None:
    """Add the options by which a command finds its cluster; see ``client_settings``."""
    command.add_argument(
        "--nameserver",
        metavar="HOST:PORT",
        help=f"whom to ask, several with ';' between them; NAMESRV_ADDR, or {_NAMESERVER}",
    )
    command.add_argument(
        "-c", dest="file", metavar="FILE", help="properties of a client, such as keys; see --set"
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a property of the file, which it overrides; docs/settings.md lists them",
    )


def add_json_option(command: argparse.ArgumentParser, form: str = "JSON") -> None:
    """Add ``--json``."""
    command.add_argument("--json", action="store_true", help=f"print {form} for a program")


def add_group_option(command: argparse.ArgumentParser, group: str) -> None:
    """Add ``--group`` to a command that sends; see ``producer_settings``."""
    command.add_argument("--group", help=f"the producer group ({group})")
    command.set_defaults(usual_group=group)


def client_settings(arguments: argparse.Namespace) -> ClientSettings:
    """Return whom a command asks, and how.

    Raises:
        InvalidSetting: a value can't be used; the error names file, line and key.

    """
    return _settings(arguments, [], [])[0]


def producer_settings(arguments: argparse.Namespace) -> tuple[ClientSettings, ProducerSettings]:
    """Return the same for a command that sends, and how it does.

    Raises:
        InvalidSetting: a value can't be used; the error names file, line and key.

    """
    usual = Property("producerGroup", arguments.usual_group, "--group")
    said = [] if arguments.group is None else [usual._replace(value=arguments.group)]
    return _settings(arguments, [usual], said)


def _settings(
    arguments: argparse.Namespace, usual: list[Property], said: list[Property]
) -> tuple[ClientSettings, ProducerSettings]:
    """Return what the file and ``--set`` say, over what is usual, and under what else was said."""
    properties = usual + (read(arguments.file) if arguments.file else [])
    properties += from_arguments(arguments.set) + said
    if arguments.nameserver is not None:
        properties.append(Property("namesrvAddr", arguments.nameserver, "--nameserver"))
    for one in unknown(properties, CLIENT_NAMES, PRODUCER_NAMES):
        log.warning("%s", about_unknown(one, CLIENT_NAMES, PRODUCER_NAMES))
    client, producer = load(properties)
    if not client.nameserver and not client.nameserver_url and not environment("NAMESRV_ADDR"):
        client = msgspec.structs.replace(client, nameserver=_NAMESERVER)
    # A command ends when it is done: no later one would find its connections.
    return msgspec.structs.replace(client, linger_ms=0), producer


def on_a_loop(work: Coroutine[object, object, T]) -> T:
    """Do asynchronous work on a loop of its own, and return what it returns.

    >>> on_a_loop(asyncio.sleep(0, "done"))
    'done'
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def pairs(arguments: Iterable[str], option: str) -> Mapping[str, str]:
    """Return what was said as ``KEY=VALUE``, several times.

    Raises:
        InvalidInput: one has no ``=``, or nothing before it.

    >>> pairs(["colour=blue", "formula=a=b"], "--property")
    {'colour': 'blue', 'formula': 'a=b'}

    """
    found = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not key or not equals:
            raise InvalidInput(
                f"{option} {argument[:60]!r} is not KEY=VALUE", field=option.lstrip("-")
            )
        found[key] = value
    return found


def print_found(found: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command has found: its lines, or all of it as JSON."""
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for line in lines:
            print(line)
