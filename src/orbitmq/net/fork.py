"""Protection against forks: a connection works only in the process that opened it.

After a fork both processes have the same sockets, and their frames would mix. A connection keeps
the token of its process and compares it on every request, which is cheaper than ``os.getpid``.
"""

import os

from orbitmq.errors import WrongProcess

__all__ = ["check_process", "process_token"]

_token = object()


def _renew() -> None:
    global _token  # noqa: PLW0603 - one value per process, changed only in a new process
    _token = object()


os.register_at_fork(after_in_child=_renew)


def process_token() -> object:
    """Return the token of the running process; a forked child has another."""
    return _token


def check_process(token: object, what: object) -> None:
    """Check that ``what``, a connection, was not opened before a fork of this process.

    >>> check_process(process_token(), "the connection to 127.0.0.1:10911")
    """
    if token is not _token:
        raise WrongProcess(
            f"{what} was opened before this process was forked and belongs to the parent; "
            f"open a new one in the child, or use the 'spawn' start method"
        )
