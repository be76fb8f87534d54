"""``orbitmq pipeline``: the family of all jobs."""

import argparse
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from orbitmq.cli.pipeline import profile, settle

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_commands"]


class _Job(Protocol):
    """A module of this folder."""

    def add_command(self, commands: "Families") -> None:
        """Add the command of the job."""


_JOBS: Final[tuple[_Job, ...]] = (profile, settle)


def add_commands(families: "Families") -> None:
    """Add ``pipeline`` and its jobs to the commands of ``orbitmq``."""
    parser = families.add_parser("pipeline", help="Spark jobs over topics and store directories")
    commands = parser.add_subparsers(metavar="JOB", required=True)
    for job in _JOBS:
        job.add_command(commands)
