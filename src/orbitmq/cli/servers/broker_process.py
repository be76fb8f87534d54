"""Runs a broker until a signal, with the properties of file, environment and arguments."""

import argparse
import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import KEYS, BrokerSettings, LiveSettings
from orbitmq.cli.environment import of_server
from orbitmq.cli.servers.log_output import level_of, start_log
from orbitmq.cli.servers.serving import (
    allow_many_open_files,
    loss_accepted,
    ready_line,
    recovery_progress,
    serve,
)
from orbitmq.errors import OrbitError
from orbitmq.net.exposure import is_loopback
from orbitmq.settings import Property, from_arguments, read

__all__ = ["broker_name", "run", "warn_about_auto_create"]

log = logging.getLogger("orbitmq.broker")


def run(arguments: argparse.Namespace) -> int:
    """Run the broker that the arguments describe; return the exit status."""
    properties = _properties(arguments)
    start_log(arguments, broker=broker_name(properties))
    allow_many_open_files()
    # Or else gRPC writes lines of its own about each failed handshake; our errors say the same.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    settings = LiveSettings.load(properties, file=arguments.file)
    warn_about_auto_create(settings)

    def make() -> AbstractAsyncContextManager[Broker | ElectedBroker]:
        kind = ElectedBroker if settings.failover.enabled else Broker
        return kind(
            settings,
            Machine(pid=os.getpid()),
            insecure=arguments.insecure,
            progress=recovery_progress(),
        )

    return serve(
        make,
        lambda broker: ready_line(arguments, brokers=[str(broker.advertised)]),
        partial(_reload, arguments),
        ended=_ended,
        stop_at_eof=arguments.stop_at_eof,
    )


async def _ended(broker: Broker | ElectedBroker) -> OrbitError:
    """Return why a broker can't go on; a broker without elections never ends by itself."""
    if isinstance(broker, ElectedBroker):
        return await broker.ended()
    return await asyncio.Future()


async def _reload(arguments: argparse.Namespace, broker: Broker | ElectedBroker) -> None:
    broker.reload(await asyncio.to_thread(_properties, arguments))


def _properties(arguments: argparse.Namespace) -> list[Property]:
    """Return the properties of file, environment and arguments; the later one wins."""
    found = [*(read(arguments.file) if arguments.file else ()), *of_server(KEYS)]
    return [*found, *from_arguments(arguments.set), *loss_accepted(arguments), *level_of(arguments)]


def broker_name(properties: Sequence[Property]) -> str:
    """Return the name of a broker with these properties, for its log."""
    names = [one.value.strip() for one in properties if one.name == "brokerName"]
    return names[-1] if names else BrokerSettings().broker_name


def warn_about_auto_create(settings: LiveSettings) -> None:
    """Warn if clients on other machines can create topics by sending to them."""
    broker = settings.broker
    if broker.auto_create_topic_enable and not is_loopback(broker.listen_host):
        log.warning(
            "autoCreateTopicEnable is true: any client that reaches %s creates a topic by sending "
            "to it, even to a mistyped name; set it to false and create topics explicitly",
            broker.listen_host,
        )
