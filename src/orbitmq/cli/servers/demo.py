"""``orbitmq demo``: the whole way in one terminal, from an order sent to a row of Parquet."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

__all__ = ["add_commands"]

if TYPE_CHECKING:
    Families: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_ORDERS: Final = 2_000  # nine seconds of them, as the demo paces its shop


def add_commands(families: "Families") -> None:
    """Add ``demo`` to the commands of ``orbitmq``."""
    command = families.add_parser(
        "demo",
        help="show the whole way: broker, orders, Spark, Parquet, report",
        description=(
            "Start a broker in this process, produce the orders of a small shop, have Spark "
            "stream them into Parquet while they arrive, compare topic and files, and write a "
            "report with pictures."
        ),
        epilog="Exit status: 0 topic and files are equal, 1 they differ, 2 it could not run.",
    )
    command.add_argument(
        "--directory",
        default="orbitmq-demo",
        metavar="DIR",
        help="where its files go; made anew each time (%(default)s)",
    )
    command.add_argument(
        "--orders", type=int, default=_ORDERS, metavar="N", help="how many (%(default)s)"
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported when it is run: other commands do without Spark, and start sooner.
    status: int = import_module("orbitmq.demo.run").run(arguments.directory, arguments.orders)
    return status
