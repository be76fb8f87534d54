"""``orbitmq pipeline profile``: sizes, rates, skew and growth of topics, with advice."""

import argparse
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_report,
    add_source,
    add_span,
    finish,
    quantity,
    source_of,
    span_of,
    spark_session,
)
from orbitmq.cli.render import ProgressBar, elided, human_size, local_time, table

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.profiling.figures import Profile

__all__ = ["add_command", "profile_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline profile --topic orders --report orders.html
  orbitmq pipeline profile --store ./orbitmq-data/broker-a --from 1d
  orbitmq pipeline profile --topic orders --topic refunds --json
"""
_NOTHING: Final = 1
_HEADS: Final = ("TOPIC", "MESSAGES", "SIZE", "MEDIAN", "LARGEST", "KEYS", "SKEW")
_TOPIC_WIDTH: Final = 24


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "profile",
        "show sizes, rates, skew of queues and keys, and growth; with advice",
        examples=_EXAMPLES,
        status="0 done, 1 there are no messages, 2 could not run.",
    )
    add_source(command)
    add_span(command)
    command.add_argument(
        "--retention-hours",
        metavar="N",
        type=quantity,
        help="how long messages are kept, if not as the broker's fileReservedTime says",
    )
    add_report(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.profile import profile  # noqa: PLC0415
    from orbitmq.spark.jobs.profiling.page import profile_page  # noqa: PLC0415

    source, span = source_of(arguments), span_of(arguments)
    hours = arguments.retention_hours
    with spark_session(arguments) as spark, ProgressBar("reading", unit="tasks") as bar:
        found = profile(
            spark,
            source,
            span,
            retention_ms=None if hours is None else round(hours * 3_600_000),
            progress=bar,
        )
    of = arguments.store or ", ".join(source.names)
    finish(arguments, found, profile_lines(found), profile_page(found, of))
    return 0 if found.messages else _NOTHING


def profile_lines(found: "Profile") -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if found.first_ms is None:
        yield "There are no messages."
        return
    yield f"Stored     {local_time(found.first_ms)} to {local_time(found.last_ms)}"
    yield (
        f"Messages   {found.messages:,}, {human_size(found.bytes)}; "
        f"{found.messages / found.seconds:,.1f} and "
        f"{human_size(round(found.bytes / found.seconds))} per second"
    )
    yield ""
    yield from table(
        _HEADS,
        [
            (
                elided(topic.topic, _TOPIC_WIDTH),
                f"{topic.messages:,}",
                human_size(topic.bytes),
                human_size(topic.size_p50),
                human_size(topic.size_max),
                f"{topic.keys:,}",
                f"{topic.skew:.2f}",
            )
            for topic in found.topics
        ],
    )
    yield ""
    for one in found.growth:
        kept = f"{one.retention_ms / 3_600_000:.0f} h of retention"
        yield (
            f"Disk       {one.broker}: {human_size(round(one.bytes_per_day))} a day, "
            f"{human_size(round(one.retained_bytes))} in {kept}"
        )
    for text in found.advice or ("Nothing stands out.",):
        yield from textwrap.wrap(text, 80, initial_indent="• ", subsequent_indent="  ")
