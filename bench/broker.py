"""The cost of a message to a broker, orbitmq's and Java's: ``python -m bench --only broker``.

CPU time is that of the broker's process with all its threads; the load comes from another process,
the same for both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from bench import deferred
from bench.flood import flood, frames_of, spread_over
from bench.load import QUEUES, Passed, Target, create_topics, pulls, tail
from bench.measure import Child
from bench.parties import JAVA, OURS, Party, Settings, both
from bench.rounds import Plan, Result, Round, WarmUp, alternate, settle, summed_up

__all__ = ["measured"]

WINDOW: Final = 64
TOPIC: Final = "bench"
SYNC: Final[Settings] = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 20_000}
MANY: Final = 4
"""So many times the messages of other loads for those that are fast, else a round is too short."""
LEAST_MS: Final = 1.0  # the resolution of times in records

Load = Callable[[Target, int], dict[str, Round]]
"""Sends about so many messages to a target, and returns its figures by row."""


def _passed(row: str, passed: Passed) -> dict[str, Round]:
    return {row: Round(passed.cpu_us, passed.per_second)}


def _sent(row: str, kind: str, connections: int, target: Target, count: int) -> dict[str, Round]:
    frames = frames_of(kind, spread_over(target.topic), count * (MANY if kind == "batch" else 1))
    return _passed(row, flood(target, frames, connections=connections, in_flight=WINDOW))


def _committed(row: str, waiters: int, target: Target, count: int) -> dict[str, Round]:
    frames = frames_of("keyed", spread_over(target.topic), min(count, count * waiters // 8))
    passed = flood(target, frames, connections=1, in_flight=waiters)
    return {row: Round(passed.per_second, passed.per_second)}


def _pulled(target: Target, count: int) -> dict[str, Round]:
    return _passed("broker.pull", pulls(target, count=MANY * count))


def _polled(target: Target, count: int) -> dict[str, Round]:
    return _passed("broker.long-poll", tail(target, window=WINDOW, count=count))


def _deferred(
    row: str, late: str | None, load: Callable[..., deferred.Deferred], target: Target, count: int
) -> dict[str, Round]:
    found = load(target, window=WINDOW, count=count)
    figures = _passed(row, found.passed)
    if late is not None and found.late is not None:
        figures[late] = Round(max(LEAST_MS, found.late.p99))
    return figures


LOADS: Final[tuple[Load, ...]] = (
    partial(_sent, "broker.send", "keyed", 1),
    partial(_sent, "broker.connections", "keyed", WINDOW),
    partial(_sent, "broker.send-4.9", "keyed-4.9", 1),
    partial(_sent, "broker.batch", "batch", 1),
    _pulled,
    _polled,
    partial(_deferred, "broker.transaction", None, deferred.committed),
)
LATER_LOADS: Final[tuple[Load, ...]] = (  # each waits for some seconds
    partial(_deferred, "broker.delay", "latency.delay", deferred.delayed),
    partial(_deferred, "broker.timer", "latency.timer", deferred.timed),
)
SYNC_LOADS: Final[tuple[Load, ...]] = (partial(_sent, "broker.sync", "keyed", 1),)
COMMIT_LOADS: Final[tuple[Load, ...]] = tuple(
    partial(_committed, f"commit.{waiters}", waiters) for waiters in (1, 16, 256)
)


def measured(directory: Path, plan: Plan) -> Iterator[Result | WarmUp]:
    """Measure both brokers, with ASYNC_FLUSH and then with SYNC_FLUSH."""
    with Child() as child:
        with both(directory / "async") as parties:
            for party in parties.values():
                child.run(create_topics, party.target(TOPIC), [TOPIC], QUEUES)
            for load in LATER_LOADS:
                child.run(load, parties[JAVA].target(TOPIC), plan.messages)
            yield from _compared("Java broker", parties, LOADS, plan, child)
            fewer = msgspec.structs.replace(plan, rounds=plan.later_rounds)
            yield from _alternated(parties, LATER_LOADS, fewer, child)
        with both(directory / "sync", SYNC) as parties:
            half = msgspec.structs.replace(plan, warm_messages=plan.warm_messages // 2)
            who = "Java broker, SYNC_FLUSH"
            yield from _compared(who, parties, SYNC_LOADS, half, child)
            yield from _alternated(parties, COMMIT_LOADS, plan, child)


def _compared(
    who: str, parties: Mapping[str, Party], loads: Sequence[Load], plan: Plan, child: Child
) -> Iterator[Result | WarmUp]:
    """Warm both brokers up until Java's code is compiled, and measure all loads."""

    def warm(party: Party) -> float:
        found = [child.run(load, party.target(TOPIC), plan.messages) for load in loads]
        return sum(one.cost for figures in found for one in figures.values())

    warm(parties[OURS])
    least = plan.warm_messages // (plan.messages * len(loads)) + 1
    yield settle(who, partial(warm, parties[JAVA]), least)
    yield from _alternated(parties, loads, plan, child)


def _alternated(
    parties: Mapping[str, Party], loads: Sequence[Load], plan: Plan, child: Child
) -> Iterator[Result]:
    ours, theirs = (parties[name].target(TOPIC) for name in (OURS, JAVA))
    sides = {
        load: (
            partial(child.run, load, ours, plan.messages),
            partial(child.run, load, theirs, plan.messages),
        )
        for load in loads
    }
    for mine, others in alternate(sides, plan.rounds).values():
        for row in mine[0]:
            yield summed_up(row, [one[row] for one in mine], [one[row] for one in others])
