"""``orbitmq bench``: load on a cluster, with live figures.

``send`` and ``consume`` use a topic; ``broker`` makes one, sends and reads at the same time, and
deletes it.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from orbitmq.cli.asking import QUEUES_MAX, add_command, family
from orbitmq.cli.bench.figures import Figures, LiveLine, figure_lines
from orbitmq.cli.bench.load import Amount, receive, send
from orbitmq.cli.cluster import (
    add_group_option,
    client_settings,
    on_a_loop,
    print_found,
    producer_settings,
)
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.tail import Tail, readable_queues
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.message.model import Message

__all__ = ["add_arguments"]

_FAILED: Final = 1
_GROUP: Final = "orbitmq-bench"
_SECONDS: Final = 10.0
_IN_FLIGHT_MAX: Final = 1_000
"""A little less than a producer allows by default."""
_CATCH_UP_S: Final = 30.0
_TICK_S: Final = 0.2

T = TypeVar("T")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the commands of ``orbitmq bench``."""
    commands = family(command)
    sends = add_command(
        commands,
        "send",
        _send,
        "send as fast as answers come, or at a rate",
        about="The messages stay in the topic. Settings of the producer count, such as --set "
        "autoBatch=true.",
        examples=["bench send load", "bench send load --rate 1000 --seconds 60 --size 256 --json"],
        status="0 all were stored, 1 some failed, 2 too many failed, or the cluster can't be "
        "asked, 130 interrupted",
    )
    sends.add_argument("topic", metavar="TOPIC")
    _add_load(sends)
    consumes = add_command(
        commands,
        "consume",
        _consume,
        "read a topic as fast as it comes",
        about="No group is used, and no offset changes. From the beginning it ends at what is the "
        "end now; from the end it reads new messages, and the latency is that from the send.",
        examples=["bench consume load", "bench consume load --from end --seconds 60"],
        status="0 messages were read, 1 there were none, 2 the cluster can't be asked",
    )
    consumes.add_argument("topic", metavar="TOPIC")
    consumes.add_argument("--from", dest="start", choices=("beginning", "end"), default="beginning")
    consumes.add_argument("--count", type=int, metavar="N", help="stop after N messages")
    consumes.add_argument("--seconds", type=float, metavar="S", help="stop after S seconds")
    whole = add_command(
        commands,
        "broker",
        _broker,
        "send and read at the same time, through a topic of its own",
        about="The topic is made on all brokers, and deleted at the end.",
        examples=["bench broker", "bench broker --queues 8 --in-flight 512 --seconds 60"],
        status="0 all were stored and read, 1 some failed or were not read, 2 the cluster can't be "
        "asked",
    )
    _add_load(whole)
    whole.add_argument(
        "--queues", type=int, default=4, metavar="N", help="queues on each broker (%(default)s)"
    )


def _add_load(command: argparse.ArgumentParser) -> None:
    command.add_argument("--count", type=int, metavar="N", help="stop after N messages")
    command.add_argument(
        "--seconds", type=float, metavar="S", help=f"stop after S seconds ({_SECONDS:g})"
    )
    command.add_argument(
        "--rate", type=float, default=0.0, metavar="N", help="at most N per second (no limit)"
    )
    command.add_argument(
        "--size", type=int, default=1024, metavar="BYTES", help="of each body (%(default)s)"
    )
    command.add_argument(
        "--in-flight", type=int, default=128, metavar="N", help="sends at a time (%(default)s)"
    )
    add_group_option(command, _GROUP)


def _check(arguments: argparse.Namespace) -> None:
    most = {"in_flight": _IN_FLIGHT_MAX, "queues": QUEUES_MAX}
    for name in ("count", "seconds", "size", "in_flight", "queues"):
        value = getattr(arguments, name, None)
        end = most.get(name)
        if value is not None and not (value > 0 and (end is None or value <= end)):
            wanted = "more than 0" if end is None else f"from 1 to {end}"
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option} is {value:g}; it must be {wanted}", field=name)
    if not 0 <= getattr(arguments, "rate", 0) < float("inf"):
        raise InvalidInput(f"--rate is {arguments.rate:g}; it must be 0 or more", field="rate")


def _amount(arguments: argparse.Namespace) -> Amount:
    is_open = arguments.count is None and arguments.seconds is None
    return Amount(arguments.count, _SECONDS if is_open else arguments.seconds, arguments.rate)


def _now() -> float:
    return SystemClock().monotonic_ms() / 1000


def _run(work: Coroutine[object, object, None], tell: Callable[[], None], *of: Figures) -> None:
    """Run a load, and print its figures: also if ^C ends it, or an error after some messages."""
    try:
        on_a_loop(work)
    except (KeyboardInterrupt, OrbitError):
        if any(one.messages for one in of):
            tell()
        raise
    tell()


async def _live(work: Coroutine[object, object, T], *figures: Figures) -> T:
    """Do work, and draw the figures meanwhile."""
    line = LiveLine(sys.stderr, asyncio.get_running_loop().time)
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=_TICK_S)
            line.draw(*figures)
        return await task
    except* OrbitError as several:  # of the workers: each tells the same
        raise _first(several) from None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # before its client is closed
        line.clear()


def _first(group: BaseExceptionGroup[OrbitError]) -> OrbitError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


# Send


def _send(arguments: argparse.Namespace) -> int:
    _check(arguments)
    client, settings = producer_settings(arguments)
    message = Message(arguments.topic, b"x" * arguments.size)

    figures = Figures("sent", _now)

    async def work() -> None:
        async with Producer(settings=settings, client=client) as producer:
            load = send(producer, message, _amount(arguments), arguments.in_flight, figures)
            await _live(load, figures)
        if figures.first_error is not None and not figures.messages:
            raise figures.first_error

    def tell() -> None:
        as_json = {
            "topic": arguments.topic,
            "size": arguments.size,
            "in_flight": arguments.in_flight,
            **figures.as_json(),
        }
        print_found(as_json, figure_lines(figures), as_json=arguments.json)

    _run(work(), tell, figures)
    return _FAILED if figures.failed else 0


# Consume


def _consume(arguments: argparse.Namespace) -> int:
    _check(arguments)
    client = client_settings(arguments)

    figures = Figures("received", _now)

    async def work() -> None:
        async with _reading(client, arguments.topic, arguments.start) as tail:
            clock = SystemClock() if arguments.start == "end" else None
            try:
                async with asyncio.timeout(arguments.seconds):
                    await _live(receive(tail, figures, count=arguments.count, clock=clock), figures)
            except TimeoutError:
                pass  # it has read for as long as it should

    def tell() -> None:
        as_json = {"topic": arguments.topic, **figures.as_json()}
        print_found(as_json, figure_lines(figures), as_json=arguments.json)

    _run(work(), tell, figures)
    return 0 if figures.messages else _FAILED


@asynccontextmanager
async def _reading(client: ClientSettings, topic: str, start: str) -> AsyncIterator[Tail]:
    """Yield what reads a topic: from its beginning to what is its end now, or from the end on."""
    core = await ClientCore.acquire(client)
    try:
        async with Admin(client=client) as admin:
            queues = await readable_queues(core, topic)
            ends = {queue: await admin.max_offset(queue) for queue in queues}
            if start == "end":
                yield Tail(core, ends, topic=topic)
            else:
                begins = {queue: await admin.min_offset(queue) for queue in queues}
                yield Tail(core, begins, end=ends)
    finally:
        await core.release()


# Broker


def _broker(arguments: argparse.Namespace) -> int:
    _check(arguments)
    client, settings = producer_settings(arguments)
    clock = SystemClock()
    topic = f"{_GROUP}-{os.getpid()}-{clock.now_ms()}"
    message = Message(topic, b"x" * arguments.size)

    sent, received = Figures("sent", _now), Figures("received", _now)

    async def work() -> None:
        async with (
            _topic(client, topic, arguments.queues),
            _reading(client, topic, "end") as tail,
            Producer(settings=settings, client=client) as producer,
        ):
            reads = asyncio.ensure_future(receive(tail, received, clock=clock))
            try:
                load = send(producer, message, _amount(arguments), arguments.in_flight, sent)
                await _live(load, sent, received)
                await _live(_caught_up(sent, received, reads), sent, received)
            finally:
                reads.cancel()
                await asyncio.gather(reads, return_exceptions=True)

    def tell() -> None:
        as_json = {
            "size": arguments.size,
            "in_flight": arguments.in_flight,
            "queues": arguments.queues,
            "sent": sent.as_json(),
            "received": received.as_json(),
        }
        lines = [*figure_lines(sent), "", *figure_lines(received)]
        print_found(as_json, lines, as_json=arguments.json)

    _run(work(), tell, sent, received)
    return 0 if received.messages >= sent.messages and not sent.failed else _FAILED


@asynccontextmanager
async def _topic(client: ClientSettings, topic: str, queues: int) -> AsyncIterator[None]:
    """Have a topic on all brokers meanwhile."""
    async with Admin(client=client) as admin:
        for cluster in await admin.clusters():
            await admin.create_topic(topic, queues=queues, on=cluster.name)
        try:
            yield
        finally:
            await admin.delete_topic(topic)


async def _caught_up(sent: Figures, received: Figures, reads: "asyncio.Task[None]") -> None:
    """Wait until all that was sent is received; not for ever, since some may be lost."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _CATCH_UP_S
    while received.messages < sent.messages and loop.time() < until:
        if reads.done():
            return reads.result()  # raises why it ended
        await asyncio.sleep(_TICK_S)
    return None
