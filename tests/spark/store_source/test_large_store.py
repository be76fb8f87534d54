"""A large store, scanned and rebuilt: what was sent is what Spark finds, and what rebuild makes.

It has 24 MiB in the suite, 2 GiB with ``ORBITMQ_SOAK=1``, with files of default sizes.
"""

import filecmp
import os
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.broker.settings import LiveSettings
from orbitmq.settings import from_arguments
from orbitmq.spark.jobs.rebuild import rebuild
from tests.store.rebuild.made import bytes_of

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
STORE_BYTES = 2 << 30 if SOAK else 24 << 20
NAMES = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
)
SIZES = (1 << 30, 6_000_000, 5_000_000, 20_000_000) if SOAK else (1 << 22, 20_000, 5_000, 9_000)
"""Of files; those of the soak are Java's defaults."""
SETTINGS = {name: str(size) for name, size in zip(NAMES, SIZES, strict=True)}
TOPICS = ("orders", "refunds")
QUEUES = 8
AT_ONCE = 1_000
RECORD_BYTES = 1_200  # about, of a body of 1 KB

Manifest = dict[str, tuple[int, int, int]]
"""By topic: messages, the sum of the bodies' checksums, and of their lengths."""


class Store:
    """A filled store, and what was sent to it."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest


def body(number: int) -> bytes:
    """Return a body that differs from all others in its first and last bytes, and in its length."""
    text = b"%012d" % number
    return text + bytes(900 + number % 200) + text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    directory = tmp_path_factory.mktemp("large")
    messages, sums, lengths = Counter[str](), Counter[str](), Counter[str]()
    with embedded.start(str(directory), settings=SETTINGS) as cluster:
        with Admin(nameserver=cluster.nameserver) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, queues=QUEUES)
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            for begin in range(0, STORE_BYTES // RECORD_BYTES, AT_ONCE):
                topic = TOPICS[begin // AT_ONCE % len(TOPICS)]
                bodies = [body(number) for number in range(begin, begin + AT_ONCE)]
                producer.send_many(
                    [
                        Message(topic, one, tags=f"t{number % 7}", keys=[f"k-{begin + number}"])
                        for number, one in enumerate(bodies)
                    ]
                )
                messages[topic] += len(bodies)
                sums[topic] += sum(map(crc32, bodies))
                lengths[topic] += sum(map(len, bodies))
    manifest = {topic: (messages[topic], sums[topic], lengths[topic]) for topic in TOPICS}
    return Store(directory / "broker-a", manifest)


@pytest.mark.timeout(1_800 if SOAK else 120)
def test_a_scan_finds_what_was_sent(spark: SparkSession, store: Store) -> None:
    frame = spark.read.format("rocketmq-store").load(str(store.directory))
    # one task would read all of it: a scan is shared out by ranges of the log
    assert frame.rdd.getNumPartitions() >= (STORE_BYTES >> 27 or 1)
    frame.createOrReplaceTempView("stored")
    found = spark.sql(
        "SELECT topic, count(*), sum(crc32(value)), sum(length(value)) FROM stored "
        "WHERE topic IN ('orders', 'refunds') GROUP BY topic"
    ).collect()
    assert {row[0]: tuple(row[1:]) for row in found} == store.manifest
    queues = spark.sql(
        "SELECT count(*), count(DISTINCT queue_offset), max(queue_offset) + 1 FROM stored "
        "WHERE topic IN ('orders', 'refunds') GROUP BY topic, queue_id"
    ).collect()
    assert len(queues) == QUEUES * len(TOPICS)
    assert all(rows == offsets == end for rows, offsets, end in queues)


@pytest.mark.timeout(1_800 if SOAK else 120)
def test_rebuild_makes_what_the_broker_wrote(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    settings = LiveSettings.load(
        from_arguments([f"{name}={SETTINGS[name]}" for name in NAMES])
    ).store
    made = rebuild(spark, str(store.directory), str(tmp_path / "made"), settings)
    assert made.records >= sum(one[0] for one in store.manifest.values())
    names = [
        path.relative_to(store.directory)
        for path in (store.directory / "consumequeue").rglob("*")
        if path.is_file()
    ]
    assert len(names) >= QUEUES * len(TOPICS)
    _, differing, missing = filecmp.cmpfiles(
        store.directory, tmp_path / "made", list(map(str, names)), shallow=False
    )
    assert (differing, missing) == ([], [])
    assert bytes_of(tmp_path / "made" / "index") == bytes_of(store.directory / "index")
