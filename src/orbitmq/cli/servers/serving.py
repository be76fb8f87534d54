"""What the commands that run a server share: options, the ready line, signals, a clean stop.

The ready line is the only output on stdout, so that a program can wait for it; logs go to stderr or
to a file. Signals::

    SIGTERM, SIGINT ─────────────────────────▶ stop
    SIGHUP ─┬─ the terminal was closed ──────▶ stop
            ├─ ignored at the start (nohup) ─▶ ignored
            └─ otherwise ────────────────────▶ the settings are read again
"""

import argparse
import asyncio
import errno
import json
import logging
import os
import resource
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from orbitmq.cli.render import ProgressBar
from orbitmq.cli.servers.log_output import add_log_options
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.net.event_loop import new_event_loop
from orbitmq.settings import Property

__all__ = [
    "add_loss_option",
    "add_ready_option",
    "add_server_options",
    "allow_many_open_files",
    "loss_accepted",
    "ready_line",
    "recovery_progress",
    "serve",
]

S = TypeVar("S")

log = logging.getLogger("orbitmq.cli")

_FEW_OPEN_FILES: Final = 4096
"""With fewer, a broker with a thousand clients and the files of its store may run short."""


def add_server_options(command: argparse.ArgumentParser) -> None:
    """Add the options of every server."""
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration property; overrides that of a file, may be repeated",
    )
    command.add_argument(
        "--insecure",
        action="store_true",
        help="listen on an address that other machines reach, without authentication",
    )
    command.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="also stop when standard input, a pipe, ends, so as not to outlive a parent process",
    )
    add_log_options(command)


def add_ready_option(command: argparse.ArgumentParser) -> None:
    """Add ``--json``, which ``ready_line`` reads."""
    command.add_argument("--json", action="store_true", help="print the ready line as JSON")


def ready_line(
    arguments: argparse.Namespace, *, nameserver: str | None = None, brokers: Sequence[str] = ()
) -> str:
    """Return the line that says where a server listens, as text or as JSON.

    >>> ready_line(argparse.Namespace(json=False), nameserver="127.0.0.1:9876")
    'ready nameserver=127.0.0.1:9876'
    >>> ready_line(argparse.Namespace(json=True), brokers=["127.0.0.1:10911"])
    '{"brokers": ["127.0.0.1:10911"]}'
    """
    found: dict[str, str | list[str]] = {}
    if nameserver is not None:
        found["nameserver"] = nameserver
    if brokers:
        found["brokers"] = list(brokers)
    if arguments.json:
        return json.dumps(found)
    words = [f"nameserver={nameserver}"] if nameserver is not None else []
    words += [f"broker={','.join(brokers)}"] if brokers else []
    return f"ready {' '.join(words)}"


def add_loss_option(command: argparse.ArgumentParser) -> None:
    """Add what every command that starts a broker takes to go on without files of its log."""
    command.add_argument(
        "--accept-loss",
        action="store_true",
        help="start even if files at the end of the log are missing; their messages are lost",
    )


def loss_accepted(arguments: argparse.Namespace) -> list[Property]:
    """Return the setting that ``--accept-loss`` stands for; none without it."""
    return [Property("acceptLoss", "true", "--accept-loss")] * arguments.accept_loss


def allow_many_open_files() -> None:
    """Raise the limit of open files to the hard limit; warn if that is low.

    Each connection takes a descriptor, and so does each file of the store in use. The soft limit,
    1,024 on most systems, is that low only for programs that call ``select``.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            limit = most
        except (OSError, ValueError) as error:
            log.warning("can't raise the limit of open files above %d: %s", limit, error)
    if limit < _FEW_OPEN_FILES and limit != resource.RLIM_INFINITY:
        log.warning(
            "the limit of open files, connections included, is %d; with many clients a broker needs"
            " more than %d: raise the hard limit (ulimit -Hn, or LimitNOFILE= in systemd)",
            limit,
            _FEW_OPEN_FILES,
        )


def recovery_progress() -> Callable[[int, int], None]:
    """Return a callback that draws a progress bar for the recovery of a store."""
    bar = ProgressBar("recovering")

    def show(done: int, total: int) -> None:
        if total:  # a new store has nothing to recover
            bar(done, total)
        if done >= total:
            bar.clear()

    return show


def serve(
    make: Callable[[], AbstractAsyncContextManager[S]],
    ready: Callable[[S], str],
    reload: Callable[[S], Awaitable[None]],
    *,
    ended: Callable[[S], Awaitable[OrbitError]] | None = None,
    stop_at_eof: bool = False,
) -> int:
    """Run a server until a signal stops it, and return the exit status, 0.

    ``make`` is called on the loop; ``ready`` returns the line that is printed when the server has
    started; ``reload`` reads its settings again, after SIGHUP. With ``stop_at_eof`` it also stops
    when standard input, a pipe, ends: the process at its other end is gone. If the server can't go
    on, ``ended`` returns the error that this raises when the server is closed.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(make, ready, reload, ended, stop_at_eof))
    return 0


async def _serve(
    make: Callable[[], AbstractAsyncContextManager[S]],
    ready: Callable[[S], str],
    reload: Callable[[S], Awaitable[None]],
    ended: Callable[[S], Awaitable[OrbitError]] | None,
    stop_at_eof: bool,
) -> None:
    loop = asyncio.get_running_loop()
    stop, reloads = asyncio.Event(), asyncio.Event()
    had_terminal = _has_terminal()

    def hang_up() -> None:
        (stop if had_terminal and not _has_terminal() else reloads).set()

    # Before the start: a signal that arrives meanwhile counts as soon as the server has started.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    if stop_at_eof:
        await _stop_at_eof(stop)
    async with make() as server:
        _print_ready(ready(server))
        watches = [asyncio.create_task(_reload_at_each(reloads, lambda: reload(server)))]
        if ended is not None:
            watches.append(asyncio.create_task(_raise_when_ended(ended(server), stop)))
        await stop.wait()
        for watch in watches:
            watch.cancel()
        for outcome in await asyncio.gather(*watches, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def _stop_at_eof(stop: asyncio.Event) -> None:
    mode = 0 if sys.stdin is None else os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # uvloop and Node give a socket
        raise InvalidInput(
            "--stop-at-eof needs a pipe as standard input, whose other end the parent keeps open",
            field="stop_at_eof",
        )
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: _EndOfInput(stop), sys.stdin)


async def _raise_when_ended(ended: Awaitable[OrbitError], stop: asyncio.Event) -> None:
    error = await ended
    stop.set()
    raise error


async def _reload_at_each(event: asyncio.Event, reload: Callable[[], Awaitable[None]]) -> None:
    while True:
        await event.wait()
        event.clear()
        try:
            await reload()
        except OrbitError as error:
            log.error("the settings are not reloaded, and stay as they are: %s", error)
        except Exception:
            log.exception("the settings could not be reloaded")


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal, which it loses when that is closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _print_ready(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # The terminal was closed during the start. SIGHUP stops the server, unless it is ignored.


class _EndOfInput(asyncio.Protocol):
    """Ignores what it reads, and sets an event at the end of it."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's name)
        self._ended.set()
