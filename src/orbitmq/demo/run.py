"""A run of the demo: start everything, send, consume and stream the orders, compare, report."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orbitmq import __version__, embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.client.observe.receipt_log import ReceiptLog
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock, SystemClock, utc_text
from orbitmq.demo.billing import Billing
from orbitmq.demo.figures import Billed, Comparison, Jobs, Later, Measured, Streamed, latency_of
from orbitmq.demo.flow import Flow
from orbitmq.demo.latency import SendTimes
from orbitmq.demo.payments import seen_later, send_payments
from orbitmq.demo.report import amount, page, verdict
from orbitmq.demo.shop import REMINDER, TOPIC, Event, events
from orbitmq.demo.terminal import figure, say, title
from orbitmq.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from orbitmq.demo.pipeline import Pipeline

__all__ = ["run"]

_MARK: Final = ".orbitmq-demo"  # marks a directory as made by the demo
_QUEUES: Final = 4
_SEND_TIMEOUT_MS: Final = 30_000  # ten times the default: Spark may take all of a small machine
_WRONG: Final = 1
_RECEIPTS: Final = "receipts.jsonl"
_GIB: Final = 1024**3
_JOB: Final = 12
# Sizes are Java's, where embedded clusters have smaller files: then any broker starts on what the
# demo leaves.
_SETTINGS: Final = {
    "mappedFileSizeCommitLog": str(1024**3),
    "mappedFileSizeConsumeQueue": str(20 * 300_000),
    "maxHashSlotNum": str(5_000_000),
    "maxIndexNum": str(20_000_000),
    "mappedFileSizeTimerLog": str(100 * 1024**2),
    "waitTimeMillsInSendQueue": "30000",  # instead of 200: Spark may take all of a small machine
}


def run(
    directory: str,
    orders: int,
    clock: Clock | None = None,
    on_spark: Callable[[], None] = lambda: None,
) -> int:
    """Run the demo in a directory, and return the exit status: 0 if nothing is lost or doubled.

    ``on_spark`` is called when Spark has started, and has set its handler of SIGINT.
    """
    if orders < 1:
        raise InvalidInput(f"--orders is {orders}; it must be at least 1", field="orders")
    home = fresh_directory(Path(directory))
    clock = clock or SystemClock()
    facts = _facts(clock)
    title("orbitmq: RocketMQ's broker, client and Spark source in Python")
    version, python, machine, _ = (text for _, text in facts)
    say(f"{version}, {python}; {machine}")
    say(f"All files are in {home}.")
    lacking = _lacking_spark()
    if lacking is not None:
        say("")
        say(f"Without Spark, whose packages are not installed ({lacking}), this leaves out the")
        say("stream into Parquet and the jobs. To have them: pip install 'orbitmq[spark]'")
    demo = _Demo(home, events(orders), clock, on_spark)
    measured = demo.measure(facts, has_spark=lacking is None)
    title("Summary")
    for name, text in measured.summary:
        figure(name, text)
    (home / "report.html").write_text(page(measured), encoding="utf-8")
    _show_what_is_left(home, measured)
    return 0 if measured.is_right else _WRONG


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


def _facts(clock: Clock) -> tuple[tuple[str, str], ...]:
    """Return version, date and machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return (
        ("version", f"orbitmq {__version__}"),
        ("Python", f"Python {platform.python_version()}"),
        (
            "machine",
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        ),
        ("date", f"{utc_text(clock.now_ms())[:16].replace('T', ' ')} UTC"),
    )


def _lacking_spark() -> str | None:
    """Return the first package of the extra ``spark`` that isn't installed; None if all are."""
    try:
        _ = import_module("orbitmq.spark").session
    except MissingExtra as error:
        return error.__cause__.name if isinstance(error.__cause__, ImportError) else "pyspark"
    return None


class _Demo:
    """What happens between the greeting and the summary."""

    def __init__(
        self,
        home: Path,
        happened: Sequence[Event],
        clock: Clock,
        on_spark: Callable[[], None],
    ) -> None:
        self._home = home
        self._on_spark = on_spark
        self._happened = happened
        self._clock = clock
        self._send_times = SendTimes()
        self._refused = happened[0].order

    def measure(self, facts: tuple[tuple[str, str], ...], *, has_spark: bool) -> Measured:
        """Start broker and Spark, send the orders, and look at what became of them."""
        title("A nameserver and a broker in this process")
        began_ms = self._clock.monotonic_ms()
        with (
            embedded.start(str(self._home / "store"), settings=_SETTINGS) as cluster,
            Admin(nameserver=cluster.nameserver) as admin,
            ExitStack() as stack,
        ):
            broker_ready_ms = self._clock.monotonic_ms() - began_ms
            addresses = f"nameserver {cluster.nameserver}, broker {cluster.brokers[0]}"
            say(f"{addresses}: {broker_ready_ms} ms")
            admin.create_topic(TOPIC, queues=_QUEUES)
            spark = self._start_spark(stack, cluster.nameserver) if has_spark else None
            client = ClientSettings(nameserver=cluster.nameserver)
            with Producer("shop-payments", client=client, trace=True) as payer:
                send_payments(payer, admin)  # seen later: some of them wait
            flow, billed = self._trade(client, admin, spark)
            _show_billed(billed)
            later = seen_later(admin, self._clock)
            _show_payments(later)
            return Measured(
                facts=facts,
                broker_ready_ms=broker_ready_ms,
                delayed=sum(event.state == REMINDER for event in self._happened),
                samples=tuple(flow.samples),
                send_ms=tuple(self._send_times.ms),
                billed=billed,
                later=later,
                streamed=None if spark is None else self._compare(spark, flow, admin),
            )

    def _start_spark(self, stack: ExitStack, nameserver: str) -> "Pipeline":
        title("A Spark session with a stream from the topic into Parquet")
        pipeline = import_module("orbitmq.demo.pipeline")
        stack.enter_context(pipeline.spark_errors_wrapped())
        spark: Pipeline = pipeline.Pipeline(nameserver, str(self._home), self._clock)
        stack.enter_context(closing(spark))
        self._on_spark()
        say(f"{spark.versions}: {spark.ready_ms / 1000:.1f} s")
        return spark

    def _trade(
        self, client: ClientSettings, admin: Admin, spark: "Pipeline | None"
    ) -> tuple[Flow, Billed]:
        """Send the events, while consumers and the stream read them."""
        receipts = ReceiptLog(str(self._home / _RECEIPTS))
        producer = Producer("shop", client=client, send_timeout_ms=_SEND_TIMEOUT_MS, trace=True)
        billing = Billing(client, self._clock, refused=self._refused)
        with receipts, producer, billing:
            producer.add_hook(receipts)
            producer.add_hook(self._send_times)
            query = None if spark is None else spark.start()
            flow = Flow(producer, query, self._clock, report=say)
            warm_ms = flow.warm_up(self._happened[0])
            if spark is not None:
                say(f"Spark is warm: the first order was in Parquet after {warm_ms / 1000:.1f} s")
            self._send_times.ms.clear()
            what = "sent and consumed" if spark is None else "sent, consumed and streamed"
            title(f"The orders of a small shop, {what} at the same time")
            say(f"{len(self._happened):,} messages: the state of an order is the tag, its")
            say("number the key, its customer the sharding key; reminders wait 1 s (level 1)")
            say("")
            flow.produce(self._happened[1:])
            flow.finish(len(self._happened))
            return flow, billing.result(admin, self._happened)

    def _compare(self, spark: "Pipeline", flow: Flow, admin: Admin) -> Streamed:
        comparison = spark.compare()
        _show_comparison(comparison)
        states = [message.tags or "" for message in admin.query_message(TOPIC, self._refused)]
        say(f"The broker's key index finds order {self._refused}: {', '.join(states)}.")
        title("Jobs on Spark: orbitmq pipeline trace, reconcile, archive")
        jobs = spark.jobs(self._home)
        _show_jobs(jobs)
        return Streamed(spark.versions, spark.ready_ms, flow.batches, comparison, jobs)


def _show_billed(billed: Billed) -> None:
    title("A consumer group, whose handler fails on one order")
    shares = " and ".join(f"{share:,}" for share in billed.shares)
    say(f"Two members shared the queues: {shares} messages, {billed.missing} missing.")
    say(f"From stored to handler: {latency_of(billed.took)}.")
    say(f"On order {billed.refused} the handler failed {billed.deliveries} times. Each of its")
    say(f"messages came again twice, and is a dead letter now: {billed.dead}.")


def _show_payments(later: Later) -> None:
    title("Messages that wait: transactions and timers")
    say(f"{later.sent} payments were sent as half messages. The cards of {later.declined} were")
    say(f"declined, so they were rolled back: the topic has {later.committed}.")
    say(f"Two more reminders were sent with a delay of {later.delay_s} s, and one was recalled.")
    say(f"The topic has {later.reminders}, stored {later.late_ms} ms after it was due.")


def _show_comparison(compared: Comparison) -> None:
    title("The same query on the topic and on the files")
    say(f"{'':<12}{'messages':>12}{'amount':>16}{'rows in files':>18}{'amount':>16}")
    for total in compared.totals:
        topic = f"{total.topic_messages:>12,}{amount(total.topic_cents):>16}"
        files = f"{total.file_rows:>18,}{amount(total.file_cents):>16}"
        say(f"{total.state:<12}{topic}{files}")
    say("")
    say(verdict(compared))


def _show_jobs(jobs: Jobs) -> None:
    took = f"{jobs.trace_ms / 1000:.1f} s"
    said = f"{jobs.traced:,} records of producers and consumers in {took}:"
    figure("trace", " ".join([said, *jobs.judgement]), width=_JOB)
    took = f"{jobs.reconcile_ms / 1000:.1f} s"
    figure(
        "reconcile",
        f"{jobs.receipts:,} receipts of the producer against the topic in {took}: {jobs.found:,} "
        f"found, {jobs.lost} lost, {jobs.duplicated} duplicated, {jobs.out_of_order} out of order.",
        width=_JOB,
    )
    took = f"{jobs.archive_ms / 1000:.1f} s"
    figure("archive", f"{jobs.rows:,} rows of the broker's own files in {took}.", width=_JOB)


def _show_what_is_left(home: Path, measured: Measured) -> None:
    title("Where to go on")
    say("The report, to open in a browser:")
    say((home / "report.html").resolve().as_uri(), wrap=False)
    say("")
    if measured.streamed is not None:
        files = sorted((home / "orders").glob("*.parquet"))
        size = sum(file.stat().st_size for file in files)
        say(f"{home / 'traces.html'}, {home / 'reconcile.html'}: reports of the jobs")
        say(f"{home / 'orders'}: {len(files)} Parquet files, {size / 1024:,.0f} KiB")
        say(f"{home / 'archive'}: Parquet by topic and day")
    store = home / "store" / "broker-a"
    say(f"{store}: the broker's files, in RocketMQ's format.")
    say("To serve them again, and to read them from another terminal:")
    say("")
    for command in _commands_found(Path(sys.prefix), Path.cwd(), shutil.which("orbitmq")):
        say(f"  {command}")
    say(f"  orbitmq up --store {store}")
    say(f"  orbitmq consume {TOPIC} --from beginning --until-caught-up")
    say("")
    say("Then the README, or docs/start.md: a service of your own in five minutes.")


def _commands_found(environment: Path, here: Path, found: str | None) -> list[str]:
    """Return what to type first, so that a shell finds ``orbitmq``; ``make demo`` needs it.

    >>> _commands_found(Path("/clone/.venv"), Path("/clone"), None)
    ['. .venv/bin/activate']
    >>> _commands_found(Path("/clone/.venv"), Path("/clone"), "/usr/bin/orbitmq")
    []
    """
    is_needed = found is None and environment.is_relative_to(here)
    return [f". {environment.relative_to(here)}/bin/activate"] if is_needed else []
