"""The cost of a message to a broker, orbitmq's and Java's in one run: ``python -m bench.broker``.

CPU time is that of the broker's process with all its threads; the load comes from another process,
the same for both. The brokers alternate, so that a busy minute of the machine affects both, and the
best round of each counts. Both are warmed up first, until Java's code is compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bench.deferred import Deferred, Late, committed, delayed, timed
from bench.load import PULL_MESSAGES, Crowd, Passed, Target, crowd, pulls, sends, tail
from bench.measure import HOW, Cell, in_child, scratch, table, write
from bench.parties import JAVA, JAVA_VERSION, OURS, PARTIES

WINDOW: Final = 64
MESSAGES: Final = 20_000
WARM_MESSAGES: Final = 120_000
WARM_PULLS: Final = 15_000
ROUNDS: Final = 3
STARTS: Final = 3
CONNECTIONS: Final = 1_000
QUEUES: Final = 10_000
TOPIC: Final = "bench"

CPU_AIM: Final = 0.5
"""Share of the CPU time of Java's broker."""
DEFERRED_CPU_AIM: Final = 0.7
READY_MS_AIM: Final = 1_000
IDLE_MB_AIM: Final = 104.9  # 100 MiB

Load = Callable[[Target], Passed]
LOADS: Final[Mapping[str, Load]] = {
    f"sent, {WINDOW} at once": lambda target: in_child(
        sends, target, connections=1, window=WINDOW, count=MESSAGES
    ),
    f"sent, {WINDOW} connections": lambda target: in_child(
        sends, target, connections=WINDOW, window=1, count=MESSAGES
    ),
    "pulled from the start": lambda target: in_child(pulls, target, count=MESSAGES),
    "sent, pulled at the tail": lambda target: in_child(
        tail, target, window=WINDOW, count=MESSAGES
    ),
}
DEFERRED_LOADS: Final[Mapping[str, Callable[..., Deferred]]] = {
    "delay level, delivered": delayed,
    "timer, delivered": timed,
    "transaction, committed": committed,
}


# Load


class Measured(NamedTuple):
    """The best rounds of each load by broker, and how late each broker delivered."""

    passed: dict[str, dict[str, Passed]]
    late: dict[str, dict[str, Late]]


def loads(directory: Path) -> Measured:
    """Run all loads on both brokers in turn."""
    rounds: dict[str, dict[str, list[Deferred]]] = {
        load: {name: [] for name in PARTIES} for load in (*LOADS, *DEFERRED_LOADS)
    }
    with ExitStack() as stack:
        targets = {}
        for name, run in PARTIES.items():
            party = stack.enter_context(run(directory / name))
            targets[name] = Target(party.address, party.pid, TOPIC)
            warm(targets[name])
        for _ in range(ROUNDS):
            for load, by_name in rounds.items():
                for name, target in targets.items():
                    by_name[name].append(run_load(load, target))
    return Measured(
        {
            load: {name: best([one.passed for one in found]) for name, found in by_name.items()}
            for load, by_name in rounds.items()
        },
        {
            load: {name: worst([one.late for one in found]) for name, found in by_name.items()}
            for load, by_name in rounds.items()
            if by_name[OURS][0].late is not None
        },
    )


def run_load(load: str, target: Target) -> Deferred:
    """Run one load in its own process."""
    if load in LOADS:
        return Deferred(LOADS[load](target), None)
    return in_child(DEFERRED_LOADS[load], target, window=WINDOW, count=MESSAGES)


def warm(target: Target) -> None:
    """Load a broker until a JVM would have compiled its code."""
    for load in DEFERRED_LOADS:
        run_load(load, target)
    in_child(sends, target, connections=1, window=WINDOW, count=WARM_MESSAGES)
    for _ in range(WARM_PULLS * PULL_MESSAGES // WARM_MESSAGES):
        in_child(pulls, target, count=WARM_MESSAGES)


def best(rounds: Sequence[Passed]) -> Passed:
    """Return the least CPU time and the most messages per second of all rounds.

    >>> best([Passed(12.0, 40_000.0), Passed(13.0, 50_000.0)])
    Passed(cpu_us=12.0, per_second=50000.0)
    """
    return Passed(min(one.cpu_us for one in rounds), max(one.per_second for one in rounds))


def worst(rounds: Sequence[Late | None]) -> Late:
    """Return the earliest delivery, and the latest median and 99th percentile of all rounds.

    >>> worst([Late(0, 1.0, 9.0), Late(1, 2.0, 3.0)])
    Late(least=0, p50=2.0, p99=9.0)
    """
    found = [one for one in rounds if one is not None]
    return Late(
        min(one.least for one in found),
        max(one.p50 for one in found),
        max(one.p99 for one in found),
    )


# Starts


class Standing(NamedTuple):
    """Start time and memory of a broker."""

    ready_ms: float
    """From the start of the process to the response to a first send."""
    idle_mb: float
    connection_kb: float
    queue_kb: float


def standings(directory: Path) -> dict[str, Standing]:
    """Return start time (best of some starts) and memory (of one) of each broker."""
    found = {}
    for name, run in PARTIES.items():
        ready_ms = []
        for number in range(STARTS - 1):
            with run(directory / f"{name}-{number}") as party:
                ready_ms.append(party.ready_ms)
        with run(directory / name) as party:
            target = Target(party.address, party.pid, TOPIC)
            grown = in_child(crowd, target, connections=CONNECTIONS, queues=QUEUES)
        found[name] = standing(min(*ready_ms, party.ready_ms), grown)
    return found


def standing(ready_ms: float, grown: Crowd) -> Standing:
    """Return the memory of an idle broker, per connection and per queue.

    >>> standing(400.0, Crowd(60.0, 70.0, 90.0))
    Standing(ready_ms=400.0, idle_mb=60.0, connection_kb=10.0, queue_kb=2.0)
    """
    connections, queues = grown.connected - grown.idle, grown.queued - grown.connected
    return Standing(
        ready_ms, grown.idle, connections * 1_000 / CONNECTIONS, queues * 1_000 / QUEUES
    )


# Results


def load_rows(found: Mapping[str, Mapping[str, Passed]]) -> list[list[Cell]]:
    """Return the rows about loads: CPU times, their ratio, throughput."""
    rows: list[list[Cell]] = []
    for load, by_name in found.items():
        ours, java = by_name[OURS], by_name[JAVA]
        part = ours.cpu_us / java.cpu_us
        aim = "over" if part > (DEFERRED_CPU_AIM if load in DEFERRED_LOADS else CPU_AIM) else ""
        rows.append([load, ours.cpu_us, java.cpu_us, part, ours.per_second, java.per_second, aim])
    return rows


def late_rows(found: Mapping[str, Mapping[str, Late]]) -> list[list[Cell]]:
    """Return the rows about delivery times: medians and 99th percentiles of both brokers."""
    return [
        [load, by_name[OURS].p50, by_name[OURS].p99, by_name[JAVA].p50, by_name[JAVA].p99]
        for load, by_name in found.items()
    ]


def standing_rows(found: Mapping[str, Standing]) -> list[list[Cell]]:
    """Return the rows about starts and memory."""
    ours, java = found[OURS], found[JAVA]
    names = ("ready, ms", "idle, MB", "a connection, KB", "a queue, KB")
    aims = (READY_MS_AIM, IDLE_MB_AIM, None, None)
    return [list(row) for row in zip(names, ours, java, aims, strict=True)]


def main() -> None:
    """Measure both, print the result, and write it to ``bench/results/broker.json``."""
    with scratch() as directory:
        found = standings(Path(directory) / "starts")
        passed, late = loads(Path(directory) / "loads")
    print(f"messages of 1 KB: CPU time of the broker's process, µs per message\n({HOW})")
    head = ["", OURS, JAVA, "ratio", f"{OURS}/s", f"{JAVA}/s", ""]
    print(table(head, load_rows(passed)))
    print(f"target ratio: {CPU_AIM}; for messages delivered later: {DEFERRED_CPU_AIM}\n")
    print("delivered later than due, ms")
    head = ["", f"{OURS} p50", "p99", f"{JAVA} p50", "p99"]
    print(table(head, late_rows(late)) + "\n")
    print(table(["", OURS, JAVA, "target"], standing_rows(found)))
    write(
        "broker",
        {
            "how": HOW,
            "java": JAVA_VERSION,
            "loads": {
                load: {name: one._asdict() for name, one in by_name.items()}
                for load, by_name in passed.items()
            },
            "late_ms": {
                load: {name: one._asdict() for name, one in by_name.items()}
                for load, by_name in late.items()
            },
            "starts": {name: one._asdict() for name, one in found.items()},
        },
    )


if __name__ == "__main__":
    main()
