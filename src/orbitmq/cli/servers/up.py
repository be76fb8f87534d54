"""``orbitmq up``: a whole cluster with one command.

A nameserver and one broker in one process, or a nameserver that supervises N broker processes,
since a broker uses one core. When all of them listen it prints one line::

    ready nameserver=HOST:PORT broker=HOST:PORT[,HOST:PORT…]
"""

import argparse
import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import KEYS, LiveSettings
from orbitmq.cli.asking import QUEUES_MAX, described
from orbitmq.cli.environment import of_server
from orbitmq.cli.servers.broker_process import broker_name, warn_about_auto_create
from orbitmq.cli.servers.log_output import level_of, log_arguments, start_log
from orbitmq.cli.servers.serving import (
    add_loss_option,
    add_ready_option,
    add_server_options,
    allow_many_open_files,
    loss_accepted,
    ready_line,
    recovery_progress,
    serve,
)
from orbitmq.cli.servers.supervisor import Supervisor
from orbitmq.client.admin.admin import Admin
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import InvalidInput
from orbitmq.message.names import check_topic
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import LiveSettings as NameserverLiveSettings
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.transport.own_host import own_host
from orbitmq.settings import Property, from_arguments, read

__all__ = ["add_arguments"]

log = logging.getLogger("orbitmq.cli")

_BROKERS_MAX: Final = 26  # broker-a to broker-z
_QUEUES: Final = 4  # as `orbitmq topic create`
_PORT_MAX: Final = 65_535
_PORTS_APART: Final = 10
"""A broker also listens on the port two below its own; tools expect replication on the next one."""


# Keys of a broker that are options here.
_OPTIONS: Final = {
    "listenHost": "use --host",
    "bindAddress": "use --host",
    "listenPort": "use --broker-port",
    "namesrvAddr": "the brokers use its nameserver; see --nameserver-port",
    "storePathRootDir": "use --store",
}


_ENABLED: Final = frozenset(("enablePropertyFilter", "recallMessageEnable", "traceTopicEnable"))
"""On, unless the user says otherwise; Java's default is off, for the brokers of a large cluster."""


class _Ready(NamedTuple):
    nameserver: Address
    brokers: tuple[str, ...]
    reload: Callable[[], Awaitable[None]]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq up``."""
    described(
        command,
        "Run a nameserver and brokers until SIGTERM or SIGINT; SIGHUP reloads FILE.",
        examples=[
            "up",
            "up --topic orders:8 --topic payments --quiet",
            "up --nameserver-port 0 --broker-port 0 --store /tmp/mq --json",
            "up --brokers 4 -c broker.conf --set fileReservedTime=24",
            "up --host 0.0.0.0 --insecure --set brokerIP1=10.0.0.7",
        ],
        status="0 stopped by a signal, 2 could not start",
    )
    command.add_argument(
        "-c", dest="file", metavar="FILE", help="a RocketMQ broker.conf, for all brokers"
    )
    command.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (%(default)s)"
    )
    command.add_argument(
        "--nameserver-port",
        type=int,
        default=9876,
        metavar="PORT",
        help="0 picks a free one (%(default)s)",
    )
    command.add_argument(
        "--broker-port",
        type=int,
        default=10911,
        metavar="PORT",
        help="of the first broker, each next one 10 above; 0 picks free ones (%(default)s)",
    )
    command.add_argument(
        "--brokers",
        type=int,
        default=1,
        metavar="N",
        help="number of brokers; several are a process each (1)",
    )
    command.add_argument(
        "--store",
        default="orbitmq-data",
        metavar="DIR",
        help="directory of the brokers' files (./%(default)s)",
    )
    command.add_argument(
        "--topic",
        metavar="NAME[:QUEUES]",
        action="append",
        default=[],
        type=_topic,
        help="create this topic on each broker, with 4 queues, unless it exists; may be repeated",
    )
    command.add_argument("--no-dashboard", action="store_true", help=argparse.SUPPRESS)
    add_ready_option(command)
    add_loss_option(command)
    add_server_options(command)
    command.set_defaults(run=_run)


def _topic(text: str) -> tuple[str, int]:
    """Return the name and the queues of ``--topic``, for argparse."""
    name, colon, queues = text.partition(":")
    try:
        check_topic(name)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not colon:
        return name, _QUEUES
    if not (queues.isdecimal() and queues.isascii() and 1 <= int(queues[:9]) <= QUEUES_MAX):
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is not NAME:QUEUES with 1 to {QUEUES_MAX} queues, as orders:8"
        )
    return name, int(queues)


async def _create_topics(arguments: argparse.Namespace, ready: _Ready) -> None:
    """Create the topics of ``--topic`` that no broker has yet, on all brokers."""
    if not arguments.topic:
        return
    # With TLS alone, we meet our own certificate, which need not name the address we use.
    modes = [one.value for one in _of_user(arguments) if one.name == "tls.server.mode"]
    tls = modes[-1:] == ["enforcing"]
    client = ClientSettings(
        nameserver=str(ready.nameserver), keep_open_ms=0, tls=tls, tls_verify=not tls
    )
    async with Admin(client=client) as admin:
        existing = set(await admin.topics())
        for name, queues in arguments.topic:
            if name in existing:
                continue
            for cluster in await admin.clusters():
                await admin.create_topic(name, queues=queues, on=cluster.name)


def _run(arguments: argparse.Namespace) -> int:
    single = arguments.brokers == 1
    start_log(arguments, broker=broker_name(_of_user(arguments)) if single else None)
    allow_many_open_files()
    if not 1 <= arguments.brokers <= _BROKERS_MAX:
        raise InvalidInput(
            f"--brokers is {arguments.brokers}; it must be from 1 to {_BROKERS_MAX}",
            field="brokers",
        )
    _check_port("--nameserver-port", arguments.nameserver_port, _PORT_MAX)
    most = _PORT_MAX - _PORTS_APART * (arguments.brokers - 1)
    _check_port("--broker-port", arguments.broker_port, most)
    _check_keys(arguments)
    make = _in_one_process if single else _supervised
    return serve(
        lambda: make(arguments),
        lambda ready: ready_line(
            arguments, nameserver=str(ready.nameserver), brokers=ready.brokers
        ),
        lambda ready: ready.reload(),
        stop_at_eof=arguments.stop_at_eof,
    )


def _check_port(option: str, port: int, most: int) -> None:
    if not 0 <= port <= most:
        raise InvalidInput(f"{option} is {port}; it must be from 0 to {most}", field=option)


@asynccontextmanager
async def _in_one_process(arguments: argparse.Namespace) -> AsyncIterator[_Ready]:
    async with _nameserver(arguments) as nameserver:
        properties = _properties(arguments, 0, nameserver.address)
        settings = LiveSettings.load(properties, file=arguments.file)
        warn_about_auto_create(settings)
        broker = Broker(
            settings,
            Machine(pid=os.getpid()),
            insecure=arguments.insecure,
            progress=recovery_progress(),
        )

        async def reload() -> None:
            broker.reload(await asyncio.to_thread(_properties, arguments, 0, nameserver.address))

        async with broker:
            ready = _Ready(_advertised(nameserver), (str(broker.advertised),), reload)
            await _create_topics(arguments, ready)
            yield ready


@asynccontextmanager
async def _supervised(arguments: argparse.Namespace) -> AsyncIterator[_Ready]:
    async with _nameserver(arguments) as nameserver:
        commands = {
            _name(number): _command(arguments, number, nameserver.address)
            for number in range(arguments.brokers)
        }
        async with Supervisor(commands) as supervisor:

            async def reload() -> None:
                supervisor.reload()

            ready = _Ready(_advertised(nameserver), tuple(supervisor.ready.values()), reload)
            await _create_topics(arguments, ready)
            yield ready


def _nameserver(arguments: argparse.Namespace) -> Nameserver:
    settings = NameserverSettings(
        listen_host=arguments.host,
        listen_port=arguments.nameserver_port,
        kv_config_path=f"{arguments.store}/namesrv/kvConfig.json",
    )
    tls = [one for one in _of_user(arguments) if one.name.startswith("tls.")]
    loaded = NameserverLiveSettings.load(tls)  # the brokers take the same keys
    return Nameserver(settings, tls=loaded.tls, insecure=arguments.insecure)


def _advertised(nameserver: Nameserver) -> Address:
    """Return an address that clients can use; 0.0.0.0 is none."""
    address = nameserver.address
    if address.host in ("0.0.0.0", "::"):
        return Address(own_host(), address.port)
    return address


def _name(number: int) -> str:
    return f"broker-{chr(ord('a') + number)}"


def _of_user(arguments: argparse.Namespace) -> list[Property]:
    return [*_of_file(arguments), *from_arguments(arguments.set)]


def _of_file(arguments: argparse.Namespace) -> list[Property]:
    """Return the properties of the file, and of the environment, which wins over it."""
    return [*(read(arguments.file) if arguments.file else ()), *of_server(KEYS)]


def _check_keys(arguments: argparse.Namespace) -> None:
    """Refuse a log that brokers would share; warn of keys in the file that options replace."""
    several = arguments.brokers > 1
    if several and any(one.name == "storePathCommitLog" for one in _of_user(arguments)):
        raise InvalidInput(
            "storePathCommitLog would be the log of all brokers; run each by orbitmq broker",
            field="storePathCommitLog",
        )
    for one in _of_file(arguments):
        if one.name in _OPTIONS or (several and one.name == "brokerName"):
            instead = _OPTIONS.get(one.name, "brokers are named broker-a, broker-b and so on")
            log.warning("%s has no effect in orbitmq up: %s", one, instead)


def _properties(arguments: argparse.Namespace, number: int, nameserver: Address) -> list[Property]:
    """Return the properties of one broker: of the file, of this command, and of ``--set``."""
    return [*_of_file(arguments), *_beside_file(arguments, number, nameserver)]


def _beside_file(arguments: argparse.Namespace, number: int, nameserver: Address) -> list[Property]:
    """Return the properties of this command and of ``--set``; all win over those of the file.

    A single broker keeps its files in the store directory itself. With several, each has a
    directory and a name of its own, which the user can't set.
    """
    several = arguments.brokers > 1
    port = arguments.broker_port + _PORTS_APART * number if arguments.broker_port else 0
    in_file = [one.name for one in _of_file(arguments)]
    values = {
        "listenHost": arguments.host,
        "listenPort": str(port),
        "namesrvAddr": str(nameserver),
        "storePathRootDir": f"{arguments.store}/{_name(number)}" if several else arguments.store,
        **dict.fromkeys(sorted(_ENABLED.difference(in_file)), "true"),
    }
    users = from_arguments(arguments.set)
    if several:
        values["brokerName"] = _name(number)
        users = [one for one in users if one.name not in ("brokerName", "storePathRootDir")]
    ours = [Property(key, value, "up") for key, value in values.items()]
    return [*ours, *users, *loss_accepted(arguments), *level_of(arguments)]


def _command(arguments: argparse.Namespace, number: int, nameserver: Address) -> list[str]:
    """Return the arguments of the process of one broker."""
    command = ["broker", "--stop-at-eof", *log_arguments(arguments)]
    if arguments.file:
        command += ["-c", arguments.file]
    for one in _beside_file(arguments, number, nameserver):
        command += ["--set", f"{one.name}={one.value}"]
    return command + ["--insecure"] * arguments.insecure
