"""``orbitmq broker``: one broker, configured by a RocketMQ ``broker.conf``.

It prints ``ready broker=HOST:PORT`` when it listens. SIGTERM, SIGINT and SIGHUP stop it.
"""

import argparse
import logging
import os
from typing import TYPE_CHECKING, TypeAlias

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.cli.servers.serving import (
    add_loss_option,
    add_server_options,
    allow_many_open_files,
    log_to_stderr,
    loss_accepted,
    recovery_progress,
    serve,
)
from orbitmq.net.exposure import is_loopback
from orbitmq.settings import from_arguments, read

__all__ = ["add_commands", "warn_about_auto_create"]

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger("orbitmq.broker")


def add_commands(families: "Families") -> None:
    """Add ``broker`` to the commands of ``orbitmq``."""
    command = families.add_parser(
        "broker",
        help="run a broker",
        description="Run a broker until SIGTERM, SIGINT or SIGHUP.",
        epilog="Exit status: 0 stopped by a signal, 2 could not start.",
    )
    command.add_argument("-c", dest="file", metavar="FILE", help="a RocketMQ broker.conf")
    command.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="also stop when standard input ends, so as not to outlive a parent process",
    )
    add_loss_option(command)
    add_server_options(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    log_to_stderr()
    allow_many_open_files()
    properties = read(arguments.file) if arguments.file else []
    settings = LiveSettings.load(
        [*properties, *from_arguments(arguments.set), *loss_accepted(arguments)],
        file=arguments.file,
    )
    warn_about_auto_create(settings)
    return serve(
        lambda: Broker(
            settings,
            Machine(pid=os.getpid()),
            insecure=arguments.insecure,
            progress=recovery_progress(),
        ),
        lambda broker: f"ready broker={broker.address}",
        stop_at_eof=arguments.stop_at_eof,
    )


def warn_about_auto_create(settings: LiveSettings) -> None:
    """Warn if clients on other machines can create topics by sending to them."""
    broker = settings.broker
    if broker.auto_create_topic_enable and not is_loopback(broker.listen_host):
        log.warning(
            "autoCreateTopicEnable is true: any client that reaches %s creates a topic by sending "
            "to it, even to a mistyped name; set it to false and create topics explicitly",
            broker.listen_host,
        )
