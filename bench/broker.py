"""The cost of a message to a broker, orbitmq's and Java's in one run: ``python -m bench.broker``.

CPU time is that of the broker's process with all its threads; the load comes from another process,
the same for both. The brokers alternate, so that a busy minute of the machine affects both, and the
best round of each counts. Both are warmed up first, until Java's code is compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

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


# Load


def loads(directory: Path) -> dict[str, dict[str, Passed]]:
    """Return the cost of each load by broker: the best of some rounds."""
    rounds: dict[str, dict[str, list[Passed]]] = {
        load: {name: [] for name in PARTIES} for load in LOADS
    }
    with ExitStack() as stack:
        targets = {}
        for name, run in PARTIES.items():
            party = stack.enter_context(run(directory / name))
            targets[name] = Target(party.address, party.pid, TOPIC)
            warm(targets[name])
        for _ in range(ROUNDS):
            for load, call in LOADS.items():
                for name, target in targets.items():
                    rounds[load][name].append(call(target))
    return {
        load: {name: best(passed) for name, passed in of_load.items()}
        for load, of_load in rounds.items()
    }


def warm(target: Target) -> None:
    """Load a broker until a JVM would have compiled its code."""
    in_child(sends, target, connections=1, window=WINDOW, count=WARM_MESSAGES)
    for _ in range(WARM_PULLS * PULL_MESSAGES // WARM_MESSAGES):
        in_child(pulls, target, count=WARM_MESSAGES)


def best(rounds: Sequence[Passed]) -> Passed:
    """Return the least CPU time and the most messages per second of all rounds.

    >>> best([Passed(12.0, 40_000.0), Passed(13.0, 50_000.0)])
    Passed(cpu_us=12.0, per_second=50000.0)
    """
    return Passed(min(one.cpu_us for one in rounds), max(one.per_second for one in rounds))


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
        aim = "over" if part > CPU_AIM else ""
        rows.append([load, ours.cpu_us, java.cpu_us, part, ours.per_second, java.per_second, aim])
    return rows


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
        passed = loads(Path(directory) / "loads")
    print(f"messages of 1 KB: CPU time of the broker's process, µs per message\n({HOW})")
    head = ["", OURS, JAVA, "ratio", f"{OURS}/s", f"{JAVA}/s", ""]
    print(table(head, load_rows(passed)))
    print(f"target ratio: {CPU_AIM}\n")
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
            "starts": {name: one._asdict() for name, one in found.items()},
        },
    )


if __name__ == "__main__":
    main()
