"""The list of where queues end: what it says, and what it must not say any more."""

import errno

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.queues.consume_queues import Ends
from orbitmq.testing.disks import SimulatedDisk

PATH = "/queue_ends.json"
ENDS: Ends = {"orders": {0: 12, 1: 11}, "%LMQ%a": {0: 3}}


def listed(disk: SimulatedDisk) -> Ends:
    """Return what the next process finds."""
    return QueueEnds(disk, PATH).load()


def test_a_store_without_the_list_claims_nothing_and_gets_none_for_nothing() -> None:
    disk = SimulatedDisk()
    assert listed(disk) == {}
    QueueEnds(disk, PATH).write({})
    assert disk.list("/") == []


def test_what_is_written_is_there_after_a_loss_of_power() -> None:
    disk = SimulatedDisk()
    QueueEnds(disk, PATH).write(ENDS)
    disk.crash()
    assert listed(disk) == ENDS
    ends = QueueEnds(disk, PATH)
    ends.load()
    ends.write({})
    disk.crash()
    assert listed(disk) == {}


def test_the_same_ends_are_not_written_again_whatever_their_order() -> None:
    disk = SimulatedDisk()
    QueueEnds(disk, PATH).write(ENDS)
    ends = QueueEnds(disk, PATH)
    ends.load()
    before = disk.writes
    ends.write({"%LMQ%a": {0: 3}, "orders": {1: 11, 0: 12}})
    assert disk.writes == before


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b'{"queues": {"orders": {"x": 1}}}',
        b"\xff\xfe",
        b'{"queues": {"or\xff\xfeders": {"0": 3}}}',
        b'{"queues": {"orders": {"0": 3}}}',
        b'{"crc": 1, "queues": {"orders": {"0": 3}}}',
    ],
)
def test_a_list_that_cannot_be_read_claims_nothing_and_is_made_anew(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    disk.open(PATH, create=True).write([text], 0)
    ends = QueueEnds(disk, PATH)
    assert ends.load() == {}
    assert f"{PATH} can't be read" in caplog.text
    ends.forget([("orders", 0)])
    ends.write(ENDS)
    assert listed(disk) == ENDS


def test_a_disk_that_does_not_give_the_list_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    QueueEnds(disk, PATH).write(ENDS)
    disk.fail("read", PATH, errno.EIO)
    assert listed(disk) == {}
    assert "Input/output error" in caplog.text


def test_what_is_noted_is_written_when_it_is_said_so_and_once() -> None:
    disk = SimulatedDisk()
    ends = QueueEnds(disk, PATH)
    ends.note(ENDS)
    assert listed(disk) == {}
    ends.write_noted()
    assert listed(disk) == ENDS
    ends.note({"orders": {0: 12}})
    ends.write({"orders": {0: 13}})
    ends.write_noted()
    assert listed(disk) == {"orders": {0: 13}}


def test_a_queue_that_is_forgotten_is_on_no_list_any_more() -> None:
    disk = SimulatedDisk()
    ends = QueueEnds(disk, PATH)
    ends.write(ENDS)
    ends.note(ENDS)
    ends.forget([("orders", 1), ("%LMQ%a", 0), ("unknown", 0)])
    disk.crash()
    assert listed(disk) == {"orders": {0: 12}}
    ends = QueueEnds(disk, PATH)
    ends.note(ENDS)
    ends.forget([("orders", 1), ("%LMQ%a", 0)])
    ends.write_noted()
    assert listed(disk) == {"orders": {0: 12}}


def test_to_forget_what_is_not_listed_costs_no_write() -> None:
    disk = SimulatedDisk()
    ends = QueueEnds(disk, PATH)
    ends.write(ENDS)
    before = disk.writes
    ends.forget([("unknown", 0), ("orders", 2)])
    assert disk.writes == before


def test_without_space_for_another_list_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    ends = QueueEnds(disk, PATH)
    ends.write(ENDS)
    disk.fail("write", PATH, errno.ENOSPC)
    ends.forget([("orders", 1)])
    disk.crash()
    assert listed(disk) == {}
    assert "No space left" in caplog.text


def test_a_queue_that_may_be_listed_still_is_not_to_be_deleted() -> None:
    disk = SimulatedDisk()
    ends = QueueEnds(disk, PATH)
    ends.write(ENDS)
    disk.fail("open", PATH, errno.EIO)
    disk.fail("remove", PATH, errno.EIO)
    with pytest.raises(DiskFailed):
        ends.forget([("orders", 1)])


def test_a_directory_whose_name_is_no_text_is_left_out() -> None:
    disk = SimulatedDisk()
    QueueEnds(disk, PATH).write({"\udcff": {0: 1}, "Köln": {0: 2}})
    assert listed(disk) == {"Köln": {0: 2}}
