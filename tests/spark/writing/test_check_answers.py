"""Checks that a broker really makes, answered from a ledger; the rules: ``test_finishing.py``."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark import TaskContext

from orbitmq import embedded
from orbitmq.blocking import TransactionState
from orbitmq.embedded import RunningCluster
from orbitmq.spark.writing.check_answers import CheckAnswers
from orbitmq.spark.writing.ledger import Ledger
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.producers import close_producers
from orbitmq.spark.writing.settling import answering
from tests.interop.waiting import until
from tests.spark.stored import stored
from tests.spark.writing.crashes import half_message
from tests.spark.writing.test_transactional_writer import Write
from tests.spark.writing.test_writer import PlayedTask

ASKS_SOON = {"transactionCheckInterval": "100", "transactionTimeOut": "100"}


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    """A broker that asks about half messages within a second."""
    with embedded.start(settings=ASKS_SOON) as running:
        yield running
        close_producers()


def test_a_broker_learns_what_the_ledger_says(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", PlayedTask)
    write = Write(cluster, "asked", tmp_path)
    write.options = msgspec.structs.replace(write.options, transaction_timeout_ms=1_000)
    tasks = [
        write.batch().write(iter([pa.record_batch({"value": [body]})])) for body in (b"a", b"b")
    ]
    found = [write.ledger.write(task.write) for task in tasks]
    files = [task.file or "" for task in tasks]
    close_producers()  # as if the workers were gone
    with answering(write.options) as answers:
        until(lambda: answers.given[TransactionState.UNKNOWN] >= 2, what="two checks")
        # The driver decided, and died before it ended anything.
        head = found[0].head(files[0])
        assert head is not None
        found[0].decide([files[0]], head.began_ms)
        found[1].give_up(files[1])
        until(lambda: answers.given[TransactionState.ROLLBACK], what="a rollback")
        until(lambda: stored(cluster, "asked"), what="a commit")
    assert [one.body for one in stored(cluster, "asked")] == [b"a"]


def test_halves_of_other_producers_are_left_alone(tmp_path: Path) -> None:
    answers = CheckAnswers(Ledger(LedgerFiles(str(tmp_path))))
    for place in ("", "write-1", "write-1/00000-a.halves"):
        assert answers(half_message("A" * 32, place)) is TransactionState.UNKNOWN
