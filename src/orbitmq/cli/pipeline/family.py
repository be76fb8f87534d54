"""``orbitmq pipeline``: the family of all jobs."""

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from orbitmq.cli.pipeline import (
    archive,
    dead_letters,
    profile,
    rebuild,
    reconcile,
    replay,
    settle,
    trace,
)

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_arguments"]


class _Job(Protocol):
    """A module of this folder."""

    def add_command(self, commands: "Families") -> None:
        """Add the command of the job."""


_JOBS: Final[tuple[_Job, ...]] = (
    archive,
    replay,
    reconcile,
    rebuild,
    trace,
    dead_letters,
    profile,
    settle,
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq pipeline``."""
    commands = command.add_subparsers(metavar="JOB")
    for job in _JOBS:
        job.add_command(commands)
    for parser in commands.choices.values():
        parser.set_defaults(run=partial(_with_spark, parser.get_default("run"), parser.prog))


def _with_spark(
    run: Callable[[argparse.Namespace], int], command: str, arguments: argparse.Namespace
) -> int:
    """Run a job; MissingExtra if a package is not installed. Imported late, as all of Spark is."""
    with import_module("orbitmq.spark.extra").needing_extra(command):
        return run(arguments)
