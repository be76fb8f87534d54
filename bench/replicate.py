"""The cost of a copy: ``python -m bench.replicate`` compares pairs of ours with pairs of Java's.

A SYNC_MASTER answers when a slave has the message (inSyncReplicas 2). The log of a full file is
copied to an empty slave, also from ours to Java's and back. Elected masters are killed. Pairs take
turns, as in ``make bench``.
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

import msgspec

from bench.elections import elections
from bench.flood import flood, frames_of, spread_over
from bench.latency import Latency, paced
from bench.load import QUEUES, Passed, Target, cpu_ns, create_topics
from bench.measure import Cell, Child, scratch, table, write
from bench.members import KINDS, TOPIC, Member, member
from bench.parties import JAVA_VERSION, Settings, stores
from bench.rounds import Result, Round, Spread, WarmUp, alternate, settle, summed_up
from orbitmq.net.address import Address
from orbitmq.wire.bodies.replication import HAConnectionRuntimeInfo
from tests.interop import counterparts
from tests.interop.our_servers import a_nameserver
from tests.interop.waiting import until

__all__ = ["AIMS", "CatchUp", "Pair", "Sizes", "caught_up", "measured"]

MASTER: Final[Settings] = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "brokerId": 0}
ALONE: Final[Settings] = {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
SLAVE: Final[Settings] = {"brokerRole": "SLAVE", "brokerId": 1}
WINDOW: Final = 64
_MB: Final = 1_000_000
_FILLING: Final = bytes(range(256)) * 256
"""The body of 64 KiB with which a log is filled."""
_LOOK_S: Final = 0.01
_PATIENCE_S: Final = 300.0


class Row(NamedTuple):
    """A figure: what it is, its unit, and the ratio to reach."""

    work: str
    unit: str
    aim: float | None = None


AIMS: Final = {
    "master": Row("CPU of the master, 1 KB, 64 in flight", "µs"),
    "slave": Row("CPU of the slave", "µs"),
    "both": Row("CPU of both", "µs", 0.5),
    "p50": Row("p50 of a send, 1,000/s", "ms", 1.0),
    "p99": Row("p99 of a send, 1,000/s", "ms", 1.0),
    "promoted": Row("first send accepted by a slave promoted by hand", "ms"),
    "elected": Row("first send after the death of an elected master", "ms"),
    "elected_2s": Row("the same, controllerHeartBeatTimeoutMills=2000", "ms"),
}


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of a run."""

    rounds: int = 5
    messages: int = 20_000
    warm_messages: int = 300_000
    latency_rounds: int = 6
    latency_s: float = 15
    per_second: int = 1_000
    log_mb: int = 1_000
    """In one file of the default size: Java's slaves copy the last file alone."""
    copies: int = 3
    promotions: int = 3
    kills: int = 10
    """Of elected masters, for each setting of the lease."""


QUICK: Final = Sizes(
    rounds=2,
    messages=4_000,
    warm_messages=20_000,
    latency_rounds=1,
    latency_s=4,
    log_mb=200,
    copies=1,
    promotions=1,
    kills=2,
)


class CatchUp(msgspec.Struct, frozen=True):
    """One copy of a log by an empty slave."""

    mb_per_s: float
    cpu_ms_per_mb: float
    """CPU of master and slave."""


# A pair under load


class Pair(NamedTuple):
    """A running SYNC_MASTER and its slave."""

    master: Member
    slave: Member

    def start(self) -> None:
        """Start both; return when the slave has what the master has."""
        self.master.start(MASTER)
        self.slave.start(SLAVE)
        until(self._is_copied, what=f"{self.slave} follows", seconds=_PATIENCE_S)

    def _is_copied(self) -> bool:
        return any(one.slave_ack_offset >= 0 and one.diff <= 0 for one in self.master.copies())


class Cost(NamedTuple):
    """What messages took of both brokers."""

    master: Passed
    slave_us: float


def _sent(target: Target, slave_pid: int, count: int) -> Cost:
    frames = frames_of("keyed", spread_over(TOPIC), count)
    spent = cpu_ns(slave_pid)
    passed = flood(target, frames, connections=1, in_flight=WINDOW)
    return Cost(passed, (cpu_ns(slave_pid) - spent) / count / 1000)


def _cost(child: Child, pair: Pair, count: int) -> Cost:
    return child.run(_sent, pair.master.target(), pair.slave.pid, count)


def _paced(child: Child, pair: Pair, sizes: Sizes) -> Latency:
    return child.run(paced, pair.master.target(), sizes.latency_s, sizes.per_second, kind="keyed")


def measured(ours: Pair, theirs: Pair, sizes: Sizes) -> Iterator[Result | WarmUp]:
    """Measure two running pairs, and then kill their masters."""
    with Child() as child:
        for pair in (ours, theirs):
            child.run(create_topics, pair.master.target(), [TOPIC], QUEUES)
        for pair in (ours, theirs):
            least = sizes.warm_messages // sizes.messages
            cost = partial(_cost, child, pair, sizes.messages)
            yield settle(f"pair {pair.master}", partial(_sum, cost), least if pair is theirs else 1)
        sides = {
            "cost": (
                partial(_cost, child, ours, sizes.messages),
                partial(_cost, child, theirs, sizes.messages),
            )
        }
        ((mine, others),) = alternate(sides, sizes.rounds).values()
        for name, part in _PARTS.items():
            yield summed_up(name, [part(one) for one in mine], [part(one) for one in others])
        paces = {
            "paced": (partial(_paced, child, ours, sizes), partial(_paced, child, theirs, sizes))
        }
        ((mine_paced, others_paced),) = alternate(paces, sizes.latency_rounds).values()
        for name in ("p50", "p99"):
            rounds = (
                [Round(getattr(one, name)) for one in side] for side in (mine_paced, others_paced)
            )
            yield summed_up(name, *rounds)
        deaths = {"promoted": (partial(_promoted, ours), partial(_promoted, theirs))}
        for name, found in alternate(deaths, sizes.promotions).items():
            yield summed_up(name, *found)


_PARTS: Final[Mapping[str, Callable[[Cost], Round]]] = {
    "master": lambda cost: Round(cost.master.cpu_us, cost.master.per_second),
    "slave": lambda cost: Round(cost.slave_us),
    "both": lambda cost: Round(cost.master.cpu_us + cost.slave_us),
}


def _sum(cost: Callable[[], Cost]) -> float:
    found = cost()
    return found.master.cpu_us + found.slave_us


def _promoted(pair: Pair) -> Round:
    """Kill the master and make the slave one, as an operator does; then put all back."""
    began = perf_counter()
    pair.master.kill()
    pair.slave.kill()
    pair.slave.launch(ALONE)
    until(partial(stores, pair.slave.address), what="a send is accepted", seconds=_PATIENCE_S)
    took_ms = (perf_counter() - began) * 1000
    pair.slave.kill()
    shutil.rmtree(pair.slave.directory)
    pair.start()
    return Round(took_ms)


# An empty slave


def fill(child: Child, master: Member, mb: int) -> None:
    """Fill the log of a master."""
    each = 1_000
    for _ in range(max(1, mb * _MB // len(_FILLING) // each)):
        child.run(_fill, master.target(), min(each, mb * _MB // len(_FILLING)))


def _fill(target: Target, count: int) -> None:
    flood(
        target, frames_of("keyed", spread_over(TOPIC), count, _FILLING), connections=1, in_flight=16
    )


def caught_up(master: Member, slave: Member) -> CatchUp:
    """Start an empty slave; return how fast it copies, from the first report that is seen on."""
    slave.start(SLAVE)
    first = _reported(master, lambda one: one.slave_ack_offset >= 0)
    began, spent = perf_counter(), cpu_ns(master.pid) + cpu_ns(slave.pid)
    last = _reported(master, lambda one: one.slave_ack_offset > 0 and one.diff <= 0)
    took_s = perf_counter() - began
    spent = cpu_ns(master.pid) + cpu_ns(slave.pid) - spent
    mb = (last - first) / _MB
    return CatchUp(mb / took_s, spent / 1e6 / mb)


def _reported(master: Member, look: Callable[[HAConnectionRuntimeInfo], bool]) -> int:
    """Wait until the report of a slave is as wanted; return how much of the log it has."""
    deadline = perf_counter() + _PATIENCE_S
    while perf_counter() < deadline:
        for one in master.copies():
            if look(one):
                return one.slave_ack_offset
        sleep(_LOOK_S)
    raise TimeoutError(f"no slave has copied {master} within {_PATIENCE_S:.0f} s")


def copied(directory: Path, nameserver: Address, sizes: Sizes) -> dict[str, list[CatchUp]]:
    """Copy a log of each kind to empty slaves of each kind, in turn."""
    found: dict[str, list[CatchUp]] = {}
    with ExitStack() as stack, Child() as child:
        masters = {
            kind: stack.enter_context(member(kind, directory / f"full-{kind}", kind, nameserver))
            for kind in KINDS
        }
        for master in masters.values():
            master.start(ALONE)
            child.run(create_topics, master.target(), [TOPIC], QUEUES)
            fill(child, master, sizes.log_mb)
        for number in range(sizes.copies):
            for kind, of in product(KINDS, masters):
                with member(kind, directory / f"{kind}-{of}-{number}", of, nameserver) as slave:
                    copy = caught_up(masters[of], slave)
                    found.setdefault(f"{kind}'s slave of {of}'s master", []).append(copy)
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.replicate", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    is_quick = parser.parse_args(arguments).quick
    if counterparts.etcd_command() is None:
        parser.error("there is no etcd to elect a master in: run 'make counterparts'")
    sizes = QUICK if is_quick else Sizes()
    results: list[Result] = []
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        names = stack.enter_context(a_nameserver(directory)).address
        with ExitStack() as pairs:
            ours, theirs = (
                Pair(
                    *(
                        pairs.enter_context(member(kind, directory / f"{kind}-{of}", kind, names))
                        for of in ("master", "slave")
                    )
                )
                for kind in KINDS
            )
            for pair in (ours, theirs):
                pair.start()
            for one in measured(ours, theirs, sizes):
                print(one, flush=True)
                if isinstance(one, Result):
                    results.append(one)
        copies = copied(directory, names, sizes)
        for result in elections(directory, sizes.kills):
            print(result, flush=True)
            results.append(result)
    print(shown(results, copies))
    if is_quick:
        return 0
    write(
        "replicate",
        {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "java": JAVA_VERSION,
            "sizes": msgspec.to_builtins(sizes),
            "rows": msgspec.to_builtins(results),
            "copies": {
                who: {
                    "mb_per_s": msgspec.to_builtins(Spread.of([one.mb_per_s for one in each])),
                    "cpu_ms_per_mb": msgspec.to_builtins(
                        Spread.of([one.cpu_ms_per_mb for one in each])
                    ),
                }
                for who, each in copies.items()
            },
        },
    )
    return 0


def shown(results: Sequence[Result], copies: Mapping[str, Sequence[CatchUp]]) -> str:
    """Return the figures as two tables of 80 columns."""
    rows: list[list[Cell]] = []
    for one in results:
        row = AIMS[one.name]
        figures = (one.ours.median, one.theirs.median, one.ratio.median)
        rows.append([row.work[:46], row.unit, *figures])
    copied_rows: list[list[Cell]] = [
        [
            who,
            Spread.of([one.mb_per_s for one in each]).median,
            Spread.of([one.cpu_ms_per_mb for one in each]).median,
        ]
        for who, each in copies.items()
    ]
    return "\n\n".join(
        [
            table(["", "", "ours", "Java", "ratio"], rows),
            table(["copy to an empty slave", "MB/s", "CPU ms per MB"], copied_rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
