"""Writes the figures into the documents: ``python -m bench.report.docs``.

``docs/performance.md`` and the README are made from ``bench/results/latest.json``. Figures of Spark
and of single parts come from the result files of their own programs, and so do the tables in
``docs/reliability.md``. ``--check`` writes nothing, and fails if a document is not up to date.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.measure import RESULTS
from bench.report import times
from bench.report.reliability import reliability
from bench.report.run import Run, read
from bench.report.text import between, markdown, number, verdict, versions
from bench.rounds import Result, Spread
from bench.rows import GROUPS, Row

__all__ = ["main", "performance", "readme", "write"]

ROOT: Final = RESULTS.parent.parent

_INTRO: Final = """\
# Performance

Written by `make bench` from `bench/results/latest.json`; `bench/results/latest.html` has the same
figures with plots. Each row compares orbitmq with Apache RocketMQ in Java: the same work, in one
run.

- The two sides take turns, since the speed of a shared machine drifts. A figure is the median of
  its rounds, followed by the least and the most. A ratio is the median of the ratios of
  neighbouring rounds.
- CPU time is that of the whole process per message, all threads and system calls included. It is
  followed by the messages per second of the same rounds; client, broker and load share the cores.
- Java's processes are warmed up with all loads, mixed, until two rounds in a row differ by less
  than 5 %; how far that succeeded is at the end.
- Broker rows use one load generator. Both brokers have RocketMQ's default file sizes and
  ASYNC_FLUSH, unless the row says otherwise; Java's has the collector of RocketMQ's start script
  and a heap of 1 GB.
- Client rows use Java's broker for both clients.
- Latency of a send: an open loop with one delayed message in ten, on files so small, and kept for
  so short a time, that segments and index files are created and deleted all the time.
"""
_SHORT: Final = """\
The figures are those of pure Python; the optional [compiled kernel](speed.md) has a column where it
was measured. The aims are our own, and not all of them are met.
"""
_OTHERS: Final = """\
## Spark

Seconds for {messages:,} messages of 1 KB, with our source and with Spark's Kafka source ({kafka})
in one session, from `bench/results/spark.json`. The CPU is that of all processes of Spark, without
Java's compiler threads. Our source has 14 columns, Kafka's 7: a query that uses them all is not the
same work, and is here for completeness.

{spark}

The same from a store directory, without a broker, from `bench/results/store_scan.json`; each body's
checksum is compared:

{scan}

Counted, by the size of the store, from `bench/results/store_growth.json`; of the largest, which is
larger than the memory of the machine, much comes from the disk:

{growth}

All columns and properties as Parquet: `orbitmq pipeline archive` against Spark's Kafka source and
its Parquet writer, for {archived:,} messages, from `bench/results/archive.json`.

{archive}

## Parts

CPU time in µs, the best of some rounds, from `bench/results/codec.json` and
`bench/results/append.json`.

{parts}

| 1 KB appended and dispatched, in turns of | {turns} |
|---|{rules}
{appends}

A start after a crash, by what was lost, from `bench/results/recover.json`:

{starts}
"""


# docs/performance.md


def performance(run: Run, compiled: Run | None = None, others: Path = RESULTS) -> str:
    """Return the text of ``docs/performance.md``.

    ``compiled`` is a run with the compiled kernel, whose ratios get a column in the short table.
    """
    met, aims = run.met()
    parts = [_INTRO, f"**{met} of {aims} aims are met.** {_machine(run)}", ""]
    parts += ["## In short", "", _SHORT, _in_short(run, compiled), ""]
    for group, heading in GROUPS.items():
        if found := run.group(group):
            parts += [f"## {heading}", "", _group(run, found), *_notes(found), *_points(found)]
    return "\n".join([*parts, *_warm_ups(run), *_times(others), _others(others)])


def _in_short(run: Run, compiled: Run | None) -> str:
    ratios = {one.name: number(one.ratio.median) for one in compiled.rows} if compiled else {}
    rows = [
        [
            f"{_SUBJECTS[row.group]}: {_work(run, row)}",
            f"{number(result.ours.median)} {row.unit}",
            f"{number(result.theirs.median)} {row.unit}",
            number(result.ratio.median),
            *([ratios.get(row.name, "–")] if compiled else []),
            row.aim_text,
        ]
        for row, result in run.results
        if row.headline
    ]
    kernel = ["ratio with the kernel"] if compiled else []
    return markdown(["", "ours", "Java", "ratio", *kernel, "aim"], rows)


def _times(others: Path) -> list[str]:
    """Return the ratios of runs at different times; nothing if fewer than two were kept."""
    runs = times.kept(others)
    if len(runs) < 2:
        return []
    heads, rows = times.table(runs)
    about = "The ratios of runs at different times, of the states of the code at those times.\n"
    return ["## Runs at different times", "", about, markdown(heads, rows), ""]


def _machine(run: Run) -> str:
    software, where = versions(run).split("\n")
    quick = "" if run.kind == "full" else " This is a quick run: few rounds, smaller sizes."
    return f"{software}; {where}.{quick}"


def _group(run: Run, found: Sequence[tuple[Row, Result]]) -> str:
    head = ["", "ours", "against", "ratio", "aim", "met"]
    return markdown(head, [_cells(run, row, result) for row, result in found]) + "\n"


def _cells(run: Run, row: Row, result: Result) -> list[str]:
    return [
        _work(run, row),
        _figure(result.ours, row.unit, None if row.more_is_better else result.ours_per_second),
        f"{row.against}: "
        + _figure(
            result.theirs, row.unit, None if row.more_is_better else result.theirs_per_second
        ),
        f"**{number(result.ratio.median)}** ({_range(result.ratio)})",
        row.aim_text,
        verdict(row, result.ratio.median),
    ]


def _work(run: Run, row: Row) -> str:
    size = run.size(row)
    return f"{row.work}, {size}" if size else row.work


def _figure(spread: Spread, unit: str, per_second: float | None) -> str:
    rate = "" if per_second is None else f", {number(per_second)}/s"
    return f"{number(spread.median)} {unit} ({_range(spread)}){rate}"


def _range(spread: Spread) -> str:
    return f"{number(spread.least)}–{number(spread.most)}"


def _notes(found: Iterable[tuple[Row, Result]]) -> list[str]:
    notes = [
        f"- {row.work}: {row.note}"
        for row, result in found
        if row.note and row.is_met(result.ratio.median) is False
    ]
    return [*notes, ""] if notes else []


def _points(found: Iterable[tuple[Row, Result]]) -> list[str]:
    """Return the cost at each size, for rows that have several."""
    lines = [
        f"- {row.work}: " + ", ".join(f"{number(cost)} at {size:,}" for size, cost in result.points)
        for row, result in found
        if result.points
    ]
    return ["CPU µs by size:", "", *lines, ""] if lines else []


def _warm_ups(run: Run) -> list[str]:
    lines = [
        f"- {one.who}: {one.rounds} rounds; the last two differed by {one.difference:.0%}"
        for one in run.warm_ups
    ]
    return ["## Warm-up", "", *lines, ""] if lines else []


def _others(results: Path) -> str:
    spark, scan, growth, archive, codec, append, recover = (
        json.loads((results / f"{name}.json").read_text()) for name in _OTHER_FILES
    )
    turns = append["figures"][0]["microseconds"]
    return _OTHERS.format(
        messages=spark["messages"],
        kafka=spark["kafka"],
        spark=_spark(spark),
        scan=_spark(scan),
        growth=markdown(
            ["messages", "CPU s", "µs each", "wall s"],
            [
                [
                    f"{one['messages']:,}",
                    number(one["spent"]["cpu_s"]),
                    number(one["spent"]["cpu_s"] / one["messages"] * 1e6),
                    number(one["spent"]["wall_s"]),
                ]
                for one in growth["growth"]
            ],
        ),
        archived=archive["messages"],
        archive=markdown(
            ["", "CPU", "of Kafka's", "aim", "wall", "of Kafka's"],
            [_archived(name, who, archive) for name, who in _ARCHIVES.items()],
        ),
        parts=markdown(
            ["", "µs", "aim"],
            [
                [one["what"], number(one["microseconds"]), _or_dash(one["aim"])]
                for one in codec["figures"]
            ],
        ),
        turns=" | ".join(turns),
        rules="---|" * len(turns),
        appends="\n".join(_append(one) for one in append["figures"]),
        starts=markdown(
            ["", "MB read", "CPU s", "MB/s of CPU"],
            [
                [
                    what,
                    number(one["read_mb"]),
                    number(one["cpu_s"]),
                    number(one["read_mb"] / one["cpu_s"]),
                ]
                for what, one in recover["figures"].items()
            ],
        ),
    )


_OTHER_FILES: Final = (
    *("spark", "store_scan", "store_growth", "archive"),
    *("codec", "append", "recover"),
)
_READERS: Final = ("orbitmq", "Kafka")
_ARCHIVES: Final = {
    "from a topic": "orbitmq",
    "from a store": "orbitmq's store",
    "Kafka's topic through Spark": "Kafka",
}


def _spark(found: dict[str, Any]) -> str:
    head = ["", "CPU", "Kafka's", "ratio", "aim", "wall", "Kafka's", "ratio"]
    rows = []
    for what, by in found["queries"].items():
        cpu, wall = ([by[who][unit] for who in _READERS] for unit in ("cpu_s", "wall_s"))
        aim = found["aims"][what]
        rows.append([what, *_compared(*cpu), _aim(aim), *_compared(*wall)])
    return markdown(head, rows)


def _compared(ours: float, theirs: float) -> list[str]:
    return [number(ours), number(theirs), f"**{ours / theirs:.2f}**"]


def _archived(name: str, who: str, archive: dict[str, Any]) -> list[str]:
    spent, kafka = archive["spent"][who], archive["spent"]["Kafka"]
    cpu, wall = spent["cpu_s"], spent["wall_s"]
    return [
        *(name, number(cpu), f"{cpu / kafka['cpu_s']:.2f}", _aim(archive["aims"].get(who))),
        *(number(wall), f"{wall / kafka['wall_s']:.2f}"),
    ]


def _aim(share: float | None) -> str:
    return "–" if share is None else f"≤ {share:g}"


def _append(one: dict[str, Any]) -> str:
    index = "" if one["index"] else ", without the key index"
    costs = " | ".join(number(cost) for cost in one["microseconds"].values())
    return f"| {one['queues']:,} queues{index} | {costs} |"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


# README


def readme(run: Run, text: str) -> str:
    """Return the text of the README with new figures between the markers.

    Each group with headlines has one line: its first headline, and of all its comparisons with
    Java the worst.

    Raises:
        ValueError: the markers are missing.
    """
    lines = [
        f"- **{subject}**, {_first_and_worst(run, found)}"
        for group, subject in _SUBJECTS.items()
        if (found := [one for one in run.group(group) if one[0].against.startswith("Java")])
    ]
    met, aims = run.met()
    aims_met = f"{met} of {aims} aims are met, by pure Python on {_cores(run)}, {run.date}."
    return between(text, [*lines, "", aims_met])


def _cores(run: Run) -> str:
    return f"{run.machine['cores']} cores" + ("" if run.kind == "full" else " (a quick run)")


def _first_and_worst(run: Run, found: Sequence[tuple[Row, Result]]) -> str:
    first = worst = next(one for one in found if one[0].headline)
    for one in found:
        if one[0].is_worse(one[1].ratio.median, worst[1].ratio.median):
            worst = one
    text = _headline(run, *first)
    return text if worst is first else f"{text}; at worst {_headline(run, *worst)}"


def _headline(run: Run, row: Row, result: Result) -> str:
    ours, theirs, ratio = (number(one.median) for one in (result.ours, result.theirs, result.ratio))
    return f"{_work(run, row)}: {ours} {row.unit}, Java {theirs} ({ratio})"


_SUBJECTS: Final = {
    "broker": "broker CPU",
    "client": "client CPU",
    "whole": "throughput",
    "latency": "latency",
    "start": "broker",
}


def documents() -> dict[Path, str]:
    """Return each document as it should be."""
    run = read(RESULTS / "latest.json")
    page, promises = ROOT / "README.md", ROOT / "docs" / "reliability.md"
    compiled = [one for one in times.kept(RESULTS) if one.is_compiled]
    return {
        ROOT / "docs" / "performance.md": performance(run, compiled[-1] if compiled else None),
        page: readme(run, page.read_text()),
        promises: reliability(promises.read_text(), RESULTS),
    }


def write() -> None:
    """Write all documents."""
    for path, text in documents().items():
        path.write_text(text)


def main(arguments: Sequence[str]) -> int:
    """Write the documents, or check them; return the exit status."""
    if "--check" not in arguments:
        write()
        return 0
    stale = [
        path.relative_to(ROOT)
        for path, text in documents().items()
        if not path.exists() or path.read_text() != text
    ]
    for path in stale:
        print(f"{path} differs from the figures: run 'python -m bench.report.docs'")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
