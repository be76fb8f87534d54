"""Against a cluster: what a producer planted is found, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, ReceiptLog, embedded
from orbitmq.blocking import Admin, Producer, PullConsumer
from orbitmq.cli.pipeline.reconcile import reconciliation_lines
from orbitmq.errors import GroupNotFound, InvalidInput
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.spark.jobs import reconcile as job
from orbitmq.spark.jobs.reconcile import Reports, Waiting, reconcile
from orbitmq.spark.jobs.reconciling.figures import Reconciliation
from orbitmq.spark.jobs.reconciling.page import reconcile_page
from orbitmq.spark.jobs.reconciling.stored import Head, heads
from orbitmq.spark.jobs.sources import Store, Topics

KEYS = ("o-1", "o-2")


def send_all(nameserver: str, receipts: Path) -> None:
    """Send in order, in a batch, later, in transactions; and one message twice."""
    with (
        ReceiptLog(receipts) as log,
        Producer("shop", nameserver=nameserver, trace=True) as producer,
    ):
        producer.add_hook(log)
        for number in range(40):
            producer.send(Message("orders", b"%d" % number, sharding_key=KEYS[number % 2]))
        producer.send_many([Message("orders", b"batch %d" % number) for number in range(5)])
        producer.send(Message("orders", b"later", delay_level=18))
        for is_committed in (True, False):
            with producer.transaction(Message("orders", b"paid")) as transaction:
                if not is_committed:
                    transaction.rollback()
        for _ in range(2):
            producer.send(Message("orders", b"twice", properties={"ORBIT_ID": "same"}))


def consume(nameserver: str) -> int:
    """Have a group commit a part; return how many messages it has consumed."""
    with PullConsumer("billing", nameserver=nameserver, auto_commit=False) as consumer:
        queues = consumer.queues("orders")
        consumer.assign(queues)
        consumer.seek_to_begin()
        consumed = 0
        while got := consumer.poll(timeout_ms=1_000):
            consumed += len(got)
            if consumed > 10:
                break
        consumer.commit()
        return sum(consumer.committed(queue) or 0 for queue in queues)


def plant(receipts: Path) -> dict[str, set[str]]:
    """Add losses and exchange two sends of one key; return the ids by kind."""
    lines = [json.loads(line) for line in receipts.read_text().splitlines()]
    one, other = lines[10], lines[14]
    one["sequence"], other["sequence"] = other["sequence"], one["sequence"]
    lost = [
        {**lines[0], "message_id": f"LOST{number}", "queue_offset": None} for number in range(3)
    ]
    failed = {**lines[0], "message_id": "FAILED", "queue_offset": None, "status": "SendFailed"}
    receipts.write_text("\n".join(map(json.dumps, [*lines, *lost, failed])) + "\nnot a receipt\n")
    # The one that was sent later is now first of the two; those between are behind it as well.
    behind = {line["message_id"] for line in lines[11:15] if line["queue_id"] == one["queue_id"]}
    return {"lost": {line["message_id"] for line in lost}, "out_of_order": behind}


def ids(found: Reconciliation, kind: str) -> set[str]:
    return {sample.message_id for sample in found.samples if sample.kind == kind}


def test_what_was_planted_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    receipts = tmp_path / "receipts.jsonl"
    with embedded.start(str(tmp_path / "data")) as cluster:
        source = Topics(cluster.nameserver, ("orders",))
        with Admin(nameserver=cluster.nameserver) as admin:
            admin.create_topic("orders", queues=2)
        send_all(cluster.nameserver, receipts)
        both = Reports(TRACE_TOPIC, (str(receipts),))
        clean = reconcile(spark, source, both, late_ms=3_600_000)
        consumed = consume(cluster.nameserver)
        planted = plant(receipts)
        waiting = Waiting("orders", "WAITING", 1_794_735_000_000)
        found = reconcile(
            spark,
            source,
            Reports(TRACE_TOPIC, (str(receipts),), (waiting,)),
            groups=["billing"],
            late_ms=3_600_000,
        )
        with pytest.raises(GroupNotFound):
            reconcile(spark, source, both, groups=["nobody"])
    stored = 40 + 5 + 1 + 2
    sound = {"found": stored - 1, "duplicated": 1, "delayed": 1, "withdrawn": 1}
    assert clean.topics[0].counts == sound
    assert found.topics[0].counts == {
        **sound,
        "lost": 3,
        "failed": 1,
        "waiting": 1,
        "out_of_order": len(planted["out_of_order"]),
        "not_consumed": stored - consumed,
    }
    assert ids(found, "lost") == planted["lost"]
    assert ids(found, "out_of_order") == planted["out_of_order"]
    assert found.unreadable == 1
    assert all(len(line) <= 80 for line in reconciliation_lines(found))
    assert "Examples: out of order" in reconcile_page(found, "orders")
    # the same from the files, without a broker
    offline = reconcile(
        spark,
        Store(str(tmp_path / "data" / "broker-a"), ("orders",)),
        Reports(TRACE_TOPIC, (str(receipts),)),
        late_ms=3_600_000,
    )
    online = {**found.topics[0].counts}
    del online["not_consumed"], online["waiting"]
    assert offline.topics[0].counts == online


def test_what_is_sent_meanwhile_is_not_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages are read before queues and groups are asked how far they are."""
    receipts = tmp_path / "receipts.jsonl"
    with (
        embedded.start() as cluster,
        ReceiptLog(receipts) as log,
        Producer("shop", nameserver=cluster.nameserver) as producer,
    ):
        producer.add_hook(log)
        producer.send(Message("orders", b"tea"))

        def meanwhile(*given: Any) -> list[Head]:
            producer.send(Message("orders", b"cake"))
            return heads(*given)

        monkeypatch.setattr(job, "heads", meanwhile)
        source = Topics(cluster.nameserver, ("orders",))
        found = reconcile(spark, source, Reports(receipts=(str(receipts),)), late_ms=3_600_000)
    assert found.topics[0].counts == {"found": 1}


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing says what was sent"):
        Reports()
    with pytest.raises(InvalidInput, match="only a cluster knows"):
        reconcile(spark, Store(str(tmp_path)), Reports(TRACE_TOPIC), groups=["billing"])
    with pytest.raises(InvalidInput, match="has to end in"):
        reconcile(spark, Store(str(tmp_path)), Reports(None, ("receipts.txt",)))
