from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.client.observe.receipt_log import ReceiptLog
from orbitmq.clock import SystemClock
from orbitmq.demo.jobs import run_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_lost_message_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    with (
        embedded.start(str(tmp_path / "store")) as cluster,
        ReceiptLog(str(tmp_path / "receipts.jsonl")) as receipts,
    ):
        with Producer("shop", nameserver=cluster.nameserver, trace=True) as producer:
            producer.add_hook(receipts)
            for number in range(5):
                producer.send(Message("orders", b"%d" % number))
        lines = (tmp_path / "receipts.jsonl").read_text().splitlines(keepends=True)
        never = lines[0].replace('"message_id":"', '"message_id":"F')
        (tmp_path / "receipts.jsonl").write_text("".join([*lines, never]))
        jobs = run_jobs(spark, cluster.nameserver, "orders", tmp_path, SystemClock())
    assert (jobs.receipts, jobs.found, jobs.lost, jobs.rows) == (6, 5, 1, 5)
    assert jobs.traced == 5
    assert jobs.judgement
    assert "<svg" in (tmp_path / "traces.html").read_text()
    assert "<svg" in (tmp_path / "reconcile.html").read_text()
    assert any((tmp_path / "archive").glob("topic=orders/*/*.parquet"))
