"""The command ``orbitmq``: reads its arguments and calls the one that was asked for.

Exit status: 0 all well, 1 the command found something wrong, 2 it could not do its work. An error
is one line on stderr, without a traceback.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence

from orbitmq.cli import broker, nameserver, store, up
from orbitmq.errors import OrbitError

__all__ = ["main"]

_FAILED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["store", "inspect", "/no/such/directory"])  # says so on stderr
    2
    """
    parser = argparse.ArgumentParser(
        prog="orbitmq", description="Apache RocketMQ for Python and Spark teams."
    )
    families = parser.add_subparsers(metavar="COMMAND", required=True)
    for family in (up, nameserver, broker, store):
        family.add_commands(families)
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        status = run(parsed)
        sys.stdout.flush()
        return status
    except OrbitError as error:
        print(f"orbitmq: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as a shell would tell
    except BrokenPipeError:
        # Whoever read us has seen enough, as with `| head`. Python flushes once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
