"""A rebuilt store equals the one that the broker wrote, byte for byte; and brokers start on it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, TransactionState, embedded
from orbitmq.blocking import Admin, Producer, PullConsumer
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import StoreDamaged, StoreError, StoreLocked
from orbitmq.settings import from_arguments
from orbitmq.spark.jobs.rebuild import rebuild
from orbitmq.store.checkpoint.checkpoint import StoreLock
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.settings import StoreSettings
from tests.store.golden import contents, unpack
from tests.store.rebuild.made import bytes_of, settings_of
from tests.store.unpacked import flip

SMALL = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "400",
    "mapperFileSizeBatchConsumeQueue": "920",
    "maxHashSlotNum": "100",
    "maxIndexNum": "300",
}
PARTS = ("consumequeue", "batchconsumequeue")


def settings() -> StoreSettings:
    return LiveSettings.load(from_arguments([f"{key}={SMALL[key]}" for key in SMALL])).store


def fill(directory: Path) -> None:
    """Have a broker store what rules exist for: tags, keys, delays, transactions, batches."""
    with embedded.start(str(directory), settings=SMALL) as cluster:
        with Admin(nameserver=cluster.nameserver) as admin:
            admin.create_topic("orders", queues=4)
            admin.create_topic("whole", queues=2, attributes={"queue.type": "BatchCQ"})
        with Producer(
            "shop",
            nameserver=cluster.nameserver,
            transaction_listener=lambda _message: TransactionState.COMMIT,
        ) as producer:
            for number in range(240):
                tags = ("paid", "Aa", "BB", "标签", None)[number % 5]
                keys = [f"o-{number}", "same"] if number % 3 else ()
                body = bytes(1 + number * 7 % 900)
                producer.send(Message("orders", body, tags=tags, keys=keys))
            for number in range(30):
                producer.send(Message("later", b"x", delay_level=1 + number % 18))
            for number in range(12):
                with producer.transaction(Message("paid", b"%d" % number)) as transaction:
                    if number % 3 == 0:
                        transaction.rollback()
            for number in range(40):
                producer.send_many([Message("whole", bytes(50), keys=[f"w-{number}"])] * 3)


def bodies(nameserver: str, topic: str) -> list[bytes]:
    with PullConsumer("audit", nameserver=nameserver) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.seek_to_begin()
        found: list[bytes] = []
        while got := consumer.poll(timeout_ms=1_000):
            found += [message.body for message in got]
        return sorted(found)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled")
    fill(directory)
    return directory


def assert_equal_stores(one: Path, other: Path, parts: Sequence[str] = PARTS) -> None:
    for part in parts:
        assert contents(one / part) == contents(other / part), part
    assert bytes_of(one / "index") == bytes_of(other / "index")


def test_a_store_of_our_broker(spark: SparkSession, filled: Path, tmp_path: Path) -> None:
    store = filled / "broker-a"
    shown: list[tuple[int, int]] = []
    found = rebuild(
        spark,
        str(store),
        str(tmp_path / "made"),
        settings(),
        progress=lambda done, total: shown.append((done, total)),
    )
    assert found.log_files > 2
    assert found.index_files > 2
    assert shown
    assert_equal_stores(tmp_path / "made", store)
    # with the rest of the store, it is served without reading the log again
    for part in ("commitlog", "config"):
        shutil.copytree(store / part, tmp_path / "made" / part)
    (tmp_path / "made").rename(tmp_path / "broker-a")
    with embedded.start(str(filled), settings=SMALL) as cluster:
        before = {topic: bodies(cluster.nameserver, topic) for topic in ("orders", "paid", "whole")}
    with embedded.start(str(tmp_path), settings=SMALL) as cluster:
        after = {topic: bodies(cluster.nameserver, topic) for topic in before}
    assert after == before
    assert len(before["orders"]) == 240
    assert len(before["paid"]) == 8


def test_golden_stores_in_place(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("normal", "trans", "crash-torn"):
        golden = unpack(name, tmp_path / name)
        before = tmp_path / f"{name}-before"
        shutil.copytree(golden.root, before)
        shutil.rmtree(golden.root / "consumequeue" / min((before / "consumequeue").iterdir()).name)
        found = rebuild(spark, str(golden.root), None, settings_of(golden), replace=True)
        assert found.cut_at_start is (name == "crash-torn")
        assert (golden.root / "abort").exists() is (before / "abort").exists()
        assert not (golden.root / ".rebuild").exists()
        if name != "crash-torn":  # Java's queues are ahead of that log
            assert_equal_stores(golden.root, before, ["consumequeue"])


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    golden = unpack("normal", tmp_path / "store")
    store, sizes = str(golden.root), settings_of(golden)
    before = contents(golden.root)
    with pytest.raises(StoreError, match="consumequeue is not empty"):
        rebuild(spark, store, None, sizes)
    with StoreLock(RealDisk(), store), pytest.raises(StoreLocked):
        rebuild(spark, store, None, sizes, replace=True)
    assert contents(golden.root) == before
    flip(golden.root / "commitlog" / f"{0:020d}", 8)  # the checksum of the first body
    with pytest.raises(StoreDamaged, match="checksum.*--skip-damaged"):
        rebuild(spark, store, str(tmp_path / "made"), sizes)
    assert not (tmp_path / "made" / "consumequeue").exists()
    found = rebuild(spark, store, str(tmp_path / "made"), sizes, skip_damaged=True)
    assert found.damages
    (golden.root / "commitlog" / f"{0:020d}").unlink()
    (golden.root / "commitlog" / f"{262144:020d}").unlink()
    with pytest.raises(StoreDamaged, match="has no log file"):
        rebuild(spark, store, None, sizes, replace=True)
