"""``orbitmq pipeline rebuild``: consume queues and key index from a commit log."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orbitmq.broker.settings import LiveSettings
from orbitmq.cli.pipeline.arguments import add_job, finish, spark_session
from orbitmq.cli.render import ProgressBar, human_size
from orbitmq.errors import InvalidInput
from orbitmq.settings import from_arguments, read

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.rebuild import Rebuilt

__all__ = ["add_command", "rebuilt_lines"]

_EXAMPLES: Final = """\
  orbitmq pipeline rebuild --store /data/store --to /data/rebuilt
  orbitmq pipeline rebuild --store /data/store --in-place -c broker.conf
  orbitmq pipeline rebuild --store . --in-place --set maxIndexNum=1000000
"""
_SKIPPED: Final = 1


def add_command(commands: "Commands") -> None:
    """Add the command."""
    command = add_job(
        commands,
        "rebuild",
        "make consume queues and key index of a store from its commit log",
        examples=_EXAMPLES,
        status="0 done, 1 done without damaged places, 2 could not run.",
    )
    command.add_argument("--store", metavar="DIR", required=True, help="the store directory")
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="DIR", help="where queues and index go")
    target.add_argument(
        "--in-place", action="store_true", help="replace the queues and the index of the store"
    )
    command.add_argument(
        "-c", dest="file", metavar="FILE", help="the broker.conf with the file sizes of the store"
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a key of broker.conf, may be repeated",
    )
    command.add_argument(
        "--no-tag-keys",
        action="store_true",
        help="don't index tags: the broker is older than RocketMQ 5.4.0",
    )
    command.add_argument(
        "--skip-damaged",
        action="store_true",
        help="leave out messages that can't be read, instead of stopping",
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.rebuild import rebuild  # noqa: PLC0415

    properties = [
        *(read(arguments.file) if arguments.file else []),
        *from_arguments(arguments.set),
    ]
    settings = LiveSettings.load(properties).store
    if not Path(arguments.store).is_dir():
        raise InvalidInput(f"--store {arguments.store} is no directory", field="store")
    with spark_session(arguments) as spark, ProgressBar("rebuilding", unit="tasks") as bar:
        found = rebuild(
            spark,
            arguments.store,
            arguments.to,
            settings,
            replace=arguments.in_place,
            tag_keys=not arguments.no_tag_keys,
            skip_damaged=arguments.skip_damaged,
            progress=bar,
        )
    finish(arguments, found, rebuilt_lines(found))
    return _SKIPPED if found.damages else 0


def rebuilt_lines(found: "Rebuilt") -> Iterator[str]:
    """Yield what the command prints."""
    size = human_size(found.log_end - found.log_begin)
    yield f"Log        {found.log_files} files, {size}, {found.records:,} records"
    yield f"Queues     {found.queues:,} with {found.queue_entries:,} entries"
    yield f"Index      {found.index_files:,} files with {found.keys:,} keys"
    yield f"Directory  {found.directory}"
    if found.cut_at_start:
        yield "Bytes follow the last record; the next start of a broker removes them."
    for damage in found.damages:
        yield f"Left out   {damage}"
