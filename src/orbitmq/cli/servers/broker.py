"""``orbitmq broker``: one broker, configured by a RocketMQ ``broker.conf``.

It prints ``ready broker=HOST:PORT`` when it listens. SIGTERM and SIGINT stop it; SIGHUP reloads the
file. With ``enableControllerMode`` it elects a master with the other brokers of its name. Its
commands ask brokers that run elsewhere: who runs a broker does not import them, and the other way
round.
"""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from orbitmq.cli.asking import LaterCommands, described
from orbitmq.cli.servers.serving import add_loss_option, add_ready_option, add_server_options

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = ["add_arguments"]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq broker``."""
    described(
        command,
        "Without COMMAND, run a broker until SIGTERM or SIGINT; SIGHUP reloads FILE. "
        "With one, ask the brokers of a cluster.",
        examples=[
            "broker -c broker.conf",
            "broker --set namesrvAddr=10.0.0.1:9876 --set brokerName=broker-b",
        ],
        status="without COMMAND: 0 stopped by a signal, 2 could not start or go on",
    )
    command.add_argument("-c", dest="file", metavar="FILE", help="a RocketMQ broker.conf")
    add_ready_option(command)
    add_loss_option(command)
    add_server_options(command)
    command.set_defaults(run=_run)
    later = command.add_subparsers(metavar="COMMAND", action=LaterCommands)
    assert isinstance(later, LaterCommands)
    later.add = _add_commands


def _add_commands(commands: "Family") -> None:
    import_module("orbitmq.cli.operating.broker").add_broker_commands(commands)


def _run(arguments: argparse.Namespace) -> int:
    status: int = import_module("orbitmq.cli.servers.broker_process").run(arguments)
    return status
