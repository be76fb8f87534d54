"""``orbitmq demo``: broker, producer and Spark in one terminal, from a send to a row of Parquet."""

import argparse
from importlib import import_module
from typing import Final

__all__ = ["add_arguments"]

_ORDERS: Final = 2_000  # nine seconds at the pace of the demo


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq demo``."""
    command.description = (
        "Start a broker in this process, send the orders of a small shop to it, stream them "
        "into Parquet with Spark while they arrive, compare the topic with the files, and "
        "write a report with charts."
    )
    command.epilog = "Exit status: 0 topic and files are equal, 1 they differ, 2 could not run."
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
