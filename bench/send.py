"""The cost of a send to the client, orbitmq's and Java's: ``python -m bench.send``.

Each client sends to each broker: four pairs in one run. They alternate, so that a busy minute of
the machine affects all of them, and the best round of each counts. Java's client and broker are
warmed up first, until their code is compiled. The last two loads use orbitmq's blocking client; in
all others orbitmq sends from tasks, and Java from threads or with callbacks. At the end orbitmq's
client sends a million small messages (ten million with ``--full``) while its memory is measured.
"""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import KILOBYTE
from bench.measure import HOW, Cell, Resident, scratch, table, write
from bench.parties import JAVA, JAVA_VERSION, OURS, PARTIES
from bench.senders import JavaSender, Load, Spent, java_sender, memory_of_ours, send_ours

ROUNDS: Final = 2
WARM_TIMES: Final = 3
"""How often Java's client sends each load before it is measured."""
LOADS: Final[Mapping[str, Load]] = {
    "1 in flight": Load(1, 1, gathered=False, threads=True, messages=3_000),
    "64 in flight": Load(64, 1, gathered=False, threads=False, messages=25_000),
    "64, threads": Load(64, 1, gathered=False, threads=True, messages=25_000),
    "1,024 in flight": Load(1_024, 1, gathered=False, threads=False, messages=25_000),
    "4 batches of 16": Load(4, 16, gathered=False, threads=False, messages=32_000),
    "1,024, gathered": Load(1_024, 1, gathered=True, threads=False, messages=32_000),
    "1 thread": Load(1, 1, gathered=False, threads=True, messages=3_000, blocking=True),
    "16 threads": Load(16, 1, gathered=False, threads=True, messages=10_000, blocking=True),
}
AIMED_AT: Final = "64 in flight"
CPU_AIM: Final = 1 / 3
"""Share of the CPU time of Java's client, with the same broker."""
RATE_AIM: Final = 3.0
"""Multiple of the throughput from Java's client to Java's broker."""

MEMORY_STEPS: Final = 10
MEMORY_BODY: Final = KILOBYTE[:100]
MEMORY_MESSAGES, FULL_MEMORY_MESSAGES = 1_000_000, 10_000_000
MEMORY_AIM: Final = 1.05
"""Multiple of the memory after the first tenth; above it, memory is growing."""


class Pair(NamedTuple):
    """A client and the broker it sends to."""

    client: str
    broker: str

    def __str__(self) -> str:
        return f"{self.client}→{self.broker}"


PAIRS: Final = (Pair(OURS, OURS), Pair(OURS, JAVA), Pair(JAVA, OURS), Pair(JAVA, JAVA))
Found = Mapping[str, Mapping[Pair, Spent]]


# Measuring


def measured(nameservers: Mapping[str, str], java: JavaSender) -> dict[str, dict[Pair, Spent]]:
    """Return the cost of each load by pair: the best of some rounds."""

    def send(pair: Pair, load: Load) -> Spent:
        nameserver = nameservers[pair.broker]
        return send_ours(nameserver, load) if pair.client == OURS else java.send(nameserver, load)

    for load in (*LOADS.values(),) * WARM_TIMES:
        for nameserver in nameservers.values():
            java.send(nameserver, load)
    found: dict[str, dict[Pair, list[Spent]]] = {
        name: {pair: [] for pair in PAIRS} for name in LOADS
    }
    for _ in range(ROUNDS):
        for name, load in LOADS.items():
            for pair in PAIRS:
                found[name][pair].append(send(pair, load))
    return {
        name: {pair: best(rounds) for pair, rounds in by_pair.items()}
        for name, by_pair in found.items()
    }


def best(rounds: Sequence[Spent]) -> Spent:
    """Return the least CPU time, the most messages per second, and all refused sends.

    >>> best([Spent(12.0, 40_000.0, 1), Spent(13.0, 50_000.0, 2)])
    Spent(cpu_us=12.0, per_second=50000.0, refused=3)
    """
    return Spent(
        min(one.cpu_us for one in rounds),
        max(one.per_second for one in rounds),
        sum(one.refused for one in rounds),
    )


# Results


def cpu_rows(found: Found) -> list[list[Cell]]:
    """Return the rows about CPU time: each pair, and the worse ratio to Java's client."""
    rows: list[list[Cell]] = []
    for name, by_pair in found.items():
        spent = {pair: one.cpu_us for pair, one in by_pair.items()}
        part = max(spent[Pair(OURS, broker)] / spent[Pair(JAVA, broker)] for broker in PARTIES)
        over = "over" if name == AIMED_AT and part > CPU_AIM else ""
        rows.append([name, *(spent[pair] for pair in PAIRS), part, over])
    return rows


def rate_rows(found: Found) -> list[list[Cell]]:
    """Return the rows about throughput: each pair, and orbitmq alone as a multiple of Java."""
    rows: list[list[Cell]] = []
    for name, by_pair in found.items():
        rates = {pair: one.per_second for pair, one in by_pair.items()}
        times = rates[Pair(OURS, OURS)] / rates[Pair(JAVA, JAVA)]
        under = "under" if name == AIMED_AT and times < RATE_AIM else ""
        rows.append([name, *(rates[pair] for pair in PAIRS), times, under])
    return rows


def memory_line(messages: int, memory: Sequence[Resident]) -> str:
    """Return a line about the client's memory after the first and the last step.

    >>> memory_line(1_000, [Resident(40.0, 9.0, 50.0), Resident(41.0, 9.0, 50.0)])
    'memory of our client over 1,000 sends: 40.0 MB after the first 500, 41.0 MB at the end'
    """
    first, last = memory[0].own, memory[-1].own
    grown = "; it GROWS" if last > first * MEMORY_AIM else ""
    return (
        f"memory of our client over {messages:,} sends: {first} MB after the first "
        f"{messages // len(memory):,}, {last} MB at the end{grown}"
    )


def show(found: Found, messages: int, memory: Sequence[Resident]) -> None:
    """Print the tables."""
    heads = [str(pair).replace("orbitmq", "ours") for pair in PAIRS]
    print(f"messages of 1 KB, client to broker: CPU time of the client, µs per message\n({HOW})")
    print(table(["", *heads, "ratio", ""], cpu_rows(found)))
    print(f"target ratio at {AIMED_AT}: {CPU_AIM:.2f}\n\nmessages per second")
    print(table(["", *heads, "times", ""], rate_rows(found)))
    print(f"target at {AIMED_AT}: {RATE_AIM:.0f} times; clients and brokers share all cores\n")
    print(memory_line(messages, memory))


def main() -> None:
    """Measure all pairs, print the result, and write it to ``bench/results/send.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure memory over 10 million sends")
    messages = FULL_MEMORY_MESSAGES if parser.parse_args().full else MEMORY_MESSAGES
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        nameservers = {
            party: str(stack.enter_context(run(directory / party)).nameserver)
            for party, run in PARTIES.items()
        }
        with java_sender(directory / "sender") as java:
            found = measured(nameservers, java)
        many = LOADS[AIMED_AT]._replace(messages=messages)
        memory = memory_of_ours(nameservers[OURS], many, body=MEMORY_BODY, steps=MEMORY_STEPS)
    show(found, messages, memory)
    write(
        "send",
        {
            "how": HOW,
            "java": JAVA_VERSION,
            "loads": {
                load: {str(pair): one._asdict() for pair, one in by_pair.items()}
                for load, by_pair in found.items()
            },
            "memory": {"messages": messages, "mb": [one.own for one in memory]},
        },
    )


if __name__ == "__main__":
    main()
