"""An archive and a replay whose processes are killed equal those that were left alone.

The driver, its Java and its workers get SIGKILL: the archive while tasks write, the replay while
it sends. ``test_run`` and ``test_sender`` end them at every step; here the whole is at work.
``ORBITMQ_SOAK=1`` kills more often, at random moments.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message
from orbitmq.blocking import Admin, Producer
from orbitmq.clock import SystemClock, pause
from orbitmq.embedded import RunningCluster
from orbitmq.randomness import SeededRandomness
from orbitmq.spark.jobs.archive import archive
from orbitmq.spark.jobs.archiving.rows import Archive
from orbitmq.spark.jobs.replay import replay
from orbitmq.spark.jobs.replaying.ledger import Ledger
from orbitmq.spark.jobs.sources import Topics, rows
from orbitmq.spark.locations.location import Location
from tests.architecture.sources import ROOT
from tests.spark.sessions import kill_session

KILLS = 10 if os.environ.get("ORBITMQ_SOAK") == "1" else 1
START_MS = 240_000
"""For Java and Spark, on a machine that does other things as well."""
RATE = 200
PLACE = ("broker", "queue_id", "queue_offset")


def killed_when(reached: Callable[[], bool], log: Path, *arguments: str) -> None:
    """Run a job, and kill all its processes as soon as something is reached."""
    clock = SystemClock()
    command = [sys.executable, "-m", "tests.spark.jobs.job_program", *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
        )
    deadline_ms = clock.monotonic_ms() + START_MS
    try:
        while not reached() and process.poll() is None:
            assert clock.monotonic_ms() < deadline_ms, f"nothing in time: see {log}"
            pause(2)
    finally:
        kill_session(process.pid)
        process.wait()


class Writing:
    """Whether tasks have been writing for some time."""

    def __init__(self, archive: Path, delay_ms: int) -> None:
        self._staging = archive / "_orbitmq" / "staging"
        self._delay_ms = delay_ms
        self._clock = SystemClock()
        self._begun_ms: int | None = None

    def __call__(self) -> bool:
        if self._begun_ms is None:
            if any(self._staging.rglob("*.parquet")):
                self._begun_ms = self._clock.monotonic_ms()
            return False
        return self._clock.monotonic_ms() - self._begun_ms >= self._delay_ms


def filled(cluster: RunningCluster, topic: str, count: int) -> Topics:
    with Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic(topic, queues=2)
    with Producer("shop", nameserver=cluster.nameserver) as producer:
        for first in range(0, count, 500):
            producer.send_many(
                [
                    Message(topic, b"%d" % number, tags="paid")
                    for number in range(first, first + 500)
                ],
                frame_bytes=4_096,
            )
    return Topics(cluster.nameserver, (topic,))


@pytest.mark.timeout(900 if KILLS == 1 else 7200)
def test_an_archive_that_was_killed(
    spark: SparkSession, shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    source, chance = filled(shared_cluster, "kill-archive", 60_000), SeededRandomness(7)
    to = tmp_path / "archive"
    for kill in range(KILLS):
        reached = Writing(to, chance.below(3_000) if kill else 0)
        arguments = ("archive", source.nameserver, "kill-archive", str(to))
        killed_when(reached, tmp_path / "log", *arguments)
    archive(spark, source, str(to))
    columns = [*PLACE, "value"]
    expected = rows(spark, source, columns).orderBy(*PLACE).collect()
    assert len(expected) == 60_000
    assert spark.read.parquet(str(to)).select(*columns).orderBy(*PLACE).collect() == expected
    assert not any((to / "_orbitmq" / "staging").rglob("*.parquet"))


@pytest.mark.timeout(900 if KILLS == 1 else 7200)
def test_a_replay_that_was_killed(
    spark: SparkSession, shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    count = 1_500 * max(1, KILLS // 2)
    source, chance = filled(shared_cluster, "kill-replay", count), SeededRandomness(7)
    to, ledger = str(tmp_path / "archive"), str(tmp_path / "ledger")
    archive(spark, source, to)
    book = Ledger(Location(ledger))
    for _ in range(KILLS):
        goal = sum(one.sent for one in book.entries()) + 1 + chance.below(RATE)

        def reached(goal: int = goal) -> bool:
            return sum(one.sent for one in book.entries()) >= goal

        killed_when(
            *(reached, tmp_path / "log", "replay", source.nameserver, "kill-copy", to, ledger),
            str(RATE),
        )
    before = sum(one.sent for one in book.entries())
    assert 0 < before < count
    target = Topics(source.nameserver, ("kill-copy",))
    assert replay(spark, Archive(to), target, ledger).messages == count - before
    columns = [*PLACE, "value"]
    expected = rows(spark, source, columns).orderBy(*PLACE).collect()
    assert rows(spark, target, columns).orderBy(*PLACE).collect() == expected
