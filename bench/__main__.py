"""``make bench``: everything side by side, as one table, a JSON file, an HTML page and docs.

``--quick`` takes some minutes and is written beside the committed files; ``--check`` compares a
quick run with the committed figures; ``--only`` measures some groups and writes nothing. ``--part``
keeps what was measured in a file, and ``--join`` makes a whole run of such files: a run takes an
hour, and may be interrupted. ``--keep`` adds the run to those of other times.
"""

import argparse
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from bench import broker, client, growth, latency, starts
from bench.measure import RESULTS, scratch
from bench.report import compare, docs, page, text, times
from bench.report.run import Run, here, joined, read, written
from bench.rounds import Plan, Result, WarmUp
from bench.rows import GROUPS

FULL: Final = Plan(
    name="full",
    rounds=5,
    messages=20_000,
    warm_messages=1_000_000,
    starts=5,
    backlog=100_000,
    handler_rounds=3,
    handler_s=12,
    latency_rounds=10,
    latency_s=60,
    collector_rounds=6,
    collector_s=30,
    crowd_connections=1_000,
    crowd_queues=10_000,
    recovery_mib=2_048,
    producer_messages=10_000_000,
    later_rounds=3,
    growth={
        "messages": (100_000, 1_000_000, 10_000_000),
        "queues": (4, 100, 1_000, 10_000),
        "connections": (1, 16, 200, 2_000),
        "topics": (1, 100, 5_000),
    },
)
QUICK: Final = Plan(
    name="quick",
    rounds=3,
    messages=6_000,
    warm_messages=100_000,
    starts=2,
    backlog=20_000,
    handler_rounds=1,
    handler_s=4,
    latency_rounds=2,
    latency_s=10,
    collector_rounds=1,
    collector_s=5,
    crowd_connections=500,
    crowd_queues=1_000,
    recovery_mib=128,
    producer_messages=100_000,
    later_rounds=2,
    growth={
        "messages": (10_000, 100_000),
        "queues": (4, 1_000),
        "connections": (1, 500),
        "topics": (1, 500),
    },
)

Program = Callable[[Path, Plan], Iterator[Result | WarmUp]]
PROGRAMS: Final[dict[Program, tuple[str, ...]]] = {
    starts.measured: ("start",),
    broker.measured: ("broker", "commit"),
    client.measured: ("client", "whole"),
    latency.measured: ("latency",),
    latency.collected: ("collector",),
    growth.measured: ("growth",),
}
"""Programs, and the groups for which each runs."""


def measured(plan: Plan, groups: list[str]) -> tuple[Run, bool]:
    """Run the programs of some groups; return the run, and whether all of them succeeded."""
    rows: list[Result] = []
    warm_ups: list[WarmUp] = []
    succeeded = True
    for program, of_groups in PROGRAMS.items():
        if not set(groups) & set(of_groups):
            continue
        began = monotonic()
        try:
            with scratch() as directory:
                for found in program(Path(directory), plan):
                    if isinstance(found, WarmUp):
                        warm_ups.append(found)
                    else:
                        rows.append(found)
                    _progress(found, monotonic() - began)
        except Exception:  # the other programs may have taken an hour
            traceback.print_exc()
            succeeded = False
        print(f"{', '.join(of_groups)}: {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return here(plan.name, rows, warm_ups), succeeded


def _progress(found: Result | WarmUp, seconds: float) -> None:
    if isinstance(found, WarmUp):
        settled = "settled" if found.is_settled else "not settled"
        line = f"warm-up of the {found.who}: {found.rounds} rounds, {settled}"
    else:
        line = f"{found.name}: {text.number(found.ratio.median)}"
    print(f"{seconds:5.0f} s  {line}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes")
    parser.add_argument("--check", action="store_true", help="fail if a quick run got worse")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="measure these groups")
    parser.add_argument("--part", type=Path, metavar="FILE", help="keep the figures in this file")
    parser.add_argument("--join", nargs="+", type=Path, metavar="FILE", help="a run in parts")
    parser.add_argument("--keep", action="store_true", help="keep the run beside those before it")
    asked = parser.parse_args(arguments)
    # Users' installations keep bytecode; without it each start would compile the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # 2,000 connections, 10,000 queues
    plan = QUICK if asked.quick or asked.check else FULL
    if asked.join:
        run, succeeded = joined(list(map(read, asked.join))), True
    else:
        run, succeeded = measured(plan, asked.only or list(GROUPS))
    print(text.shown(run))
    if asked.part:
        written(run, asked.part)
    if asked.check:
        comparisons = compare.compared(read(RESULTS / "latest.json"), run)
        print(f"\n{compare.RULE}\n\n{compare.shown(comparisons)}")
        succeeded &= not any(one.worse for one in comparisons)
    if not asked.only:
        name = "latest" if run.kind == FULL.name else "quick"
        written(run, RESULTS / f"{name}.json")
        page.write(run, RESULTS / f"{name}.html")
        if asked.keep:
            times.keep(run, RESULTS)
        if run.kind == FULL.name:
            docs.write()
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
