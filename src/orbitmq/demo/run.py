"""The run itself: everything started, the shop's day produced, streamed, compared and told."""

import platform
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from orbitmq import embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock, SystemClock
from orbitmq.demo.figures import Comparison, Measured
from orbitmq.demo.first_bytes import show_bytes
from orbitmq.demo.flow import Flow
from orbitmq.demo.pipeline import Pipeline, spark_failures_told
from orbitmq.demo.report import amount, page, verdict
from orbitmq.demo.shop import REMINDER, TOPIC, Event, events
from orbitmq.demo.terminal import say, title
from orbitmq.errors import InvalidInput

__all__ = ["run"]

_MARK: Final = ".orbitmq-demo"  # a directory that has it was made by the demo
_QUEUES: Final = 4
_SEND_TIMEOUT_MS: Final = 30_000  # ten times the default: Spark may take all of a small machine
_NOT_EQUAL: Final = 1


def run(directory: str, orders: int, clock: Clock | None = None) -> int:
    """Show the whole way, and return the exit status: 0 if topic and files are equal, else 1.

    Args:
        directory: where store, files, checkpoint and report go; made anew.
        orders: how many the shop gets.
        clock: measures it all.

    Raises:
        InvalidInput: the directory holds something else, or the number is none.
        MissingExtra, JavaNotFound: Spark can't run here.
        SendFailed: a message could not be sent.
        OrbitError: Spark failed.

    """
    if orders < 1:
        raise InvalidInput(f"a shop with {orders} orders has nothing to show", field="orders")
    home = made_anew(Path(directory))
    clock = clock or SystemClock()
    title("orbitmq: RocketMQ's broker, client and Spark source, in Python")
    say(f"Python {platform.python_version()}; all files go below {home}")
    happened = events(orders)
    title("1. A message, as a record of the commit log and as a frame")
    show_bytes(clock)
    measured = _measure(home, happened, clock)
    title("6. What was measured")
    for name, figure in measured.summary:
        say(f"{name:<24}{figure}")
    (home / "report.html").write_text(page(measured), encoding="utf-8")
    _show_what_is_left(home)
    return 0 if measured.comparison.is_equal else _NOT_EQUAL


def made_anew(home: Path) -> Path:
    """Return a directory that holds nothing but our mark.

    Raises:
        InvalidInput: it holds what the demo has not made.

    """
    if home.exists():
        if not home.is_dir() or (any(home.iterdir()) and not (home / _MARK).exists()):
            raise InvalidInput(
                f"{home} holds something else, which the demo would delete; name another directory",
                field="directory",
            )
        shutil.rmtree(home)
    home.mkdir(parents=True)
    (home / _MARK).touch()
    return home


def _measure(home: Path, happened: Sequence[Event], clock: Clock) -> Measured:
    """Start it all, have the orders flow, and compare what came of it."""
    title("2. A nameserver and a broker in this process")
    began_ms = clock.monotonic_ms()
    with embedded.start(str(home / "store")) as cluster:
        broker_ready_ms = clock.monotonic_ms() - began_ms
        say(f"nameserver {cluster.nameserver}, broker {cluster.brokers[0]}: {broker_ready_ms} ms")
        client = ClientSettings(nameserver=cluster.nameserver)
        producer = Producer("shop", client=client, send_timeout_ms=_SEND_TIMEOUT_MS)
        with Admin(client) as admin, producer:
            admin.create_topic(TOPIC, queues=_QUEUES)
            title("3. A Spark session, and a stream from the topic into Parquet")
            began_ms = clock.monotonic_ms()
            with (
                closing(Pipeline(cluster.nameserver, str(home), clock)) as pipeline,
                spark_failures_told(),
            ):
                spark_ready_ms = clock.monotonic_ms() - began_ms
                say(f"{pipeline.versions}: {spark_ready_ms / 1000:.1f} s")
                flow = _show_flow(producer, pipeline, happened, clock)
                comparison = pipeline.compare()
                _show_comparison(comparison)
                _show_key(admin, happened[0].order)
                return Measured(
                    spark=pipeline.versions,
                    broker_ready_ms=broker_ready_ms,
                    spark_ready_ms=spark_ready_ms,
                    delayed=sum(event.state == REMINDER for event in happened),
                    samples=tuple(flow.samples),
                    batches=flow.batches,
                    comparison=comparison,
                )


def _show_flow(
    producer: Producer, pipeline: Pipeline, happened: Sequence[Event], clock: Clock
) -> Flow:
    flow = Flow(producer, pipeline.start(), clock, tell=say)
    warm_ms = flow.warm_up(happened[0])
    say(f"a first order was in Parquet after {warm_ms / 1000:.1f} s; Spark is warm now")
    title("4. The orders of a small shop, streamed while they arrive")
    say(f"{len(happened):,} messages, tagged by what happened, with the order's number as key, in")
    say("order for each customer; reminders are delayed by a second")
    say("")
    flow.produce(happened[1:])
    flow.finish(len(happened))
    return flow


def _show_comparison(compared: Comparison) -> None:
    title("5. The same query, over the topic and over the files")
    say(f"{'':<12}{'messages':>12}{'amount':>16}{'rows in files':>18}{'amount':>16}")
    for total in compared.totals:
        topic = f"{total.topic_messages:>12,}{amount(total.topic_cents):>16}"
        files = f"{total.file_rows:>18,}{amount(total.file_cents):>16}"
        say(f"{total.state:<12}{topic}{files}")
    say("")
    say(verdict(compared))


def _show_key(admin: Admin, order: str) -> None:
    """Find what happened to one order, through the broker's index of keys."""
    states = [message.tags or "" for message in admin.query_message(TOPIC, order)]
    say(f"The broker's key index knows order {order}: {', '.join(states)}.")


def _show_what_is_left(home: Path) -> None:
    title("7. What is left")
    files = sorted((home / "orders").glob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    say(f"report   {home / 'report.html'}")
    say(f"orders   {home / 'orders'}: {len(files)} Parquet files, {size / 1024:,.0f} KiB")
    say(f"store    {home / 'store' / 'broker-a'}: RocketMQ's own files; look into them with")
    say(f"         orbitmq store inspect {home / 'store' / 'broker-a'}")
