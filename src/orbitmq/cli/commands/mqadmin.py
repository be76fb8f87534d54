"""``orbitmq mqadmin``: the commands of RocketMQ's tool, under its names and with its flags.

Each is done by one of ours, and prints what that prints. A flag that has no like is refused with
the reason, so that none is ignored::

    mqadmin updateTopic -n ns:9876 -t orders -c DefaultCluster
        ──▶ topic create --nameserver=ns:9876 --queues=8 --on=DefaultCluster orders
"""

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orbitmq.cli.asking import described
from orbitmq.cli.cluster import add_json_option, print_found
from orbitmq.cli.commands.mqadmin_table import LIKES, Flag, Like, words_of
from orbitmq.cli.render import table
from orbitmq.errors import InvalidInput

__all__ = ["add_arguments", "translated"]

_NAMESERVER: Final = Flag("n", "namesrvAddr")
_HELP: Final = Flag("h", "help", has_value=False)
_OURS: Final = ("--json", "--debug")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq mqadmin``."""
    described(
        command,
        "Do what a command of RocketMQ's mqadmin does, with its names and flags; the output is "
        "that of orbitmq. Without a command, list all with their likes here.",
        examples=[
            "mqadmin topicList -n 10.0.0.1:9876",
            "mqadmin updateTopic -n 10.0.0.1:9876 -t orders -c DefaultCluster",
            "mqadmin consumerProgress -g billing --json",
        ],
        status="that of the command here",
    )
    command.add_argument(
        "words", metavar="COMMAND [FLAGS]", nargs=argparse.REMAINDER, help="as mqadmin takes them"
    )
    add_json_option(command)
    command.set_defaults(run=_list, instead=_instead)


def _instead(arguments: argparse.Namespace) -> list[str] | None:
    """Return the words of our command; None to list them."""
    ours = [option for option in _OURS if getattr(arguments, option.lstrip("-"), False)]
    words = arguments.words
    if words[:1] == ["help"]:
        words = [*words[1:2], "-h"] if words[1:] else []
    return [*translated(words), *ours] if words else None


def translated(words: Sequence[str]) -> list[str]:
    """Return our arguments for those of ``mqadmin``.

    >>> translated(["deleteTopic", "-n", "ns:9876", "-t", "orders", "-c", "DefaultCluster"])
    ['topic', 'delete', '--nameserver=ns:9876', '--cluster=DefaultCluster', 'orders']

    Raises:
        InvalidInput: the command, a flag or a value has no like here.
    """
    name, *rest = words
    like = LIKES.get(name)
    if like is None:
        raise _unknown_command(name)
    ours = [word for word in rest if word in _OURS]
    given = _read(like, [word for word in rest if word not in _OURS])
    if _HELP.letter in given:
        return [*like.ours.split(), "--help"]
    if like.alone and not set(given) - {_NAMESERVER.letter}:
        family, made = like.alone.split(), []
    else:
        _check_needed(like, given)
        family = like.ours.split()
        made = words_of(like, given)
    asked = [f"--nameserver={given[letter]}" for letter in given if letter == _NAMESERVER.letter]
    return [*family, *asked, *ours, *made]


def _check_needed(like: Like, given: Mapping[str, str]) -> None:
    for flag in like.flags:
        if flag.is_needed and flag.letter not in given:
            raise InvalidInput(
                f"mqadmin {like.name} needs -{flag.letter} (--{flag.name})", field=flag.name
            )


def _read(like: Like, words: Sequence[str]) -> dict[str, str]:
    """Return the values of flags by their letters; a word may be ``-t``, ``--topic`` or ``-t=``."""
    flags = (*like.flags, _NAMESERVER, _HELP)
    given = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.lstrip("-").partition("=")
        flag = next((one for one in flags if name in (one.letter, one.name)), None)
        if flag is None or not word.startswith("-"):
            known = ", ".join(f"-{one.letter}" for one in flags)
            raise InvalidInput(
                f"mqadmin {like.name} has no flag {word[:60]!r}; it has {known}", field="arguments"
            )
        if flag.refused:
            raise InvalidInput(
                f"-{flag.letter} (--{flag.name}) is not for orbitmq {like.ours}: {flag.refused}",
                field=flag.name,
            )
        if flag.has_value and not equals:
            value = _next(left, f"-{flag.letter}")
        given[flag.letter] = value
    return given


def _next(words: Iterator[str], flag: str) -> str:
    found = next(words, None)
    if found is None:
        raise InvalidInput(f"{flag} needs a value", field=flag.lstrip("-"))
    return found


def _unknown_command(name: str) -> InvalidInput:
    lower = {known.lower(): known for known in LIKES}
    nearest = difflib.get_close_matches(name.lower(), list(lower), n=1)
    hint = f"did you mean {lower[nearest[0]]}? " if nearest else ""
    return InvalidInput(
        f"mqadmin {name[:60]} has no like here; {hint}orbitmq mqadmin lists those that have one",
        field="arguments",
    )


def _list(arguments: argparse.Namespace) -> int:
    as_json = {one.name: f"orbitmq {one.ours}" for one in LIKES.values()}
    rows = [(f"mqadmin {name}", ours) for name, ours in as_json.items()]
    print_found(as_json, table(("MQADMIN", "HERE"), rows, left=2), as_json=arguments.json)
    return 0
