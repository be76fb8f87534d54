"""The job on a real broker: what a driver left behind is finished, once."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext

import orbitmq.spark
from orbitmq import embedded
from orbitmq.errors import InvalidOption
from orbitmq.spark.jobs.settle import settle
from orbitmq.spark.writing.producers import close_producers
from tests.spark.writing.test_transactional_writer import Write
from tests.spark.writing.test_writer import PlayedTask


def test_a_commit_that_died_is_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", PlayedTask)
    with embedded.start() as cluster:
        write = Write(cluster, "left", tmp_path)
        task = write.batch().write(iter([pa.record_batch({"value": [b"a", b"b"]})]))
        found = write.ledger.write(task.write)
        head = found.head(task.file or "")
        assert head is not None
        found.decide([task.file or ""], head.began_ms)
        location = str(tmp_path / "orbitmq-ledger")
        with orbitmq.spark.settling(location, nameserver=cluster.nameserver, topic="left"):
            done = settle(location, cluster.nameserver, {"topic": "left"}, answer_ms=1)
        again = settle(location, cluster.nameserver)
        assert (done.finished, done.messages, done.answered) == ((task.write,), 2, {})
        assert (again.finished, again.messages, again.is_settled) == ((), 0, True)
        assert write.visible() == [b"a", b"b"]
        close_producers()


def test_options_of_a_write_are_checked() -> None:
    with pytest.raises(InvalidOption, match="accessKey"):
        settle("/nowhere", "127.0.0.1:1", {"accessKey": "alice"})


def test_a_location_without_a_ledger_is_not_settled(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="does not exist"):
        settle(str(tmp_path / "mistyped"), "127.0.0.1:1")
    (tmp_path / "orbitmq-ledger").mkdir()
    with pytest.raises(InvalidOption, match="is a checkpoint"):
        settle(str(tmp_path), "127.0.0.1:1")
