"""The cost of a push consumer, orbitmq's and Java's: ``python -m bench.consume``.

Each consumer drains the same stored messages from each broker: four pairs in one run. They
alternate, so that a busy minute of the machine affects all of them, and the best round of each
counts. Java's consumer is warmed up first. Then each gets messages at 1,000 per second, and the
time from the send to the handler is measured; the first two seconds don't count.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

from bench.consumers import Consume, Consumed, consume_ours, java_consumer, produce
from bench.measure import HOW, Cell, scratch, table, write
from bench.parties import JAVA, JAVA_VERSION, OURS, PARTIES
from bench.send import PAIRS, Pair
from orbitmq.blocking import Admin
from orbitmq.clock import pause
from orbitmq.errors import NoRoute

ROUNDS: Final = 3
WARM_ROUNDS: Final = 2
BACKLOG: Final = 100_000
QUEUES: Final = 8
REGISTER_TRIES: Final = 400
REGISTER_PAUSE_MS: Final = 100
PER_SECOND: Final = 1_000
TIMED, SKIPPED = 12_000, 2_000
CPU_AIM: Final = 1 / 2
"""Share of the CPU time of Java's consumer, with the same broker."""
_TOPIC: Final = "bench-consume"
_topics: Final = count(1)

Found = Mapping[Pair, Consumed]


def drained(
    nameservers: Mapping[str, str], consumers: Mapping[str, Consume]
) -> dict[Pair, Consumed]:
    """Return the cost of draining a backlog by pair: the best of some rounds."""
    for nameserver in nameservers.values():
        create(nameserver, _TOPIC)
        produce(nameserver, _TOPIC, BACKLOG)

    def drain(pair: Pair) -> Consumed:
        consume = consumers[pair.client]
        return consume(nameservers[pair.broker], _TOPIC, BACKLOG, 0, lambda: None)

    for pair in (*PAIRS,) * WARM_ROUNDS:
        if pair.client == JAVA:
            drain(pair)
    return best_of_rounds(drain)


def timed(nameservers: Mapping[str, str], consumers: Mapping[str, Consume]) -> dict[Pair, Consumed]:
    """Return the latencies at a steady rate by pair: the best of some rounds."""

    def measure(pair: Pair) -> Consumed:
        nameserver, topic = nameservers[pair.broker], f"{_TOPIC}-{next(_topics)}"
        create(nameserver, topic)
        with ThreadPoolExecutor(1) as sender:

            def send() -> None:
                sender.submit(produce, nameserver, topic, TIMED, PER_SECOND)

            return consumers[pair.client](nameserver, topic, TIMED, SKIPPED, send)

    return best_of_rounds(measure)


def best_of_rounds(measure: Callable[[Pair], Consumed]) -> dict[Pair, Consumed]:
    """Measure all pairs in turn, some times; return the best of each."""
    found: dict[Pair, list[Consumed]] = {pair: [] for pair in PAIRS}
    for _ in range(ROUNDS):
        for pair in PAIRS:
            found[pair].append(measure(pair))
    return {pair: best(rounds) for pair, rounds in found.items()}


def best(rounds: Sequence[Consumed]) -> Consumed:
    """Return the best of each figure.

    >>> best([Consumed(9.0, 40_000.0, 1.0, 7.0), Consumed(8.0, 30_000.0, 2.0, 6.0)])
    Consumed(cpu_us=8.0, per_second=40000.0, p50_ms=1.0, p99_ms=6.0)
    """
    return Consumed(
        min(one.cpu_us for one in rounds),
        max(one.per_second for one in rounds),
        min(one.p50_ms for one in rounds),
        min(one.p99_ms for one in rounds),
    )


def create(nameserver: str, topic: str) -> None:
    """Create a topic, as soon as the broker is registered."""
    with Admin(nameserver=nameserver) as admin:
        for left in reversed(range(REGISTER_TRIES)):
            try:
                admin.create_topic(topic, queues=QUEUES)
                return
            except NoRoute:
                if not left:
                    raise
                pause(REGISTER_PAUSE_MS)


# Results


def rows(drained_by: Found, timed_by: Found) -> list[list[Cell]]:
    """Return the rows: each pair, and the worse ratio of orbitmq to Java with the same broker."""
    figures = {
        "CPU µs": ({p: one.cpu_us for p, one in drained_by.items()}, CPU_AIM),
        "per second": ({p: one.per_second for p, one in drained_by.items()}, None),
        "p50 ms": ({p: one.p50_ms for p, one in timed_by.items()}, 1.0),
        "p99 ms": ({p: one.p99_ms for p, one in timed_by.items()}, 1.0),
    }
    shown: list[list[Cell]] = []
    for name, (by_pair, aim) in figures.items():
        ratios = [by_pair[Pair(OURS, one)] / by_pair[Pair(JAVA, one)] for one in PARTIES]
        ratio = min(ratios) if aim is None else max(ratios)
        over = "over" if aim is not None and ratio > aim else ""
        shown.append([name, *(by_pair[pair] for pair in PAIRS), ratio, over])
    return shown


def show(drained_by: Found, timed_by: Found) -> None:
    """Print the table."""
    heads = [str(pair).replace("orbitmq", "ours") for pair in PAIRS]
    print(f"push consumers, client and broker: {BACKLOG:,} stored messages of 1 KB drained, CPU")
    print(f"time of the client per message; time from send to handler at {PER_SECOND:,} per second")
    print(f"({HOW})")
    print(table(["", *heads, "ratio", ""], rows(drained_by, timed_by)))
    print(f"target ratios: CPU {CPU_AIM:.2f}, times 1.00")


def main() -> None:
    """Measure all pairs, print the result, and write it to ``bench/results/consume.json``."""
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        nameservers = {
            party: str(stack.enter_context(run(directory / party)).nameserver)
            for party, run in PARTIES.items()
        }
        java = stack.enter_context(java_consumer(directory / "consumer"))
        consumers: dict[str, Consume] = {OURS: consume_ours, JAVA: java.consume}
        drained_by = drained(nameservers, consumers)
        timed_by = timed(nameservers, consumers)
    show(drained_by, timed_by)
    write(
        "consume",
        {
            "how": HOW,
            "java": JAVA_VERSION,
            "backlog": {str(pair): one._asdict() for pair, one in drained_by.items()},
            "steady": {str(pair): one._asdict() for pair, one in timed_by.items()},
        },
    )


if __name__ == "__main__":
    main()
