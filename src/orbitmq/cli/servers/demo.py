"""``orbitmq demo``: broker, producer, consumers and Spark in one terminal."""

import argparse
import logging
import os
import signal
from importlib import import_module
from math import isfinite
from types import FrameType
from typing import Final, NoReturn

from orbitmq.cli.asking import described
from orbitmq.errors import InvalidInput

__all__ = ["add_arguments"]

_SECONDS: Final = "ORBITMQ_DEMO_SECONDS"
_ORDERS_A_SECOND: Final = 222  # at the pace of the demo: 640 messages
_ORDERS: Final = 2_000  # nine seconds


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq demo``."""
    described(
        command,
        "Start a broker in this process, send the orders of a small shop to it, consume them, "
        "stream them into Parquet with Spark while they arrive, compare the topic with the files, "
        "run the jobs trace, reconcile and archive, and write a report with charts. It takes about "
        "a minute; without the extra spark it leaves out what Spark does, and takes ten seconds. "
        f"{_SECONDS} says for how many seconds orders are sent (9).",
        examples=["demo", "demo --orders 500 --directory /tmp/shop"],
        status="0 nothing was lost or doubled, 1 something was, 2 could not run",
    )
    command.add_argument(
        "--directory",
        default="orbitmq-demo",
        metavar="DIR",
        help="directory of its files, which each run replaces (%(default)s)",
    )
    command.add_argument(
        "--orders",
        type=int,
        metavar="N",
        help=f"number of orders ({_ORDERS}, or what fits into {_SECONDS})",
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    orders = arguments.orders
    if orders is None:
        orders = _orders_of(os.environ.get(_SECONDS, ""))
    # Imported only now: other commands don't need Spark, and start sooner without it.
    run = import_module("orbitmq.demo.run").run
    status: int = run(arguments.directory, orders, on_spark=_end_quietly)
    return status


def _end_quietly() -> None:
    """Take SIGINT from PySpark, whose handler asks Java to stop in the middle of another call."""
    signal.signal(signal.SIGINT, _interrupted)


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    logging.disable()  # py4j would log that its call was interrupted, with a traceback
    raise KeyboardInterrupt


def _orders_of(seconds: str) -> int:
    """Return how many orders are sent in a number of seconds.

    >>> _orders_of(""), _orders_of("2"), _orders_of("0.001")
    (2000, 444, 1)
    """
    if not seconds:
        return _ORDERS
    try:
        number = float(seconds)
    except ValueError:
        number = 0.0
    if not (isfinite(number) and number > 0):
        raise InvalidInput(
            f"{_SECONDS} is {seconds!r:.40}; it must be a number of seconds above 0, such as 2",
            field=_SECONDS,
        )
    return max(1, round(number * _ORDERS_A_SECOND))
