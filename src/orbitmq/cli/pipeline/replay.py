"""``orbitmq pipeline replay``: messages of an archive, a store or topics, sent to a topic."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orbitmq.cli.cluster import pairs
from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_source,
    add_span,
    finish,
    nameserver_of,
    source_of,
    span_of,
    spark_session,
)
from orbitmq.cli.render import ProgressBar, elided, table
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.message.model import MessageQueue
    from orbitmq.spark.jobs.replay import Replayed, ReplaySource
    from orbitmq.spark.jobs.sources import Topics

__all__ = ["add_command", "replay_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline replay --archive ./archive --topic orders --to-topic again
  orbitmq pipeline replay --topic orders --to-topic paid --where "tags = 'paid'"
  orbitmq pipeline replay --archive ./archive --to-topic again --dry-run
"""
_HEADS: Final = ("FROM", "TO", "MESSAGES")
_WIDTH: Final = 32


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "replay",
        "send messages of an archive, a store or topics to a topic, each once",
        examples=_EXAMPLES,
        status="0 done, also if nothing was left to send, 2 could not run, or not\n"
        "to the end: run it again.",
    )
    add_source(command)
    command.add_argument("--archive", metavar="DIR", help="read an archive")
    add_span(command)
    command.add_argument("--to-topic", metavar="TOPIC", required=True, help="the topic to send to")
    command.add_argument(
        "--to-nameserver", metavar="HOST:PORT", help="its cluster (that of --nameserver)"
    )
    command.add_argument(
        "--to-option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the write (docs/spark.md), may be repeated",
    )
    command.add_argument("--where", metavar="SQL", help="only messages for which this holds")
    command.add_argument(
        "--ledger",
        metavar="DIR",
        help="where progress is kept (orbitmq-replays/TOPIC); one for each replay",
    )
    command.add_argument(
        "--rate", metavar="N", type=float, help="the most messages per second, all tasks together"
    )
    command.add_argument(
        "--rate-mib", metavar="N", type=float, help="the most MiB of bodies per second"
    )
    command.add_argument("--dry-run", action="store_true", help="count, and send nothing")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.replay import Rate, replay, replay_counts  # noqa: PLC0415

    source, to, span = _source(arguments), _target(arguments), span_of(arguments)
    size = arguments.rate_mib
    rate = Rate(arguments.rate, None if size is None else size * (1 << 20))
    ledger = arguments.ledger or str(Path("orbitmq-replays", arguments.to_topic))
    with spark_session(arguments) as spark, ProgressBar("replaying", unit="tasks") as bar:
        if arguments.dry_run:
            found = replay_counts(spark, source, ledger, span, where=arguments.where, progress=bar)
        else:
            found = replay(
                *(spark, source, to, ledger, span),
                where=arguments.where,
                rate=rate,
                progress=bar,
            )
    finish(arguments, found, replay_lines(found, is_dry=arguments.dry_run))
    return 0


def _source(arguments: argparse.Namespace) -> "ReplaySource":
    from orbitmq.spark.jobs.replay import Archive  # noqa: PLC0415

    if arguments.archive is None:
        return source_of(arguments)
    for name in ("store", "option"):
        if getattr(arguments, name):
            raise InvalidInput(f"give --archive or --{name}, not both", field=name)
    return Archive(arguments.archive, tuple(arguments.topic))


def _target(arguments: argparse.Namespace) -> "Topics":
    from orbitmq.spark.jobs.sources import Topics  # noqa: PLC0415

    nameserver = arguments.to_nameserver or nameserver_of(arguments)
    return Topics(nameserver, (arguments.to_topic,), pairs(arguments.to_option, "--to-option"))


def replay_lines(found: "Replayed", *, is_dry: bool) -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if not found.messages:
        yield "Nothing is left to send."
        return
    if is_dry:
        yield f"To send    {found.messages:,} messages of {len(found.queues):,} queues"
    else:
        yield f"Sent       {found.messages:,} messages, {found.seconds:.1f} s"
    yield ""
    yield from table(
        _HEADS,
        [(_place(one.source), _place(one.target), f"{one.messages:,}") for one in found.queues],
        left=2,
    )


def _place(queue: "MessageQueue | None") -> str:
    if queue is None:
        return "–"
    return elided(f"{queue.topic} {queue.broker_name}:{queue.queue_id}", _WIDTH)
