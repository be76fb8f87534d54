"""``orbitmq topic probe``: how long sends to each queue take, one after the other."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from orbitmq.cli.asking import fitted, queue_text, wrapped
from orbitmq.cli.cluster import client_settings, on_a_loop, print_found
from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.message.model import Message, MessageQueue

__all__ = ["Probe", "probe", "probe_lines"]

_FAILED: Final = 1


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One send of a probe: its queue, how long its receipt took, and what went wrong if any."""

    queue: MessageQueue
    took_ms: int
    problem: str | None = None


def probe(arguments: argparse.Namespace) -> int:
    """Run ``orbitmq topic probe``."""
    for name in ("count", "size"):
        if getattr(arguments, name) < 1:
            raise InvalidInput(
                f"--{name} is {getattr(arguments, name)}; it must be 1 or more", field=name
            )
    found = on_a_loop(_probes(arguments))
    as_json = [
        {
            "broker_name": one.queue.broker_name,
            "queue_id": one.queue.queue_id,
            "took_ms": one.took_ms,
            "problem": one.problem,
        }
        for one in found
    ]
    print_found(as_json, probe_lines(found), as_json=arguments.json)
    return _FAILED if any(one.problem for one in found) else 0


async def _probes(arguments: argparse.Namespace) -> list[Probe]:
    clock = SystemClock()
    client = client_settings(arguments)
    async with Admin(client=client) as admin, Producer("orbitmq-probe", client=client) as producer:
        found = []
        for queue in await admin.queues(arguments.topic):
            for _ in range(arguments.count):
                began_ms = clock.monotonic_ms()
                problem = None
                try:
                    await producer.send(
                        Message(arguments.topic, b"p" * arguments.size), queue=queue
                    )
                except OrbitError as error:
                    problem = str(error)
                took_ms = clock.monotonic_ms() - began_ms
                found.append(Probe(queue=queue, took_ms=took_ms, problem=problem))
        return found


def probe_lines(found: Sequence[Probe]) -> Iterator[str]:
    """Yield what ``probe`` prints: a line for each queue."""
    by_queue: dict[MessageQueue, list[Probe]] = {}
    for one in found:
        by_queue.setdefault(one.queue, []).append(one)
    rows = []
    for queue, of in by_queue.items():
        took = sorted(one.took_ms for one in of if one.problem is None)
        failed = str(len(of) - len(took))
        shown = [str(took[0]), str(took[len(took) // 2]), str(took[-1])] if took else ["-"] * 3
        rows.append([queue_text(queue), str(len(took)), failed, *shown])
    yield from fitted(("QUEUE", "STORED", "FAILED", "LEAST MS", "MEDIAN MS", "MOST MS"), rows)
    problems = list(dict.fromkeys(one.problem for one in found if one.problem))
    if problems:
        yield ""
        for problem in problems:
            yield from wrapped(problem)
