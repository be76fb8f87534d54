"""What commands of operators share: an admin, arguments, and tables of 80 columns."""

import argparse
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from orbitmq.cli.cluster import add_client_options, add_json_option, client_settings, on_a_loop
from orbitmq.cli.render import WIDTH, elided, local_time, table, width
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue

__all__ = [
    "QUEUES_MAX",
    "LaterCommands",
    "Run",
    "add_command",
    "add_on",
    "ask",
    "counted",
    "described",
    "family",
    "fitted",
    "queue_of",
    "queue_text",
    "short_time",
]

if TYPE_CHECKING:  # servers have arguments, too, and need no admin
    from orbitmq.client.admin.admin import Admin

    Family: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

Run: TypeAlias = Callable[[argparse.Namespace], int]

QUEUES_MAX: Final = 1024
"""Of a topic; each takes a file on its broker, and makes the nameserver's answers longer."""
_LEAST: Final = 9
"""A name shortened to less tells nothing."""

T = TypeVar("T")


def ask(arguments: argparse.Namespace, work: "Callable[[Admin], Awaitable[T]]") -> T:
    """Run ``work`` with an admin of the cluster that the arguments name; return its result."""
    kind: type[Admin] = import_module("orbitmq.client.admin.admin").Admin

    async def asked() -> T:
        async with kind(client=client_settings(arguments)) as admin:
            return await work(admin)

    return on_a_loop(asked())


class LaterCommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands beside what a parser does without one: they are added when they are looked at.

    Most of a start is imports, and who runs a server needs none of theirs.
    """

    add: "Callable[[Family], None] | None" = None
    """Adds them; set it once."""

    @property
    def choices(self) -> Any:
        """The parsers of the commands by name, in a form that argparse knows."""
        add, self.add = self.add, None
        if add is not None:
            add(self)
        return self._name_parser_map

    @choices.setter
    def choices(self, _given: Any) -> None:
        """Take what argparse gives at first, which is what it keeps anyway."""

    def _get_subactions(self) -> Any:
        return self.choices and super()._get_subactions()


def family(command: argparse.ArgumentParser) -> "Family":
    """Return where the commands of a family are added."""
    command.set_defaults(run=None)  # of `orbitmq broker config`: not to run a broker
    return command.add_subparsers(metavar="COMMAND")


def add_command(
    commands: "Family",
    name: str,
    run: Run,
    purpose: str,
    *,
    about: str = "",
    examples: Sequence[str] = (),
    status: str = "0 done, 2 a server refused or can't be reached",
) -> argparse.ArgumentParser:
    """Add a command that talks to a cluster; return its parser, for arguments of its own.

    Args:
        commands: its family.
        name: its name there.
        run: the function that runs it.
        purpose: what it does, in a few words.
        about: what else ``--help`` says.
        examples: command lines.
        status: what its exit statuses mean.
    """
    command = commands.add_parser(name, help=purpose)
    text = f"{purpose[0].upper()}{purpose[1:]}. {about}"
    described(command, text.strip(), examples=examples, status=status)
    add_client_options(command)
    add_json_option(command)
    command.set_defaults(run=run)
    return command


def described(
    command: argparse.ArgumentParser, text: str, *, examples: Sequence[str], status: str
) -> None:
    """Set what ``--help`` says around the arguments; examples are without ``orbitmq``."""
    lines = ["examples:", *(f"  orbitmq {one}" for one in examples), ""] if examples else []
    command.description = text
    command.epilog = "\n".join([*lines, f"Exit status: {status}."])
    command.formatter_class = _Help


class _Help(argparse.HelpFormatter):
    """Wraps texts, and leaves examples, which are indented, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [
            line if line.startswith(" ") else textwrap.fill(line, width)
            for line in text.splitlines()
        ]
        return "".join(f"{indent}{line}\n" for line in lines)


def add_on(command: argparse.ArgumentParser, what: str = "all masters") -> None:
    """Add ``--on``, which names brokers."""
    command.add_argument(
        "--on", metavar="NAME", help=f"a cluster, a broker, or the address of a broker ({what})"
    )


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "queue"), counted(1_200, "queue"), counted(0, "reply", "replies")
    ('1 queue', '1,200 queues', '0 replies')
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def wrapped(text: str) -> list[str]:
    """Return a sentence as lines of at most 80 columns; those after the first are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def short_time(timestamp_ms: int | None) -> str:
    """Return a local time without its year; a dash for None, and for 0, which means never.

    >>> short_time(0)
    '-'
    """
    shown = local_time(timestamp_ms or None)
    return shown[5:] if len(shown) > 1 else shown


def queue_text(queue: MessageQueue) -> str:
    """Return a queue as commands write it.

    >>> queue_text(MessageQueue("orders", "broker-a", 3))
    'broker-a/3'
    """
    return f"{queue.broker_name}/{queue.queue_id}"


def queue_of(text: str, topic: str) -> MessageQueue:
    """Return the queue that an argument names.

    >>> queue_of("broker-a/3", "orders")
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)

    Raises:
        InvalidInput: it is not BROKER/ID.
    """
    broker, slash, number = text.rpartition("/")
    if not (broker and slash and number.isdecimal() and number.isascii() and len(number) < 10):
        raise InvalidInput(f"{text[:60]!r} is not a queue; write it as BROKER/ID", field="queue")
    return MessageQueue(topic, broker, int(number))


def fitted(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
    names: Sequence[int] = (0,),
) -> list[str]:
    """Return the lines of a table that fits the terminal, as far as names can be shorter.

    Args:
        heads: the headings.
        rows: the cells.
        left: how many columns are left-aligned.
        names: which columns may be shortened in the middle, the widest first.
    """
    cells = [list(row) for row in rows]
    widths = {one: max((len(row[one]) for row in cells), default=0) for one in names}
    over = max(map(len, table(heads, cells, left=left))) - width()
    while over > 0 and max(widths.values()) > _LEAST:
        widths[max(widths, key=lambda one: widths[one])] -= 1
        over -= 1
    for row in cells:
        for one, most in widths.items():
            row[one] = elided(row[one], most)
    return table(heads, cells, left=left)
