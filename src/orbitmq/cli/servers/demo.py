"""``orbitmq demo``: broker, producer and Spark in one terminal, from a send to a row of Parquet."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

__all__ = ["add_commands"]

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_ORDERS: Final = 2_000  # nine seconds at the pace of the demo


def add_commands(families: "Families") -> None:
    """Add ``demo`` to the commands of ``orbitmq``."""
    command = families.add_parser(
        "demo",
        help="stream a shop's orders to Parquet with Spark, and compare",
        description=(
            "Start a broker in this process, send the orders of a small shop to it, stream them "
            "into Parquet with Spark while they arrive, compare the topic with the files, and "
            "write a report with charts."
        ),
        epilog="Exit status: 0 topic and files are equal, 1 they differ, 2 could not run.",
    )
    command.add_argument(
        "--directory",
        default="orbitmq-demo",
        metavar="DIR",
        help="directory of its files, which each run replaces (%(default)s)",
    )
    command.add_argument(
        "--orders", type=int, default=_ORDERS, metavar="N", help="number of orders (%(default)s)"
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported only now: other commands don't need Spark, and start sooner without it.
    status: int = import_module("orbitmq.demo.run").run(arguments.directory, arguments.orders)
    return status
