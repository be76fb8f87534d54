"""Transactional writes of Spark, read by Java's consumers: on our broker, and on Java's.

On ours each row arrives once, however often drivers are killed. Java's broker asks about messages
that it has delivered (its checks move half messages), and delivers them again if it is told to
commit them: the ledger says no. What is left is the window between ends and their note in the
ledger.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import orbitmq.spark
from orbitmq import embedded
from orbitmq.blocking import Admin, TransactionState
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access, WriteOptions, write_options
from orbitmq.spark.writing.finishing import WINDOW
from orbitmq.spark.writing.ledger import Ledger, LedgerWrite
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.producers import close_producers
from orbitmq.spark.writing.settling import answering
from orbitmq.spark.writing.transactional_writer import TransactionalWriter
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import Settings
from tests.interop.team import Team
from tests.interop.waiting import until
from tests.spark.test_kills import KILLS
from tests.spark.test_transactional_kills import copy_with_kills
from tests.spark.writing.test_transactional_writer import VALUES, many, values
from tests.spark.writing.test_writer import PlayedTask


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A Java nameserver, and a broker that asks about half messages every second."""
    why = counterparts.missing_for("5.4.0")
    if why is not None:
        decline(why)
    asks: Settings = {"transactionCheckInterval": 1_000, "transactionTimeOut": 1_000}
    directory = tmp_path_factory.mktemp("asking")
    with JavaCluster("5.4.0", directory, broker_settings=asks) as running:
        yield running


@pytest.fixture
def team(java_540: Java, cluster: JavaCluster) -> Team:
    return Team.on_java(java_540, cluster)


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Play Spark's tasks in this process."""
    monkeypatch.setattr(TaskContext, "get", PlayedTask)
    yield
    close_producers()


def options(team: Team, topic: str, ledger: Path, **more: str) -> WriteOptions:
    given = {"nameserver": team.nameserver, "topic": topic, "ledgerLocation": str(ledger)}
    return write_options({**given, "delivery": "transactional", **more})


@pytest.mark.timeout(900 if KILLS < 10 else 7200)
def test_a_java_consumer_gets_each_row_once_although_drivers_die(
    java_540: Java, tmp_path: Path
) -> None:
    with embedded.start() as ours:
        sent = copy_with_kills(ours, tmp_path)
        with Team(java_540, ours.nameserver, ours.brokers).consumer("copied") as consumer:
            # Each look takes all messages from Java, so that many take minutes.
            received = consumer.wait_for(sent, seconds=90 + sent / 200)
    assert Counter(int(one.body) for one in received) == Counter(range(sent))


def test_java_s_broker_is_told_not_to_deliver_again(team: Team, tmp_path: Path) -> None:
    topic = team.topic("spark-asked")
    # A short immunity; after it Java's broker asks about halves that it has moved.
    told = msgspec.structs.replace(options(team, topic, tmp_path), transaction_timeout_ms=15_000)
    writer = TransactionalWriter(told, VALUES, overwrite=False)
    task = writer.write(iter([values(*many(20))]))
    close_producers()
    with answering(told) as answers, team.consumer(topic) as consumer:
        stored = halves(team, topic).end
        # After three rounds its progress is past the halves that an end names.
        until(lambda: halves(team, topic).end >= stored + 60, what="checks that move halves")
        writer.commit([task])
        until(lambda: halves(team, topic).are_done, what="the last check", seconds=120)
        received = consumer.wait_for(20)
    assert answers.given[TransactionState.COMMIT] == 0
    assert sorted(one.body for one in received) == many(20)
    assert visible(team, topic) == 20


def test_what_a_crash_repeats_on_java_s_broker_is_one_window_that_can_be_dropped(
    spark: SparkSession, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, rows = team.topic("spark-window"), many(WINDOW + 30)
    told = options(team, topic, tmp_path)
    writer = TransactionalWriter(told, VALUES, overwrite=False)
    tasks = [writer.write(iter([values(*rows)]))]

    def died(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LedgerWrite, "note_progress", died)  # the answers are there, the note isn't
        with pytest.raises(KeyboardInterrupt):
            writer.commit(tasks)
    writer.commit(tasks)
    assert Ledger(LedgerFiles(str(tmp_path))).write(tasks[0].write).is_committed()
    with team.consumer(topic) as consumer:
        received = Counter(one.body for one in consumer.wait_for(len(rows) + WINDOW))
    assert sorted(received) == rows
    assert Counter(received.values()) == {2: WINDOW, 1: 30}
    reader = spark.read.format("rocketmq").options(nameserver=team.nameserver, subscribe=topic)
    reader = reader.option("includeProperties", True)
    once = orbitmq.spark.drop_duplicates(reader.load()).select("value").collect()
    assert sorted(bytes(row.value) for row in once) == rows


class Halves(NamedTuple):
    """The half queue of a broker, and how far its checks are done with it."""

    done: int
    end: int

    @property
    def are_done(self) -> bool:
        return self.done == self.end


def halves(team: Team, topic: str) -> Halves:
    with Cluster(Access(nameserver=team.nameserver)) as cluster:
        broker = cluster.queues(topic)[0].broker_name
        queue = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", broker, 0)
        done = cluster.committed("CID_RMQ_SYS_TRANS", [queue])[queue]
        return Halves(done or 0, cluster.bounds([queue])[queue].max)


def visible(team: Team, topic: str) -> int:
    with Admin(nameserver=team.nameserver) as admin:
        return sum(admin.max_offset(queue) for queue in admin.queues(topic))
