"""The jobs of the demo: traces, receipts against the topic, an archive of the broker's files."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.clock import Clock
from orbitmq.demo.figures import Jobs
from orbitmq.message.names import TRACE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_jobs"]


def run_jobs(spark: "SparkSession", nameserver: str, topic: str, home: Path, clock: Clock) -> Jobs:
    """Read the traces, compare ``receipts.jsonl`` with the topic, archive the store.

    The first two write a page each, ``traces.html`` and ``reconcile.html``.
    """
    sources = import_module("orbitmq.spark.jobs.sources")
    trace = import_module("orbitmq.spark.jobs.trace")
    reconcile = import_module("orbitmq.spark.jobs.reconcile")
    archive = import_module("orbitmq.spark.jobs.archive")
    began_ms = clock.monotonic_ms()
    traced = trace.trace(spark, sources.Topics(nameserver, (TRACE_TOPIC,)), grace_ms=0)
    page = import_module("orbitmq.spark.jobs.tracing.page").trace_page(traced, TRACE_TOPIC)
    (home / "traces.html").write_text(page, encoding="utf-8")
    traced_ms = clock.monotonic_ms()
    said = reconcile.Reports(receipts=(str(home / "receipts.jsonl"),))
    found = reconcile.reconcile(spark, sources.Topics(nameserver, (topic,)), said)
    page = import_module("orbitmq.spark.jobs.reconciling.page").reconcile_page(found, topic)
    (home / "reconcile.html").write_text(page, encoding="utf-8")
    reconciled_ms = clock.monotonic_ms()
    store = sources.Store(str(home / "store" / "broker-a"), (topic,))
    done = archive.archive(spark, store, str(home / "archive"))
    return Jobs(
        receipts=found.sent,
        found=found.count("found"),
        lost=found.count("lost"),
        duplicated=found.count("duplicated"),
        out_of_order=found.count("out_of_order"),
        reconcile_ms=reconciled_ms - traced_ms,
        traced=traced.records,
        judgement=traced.judgement,
        trace_ms=traced_ms - began_ms,
        rows=done.rows,
        archive_ms=clock.monotonic_ms() - reconciled_ms,
    )
