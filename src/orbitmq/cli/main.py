"""The command ``orbitmq``: parses the arguments and runs the command they name.

Exit status: 0 success; 1 the command did its work and found something that deserves attention, such
as damage, or found nothing; 2 it could not do its work; 70 a bug; 130 interrupted. An error is one
line on stderr, and with ``--debug`` a traceback. A standard stream that was closed (``>&-``) counts
as /dev/null.
"""

import argparse
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn

from orbitmq.cli.problems import FAILED, nearest, tell, tell_bug
from orbitmq.errors import GroupNotFound, InvalidInput, NoRoute, OrbitError
from orbitmq.version import VERSION

__all__ = ["main", "parser"]

log = logging.getLogger("orbitmq.cli")

_DEBUG: Final = "--debug"
_NO_NUMBER: Final = re.compile(r"^argument (.+): invalid (?:int|float) value: (.+)$")
"""What argparse says of a word where a number is due, in the names of Python's types."""


class _Command(NamedTuple):
    module: Callable[[], Any]
    purpose: str


_COMMANDS: Final = {
    "up": _Command(lambda: import_module("orbitmq.cli.servers.up"), "run a nameserver and brokers"),
    "demo": _Command(
        lambda: import_module("orbitmq.cli.servers.demo"),
        "stream a shop's orders to Parquet with Spark, and compare",
    ),
    "nameserver": _Command(
        lambda: import_module("orbitmq.cli.servers.nameserver"), "run a nameserver"
    ),
    "broker": _Command(
        lambda: import_module("orbitmq.cli.servers.broker"),
        "run a broker; or show, change and clean brokers",
    ),
    "send": _Command(
        lambda: import_module("orbitmq.cli.commands.send"),
        "send a message, or each line of standard input",
    ),
    "consume": _Command(
        lambda: import_module("orbitmq.cli.commands.consume"), "print the messages of a topic"
    ),
    "topic": _Command(
        lambda: import_module("orbitmq.cli.commands.topic"),
        "create, change, list and show topics",
    ),
    "group": _Command(
        lambda: import_module("orbitmq.cli.operating.group"),
        "consumer groups: members, lag, settings",
    ),
    "offset": _Command(
        lambda: import_module("orbitmq.cli.operating.offset"),
        "show, reset and clone the offsets of groups",
    ),
    "message": _Command(
        lambda: import_module("orbitmq.cli.commands.message"), "find and show stored messages"
    ),
    "trace": _Command(
        lambda: import_module("orbitmq.cli.operating.trace"), "show the history of a message"
    ),
    "cluster": _Command(
        lambda: import_module("orbitmq.cli.operating.cluster"), "show all nodes of a cluster"
    ),
    "bench": _Command(
        lambda: import_module("orbitmq.cli.bench.command"), "measure a cluster under load"
    ),
    "settings": _Command(
        lambda: import_module("orbitmq.cli.commands.settings"),
        "show each setting, and where it comes from",
    ),
    "doctor": _Command(
        lambda: import_module("orbitmq.cli.doctor.command"),
        "say what is wrong with a cluster, and what to do",
    ),
    "outbox": _Command(
        lambda: import_module("orbitmq.cli.commands.outbox"),
        "show a producer's outbox, and drain it",
    ),
    "mqadmin": _Command(
        lambda: import_module("orbitmq.cli.commands.mqadmin"),
        "accept the commands of RocketMQ's mqadmin",
    ),
    "completion": _Command(
        lambda: import_module("orbitmq.cli.commands.completion"),
        "print a script by which a shell completes commands",
    ),
    "store": _Command(
        lambda: import_module("orbitmq.cli.commands.store"), "inspect and verify a store directory"
    ),
    "pipeline": _Command(
        lambda: import_module("orbitmq.cli.pipeline.family"),
        "Spark jobs over topics and store directories",
    ),
}
"""Only the module of the command that runs is imported: most of a start is imports."""


_FIRST_STEPS: Final = """\
first steps:
  orbitmq up --topic orders                  a nameserver and a broker, here
  orbitmq send orders hello                  in another terminal
  orbitmq consume orders --from beginning
  orbitmq COMMAND --help                     has examples for each command
"""


class _Overview(argparse.RawDescriptionHelpFormatter):
    """Has the names of commands and what they do in one line each."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=16)
        self._action_max_length = 14  # argparse forgets that commands are indented once more


class _Parser(argparse.ArgumentParser):
    """Raises wrong arguments as an error of ours, which is shown in one line like any other."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)  # the innermost parser wins
        self.add_argument(
            _DEBUG,
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )

    def error(self, message: str) -> NoReturn:
        text = _NO_NUMBER.sub(r"\1 is \2; it must be a number", message)
        raise _wrong_arguments(text.removeprefix("argument "), self.prog)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, with the nearest one; argparse lists all of them."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(one) for one in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            message = f"{value!r} is no command of {self.prog}"
            raise _wrong_arguments(message, self.prog, nearest(value, choices))
        option = "/".join(action.option_strings) or action.metavar or action.dest.upper()
        message = f"{option} is {value!r}; it must be one of {', '.join(choices)}"
        raise _wrong_arguments(message, self.prog)

    def unknown(self, words: Sequence[str], hint: str = "") -> InvalidInput:
        """Return the error about words that no argument of this command takes."""
        option = words[0].partition("=")[0]
        options = self._option_string_actions if option.startswith("--") else ()
        meant = nearest(option[2:], [one[2:] for one in options if one.startswith("--")])
        message = f"unrecognized arguments: {' '.join(words)}{hint}"
        return _wrong_arguments(message, self.prog, meant and f"--{meant}")


def _wrong_arguments(message: str, command: str, meant: str | None = None) -> InvalidInput:
    advice = "; see" if meant is None else f"; did you mean {meant}? See"
    return InvalidInput(f"{message}{advice} {command} --help", field="arguments")


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all arguments; it sets ``run`` to the function of the command.

    With ``only``, other commands have no arguments, and their modules are not imported.
    """
    reader = _Parser(
        prog="orbitmq",
        description="Apache RocketMQ for Python and Spark teams.",
        epilog=_FIRST_STEPS,
        formatter_class=_Overview,
    )
    reader.add_argument("--version", action="version", version=f"orbitmq {VERSION}")
    commands = reader.add_subparsers(metavar="COMMAND", title="commands")
    for name, (module, purpose) in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        if only in (None, name):
            module().add_arguments(command)
    return reader


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments.

    A command may set ``late``, an optional argument that may come after options: ``argparse``
    (Python 3.11) takes it for missing as soon as it sees an option; ``about_rest``, which returns
    advice about words that are too many; and ``instead``, which returns the arguments to parse in
    place of its own, if any.
    """
    named = next((word for word in given if not word.startswith("-")), "")
    _check_order(given)
    parsed, rest = parser(named).parse_known_args(given)
    late = getattr(parsed, "late", None)
    words = rest[1:] if rest[:1] == ["--"] else rest
    if late and getattr(parsed, late) is None and len(words) == 1:
        is_option = words is rest and len(words[0]) > 1 and words[0].startswith("-")
        if not is_option:
            setattr(parsed, late, words[0])
            return parsed
    if rest:
        innermost: _Parser = parsed.parser
        is_word = hasattr(parsed, "about_rest") and not rest[0].startswith("-")
        raise innermost.unknown(rest, f"; {parsed.about_rest(parsed, rest)}" if is_word else "")
    others = parsed.instead(parsed) if hasattr(parsed, "instead") else None
    return parsed if others is None else _parse(others)


def _check_order(given: Sequence[str]) -> None:
    """Raise InvalidInput if an option of a command is before it: all that follows seems wrong."""
    option = given[0].partition("=")[0] if given else ""
    is_ours = option == "-h" or (
        option.startswith("--")
        and any(one.startswith(option) for one in ("--help", "--version", _DEBUG))
    )
    command = next((word for word in given if word in _COMMANDS), None)
    if option.startswith("-") and not is_ours and command is not None:
        message = f"{option} goes behind the command: orbitmq {command} … {option}"
        raise _wrong_arguments(message, f"orbitmq {command}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["store", "inspect", "/no/such/directory"])  # the error is on stderr
    2
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = given[: given.index("--")] if "--" in given else given
    as_json, debug = "--json" in options, _DEBUG in options
    parsed = argparse.Namespace()
    try:
        _open_standard_streams()
        parsed = _parse(given)
        status = _run(parsed)
        sys.stdout.flush()
        return status
    except OrbitError as error:
        _explain(error, parsed)
        return tell(error, as_json=as_json, debug=debug)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as a shell reports it
    except BrokenPipeError:  # the reader has seen enough, as with `| head`
        _silence_stdout()
        return 128 + signal.SIGPIPE
    except OSError as error:  # input or output, such as a full disk
        _silence_stdout()
        return tell(error, as_json=as_json, debug=debug)
    except Exception as error:
        if log.hasHandlers():  # of a server: its log is where to look later
            log.exception("ended by an error that orbitmq did not foresee")
        return tell_bug(error, as_json=as_json, debug=debug)


def _explain(error: OrbitError, parsed: argparse.Namespace) -> None:
    if isinstance(error, NoRoute | GroupNotFound) or isinstance(error.__cause__, NoRoute):
        # Imported when there is something to explain: a command needs no admin for that otherwise.
        import_module("orbitmq.cli.missing").explain(error, parsed)


def _run(parsed: argparse.Namespace) -> int:
    if hasattr(parsed, "run_with_parser"):  # it is about all commands
        status: int = parsed.run_with_parser(parsed, parser())
    elif getattr(parsed, "run", None) is None:  # a family such as `orbitmq topic`, and no more
        parsed.parser.print_help(sys.stderr)
        status = FAILED
    else:
        status = parsed.run(parsed)
    return status


def _open_standard_streams() -> None:
    """Open /dev/null in place of each standard stream that is closed.

    Otherwise a socket or a file would get its number: output would go there, and uvloop ends the
    process when it closes a socket with such a number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. Child processes inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has None for a stream that was closed when it started. sys.stdin stays None: `send`
    # reports that it can't read lines from a closed input.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _silence_stdout() -> None:
    """Send the output that could not be printed to /dev/null: Python flushes again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
