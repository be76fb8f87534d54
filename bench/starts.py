"""How fast a broker starts, and the memory it uses: ``python -m bench --only start``."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.flood import flood, frames_of, spread_over
from bench.load import KILOBYTE, Crowd, Target, crowd
from bench.measure import Child
from bench.parties import JAVA, OURS, PARTIES, Ours, Party, both
from bench.rounds import Plan, Result, Round, alternate, summed_up
from bench.senders import Load, memory_of_ours

__all__ = ["measured"]

TOPIC: Final = "bench"
CHUNK: Final = 20_000
RECORD_BYTES: Final = 1_260  # of a message of 1 KB, with its properties
AT_ONCE: Final = 256
STEPS: Final = 10
LEAST_KB: Final = 0.1  # a broker may have freed other memory meanwhile
IN_TEST: Final = """
from time import perf_counter
began = perf_counter()
from orbitmq.testing.broker import start
with start():
    print((perf_counter() - began) * 1_000)
"""
IMPORT: Final = """
from time import perf_counter
began = perf_counter()
import orbitmq
print((perf_counter() - began) * 1_000)
"""
IMPORT_MS_MAX, HELP_MS_MAX = 100.0, 300.0
_directories: Final = count(1)


def measured(directory: Path, plan: Plan) -> Iterator[Result]:
    """Measure starts, memory, starts after a kill, and the memory of a producer."""
    start = partial(_start, directory)
    starts: dict[str, tuple[Callable[[], Round], Callable[[], Round]]] = {
        "start.ready": (partial(start, OURS), partial(start, JAVA)),
        "start.in-test": (partial(_told, IN_TEST), partial(start, JAVA)),
        "start.import": (partial(_told, IMPORT), lambda: Round(IMPORT_MS_MAX)),
        "start.help": (_help, lambda: Round(HELP_MS_MAX)),
    }
    for row, found in alternate(starts, plan.starts).items():
        yield summed_up(row, *found)
    with Child() as child:
        with both(directory / "crowd") as parties:
            yield from _memory(parties[OURS], parties[JAVA], plan, child)
        with both(directory / "killed") as parties:
            for party in parties.values():
                _fill(party, plan.recovery_mib * 1024**2 // RECORD_BYTES, child)
            ours, theirs = (partial(_restart, party, child) for party in parties.values())
            for row, found in alternate({"start.recovery": (ours, theirs)}, plan.starts).items():
                yield summed_up(row, *found)
    with Ours(directory / "producer") as party:
        yield _producer(str(party.nameserver), plan.producer_messages)


def _start(directory: Path, name: str) -> Round:
    with PARTIES[name](directory / f"{name}-{next(_directories)}") as party:
        return Round(party.ready_ms)


def _told(program: str) -> Round:
    """Run a program in a new process, which has imported nothing yet; it prints milliseconds."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return Round(float(ran.stdout))


def _help() -> Round:
    began = perf_counter()
    subprocess.run([sys.executable, "-m", "orbitmq", "--help"], capture_output=True, check=True)
    return Round((perf_counter() - began) * 1_000)


# Memory


def _memory(ours: Party, theirs: Party, plan: Plan, child: Child) -> Iterator[Result]:
    grown = [
        child.run(
            crowd,
            party.target(TOPIC),
            connections=plan.crowd_connections,
            queues=plan.crowd_queues,
        )
        for party in (ours, theirs)
    ]
    costs = zip(
        *(each_of(one, plan.crowd_connections, plan.crowd_queues) for one in grown), strict=True
    )
    for name, (mine, other) in zip(("memory", "connection", "queue"), costs, strict=True):
        yield summed_up(f"start.{name}", [Round(mine)], [Round(other)])


def each_of(grown: Crowd, connections: int, queues: int) -> tuple[float, ...]:
    """Return the memory of an idle broker in MB, and per connection and queue in KB.

    >>> each_of(Crowd(60.0, 70.0, 90.0), 1_000, 10_000)
    (60.0, 10.0, 2.0)
    """
    connected, queued = grown.connected - grown.idle, grown.queued - grown.connected
    each = connected * 1_000 / connections, queued * 1_000 / queues
    return grown.idle, *(max(LEAST_KB, one) for one in each)


def _producer(nameserver: str, messages: int) -> Result:
    """Return the memory of our producer after all messages, and after the first tenth of them."""
    load = Load(64, 1, gathered=False, threads=False, messages=messages)
    memory = memory_of_ours(nameserver, load, body=KILOBYTE[:100], steps=STEPS)
    return summed_up("start.producer", [Round(memory[-1].own)], [Round(memory[0].own)])


# Kills


def _fill(party: Party, messages: int, child: Child) -> None:
    for _ in range(0, messages, CHUNK):
        child.run(_store, party.target(TOPIC), min(CHUNK, messages))


def _store(target: Target, messages: int) -> None:
    frames = frames_of("keyed", spread_over(target.topic), messages)
    flood(target, frames, connections=1, in_flight=AT_ONCE)


def _restart(party: Party, child: Child) -> Round:
    """Store some more messages, kill the broker at once, and time its next start."""
    child.run(_store, party.target(TOPIC), CHUNK // 10)
    party.kill()
    party.start()
    return Round(party.ready_ms)
