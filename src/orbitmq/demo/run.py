"""A run of the demo: start everything, send and stream the orders, compare, report."""

import platform
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from orbitmq import embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.client.observe.receipt_log import ReceiptLog
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock, SystemClock
from orbitmq.demo.billing import Billed, Billing
from orbitmq.demo.figures import Comparison, Measured
from orbitmq.demo.first_bytes import show_bytes
from orbitmq.demo.flow import Flow
from orbitmq.demo.jobs import Jobs
from orbitmq.demo.payments import Later, seen_later, send_payments
from orbitmq.demo.pipeline import Pipeline, spark_errors_wrapped
from orbitmq.demo.report import amount, page, verdict
from orbitmq.demo.shop import REMINDER, TOPIC, Event, events
from orbitmq.demo.terminal import say, title
from orbitmq.errors import InvalidInput

__all__ = ["run"]

_MARK: Final = ".orbitmq-demo"  # marks a directory as made by the demo
_QUEUES: Final = 4
_SEND_TIMEOUT_MS: Final = 30_000  # ten times the default: Spark may take all of a small machine
_NOT_EQUAL: Final = 1
_RECEIPTS: Final = "receipts.jsonl"


def run(directory: str, orders: int, clock: Clock | None = None) -> int:
    """Run the demo in a directory, and return the exit status: 0 if topic and files are equal."""
    if orders < 1:
        raise InvalidInput(f"--orders is {orders}; it must be at least 1", field="orders")
    home = fresh_directory(Path(directory))
    clock = clock or SystemClock()
    title("orbitmq: RocketMQ's broker, client and Spark source in Python")
    say(f"Python {platform.python_version()}; all files are in {home}")
    happened = events(orders)
    title("1. A message as a commit log record and as a frame")
    show_bytes(clock)
    measured = _measure(home, happened, clock)
    title("9. Figures")
    for name, figure in measured.summary:
        say(f"{name:<24}{figure}")
    (home / "report.html").write_text(page(measured), encoding="utf-8")
    _show_files(home)
    return 0 if measured.comparison.is_equal else _NOT_EQUAL


def fresh_directory(home: Path) -> Path:
    """Empty a directory that is the demo's, put our mark into it, and return it."""
    if home.exists():
        if not home.is_dir() or (any(home.iterdir()) and not (home / _MARK).exists()):
            raise InvalidInput(
                f"{home} has files that are not the demo's, which it would delete; choose another "
                "--directory",
                field="directory",
            )
        shutil.rmtree(home)
    home.mkdir(parents=True)
    (home / _MARK).touch()
    return home


def _measure(home: Path, happened: Sequence[Event], clock: Clock) -> Measured:
    """Start broker and Spark, send the orders, and compare topic and files."""
    title("2. A nameserver and a broker in this process")
    began_ms = clock.monotonic_ms()
    with embedded.start(str(home / "store")) as cluster:
        broker_ready_ms = clock.monotonic_ms() - began_ms
        say(f"nameserver {cluster.nameserver}, broker {cluster.brokers[0]}: {broker_ready_ms} ms")
        client = ClientSettings(nameserver=cluster.nameserver)
        producer = Producer("shop", client=client, send_timeout_ms=_SEND_TIMEOUT_MS)
        receipts = ReceiptLog(str(home / _RECEIPTS))
        with Admin(client=client) as admin, receipts, producer:
            producer.add_hook(receipts)
            admin.create_topic(TOPIC, queues=_QUEUES)
            title("3. A Spark session with a stream from the topic into Parquet")
            began_ms = clock.monotonic_ms()
            with (
                closing(Pipeline(cluster.nameserver, str(home), clock)) as pipeline,
                spark_errors_wrapped(),
            ):
                spark_ready_ms = clock.monotonic_ms() - began_ms
                say(f"{pipeline.versions}: {spark_ready_ms / 1000:.1f} s")
                with Producer("shop-payments", client=client) as payer:
                    send_payments(payer, admin)  # seen later: some of them wait
                with Billing(client, clock, refused=happened[0].order) as billing:
                    flow = _show_flow(producer, pipeline, happened, clock)
                    billed = billing.result(admin, len(happened))
                comparison = pipeline.compare()
                _show_comparison(comparison)
                _show_key(admin, happened[0].order)
                _show_billed(billed, happened[0].order)
                _show_payments(seen_later(admin, clock))
                _show_jobs(pipeline.jobs(home))
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
    flow = Flow(producer, pipeline.start(), clock, report=say)
    warm_ms = flow.warm_up(happened[0])
    say(f"Spark is warm: the first order was in Parquet after {warm_ms / 1000:.1f} s")
    title("4. The orders of a small shop, streamed while they arrive")
    say(f"{len(happened):,} messages: the state of an order is the tag, its number the key, its")
    say("customer the sharding key; reminders are delayed by one second")
    say("")
    flow.produce(happened[1:])
    flow.finish(len(happened))
    return flow


def _show_comparison(compared: Comparison) -> None:
    title("5. The same query on the topic and on the files")
    say(f"{'':<12}{'messages':>12}{'amount':>16}{'rows in files':>18}{'amount':>16}")
    for total in compared.totals:
        topic = f"{total.topic_messages:>12,}{amount(total.topic_cents):>16}"
        files = f"{total.file_rows:>18,}{amount(total.file_cents):>16}"
        say(f"{total.state:<12}{topic}{files}")
    say("")
    say(verdict(compared))


def _show_key(admin: Admin, order: str) -> None:
    """Find the messages of one order with the broker's key index."""
    states = [message.tags or "" for message in admin.query_message(TOPIC, order)]
    say(f"The broker's key index finds order {order}: {', '.join(states)}.")


def _show_billed(billed: Billed, refused: str) -> None:
    title("6. The same orders in a consumer group")
    shares = " and ".join(f"{share:,}" for share in billed.shares)
    say(f"Two consumers shared the queues: {shares} messages, {billed.missing} missing.")
    say(f"Half came within {billed.p50_ms} ms of being stored, 99 % within {billed.p99_ms} ms.")
    say(f"Order {refused} was refused: {len(billed.dead)} dead letters.")


def _show_payments(later: Later) -> None:
    title("7. Messages that wait: transactions and timers")
    say(f"{later.sent} payments were sent as half messages. The cards of {later.declined} were")
    say(f"declined, so they were rolled back: the topic has {later.committed}.")
    say(f"Of two reminders due in {later.delay_s} s one was recalled. The topic has")
    say(f"{later.reminders}, stored {later.late_ms} ms after it was due.")


def _show_jobs(jobs: Jobs) -> None:
    title("8. Jobs on Spark: orbitmq pipeline reconcile, orbitmq pipeline archive")
    took = f"{jobs.reconcile_ms / 1000:.1f} s"
    say(f"{jobs.receipts:,} receipts of the producer were compared with the topic in {took}:")
    say(
        f"{jobs.found:,} found, {jobs.lost} lost, {jobs.duplicated} duplicated, "
        f"{jobs.out_of_order} out of order."
    )
    took = f"{jobs.archive_ms / 1000:.1f} s"
    say(f"The broker's own files became an archive of {jobs.rows:,} rows in {took}.")


def _show_files(home: Path) -> None:
    title("10. Files")
    files = sorted((home / "orders").glob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    say(f"report   {home / 'report.html'}")
    say(f"orders   {home / 'orders'}: {len(files)} Parquet files, {size / 1024:,.0f} KiB")
    say(f"receipts {home / 'reconcile.html'}: what was sent, against what is stored")
    say(f"archive  {home / 'archive'}: Parquet by topic and day")
    say(f"store    {home / 'store' / 'broker-a'}: RocketMQ's files; to see their contents:")
    say(f"         orbitmq store inspect {home / 'store' / 'broker-a'}")
