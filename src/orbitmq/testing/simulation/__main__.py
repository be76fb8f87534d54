"""Runs seeds of the simulation: ``make simulate SEEDS=100``, or ``… FIRST=38 SEEDS=1`` for one.

A line for each seed that broke a law, and in the end what all of them covered. Of a seed that runs
alone, all broken laws, its plan and its failures are shown.
"""

import argparse
import os
from collections.abc import Sequence

from orbitmq.testing.simulation.laws import broken_laws
from orbitmq.testing.simulation.many import Coverage, Verdict, judge_all
from orbitmq.testing.simulation.plan import Plan
from orbitmq.testing.simulation.run import simulate

__all__ = ["line", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds that were asked for; return 0 if no law was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m orbitmq.testing.simulation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    if asked.seeds == 1:
        return _show(asked.first)
    covered, broken = Coverage(), 0
    seeds = range(asked.first, asked.first + asked.seeds)
    for verdict in judge_all(seeds, processes=asked.processes):
        covered += verdict.coverage
        if verdict.broken_laws:
            broken += 1
            print(line(verdict), flush=True)
    print(covered)
    print(f"{broken} seeds broke a law" if broken else "no law was broken")
    return int(broken > 0)


def line(verdict: Verdict) -> str:
    """Return a seed's first broken law, how many more there are, and how to replay it.

    >>> line(Verdict(7, ["lost: s0-001", "gap or repeat: queue 0"], Coverage()))
    'seed 7: lost: s0-001 (and 1 more); replay: make simulate FIRST=7 SEEDS=1'
    """
    first, *more = verdict.broken_laws
    count = f" (and {len(more)} more)" if more else ""
    return (
        f"seed {verdict.seed}: {first}{count}; replay: make simulate FIRST={verdict.seed} SEEDS=1"
    )


def _show(seed: int) -> int:
    print(Plan.from_seed(seed))
    history = simulate(seed)
    print(Coverage.of(history))
    print("in order:", ", ".join(one for one in history.troubles if one != "over"))
    broken = broken_laws(history)
    print(*broken or ["no law was broken"], sep="\n")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
