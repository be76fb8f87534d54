"""``orbitmq pipeline archive``: topics or a store as Parquet files."""

import argparse
import signal
import textwrap
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_report,
    add_source,
    add_span,
    finish,
    source_of,
    span_of,
    spark_session,
)
from orbitmq.cli.render import ProgressBar, elided, human_size, table
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.archive import Archived, FileOptions
    from orbitmq.spark.jobs.sources import Source

__all__ = ["add_command", "archive_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline archive --topic orders --to ./archive
  orbitmq pipeline archive --store ./orbitmq-data/broker-a --to s3://bucket/mq
  orbitmq pipeline archive --topic orders --to ./archive --watch 60
"""
_GAPS: Final = 1
_WATCH_S: Final = 60.0
_HEADS: Final = ("TOPIC", "DATE", "ROWS", "SIZE", "FILES")
_TOPIC_WIDTH: Final = 36
_MIB: Final = 1 << 20


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "archive",
        "write what is new in topics or a store to Parquet files",
        examples=_EXAMPLES,
        status="0 done, also if nothing was new, 1 there are gaps, 2 could not run.",
    )
    add_source(command)
    add_span(command)
    command.add_argument(
        "--to", metavar="DIR", required=True, help="the archive: a path, or as s3://bucket/path"
    )
    command.add_argument(
        "--watch",
        metavar="SECONDS",
        type=float,
        nargs="?",
        const=_WATCH_S,
        help=f"go on, with so long between two runs ({_WATCH_S:.0f}); until SIGINT or SIGTERM",
    )
    command.add_argument("--compression", metavar="NAME", help="zstd (default), snappy or none")
    command.add_argument(
        "--file-mib", metavar="N", type=int, help="size at which a file ends (256)"
    )
    add_report(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.archive import archive  # noqa: PLC0415
    from orbitmq.spark.jobs.archiving.page import archive_page  # noqa: PLC0415

    source, span, files = source_of(arguments), span_of(arguments), _files(arguments)
    if arguments.watch is not None:
        _check_watch(arguments)
        with spark_session(arguments) as spark:
            return _watch(arguments, spark, source, files)
    with spark_session(arguments) as spark, ProgressBar("archiving", unit="tasks") as bar:
        found = archive(spark, source, arguments.to, span, files=files, progress=bar)
    of = arguments.store or ", ".join(source.names)
    finish(arguments, found, archive_lines(found), archive_page(found, of, arguments.to))
    return _GAPS if found.gaps else 0


def _files(arguments: argparse.Namespace) -> "FileOptions":
    from orbitmq.spark.jobs.archive import FileOptions  # noqa: PLC0415

    options = {}
    if arguments.compression is not None:
        options["compression"] = arguments.compression
    if arguments.file_mib is not None:
        options["file_bytes"] = arguments.file_mib * _MIB
    return FileOptions(**options)


def _check_watch(arguments: argparse.Namespace) -> None:
    if arguments.watch <= 0:
        raise InvalidInput("--watch must be more than 0 seconds", field="watch")
    for name in ("begin", "until", "report"):
        if getattr(arguments, name) is not None:
            option = "from" if name == "begin" else name
            raise InvalidInput(f"--{option} is for a single run, not for --watch", field=option)


def _watch(
    arguments: argparse.Namespace, spark: object, source: "Source", files: "FileOptions"
) -> int:
    """Print each run that had something, until a signal."""
    from orbitmq.spark.jobs.archive import watch  # noqa: PLC0415

    before = signal.signal(signal.SIGTERM, _interrupt)
    had_gaps = False
    try:
        for found in watch(spark, source, arguments.to, arguments.watch, files=files):  # type: ignore[arg-type]
            had_gaps = had_gaps or bool(found.gaps)
            if found.run is not None:
                finish(arguments, found, archive_lines(found))
    except KeyboardInterrupt:
        return _GAPS if had_gaps else 0
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def archive_lines(found: "Archived") -> Iterator[str]:
    """Yield what the command prints, at most 80 columns wide."""
    if found.run is None:
        yield "Nothing is new."
        return
    yield (
        f"Archived   run {found.run}: {found.rows:,} rows, {human_size(found.bytes)} in "
        f"{len(found.files):,} files, {found.seconds:.1f} s"
    )
    groups: dict[tuple[str, str], list[int]] = {}
    for file in found.files:
        sums = groups.setdefault((file.topic, file.date), [0, 0, 0])
        sums[:] = sums[0] + file.rows, sums[1] + file.bytes, sums[2] + 1
    if groups:
        yield ""
        yield from table(
            _HEADS,
            [
                (elided(topic, _TOPIC_WIDTH), date, f"{rows:,}", human_size(size), f"{count:,}")
                for (topic, date), (rows, size, count) in sorted(groups.items())
            ],
            left=2,
        )
    for gap in found.gaps:
        yield from textwrap.wrap(f"{gap}.", 80, initial_indent="• ", subsequent_indent="  ")
