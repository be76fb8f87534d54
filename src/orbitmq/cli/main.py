"""The command ``orbitmq``: reads its arguments and calls the one that was asked for.

Exit status: 0 all well, 1 the command found something wrong, 2 it could not do its work. An error
is one line on stderr, without a traceback. Standard output or errors that were closed (``>&-``) are
as silent as /dev/null.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence

from orbitmq.cli.commands import message, outbox, send, store, topic
from orbitmq.cli.servers import broker, demo, nameserver, up
from orbitmq.errors import OrbitError

__all__ = ["main", "parser"]

_FAILED = 2


def parser() -> argparse.ArgumentParser:
    """Return what reads the arguments; it sets ``run`` to the function of the command."""
    reader = argparse.ArgumentParser(
        prog="orbitmq", description="Apache RocketMQ for Python and Spark teams."
    )
    families = reader.add_subparsers(metavar="COMMAND", required=True)
    for family in (up, demo, nameserver, broker, send, topic, message, outbox, store):
        family.add_commands(families)
    return reader


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what was said; ``late`` names an argument that may be left out, or follow options.

    ``argparse`` takes such a one for left out as soon as an option comes before it (Python 3.11).
    """
    reader = parser()
    parsed, rest = reader.parse_known_args(arguments)
    late = getattr(parsed, "late", None)
    words = rest[1:] if rest[:1] == ["--"] else rest
    if late and getattr(parsed, late) is None and len(words) == 1:
        is_option = words is rest and len(words[0]) > 1 and words[0].startswith("-")
        if not is_option:
            setattr(parsed, late, words[0])
            return parsed
    if rest:
        reader.error(f"unrecognized arguments: {' '.join(rest)}")
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["store", "inspect", "/no/such/directory"])  # says so on stderr
    2
    """
    _open_standard_streams()
    parsed = _parse(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        status = run(parsed)
        sys.stdout.flush()
        return status
    except OrbitError as error:
        print(_line(error), file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as a shell would tell
    except BrokenPipeError:  # whoever read us has seen enough, as with `| head`
        _print_no_more()
        return 128 + signal.SIGPIPE
    except OSError as error:  # input or output, such as to a disk that is full
        _print_no_more()
        print(f"orbitmq: {error}", file=sys.stderr)
        return _FAILED


def _open_standard_streams() -> None:
    """Have /dev/null where a standard stream is closed.

    A socket or a file would take its number otherwise: what is printed would go there, and uvloop
    ends the process when it closes a socket of such a number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free, which is this one; processes that we start
            # have it as well.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has None for what was closed when it started. Whoever reads lines from standard input
    # looks for that: nothing to read would be no error.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _print_no_more() -> None:
    """Have what could not be printed go nowhere: Python flushes once more at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _line(error: OrbitError) -> str:
    """Return an error with its notes in one line, although it may quote a broker with several."""
    told = "; ".join([str(error), *getattr(error, "__notes__", ())])
    return f"orbitmq: {' '.join(told.split())}"


if __name__ == "__main__":
    sys.exit(main())
