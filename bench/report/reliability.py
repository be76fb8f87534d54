"""The tables of ``docs/reliability.md``: what faults did to processes, and what a copy costs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.elections import LEASES
from bench.replicate import AIMS
from bench.report.text import between, markdown, number

__all__ = ["reliability"]

_HEAD: Final = (
    *("fault", "rounds", "acknowledged", "lost", "less safe", "of these lost"),
    *("stored twice", "skipped", "delivered twice", "no answer, s", "at most"),
)
_PAIR: Final = "SYNC_MASTER, inSyncReplicas=2"
_GROUP: Final = "three elected brokers, minInSyncReplicas=2"
_ROLES: Final = {
    "replicated": _PAIR,
    "both": _PAIR,
    "small-disk": f"{_PAIR}, small disks",
    "elected": _GROUP,
    "clocks": f"{_PAIR}, clocks that are set",
    "elected-clocks": f"{_GROUP}, clocks that are set",
}
_COUNTS: Final = (
    *("rounds", "acknowledged", "lost", "weaker", "weaker_lost"),
    *("stored_twice", "skipped", "delivered_twice"),
)

_ABOUT_COPIES: Final = """\
## What a copy costs

`python -m bench.replicate` on {where}, from `bench/results/replicate.json`. A SYNC_MASTER and its
slave, both of one kind, with inSyncReplicas=2; the two kinds take turns. A figure is the median of
its rounds, followed by the least and the most.
"""
_ABOUT_ELECTIONS: Final = """\
The elected groups have two brokers each. The master is killed (SIGKILL), with the defaults of both
unless the row says otherwise. Java's controller sees that the connection of the dead broker closes,
and elects at once; so do ours, once nothing listens any more where the master did. A machine that
loses its power or its network closes no connection, and then both wait.
"""


def reliability(text: str, results: Path) -> str:
    """Return the text of the document with new tables between the markers."""
    chaos = json.loads((results / "chaos.json").read_text())
    found = chaos["configurations"]
    minutes = sum(one["seconds"] for one in found) / 60
    where = f"{chaos['machine']['cores']} cores, {found[-1]['date']}"
    lines = [f"{minutes:.0f} minutes on {where}, from `bench/results/chaos.json`:", ""]
    for one in found:
        lines += [f"**{one['flush']}, {_ROLES.get(one['name'], one['role'])}**", ""]
        lines += [*_faults(one), ""]
    return between(text, [*lines, *_copies(json.loads((results / "replicate.json").read_text()))])


def _copies(found: dict[str, Any]) -> list[str]:
    where = f"{found['machine']['cores']} cores, {found['date']}, RocketMQ {found['java']}"
    rows = []
    for one in found["rows"]:
        row, ratio = AIMS[one["name"]], one["ratio"]
        rows.append(
            [
                row.work,
                *(f"{_spread(one[side])} {row.unit}" for side in ("ours", "theirs")),
                f"**{number(ratio['median'])}** ({_range(ratio)})",
                "–" if row.aim is None else f"≤ {row.aim:g}",
                "–" if row.aim is None else "yes" if ratio["median"] <= row.aim else "NO",
            ]
        )
    copies = [
        [who, _spread(one["mb_per_s"]), _spread(one["cpu_ms_per_mb"])]
        for who, one in found["copies"].items()
    ]
    return [
        _ABOUT_COPIES.format(where=where),
        markdown(["", "ours", "Java", "ratio", "aim", "met"], rows),
        "",
        *([_ABOUT_ELECTIONS] if any(one["name"] in LEASES for one in found["rows"]) else []),
        f"An empty slave copies {found['sizes']['log_mb']:,} MB:",
        "",
        markdown(["", "MB/s", "CPU of both, ms per MB"], copies),
        "",
    ]


def _spread(one: dict[str, float]) -> str:
    return f"{number(one['median'])} ({_range(one)})"


def _range(one: dict[str, float]) -> str:
    return f"{number(one['least'])}–{number(one['most'])}"


def _faults(one: dict[str, Any]) -> Sequence[str]:
    if one["skipped"]:
        return [f"Not run: {one['skipped']}"]
    rows = [
        [
            each["fault"],
            *(f"{each[name]:,}" for name in _COUNTS),
            number(each["outage_s_p50"]),
            number(each["outage_s_max"]),
        ]
        for each in one["faults"]
    ]
    total = [sum(each[name] for each in one["faults"]) for name in _COUNTS]
    worst = max(each["outage_s_max"] for each in one["faults"])
    all_of_it = ["**all**", *(f"**{count:,}**" for count in total), "", f"**{number(worst)}**"]
    laws = [f"Broken: {line}" for line in one["broken"]]
    return [markdown(_HEAD, [*rows, all_of_it]), *laws]
