"""Chaos with real processes: ``python -m bench.chaos --minutes 30`` writes ``chaos.json``.

The time is shared by the configurations in ``plan.py``. The exit status is 1 if a law was broken,
or something was lost that its settings promise to keep. ``--only NAME`` keeps the results of the
other configurations, and ``--history DIR`` what was seen.
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench import measure
from bench.chaos.history import Judged, judged
from bench.chaos.pair import NotInstalled
from bench.chaos.plan import CONFIGURATIONS, Configuration
from bench.chaos.run import Chaos
from bench.chaos.summary import Summary, broken_promises, summary_of, summary_table
from bench.measure import scratch, write
from bench.soak import commit
from orbitmq.clock import SystemClock
from orbitmq.randomness import SeededRandomness
from tests.small_disks import CannotMount

_SETTLING: Final = 0.9
"""The part of the time that rounds take; the rest is for starts, and for reading all at the end."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=CONFIGURATIONS, default=list(CONFIGURATIONS))
    parser.add_argument("--history", type=Path, help="a directory for the histories, as JSON")
    said = parser.parse_args(arguments)
    share_s = said.minutes * 60 / len(said.only)
    summaries = {one.name: one for one in _earlier() if one.name not in said.only}
    for name in said.only:
        found = _run(CONFIGURATIONS[name], share_s, said.seed, said.history)
        summaries[name] = msgspec.structs.replace(
            found, date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", commit=commit(), seed=said.seed
        )
        print(summary_table(found), flush=True)
        kept = [summaries[name] for name in CONFIGURATIONS if name in summaries]
        write("chaos", {"configurations": msgspec.to_builtins(kept)})  # whatever comes next
    broken = [line for name in said.only for line in broken_promises(summaries[name])]
    print("\n".join(broken))
    return int(bool(broken))


def _earlier() -> list[Summary]:
    """Return what an earlier run found out, of configurations that still exist."""
    file = measure.RESULTS / "chaos.json"
    found = json.loads(file.read_text())["configurations"] if file.exists() else []
    summaries = msgspec.convert(found, list[Summary])
    return [one for one in summaries if one.name in CONFIGURATIONS]


def _run(
    configuration: Configuration, seconds: float, seed: int, histories: Path | None
) -> Summary:
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    with scratch() as directory:
        chaos = Chaos(configuration, Path(directory), SeededRandomness(seed), clock, say=_say)
        logging.disable(logging.ERROR)  # clients warn about each fault
        try:
            history = asyncio.run(chaos.run(seconds * _SETTLING))
        except (CannotMount, NotInstalled) as error:
            return summary_of(configuration, Judged([], []), 0, skipped=str(error))
        finally:
            logging.disable(logging.NOTSET)
    if histories is not None:
        histories.mkdir(parents=True, exist_ok=True)
        (histories / f"{configuration.name}.json").write_bytes(msgspec.json.encode(history))
    return summary_of(configuration, judged(history), (clock.monotonic_ms() - began_ms) / 1000)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
