"""``orbitmq nameserver``: one nameserver, for brokers and clients of any release.

It prints ``ready nameserver=HOST:PORT`` when it listens. SIGTERM and SIGINT stop it; SIGHUP
reloads the file.
"""

import argparse
import asyncio
import logging
from functools import partial

from orbitmq.cli.asking import described
from orbitmq.cli.environment import of_server
from orbitmq.cli.servers.log_output import level_of, start_log
from orbitmq.cli.servers.serving import add_ready_option, add_server_options, ready_line, serve
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import KEYS, LiveSettings
from orbitmq.settings import Property, from_arguments, read

__all__ = ["add_arguments"]

log = logging.getLogger("orbitmq.nameserver")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq nameserver``."""
    described(
        command,
        "Run a nameserver until SIGTERM or SIGINT; SIGHUP reloads FILE.",
        examples=["nameserver", "nameserver -c namesrv.conf --host 10.0.0.1 --insecure"],
        status="0 stopped by a signal, 2 could not start",
    )
    command.add_argument("-c", dest="file", metavar="FILE", help="a RocketMQ namesrv.conf")
    command.add_argument("--host", help="the address to listen on (127.0.0.1)")
    command.add_argument("--port", help="0 picks a free one (9876)")
    add_ready_option(command)
    add_server_options(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    start_log(arguments)
    properties = _properties(arguments)
    settings = LiveSettings.load(properties)
    return serve(
        lambda: Nameserver(
            settings.now,
            tls=settings.tls,
            settings_file=arguments.file,
            insecure=arguments.insecure,
        ),
        lambda nameserver: ready_line(arguments, nameserver=str(nameserver.address)),
        partial(_reload, arguments),
        stop_at_eof=arguments.stop_at_eof,
    )


async def _reload(arguments: argparse.Namespace, nameserver: Nameserver) -> None:
    nameserver.reload(await asyncio.to_thread(_properties, arguments))


def _properties(arguments: argparse.Namespace) -> list[Property]:
    """Return the properties of file, environment, ``--set`` and options; the later one wins."""
    found = read(arguments.file) if arguments.file else []
    found += of_server(KEYS) + from_arguments(arguments.set)
    for option, name, value in (
        ("--host", "listenHost", arguments.host),
        ("--port", "listenPort", arguments.port),
    ):
        if value is not None:
            found.append(Property(name, value, option))
    return found + level_of(arguments)
