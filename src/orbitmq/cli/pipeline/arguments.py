"""Arguments, session and output that the commands of ``orbitmq pipeline`` share."""

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from warnings import catch_warnings

from orbitmq.cli.cluster import add_json_option, pairs, print_found
from orbitmq.cli.times import past_ms
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.settings import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.jobs.sources import Source, Span

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = [
    "add_job",
    "add_report",
    "add_source",
    "add_span",
    "check_report",
    "count",
    "finish",
    "nameserver_of",
    "quantity",
    "source_of",
    "span_of",
    "spark_session",
]

_NAMESERVER = "127.0.0.1:9876"
_EXAMPLES = "examples:\n{}\n\nExit status: {}"


def add_job(
    commands: "Commands", name: str, purpose: str, *, examples: str, status: str
) -> argparse.ArgumentParser:
    """Add a command with the arguments of every job: where Spark runs, and ``--json``."""
    command = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=_EXAMPLES.format(examples.rstrip(), status),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    spark = command.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="where Spark runs (local[*])")
    spark.add_argument("--remote", metavar="URL", help="a Spark Connect server, as sc://host:15002")
    spark.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a Spark setting, may be repeated",
    )
    add_json_option(command)
    return command


def add_source(command: argparse.ArgumentParser, *, store: bool = True) -> None:
    """Add the arguments that ``source_of`` reads."""
    source = command.add_argument_group("source")
    source.add_argument(
        "--nameserver",
        metavar="HOST:PORT",
        help=f"read topics of this cluster (ORBITMQ_NAMESERVER, NAMESRV_ADDR, else {_NAMESERVER})",
    )
    source.add_argument(
        "--topic", metavar="TOPIC", action="append", default=[], help="a topic, may be repeated"
    )
    source.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the Spark source (docs/spark.md), may be repeated",
    )
    if store:
        source.add_argument("--store", metavar="DIR", help="read a store directory, no broker")


def add_report(command: argparse.ArgumentParser) -> None:
    """Add ``--report``, which ``finish`` writes."""
    command.add_argument("--report", metavar="FILE.html", help="write a page with charts")


def add_span(command: argparse.ArgumentParser) -> None:
    """Add the range of times that ``span_of`` reads."""
    command.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="messages stored from then on: 2026-11-15T09:30, or 30s, 10m, 2h, 1d ago",
    )
    command.add_argument("--until", metavar="TIME", help="messages stored before then")


def quantity(text: str) -> float:
    """Return a number of an argument, for argparse; not one that is negative or endless."""
    number = float(text)
    if not (isfinite(number) and number >= 0):
        raise ValueError(text)
    return number


def count(text: str) -> int:
    """Return a whole number of an argument, for argparse; not a negative one."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def nameserver_of(arguments: argparse.Namespace) -> str:
    """Return the nameserver of the arguments, of the environment, or that of this machine."""
    given = arguments.nameserver or environment("ORBITMQ_NAMESERVER")
    return given or environment("NAMESRV_ADDR") or _NAMESERVER


def source_of(arguments: argparse.Namespace) -> "Source":
    """Return what the arguments name: topics, or a store; raise InvalidInput if not exactly one."""
    from orbitmq.spark.jobs.sources import Store, Topics  # noqa: PLC0415

    options = pairs(arguments.option, "--option")
    names = tuple(arguments.topic)
    if arguments.store is not None:
        if arguments.nameserver is not None:
            raise InvalidInput("give --nameserver or --store, not both", field="store")
        return Store(arguments.store, names, options)
    if not names:
        raise InvalidInput("give a --topic, or a --store", field="topic")
    return Topics(nameserver_of(arguments), names, options)


def span_of(arguments: argparse.Namespace) -> "Span":
    """Return the range of times of the arguments."""
    from orbitmq.spark.jobs.sources import Span  # noqa: PLC0415

    return Span(
        None if arguments.begin is None else past_ms(arguments.begin, "from"),
        None if arguments.until is None else past_ms(arguments.until, "until"),
    )


def check_report(arguments: argparse.Namespace) -> None:
    """Refuse a page that can't be written, before the job takes its time."""
    path: str | None = getattr(arguments, "report", None)
    if path is None:
        return
    page = Path(path)
    if page.is_dir():
        raise InvalidInput(f"--report {path} is a directory; name a file in it", field="report")
    if not page.parent.is_dir():
        raise InvalidInput(
            f"--report {path} can't be written: create {page.parent} first", field="report"
        )
    if not os.access(page if page.exists() else page.parent, os.W_OK):
        raise InvalidInput(f"--report {path} can't be written: permission denied", field="report")


@contextmanager
def spark_session(arguments: argparse.Namespace) -> Iterator["SparkSession"]:
    """Start the session of a command, and stop it; Spark's errors become errors of ours.

    A session that is there already is used, and goes on. A ``--report`` that can't be written is
    refused first.
    """
    check_report(arguments)
    sessions = import_module("orbitmq.spark.sessions")
    failure: type[Exception] = import_module("pyspark.errors").PySparkException
    before = import_module("pyspark.sql").SparkSession.getActiveSession()
    spark = sessions.session(
        "orbitmq pipeline", arguments.master, pairs(arguments.conf, "--conf"), arguments.remote
    )
    try:
        yield spark
    except failure as error:
        raise OrbitError(f"Spark failed: {_reason(error)}") from error
    finally:
        if before is None:
            # A signal to the whole group may have ended its Java first.
            with suppress(OSError), catch_warnings(action="ignore", category=RuntimeWarning):
                spark.stop()


def _reason(error: Exception) -> str:
    """Return the line of a Spark error that says most: that of our own error, if it has one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("orbitmq.errors.")]
    return (ours or lines or [type(error).__name__])[-1 if ours else 0]


def finish(
    arguments: argparse.Namespace, found: Any, lines: Iterable[str], report: str | None = None
) -> None:
    """Print the result, and write the report if ``--report`` names a file."""
    path = None if report is None else arguments.report
    try:
        if report is not None and path is not None:
            Path(path).write_text(report, encoding="utf-8")
    finally:  # the figures took long; a directory that is missing must not cost them
        print_found(found, lines, as_json=arguments.json)
    if path is not None and not arguments.json:
        print(f"Report     {path}")
