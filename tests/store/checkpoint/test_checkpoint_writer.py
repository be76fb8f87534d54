"""Checkpoints written by a worker, one at a time."""

import errno
import logging
from collections.abc import Callable

import pytest

from orbitmq.store.checkpoint.checkpoint import CheckpointValues, read_checkpoint
from orbitmq.store.checkpoint.checkpoint_writer import CheckpointWriter
from orbitmq.testing.disks import SimulatedDisk
from tests.store.stores import AskedWorkers

PATH = "/checkpoint"


class Bench:
    """A writer whose values grow by one with every call, and a hand on its worker."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.workers = AskedWorkers()
        self.posted: list[Callable[[], None]] = []
        self.values = CheckpointValues()
        self.writer = CheckpointWriter(
            self.disk,
            PATH,
            self.next_values,
            self.workers,
            lambda work, told: work.add_done_callback(
                lambda done: self.posted.append(lambda: told(done.exception()))
            ),
        )
        self.writer.open()

    def next_values(self) -> CheckpointValues:
        self.values = self.values._replace(log_ms=self.values.log_ms + 1)
        return self.values

    def tell(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    @property
    def on_disk(self) -> int:
        return read_checkpoint(self.disk, PATH).log_ms


def test_one_is_written_at_a_time() -> None:
    bench = Bench()
    bench.writer.soon()
    bench.writer.soon()
    assert len(bench.workers.waiting) == 1
    bench.workers.run()
    assert bench.on_disk == bench.writer.values.log_ms == 1
    bench.writer.soon()  # the owner has not been told yet
    assert bench.workers.waiting == []
    bench.tell()
    bench.writer.soon()
    bench.workers.run()
    assert bench.on_disk == 2


def test_a_write_in_flight_is_waited_for_and_replaces_nothing() -> None:
    bench = Bench()
    bench.writer.soon()
    bench.writer.finish()
    bench.writer.write(CheckpointValues(log_ms=50))
    bench.tell()
    assert bench.on_disk == 50
    bench.writer.finish()
    bench.writer.close()


def test_a_failure_is_said_once_and_the_write_repeated(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.disk.fail("write", PATH, errno.ENOSPC, times=2)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            bench.writer.soon()
            bench.workers.run()
            bench.tell()
    assert bench.on_disk == 3
    assert len(caplog.records) == 1
