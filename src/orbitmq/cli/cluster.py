"""Options, settings and output that the commands which talk to a cluster share.

Each setting comes from an option or ``--set``, else from its environment variable, else from a file
of properties under RocketMQ's names, else it is the default. For the nameserver that is
``NAMESRV_ADDR``, or 127.0.0.1:9876.
"""

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from orbitmq.cli.environment import CONFIG, of_client
from orbitmq.cli.problems import warn
from orbitmq.cli.render import shown
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
    "client_properties",
    "client_settings",
    "json_line",
    "on_a_loop",
    "pairs",
    "print_found",
    "producer_settings",
]

_NAMESERVER: Final = "127.0.0.1:9876"
_JAVAS: Final = "NAMESRV_ADDR"

T = TypeVar("T")


def add_client_options(command: argparse.ArgumentParser) -> None:
    """Add the options that ``client_settings`` reads."""
    command.add_argument(
        "--nameserver",
        metavar="HOST:PORT",
        help="one nameserver, or several separated by ';' (ORBITMQ_NAMESERVER, NAMESRV_ADDR, else "
        f"{_NAMESERVER})",
    )
    command.add_argument(
        "-c",
        dest="file",
        metavar="FILE",
        help=f"a file of client properties, such as keys ({CONFIG})",
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a client property (docs/settings.md); overrides that of a file, may be repeated",
    )


def add_json_option(command: argparse.ArgumentParser, form: str = "JSON") -> None:
    """Add ``--json``."""
    command.add_argument("--json", action="store_true", help=f"print {form}")


def add_group_option(command: argparse.ArgumentParser, group: str) -> None:
    """Add ``--group``, which ``producer_settings`` reads; ``group`` is the default."""
    command.add_argument("--group", help=f"the producer group ({group})")
    command.set_defaults(default_group=group)


def client_settings(arguments: argparse.Namespace, *, warns: bool = True) -> ClientSettings:
    """Return the settings of a command's client; an invalid one raises InvalidSetting."""
    return _loaded(client_properties(arguments, warns=warns))[0]


def producer_settings(arguments: argparse.Namespace) -> tuple[ClientSettings, ProducerSettings]:
    """Return the settings of a command's client and producer."""
    default = Property("producerGroup", arguments.default_group, "--group")
    given = [] if arguments.group is None else [default._replace(value=arguments.group)]
    return _loaded([default, *client_properties(arguments), *given])


def client_properties(arguments: argparse.Namespace, *, warns: bool = True) -> list[Property]:
    """Return the properties of default, file, environment, ``--set`` and option: the last wins.

    It warns of those that are unknown, unless that was done.
    """
    found = [_default_nameserver()]
    if file := arguments.file or environment(CONFIG):
        found += read(file)
    found += of_client({**CLIENT_NAMES, **PRODUCER_NAMES}) + from_arguments(arguments.set)
    if arguments.nameserver is not None:
        found.append(Property("namesrvAddr", arguments.nameserver, "--nameserver"))
    for one in unknown(found, CLIENT_NAMES, PRODUCER_NAMES) if warns else ():
        text = about_unknown(one, CLIENT_NAMES, PRODUCER_NAMES)
        warn(text, as_json=getattr(arguments, "json", False))
    if any(one.name == "nameserverUrl" and one.value for one in found):
        del found[0]  # a list on the web, which would contradict it
    return found


def _default_nameserver() -> Property:
    if given := environment(_JAVAS):
        return Property("namesrvAddr", given, _JAVAS)
    return Property("namesrvAddr", _NAMESERVER, "default")


def _loaded(properties: list[Property]) -> tuple[ClientSettings, ProducerSettings]:
    client, producer = load(properties)
    # Connections stay open for no later client of this process: there is none.
    return msgspec.structs.replace(client, keep_open_ms=0), producer


def on_a_loop(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine on a new event loop, and return its result.

    >>> on_a_loop(asyncio.sleep(0, "done"))
    'done'
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def pairs(arguments: Iterable[str], option: str) -> Mapping[str, str]:
    """Return repeated ``KEY=VALUE`` arguments as a mapping; an empty key is invalid.

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
    """Print the result of a command: as lines, or all of it as JSON."""
    if as_json:
        print(msgspec.json.format(json_line(found)))
    else:
        for line in lines:
            print(shown(line, sys.stdout))


def json_line(found: object) -> str:
    """Return a value as JSON in one line, with the names of fields as they are in Python.

    >>> from orbitmq.message.model import MessageQueue  # on the wire it has Java's names
    >>> json_line([MessageQueue("orders", "broker-a", 3)])
    '[{"topic":"orders","broker_name":"broker-a","queue_id":3}]'
    """
    return msgspec.json.encode(_by_fields(found)).decode()


def _by_fields(found: object) -> object:
    match found:
        case msgspec.Struct():
            names = found.__struct_fields__  # such as `type_`, which is no keyword
            return {name.rstrip("_"): _by_fields(getattr(found, name)) for name in names}
        case Mapping():
            return {key: _by_fields(value) for key, value in found.items()}
        case list() | tuple():
            return [_by_fields(one) for one in found]
    return found
