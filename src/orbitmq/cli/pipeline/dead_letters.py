"""``orbitmq pipeline dead-letters``: why messages died, and those chosen sent once more."""

import argparse
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orbitmq.cli.cluster import pairs
from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_report,
    add_source,
    add_span,
    finish,
    nameserver_of,
    span_of,
    spark_session,
)
from orbitmq.cli.render import ProgressBar, elided, human_size, local_time, table
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.message.names import DEAD_LETTER_PREFIX, TRACE_TOPIC, dead_letter_topic
from orbitmq.store.reader.reader import StoreReader

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.redriving.figures import DeadLetterFigures
    from orbitmq.spark.jobs.sources import Source

__all__ = ["add_command", "dead_letter_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline dead-letters --group billing --report dead.html
  orbitmq pipeline dead-letters --where "topic = 'orders' AND age_hours < 24"
  orbitmq pipeline dead-letters --group billing --redrive --dry-run \\
      --where "cause LIKE '%timeout%'" --max 100
"""
_ATTENTION: Final = 1
_HEADS: Final = ("GROUP", "TOPIC", "CAUSE", "LETTERS")
_WIDTHS: Final = (16, 16, 34)
_MAX: Final = 10_000
_NONE: Final = "There are no dead letters."


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "dead-letters",
        "show why messages died, and send those chosen once more",
        examples=_EXAMPLES,
        status="0 done, 1 some were not re-driven, 2 could not run.",
    )
    command.add_argument(
        "--group",
        metavar="GROUP",
        action="append",
        default=[],
        help="a consumer group, may be repeated (all groups)",
    )
    command.add_argument(
        "--where",
        metavar="CONDITION",
        help="Spark SQL on group, topic, cause, reason, deliveries, died, age_hours, "
        "redrive_times, id, message_id, key, tags, value, size, sent, properties",
    )
    command.add_argument(
        "--cause-property",
        metavar="NAME",
        action="append",
        default=[],
        help="a property with the cause, may be repeated",
    )
    command.add_argument(
        "--traces",
        metavar="TOPIC",
        nargs="?",
        const=TRACE_TOPIC,
        help=f"take causes from traces of listeners too ({TRACE_TOPIC})",
    )
    add_source(command)
    add_span(command)
    add_report(command)
    again = command.add_argument_group("re-drive")
    again.add_argument("--redrive", action="store_true", help="send the letters of --where again")
    again.add_argument(
        "--to",
        choices=("retry", "origin"),
        help="the retry topic, for their group alone, or their topic, for all groups (retry)",
    )
    again.add_argument("--max", metavar="N", type=int, help=f"at most so many ({_MAX:,})")
    again.add_argument("--dry-run", action="store_true", help="send nothing, say what would be")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    source = _source(arguments)
    if source is None:
        return _nothing(arguments)
    return _redrive(arguments, source) if arguments.redrive else _list(arguments, source)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that don't go together."""
    if not arguments.redrive:
        for option in ("to", "max", "dry_run"):
            given = getattr(arguments, option)
            if given is not None and given is not False:
                said = option.replace("_", "-")
                raise InvalidInput(f"--{said} is for --redrive; add it", field=option)
        return
    if arguments.where is None:
        raise InvalidInput(
            "--redrive needs --where, which says which letters; --where true is all", field="where"
        )
    if arguments.report is not None:
        raise InvalidInput("--redrive writes no page; leave out --report", field="report")
    if arguments.max is not None and arguments.max < 1:
        raise InvalidInput(f"--max is {arguments.max}; it must be at least 1", field="max")


def _source(arguments: argparse.Namespace) -> "Source | None":
    """Return the topics of dead letters that there are; None if there are none."""
    from orbitmq.spark.jobs.redriving.redrive import dead_letter_topics  # noqa: PLC0415
    from orbitmq.spark.jobs.sources import Store, Topics, admin_of  # noqa: PLC0415

    options = pairs(arguments.option, "--option")
    given = tuple(arguments.topic)
    groups = tuple(arguments.group)
    if arguments.store is not None:
        if arguments.nameserver is not None:
            raise InvalidInput("give --nameserver or --store, not both", field="store")
        wanted = {dead_letter_topic(group) for group in groups} | set(given)
        stored = StoreReader(arguments.store).topics()
        found = [
            one
            for one in stored
            if (one in wanted if wanted else one.startswith(DEAD_LETTER_PREFIX))
        ]
        return Store(arguments.store, tuple(found), options) if found else None
    nameserver = nameserver_of(arguments)
    if groups or not given:
        with admin_of(Topics(nameserver, (TRACE_TOPIC,), options)) as admin:
            given += dead_letter_topics(admin, groups)
    return Topics(nameserver, given, options) if given else None


def _traces(arguments: argparse.Namespace, source: "Source") -> "Source | None":
    from orbitmq.spark.jobs.sources import Store, Topics  # noqa: PLC0415

    if arguments.traces is None:
        return None
    if isinstance(source, Store):
        return Store(source.directory, (arguments.traces,), source.options)
    return Topics(source.nameserver, (arguments.traces,), source.options)


def _list(arguments: argparse.Namespace, source: "Source") -> int:
    from orbitmq.spark.jobs.dead_letters import dead_letters  # noqa: PLC0415
    from orbitmq.spark.jobs.redriving.page import dead_letters_page  # noqa: PLC0415

    with spark_session(arguments) as spark, ProgressBar("reading", unit="tasks") as bar:
        found = dead_letters(
            spark,
            source,
            span_of(arguments),
            where=arguments.where,
            traces=_traces(arguments, source),
            cause_properties=arguments.cause_property,
            progress=bar,
        )
    of = ", ".join(one.removeprefix(DEAD_LETTER_PREFIX) for one in source.names)
    finish(arguments, found, dead_letter_lines(found), dead_letters_page(found, of))
    return 0


def _redrive(arguments: argparse.Namespace, source: "Source") -> int:
    from orbitmq.spark.jobs.dead_letters import read_letters  # noqa: PLC0415
    from orbitmq.spark.jobs.redriving.figures import summary  # noqa: PLC0415
    from orbitmq.spark.jobs.redriving.redrive import chosen_ids, redrive  # noqa: PLC0415
    from orbitmq.spark.jobs.sources import Store, admin_of  # noqa: PLC0415

    if isinstance(source, Store):
        raise InvalidInput(
            "--redrive asks brokers for the letters: give --nameserver instead of --store",
            field="store",
        )
    with spark_session(arguments) as spark:
        letters = read_letters(
            spark,
            source,
            span_of(arguments),
            traces=_traces(arguments, source),
            cause_properties=arguments.cause_property,
            now_ms=SystemClock().now_ms(),
        )
        chosen = chosen_ids(letters, arguments.where, max_letters=arguments.max or _MAX)
    with admin_of(source) as admin, ProgressBar("sending", unit="letters") as bar:
        done = redrive(
            admin, chosen, to=arguments.to or "retry", dry_run=arguments.dry_run, progress=bar
        )
    finish(arguments, done, summary(done))
    return _ATTENTION if done.refused or done.stopped else 0


def _nothing(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.redriving.figures import (  # noqa: PLC0415
        DeadLetterFigures,
        Redriven,
    )
    from orbitmq.spark.jobs.redriving.page import dead_letters_page  # noqa: PLC0415

    if arguments.redrive:
        done = Redriven(chosen=0, sent=0, repeated=0, topics={}, is_dry_run=arguments.dry_run)
        finish(arguments, done, [_NONE])
        return 0
    found = DeadLetterFigures(letters=0, now_ms=SystemClock().now_ms())
    of = ", ".join(arguments.group) or "all groups"
    finish(arguments, found, dead_letter_lines(found), dead_letters_page(found, of))
    return 0


def dead_letter_lines(found: "DeadLetterFigures") -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if not found.letters:
        yield _NONE
        return
    oldest = min(one.oldest_ms for one in found.groups)
    newest = max(one.newest_ms for one in found.groups)
    yield f"Letters    {found.letters:,}, {human_size(found.bytes)}"
    yield f"Died       {local_time(oldest)} to {local_time(newest)}"
    ages = ", ".join(f"{name} {count:,}" for name, count in found.ages.items())
    yield from textwrap.wrap(ages, 80, initial_indent="Age        ", subsequent_indent=" " * 11)
    again = sum(one.died_again for one in found.groups)
    if again:
        yield f"Re-driven  {again:,} died again after a re-drive"
    yield ""
    yield from table(
        _HEADS,
        [
            (
                *(
                    elided(text, width)
                    for text, width in zip(
                        (one.group, one.topic or "-", one.cause), _WIDTHS, strict=True
                    )
                ),
                f"{one.letters:,}",
            )
            for one in found.causes
        ],
        left=3,
    )
    for one in found.causes:
        sample = one.samples[0]
        yield ""
        yield elided(f"{one.group}, {one.topic or '-'}: {one.cause}", 80)
        yield f"  Newest   {local_time(sample.died_ms)}, id {sample.id}"
        if sample.key:
            yield elided(f"  Key      {sample.key}", 80)
        if sample.reason:
            yield elided(f"  Reason   {sample.reason}", 80)
        yield elided(f"  Body     {sample.body}", 80)
