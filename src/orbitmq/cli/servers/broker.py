"""``orbitmq broker``: a broker alone, on a RocketMQ ``broker.conf``.

When it listens it prints ``ready broker=HOST:PORT``. SIGTERM and SIGINT stop it, with status 0.
"""

import argparse
import logging
import os
from typing import TYPE_CHECKING, TypeAlias

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings, warnings_about
from orbitmq.cli.servers.serving import (
    add_server_options,
    allow_many_open_files,
    log_to_stderr,
    recovery_progress,
    serve,
)
from orbitmq.net.exposure import is_loopback
from orbitmq.settings import Property, from_arguments, read

__all__ = ["add_commands", "load_settings", "warn_of_open_door"]

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger("orbitmq.broker")


def add_commands(families: "Families") -> None:
    """Add ``broker`` to the commands of ``orbitmq``."""
    command = families.add_parser(
        "broker",
        help="run a broker",
        description="Run a broker until SIGTERM or SIGINT.",
        epilog="Exit status: 0 stopped when asked to, 2 it could not start.",
    )
    command.add_argument("-c", dest="file", metavar="FILE", help="a RocketMQ broker.conf")
    command.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="stop as well when standard input ends: for whoever runs brokers as processes",
    )
    add_server_options(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    log_to_stderr()
    allow_many_open_files()
    properties = read(arguments.file) if arguments.file else []
    settings = load_settings([*properties, *from_arguments(arguments.set)])
    warn_of_open_door(settings)
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


def load_settings(properties: list[Property]) -> LiveSettings:
    """Return what the properties say; one that no setting has the name of is a warning.

    Raises:
        InvalidSetting: a value can't be used; the error names file, line and key.

    """
    for warning in warnings_about(properties):
        log.warning("%s", warning)
    return LiveSettings.load(properties)


def warn_of_open_door(settings: LiveSettings) -> None:
    """Warn of topics made by whoever sends, where others than this machine can send."""
    broker = settings.broker
    if broker.auto_create_topic_enable and not is_loopback(broker.listen_host):
        log.warning(
            "autoCreateTopicEnable is true: whoever reaches %s makes topics by sending to them, "
            "and a typing error makes one too; set it to false and create topics on purpose",
            broker.listen_host,
        )
