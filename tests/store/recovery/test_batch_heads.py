"""Batch queues that lack their first files."""

import pytest

from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE
from orbitmq.testing.disks import SimulatedDisk
from tests.store.stores import HandClock
from tests.store.test_batch_topics import (
    DIRECTORY,
    as_sent,
    consumed,
    inner_batch,
    names,
    opened,
    queue_of,
)

PER_FILE = 5
SENDS = [[b"%d.%d" % (number, part) for part in range(1 + number % 4)] for number in range(23)]


def file_of(number: int) -> str:
    return f"{DIRECTORY}/0/{number * PER_FILE * BATCH_ENTRY_SIZE:020d}"


@pytest.mark.parametrize("missing", [[0], [0, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("crashed", [False, True])
def test_the_first_files_are_restored(missing: list[int], crashed: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([as_sent(one) for one in SENDS])
    store.close()
    for number in missing:
        disk.remove(file_of(number))
    if crashed:
        disk.open("/store/abort", create=True).close()
    again = opened(disk)
    assert again.damages == []
    assert consumed(again) == names(SENDS)
    again.close()
    assert not disk.exists("/store/batchconsumequeue.made")
    # After a crash all of this log is read, and the queue is written again where it began.
    assert disk.exists(file_of(0)) is not crashed


def test_entries_whose_records_are_gone_lead_nowhere() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock, reserved_hours=1)
    store.append([inner_batch(*(b"%03d" % n + bytes(50) for n in range(4))) for _ in range(40)])
    clock.now += 3_600_000
    store.append([as_sent([b"new", b"er"])])
    store.tick()
    assert store.clean(asked=True)
    low = queue_of(store).min_offset
    expected = consumed(store, low)
    store.close()
    first, second, *_ = disk.list(f"{DIRECTORY}/0")
    disk.remove(f"{DIRECTORY}/0/{first}")
    disk.remove(f"{DIRECTORY}/0/{second}")
    again = opened(disk)
    assert queue_of(again).min_offset == low
    assert consumed(again, low) == expected
    again.close()


def test_files_that_expired_are_not_missing(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock, reserved_hours=1)
    store.append([inner_batch(b"x" * 900, b"y" * 900) for _ in range(10)])
    clock.now += 3_600_000
    store.append([as_sent([b"new", b"er"])])
    store.tick()
    store.clean(asked=True)
    low, files = queue_of(store).min_offset, disk.list(f"{DIRECTORY}/0")
    store.close()
    again = opened(disk)
    assert (queue_of(again).min_offset, disk.list(f"{DIRECTORY}/0")) == (low, files)
    again.close()
    assert not any("restored" in text for text in caplog.messages)


def test_a_power_loss_while_files_are_restored_loses_nothing() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([as_sent(one) for one in SENDS])
    store.close()
    disk.remove(file_of(0))
    disk.remove(file_of(1))
    opened(disk)
    disk.crash()
    again = opened(disk)
    assert consumed(again) == names(SENDS)
    again.close()
