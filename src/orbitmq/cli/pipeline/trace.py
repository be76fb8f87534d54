"""``orbitmq pipeline trace``: latencies, failures and orphans, from what clients report."""

import argparse
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_report,
    add_source,
    add_span,
    count,
    finish,
    quantity,
    source_of,
    span_of,
    spark_session,
)
from orbitmq.cli.render import ProgressBar, elided, local_time, table
from orbitmq.message.names import TRACE_TOPIC

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.tracing.figures import Latency, TraceFigures

__all__ = ["add_command", "trace_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline trace --report traces.html
  orbitmq pipeline trace --topic my-traces --from 1h
  orbitmq pipeline trace --store ./orbitmq-data/broker-a --json
"""
_NOTHING: Final = 1
_HEADS: Final = ("SENDS", "FAILED", "P50", "P95", "P99", "LONGEST")
_NAME_WIDTH: Final = 26


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "trace",
        "show latencies, failures and lost messages, from traces of clients",
        examples=_EXAMPLES,
        status="0 done, 1 there are no records, 2 could not run.",
    )
    add_source(command)
    add_span(command)
    command.add_argument(
        "--list",
        metavar="N",
        type=count,
        default=20,
        help="list so many of the slowest sends, and of the failed (%(default)s)",
    )
    command.add_argument(
        "--grace",
        metavar="SECONDS",
        type=quantity,
        default=60.0,
        help="how long a delivery or a result may be missing (%(default)g)",
    )
    add_report(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.trace import trace  # noqa: PLC0415
    from orbitmq.spark.jobs.tracing.page import trace_page  # noqa: PLC0415

    arguments.topic = arguments.topic or [TRACE_TOPIC]
    source, span = source_of(arguments), span_of(arguments)
    with spark_session(arguments) as spark, ProgressBar("reading", unit="tasks") as bar:
        found = trace(
            spark,
            source,
            span,
            listed=arguments.list,
            grace_ms=round(arguments.grace * 1_000),
            progress=bar,
        )
    of = ", ".join(source.names)
    finish(arguments, found, trace_lines(found), trace_page(found, of))
    return 0 if found.records else _NOTHING


def trace_lines(found: "TraceFigures") -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if found.first_ms is None:
        yield "There are no records."
    else:
        yield f"Reported   {local_time(found.first_ms)} to {local_time(found.last_ms)}"
    if found.counts:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in found.counts.items())
        yield from textwrap.wrap(
            counts.replace("_", " "), 80, initial_indent="Records    ", subsequent_indent=" " * 11
        )
    for name, latencies in (
        ("TOPIC", found.topics),
        ("BROKER", found.brokers),
        ("CLIENT", found.clients),
    ):
        if latencies:
            yield ""
            yield from table((name, *_HEADS), [_row(one) for one in latencies])
    if found.judgement:
        yield ""
    for text in found.judgement:
        yield from textwrap.wrap(text, 80, initial_indent="• ", subsequent_indent="  ")


def _row(one: "Latency") -> tuple[str, ...]:
    figures = (one.sends, one.failed, one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)
    return elided(one.name, _NAME_WIDTH), *(f"{figure:,}" for figure in figures)
