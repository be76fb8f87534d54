"""Transactional writes, shown by kills: a query from topic to topic, whose driver dies at any time.

The driver and its Java get SIGKILL while batches are sent and committed; its workers end when they
notice, and may send for a moment more.
``ORBITMQ_SOAK=1`` kills forty times.
"""

from collections import Counter
from pathlib import Path

import pytest

from orbitmq.blocking import TransactionState
from orbitmq.clock import pause
from orbitmq.embedded import RunningCluster
from orbitmq.randomness import SeededRandomness
from orbitmq.spark.writing.check_answers import CheckAnswers
from orbitmq.spark.writing.ledger import Ledger
from orbitmq.spark.writing.ledger_files import LedgerFiles
from tests.spark.stored import stored
from tests.spark.test_kills import KILLS, Driver, last_batch
from tests.spark.traffic import Traffic, create_topic

BACKLOG = 6_000
"""So many messages wait for a killed query, so that its batches take time to send and to commit."""
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.mark.timeout(900 if KILLS < 10 else 7200)
def test_each_row_is_visible_once(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    copy_with_kills(shared_cluster, tmp_path)
    delivered = stored(shared_cluster, "copied")
    written = {one.message_id for one in delivered}
    answers = CheckAnswers(Ledger(LedgerFiles(str(tmp_path / "checkpoint" / "orbitmq-ledger"))))
    lost = [half for half in stored(shared_cluster, HALVES) if half.message_id not in written]
    # Whoever asks about the halves of attempts that died is told to drop them.
    assert {answers(half) for half in lost} <= {TransactionState.ROLLBACK}


def copy_with_kills(cluster: RunningCluster, directory: Path) -> int:
    """Copy a topic to "copied", with kills; check that each row is there once. Return how many."""
    chance = SeededRandomness(11)
    offsets = directory / "checkpoint" / "offsets"
    create_topic(cluster.nameserver, "copied", queues=3)
    with Traffic(cluster.nameserver, "sent", queues=3) as traffic:
        for kill in range(KILLS):
            traffic.send(BACKLOG)
            batch = offsets / str(last_batch(offsets) + 1 + chance.below(2) if kill else 1)
            with driver(cluster, directory) as running:
                running.send_until(traffic, batch)
                pause(chance.below(1_500))
                running.kill()
        with driver(cluster, directory, "drain") as running:
            assert running.end() == 0
        expected = Counter(dict.fromkeys(traffic.places, 1))
    assert Counter(int(one.body) for one in stored(cluster, "copied")) == expected
    return len(expected)


def driver(cluster: RunningCluster, directory: Path, *mode: str) -> Driver:
    return Driver(
        cluster.nameserver,
        "sent",
        directory,
        "copied",
        *mode,
        module="tests.spark.transactional_driver",
    )
