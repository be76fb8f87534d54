"""``orbitmq settings``: the settings that commands and servers would have, and where from."""

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from orbitmq.cli.asking import described, fitted
from orbitmq.cli.cluster import (
    add_client_options,
    add_json_option,
    client_properties,
    print_found,
)
from orbitmq.cli.environment import of_server, variable
from orbitmq.cli.problems import MISSING, nearest, tell_missing
from orbitmq.client.settings import CLIENT_NAMES, PRODUCER_NAMES, load
from orbitmq.errors import InvalidInput
from orbitmq.settings import Property, from_arguments, read, texts_of

__all__ = ["Setting", "add_arguments", "setting_lines"]

_DEFAULT: Final = "default"
_HIDDEN: Final = "…"
_SECRETS: Final = frozenset({"secretKey", "securityToken", "tls.client.keyPassword"})
_CLIENTS: Final = {"client": CLIENT_NAMES, "producer": PRODUCER_NAMES}
_SERVERS: Final[Mapping[str, Callable[[], Any]]] = {
    "broker": lambda: import_module("orbitmq.broker.settings"),
    "nameserver": lambda: import_module("orbitmq.nameserver.settings"),
}


class Setting(NamedTuple):
    """One setting: its property, its value as text, and where that comes from."""

    name: str
    value: str
    source: str
    variable: str


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq settings``."""
    described(
        command,
        "Show the settings that a client of these commands has, or a broker or nameserver that is "
        "started here, and where each comes from: an option, --set, an environment variable, a "
        "file with its line, or the default. The first of these wins. Secrets are not shown.",
        examples=[
            "settings",
            "settings --changed",
            "settings namesrvAddr accessKey",
            "settings --of broker -c broker.conf --changed",
        ],
        status="0 shown, 1 there is no setting of that name, 2 a value or a file is wrong",
    )
    command.add_argument("names", metavar="NAME", nargs="*", help="only these, by their properties")
    command.add_argument(
        "--of",
        choices=[*_CLIENTS, *_SERVERS],
        default="client",
        help="whose settings (%(default)s)",
    )
    command.add_argument(
        "--changed", action="store_true", help="only those that are not the default"
    )
    add_client_options(command)
    add_json_option(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    is_client = arguments.of in _CLIENTS
    found = _of_client(arguments) if is_client else _of_server(arguments)
    known = {one.name for one in found}
    chosen = [
        one
        for one in found
        if (not arguments.names or one.name in arguments.names)
        and (not arguments.changed or one.source != _DEFAULT)
    ]
    as_json = [
        {"setting": one.name, "value": one.value, "from": one.source, "variable": one.variable}
        for one in chosen
    ]
    missing = [name for name in dict.fromkeys(arguments.names) if name not in known]
    if chosen or not missing:
        print_found(as_json, setting_lines(chosen), as_json=arguments.json)
    for name in missing:
        tell_missing(_missing(name, arguments.of, known), as_json=arguments.json)
    return MISSING if missing else 0


def _missing(name: str, of: str, known: Collection[str]) -> str:
    """Return what is said of a name that no setting has."""
    text = f"a {of} has no setting {name}"
    if meant := nearest(name, known):
        return f"{text}; did you mean {meant}?"
    others = {**_CLIENTS, **{one: load().KEYS for one, load in _SERVERS.items()}}
    having = [f"--of {one}" for one, names in others.items() if name in names]
    return f"{text}; see {' or '.join(having) or 'docs/settings.md'}"


def _of_client(arguments: argparse.Namespace) -> list[Setting]:
    properties = client_properties(arguments)
    names = _CLIENTS[arguments.of]
    client, producer = load(properties)
    settings = client if arguments.of == "client" else producer
    texts = texts_of(settings, names)
    aliases: dict[str, list[str]] = {}
    for name, field in names.items():
        aliases.setdefault(field, []).append(name)
    return [
        Setting(name, text, _source(properties, aliases[names[name]]), variable(names[name]))
        for name, text in _without_secrets(texts).items()
    ]


def _of_server(arguments: argparse.Namespace) -> list[Setting]:
    if arguments.nameserver is not None:
        raise InvalidInput(
            f"--nameserver is of clients; give --set namesrvAddr=… with --of {arguments.of}",
            field="nameserver",
        )
    module: Any = _SERVERS[arguments.of]()
    properties = read(arguments.file) if arguments.file else []
    properties += of_server(module.KEYS) + from_arguments(arguments.set)
    loaded = module.LiveSettings.load(properties)
    shown = loaded.as_properties if arguments.of == "broker" else loaded.texts
    texts: Mapping[str, str] = shown()
    return [
        Setting(name, text, _source(properties, [name]), variable(name))
        for name, text in _without_secrets(texts).items()
    ]


def _source(properties: Iterable[Property], names: Sequence[str]) -> str:
    """Return where the last property of one of these names comes from."""
    places = [one.place for one in properties if one.name in names]
    return places[-1] if places else _DEFAULT


def _without_secrets(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: _HIDDEN if text and name in _SECRETS else text for name, text in texts.items()}


def setting_lines(found: Sequence[Setting]) -> list[str]:
    """Return what is printed.

    >>> for line in setting_lines([Setting("accessKey", "alice", "keys:1", "ORBITMQ_ACCESS_KEY")]):
    ...     print(line)
    SETTING    VALUE  FROM
    accessKey  alice  keys:1
    """
    rows = [(one.name, one.value or "-", one.source) for one in found]
    return fitted(("SETTING", "VALUE", "FROM"), rows, left=3, names=(0, 1, 2))
