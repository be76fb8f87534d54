"""``orbitmq pipeline settle``: finishes transactional writes whose driver died."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orbitmq.cli.cluster import add_json_option, pairs, print_found
from orbitmq.cli.pipeline.arguments import nameserver_of, quantity
from orbitmq.cli.render import ProgressBar

if TYPE_CHECKING:
    from orbitmq.cli.pipeline.arguments import Commands
    from orbitmq.spark.jobs.settle import Settled

__all__ = ["add_command", "settled_lines"]

_EPILOG: Final = """\
examples:
  orbitmq pipeline settle --ledger /data/checkpoint/orbitmq-ledger
  orbitmq pipeline settle --ledger s3://jobs/ledger --answer 60 --json

It needs no Spark session, and may run beside the query. Stop a driver for good
before you settle for it on a Java broker.

Exit status: 0 all is settled, 1 something is open or failed, 2 could not run."""
_LEFT: Final = 1


def add_command(commands: "Commands") -> None:
    """Add the command. It has no arguments for Spark, which it doesn't need."""
    purpose = "finish transactional writes whose driver died, and answer checks for them"
    command = commands.add_parser(
        "settle",
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--ledger",
        metavar="DIR",
        required=True,
        help="the ledgerLocation of the writes, a path or a URI",
    )
    command.add_argument(
        "--nameserver", metavar="HOST:PORT", help="of the cluster (NAMESRV_ADDR, else this machine)"
    )
    command.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the write, such as accessKey, may be repeated",
    )
    command.add_argument(
        "--answer",
        metavar="SECONDS",
        type=quantity,
        default=0.0,
        help="answer the checks of brokers for so long afterwards (0)",
    )
    add_json_option(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from orbitmq.spark.jobs.settle import settle  # noqa: PLC0415

    with ProgressBar("settling", unit="writes") as bar:
        found = settle(
            arguments.ledger,
            nameserver_of(arguments),
            pairs(arguments.option, "--option"),
            answer_ms=round(arguments.answer * 1000),
            progress=bar,
        )
    print_found(found, settled_lines(found), as_json=arguments.json)
    return 0 if found.is_settled else _LEFT


def settled_lines(found: "Settled") -> Iterator[str]:
    """Yield what the command prints; names and reasons may be longer than a line."""
    yield f"Writes       {found.writes:,} in the ledger"
    yield f"Finished     {len(found.finished):,}, which made {found.messages:,} messages visible"
    yield f"Rolled back  {len(found.rolled_back):,} attempts of tasks, too old to be committed"
    if found.forgotten:
        yield f"Forgotten    {found.forgotten:,} old writes"
    if found.answered:
        counts = ", ".join(f"{count:,} {state}" for state, count in found.answered.items())
        yield f"Answered     {counts}"
    for name in found.open:
        yield f"Open         {name}"
    for name, reason in found.failed.items():
        yield f"Failed       {name}: {reason}"
