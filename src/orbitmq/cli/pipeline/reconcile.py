"""``orbitmq pipeline reconcile``: what was sent against what is stored and consumed."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping
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
from orbitmq.cli.render import ProgressBar, elided, local_time, table
from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.errors import InvalidInput
from orbitmq.message.names import TRACE_TOPIC

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.reconcile import Waiting
    from orbitmq.spark.jobs.reconciling.figures import Reconciliation
    from orbitmq.spark.jobs.reconciling.stored import Stored

__all__ = ["add_command", "reconciliation_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline reconcile --topic orders --traces --report orders.html
  orbitmq pipeline reconcile --topic orders --receipts sent.csv --group billing
  orbitmq pipeline reconcile --store ./orbitmq-data/broker-a --traces --from 2h
"""
_DIFFERENT: Final = 1
_HEADS: Final = ("TOPIC", "SENT", "FOUND", "LOST", "COPIES", "DISORDER", "LATE", "BEHIND")
_SHOWN: Final = ("found", "lost", "duplicated", "out_of_order", "late", "not_consumed")
_TOPIC_WIDTH: Final = 24
_ID_WIDTH: Final = 32


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "reconcile",
        "compare what producers say they sent with what is stored and consumed",
        examples=_EXAMPLES,
        status="0 equal, 1 different, or nothing to compare with, 2 could not run.",
    )
    add_source(command)
    command.add_argument("--archive", metavar="DIR", help="read an archive (Parquet), no broker")
    said = command.add_argument_group("what was sent; at least one of the first two")
    said.add_argument(
        "--traces",
        metavar="TOPIC",
        nargs="?",
        const=TRACE_TOPIC,
        help=f"traces of producers and consumers ({TRACE_TOPIC})",
    )
    said.add_argument(
        "--receipts",
        metavar="FILE",
        nargs="+",
        default=[],
        help="receipts of producers: .jsonl, .csv or .parquet",
    )
    said.add_argument(
        "--outbox", metavar="FILE", nargs="+", default=[], help="outboxes: what is kept isn't lost"
    )
    command.add_argument(
        "--group",
        metavar="GROUP",
        action="append",
        default=[],
        help="a group that should have consumed all, may be repeated",
    )
    command.add_argument(
        "--late",
        dest="late_s",
        metavar="SECONDS",
        type=quantity,
        default=60.0,
        help="stored or delivered later than this after the send is late (%(default)g)",
    )
    command.add_argument(
        "--by-queue",
        action="store_true",
        help="each producer's messages in a queue have to be in order, also without a sharding key",
    )
    add_span(command)
    add_report(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.reconcile import Reports, reconcile  # noqa: PLC0415
    from orbitmq.spark.jobs.reconciling.page import reconcile_page  # noqa: PLC0415

    reports = Reports(arguments.traces, tuple(arguments.receipts), _waiting(arguments))
    source, span = _source(arguments), span_of(arguments)
    with spark_session(arguments) as spark, ProgressBar("reconciling", unit="tasks") as bar:
        found = reconcile(
            spark,
            source,
            reports,
            groups=arguments.group,
            span=span,
            late_ms=round(arguments.late_s * 1_000),
            by_queue=arguments.by_queue,
            progress=bar,
        )
    of = ", ".join(source.names) or arguments.store or arguments.archive or "all topics"
    finish(arguments, found, reconciliation_lines(found), reconcile_page(found, of))
    return 0 if found.equal else _DIFFERENT


def _source(arguments: argparse.Namespace) -> "Stored":
    """Return where messages are; without topics, those count that the reports name."""
    from orbitmq.spark.jobs.reconciling.stored import Archive  # noqa: PLC0415

    if arguments.archive is None:
        return source_of(arguments)
    if arguments.store is not None or arguments.nameserver is not None or arguments.option:
        raise InvalidInput("give --archive without a cluster or a store", field="archive")
    return Archive(arguments.archive, tuple(arguments.topic))


def _waiting(arguments: argparse.Namespace) -> tuple["Waiting", ...]:
    """Return what the outboxes hold, also what brokers refused."""
    from orbitmq.spark.jobs.reconcile import Waiting  # noqa: PLC0415

    held = (read_contents(path) for path in arguments.outbox)
    return tuple(
        Waiting(entry.topic, entry.message_id, entry.kept_ms)
        for contents in held
        for entry in (*contents.waiting, *contents.refused)
    )


def reconciliation_lines(found: "Reconciliation") -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if found.first_ms is None:
        yield "Nobody says to have sent anything, and nothing is stored."
        if found.unreadable:
            yield f"Unreadable {found.unreadable:,} reports"
        return
    yield f"Sent       {local_time(found.first_ms)} to {local_time(found.last_ms)}"
    yield ""
    yield from table(
        _HEADS, [_row(topic.topic, topic.sent, topic.counts) for topic in found.topics]
    )
    yield ""
    others = [
        f"{found.count(name):,} {name}"
        for name in ("gone", "delayed", "waiting", "failed", "undecided", "withdrawn")
        if found.count(name)
    ]
    if others:
        yield from textwrap.wrap(
            ", ".join(others), 80, initial_indent="Not stored ", subsequent_indent=" " * 11
        )
    if found.count("unreported"):
        yield f"Unreported {found.count('unreported'):,} stored, and nobody said to have sent them"
    if found.unreadable:
        yield f"Unreadable {found.unreadable:,} reports"
    for one in found.groups:
        group = f"{elided(one.group, _TOPIC_WIDTH)} of {elided(one.topic, _TOPIC_WIDTH)}"
        yield f"Behind     {group}: {one.not_consumed:,}"
    yield from _example_lines(found)
    if found.equal or found.differences:
        yield "Equal." if found.equal else f"{found.differences:,} differences."
    else:
        yield "Not compared: nobody says to have sent any of these messages."


def _row(topic: str, sent: int, counts: Mapping[str, int]) -> tuple[str, ...]:
    name = elided(topic, _TOPIC_WIDTH)
    return (name, f"{sent:,}", *(f"{counts.get(one, 0):,}" for one in _SHOWN))


def _example_lines(found: "Reconciliation") -> Iterator[str]:
    """Yield the first message of each difference."""
    for name in _SHOWN[1:]:
        sample = next((one for one in found.samples if one.kind == name), None)
        if sample is not None:
            place = elided(sample.place or sample.note, 20)
            kind = name.replace("_", " ")
            yield f"For one    {kind:<12} {elided(sample.message_id, _ID_WIDTH)}  {place}".rstrip()
