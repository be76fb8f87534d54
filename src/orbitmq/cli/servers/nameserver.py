"""``orbitmq nameserver``: a nameserver alone, which brokers and clients of any release use.

When it listens it prints ``ready nameserver=HOST:PORT``. SIGTERM and SIGINT stop it, with status 0.
"""

import argparse
import logging
from typing import TYPE_CHECKING, TypeAlias

from orbitmq.cli.servers.serving import add_server_options, log_to_stderr, serve
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import JAVA_NAMES, LiveSettings
from orbitmq.settings import Property, about_unknown, from_arguments, read, unknown

__all__ = ["add_commands"]

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger("orbitmq.nameserver")


def add_commands(families: "Families") -> None:
    """Add ``nameserver`` to the commands of ``orbitmq``."""
    command = families.add_parser(
        "nameserver",
        help="run a nameserver",
        description="Run a nameserver until SIGTERM or SIGINT.",
        epilog="Exit status: 0 stopped when asked to, 2 it could not start.",
    )
    command.add_argument("-c", dest="file", metavar="FILE", help="a RocketMQ namesrv.conf")
    command.add_argument("--host", help="where to listen; 127.0.0.1 if nothing is said")
    command.add_argument("--port", help="the port, 9876 if nothing is said; 0 picks a free one")
    add_server_options(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    log_to_stderr()
    properties = _properties(arguments)
    settings = LiveSettings.load(properties).now
    for one in unknown(properties, JAVA_NAMES):
        log.warning("%s", about_unknown(one, JAVA_NAMES))
    return serve(
        lambda: Nameserver(settings, insecure=arguments.insecure),
        lambda nameserver: f"ready nameserver={nameserver.address}",
    )


def _properties(arguments: argparse.Namespace) -> list[Property]:
    """Return all that was said; what stands later holds."""
    found = read(arguments.file) if arguments.file else []
    found += from_arguments(arguments.set)
    for option, name, value in (
        ("--host", "listenHost", arguments.host),
        ("--port", "listenPort", arguments.port),
    ):
        if value is not None:
            found.append(Property(name, value, option))
    return found
