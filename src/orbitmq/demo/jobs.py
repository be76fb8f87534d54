"""The jobs of the demo: receipts against the topic, and an archive of the broker's own files."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Jobs", "run_jobs"]


class Jobs(NamedTuple):
    """What the jobs found, and how long they took."""

    topic: str
    receipts: int
    found: int
    lost: int
    duplicated: int
    out_of_order: int
    reconcile_ms: int
    rows: int
    files: int
    archive_ms: int


def run_jobs(spark: "SparkSession", nameserver: str, topic: str, home: Path, clock: Clock) -> Jobs:
    """Compare ``receipts.jsonl`` with the topic, and archive the store; write a page for each."""
    sources = import_module("orbitmq.spark.jobs.sources")
    reconcile = import_module("orbitmq.spark.jobs.reconcile")
    archive = import_module("orbitmq.spark.jobs.archive")
    began_ms = clock.monotonic_ms()
    said = reconcile.Reports(receipts=(str(home / "receipts.jsonl"),))
    found = reconcile.reconcile(spark, sources.Topics(nameserver, (topic,)), said)
    page = import_module("orbitmq.spark.jobs.reconciling.page").reconcile_page(found, topic)
    (home / "reconcile.html").write_text(page, encoding="utf-8")
    between_ms = clock.monotonic_ms()
    store = sources.Store(str(home / "store" / "broker-a"), (topic,))
    done = archive.archive(spark, store, str(home / "archive"))
    return Jobs(
        topic=topic,
        receipts=found.sent,
        found=found.count("found"),
        lost=found.count("lost"),
        duplicated=found.count("duplicated"),
        out_of_order=found.count("out_of_order"),
        reconcile_ms=between_ms - began_ms,
        rows=done.rows,
        files=len(done.files),
        archive_ms=clock.monotonic_ms() - between_ms,
    )
