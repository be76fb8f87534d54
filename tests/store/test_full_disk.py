"""A full disk: messages are refused with the reason, the rest is served, and space ends it."""

import errno
import logging
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.store.checkpoint.checkpoint import read_checkpoint
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import Operation, SimulatedDisk
from tests.small_disks import ballast, small_disk
from tests.store.logs import incoming
from tests.store.stores import HandClock, bodies, opened

FULL = [errno.ENOSPC, errno.EDQUOT]
FOREVER_MS = (1 << 63) - 1
MIB = 1 << 20


def send(store: MessageStore, number: int) -> PutResult:
    """Store a message with a key of its own."""
    text = b"KEYS\x01k-%d\x02" % number
    return store.append([incoming(b"%04d" % number * 10, properties=text)])[0]


def sent(*numbers: int) -> list[bytes]:
    return [b"%04d" % number * 10 for number in numbers]


def is_indexed(store: MessageStore, number: int) -> bool:
    return len(store.index.query("orders", f"k-{number}", 64, 0, FOREVER_MS)) == 1


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("reason", FULL)
@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ("write", "consumequeue"),
        ("extend", "consumequeue"),
        ("write", "index/"),
        ("open", "index/"),
    ],
)
def test_queues_and_index_that_have_no_space_are_written_when_there_is_some(
    operation: Operation, place: str, reason: int, mode: FlushMode
) -> None:
    """The files of queues have 5 entries, those of the index 49 keys."""
    disk = SimulatedDisk()
    store = opened(disk, mode=mode)
    disk.fail(operation, place, reason, times=None)
    accepted: list[int] = []
    refused = PutResult(status=PutStatus.PUT_OK)
    for number in range(60):
        result = send(store, number)
        store.when_durable(result.end, lambda _: None)
        store.flush_soon()
        store.tick()
        if result.status is PutStatus.PUT_OK:
            accepted.append(number)
        else:
            refused = result
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert refused.remark.startswith("the disk is full: can't ")
    assert place in refused.remark
    assert bodies(store) == sent(*accepted)  # all of it can be read meanwhile
    assert store.failure is None
    disk.heal()
    store.tick()
    for number in range(60, 90):
        assert send(store, number).status is PutStatus.PUT_OK
        accepted.append(number)
    store.close()
    store = opened(disk, mode=mode)
    assert bodies(store) == sent(*accepted)
    assert all(is_indexed(store, number) for number in accepted)
    assert store.damages == []
    store.close()


def test_a_crash_while_queues_have_no_space_loses_nothing() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for place in ("consumequeue", "index/"):
        disk.fail("write", place, errno.ENOSPC, times=None)
    accepted = []
    for number in range(60):
        if send(store, number).status is PutStatus.PUT_OK:
            accepted.append(number)
        store.tick()
    disk.kill()
    disk.heal()
    store = opened(disk)
    assert bodies(store) == sent(*accepted)
    assert all(is_indexed(store, number) for number in accepted)
    store.close()


def test_a_stop_while_queues_have_no_space_is_no_orderly_one() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    disk.fail("write", "consumequeue", errno.ENOSPC, times=None)
    assert send(store, 1).status is PutStatus.PUT_OK
    store.tick()
    with pytest.raises(DiskFailed, match="No space left"):
        store.close()
    assert disk.exists("/store/abort")
    disk.heal()
    store = opened(disk)
    assert bodies(store) == sent(1)
    store.close()


def test_a_failed_append_that_cannot_be_wiped_is_wiped_later() -> None:
    """Where space can't be reserved, a write may fail half-way, and so may the zeros over it."""
    disk = SimulatedDisk()
    store = opened(disk)
    assert send(store, 1).status is PutStatus.PUT_OK
    disk.fail("write", "commitlog", errno.ENOSPC, times=3)
    assert send(store, 2).status is PutStatus.UNKNOWN_ERROR
    store.tick()
    refused = send(store, 3)
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert refused.remark.startswith("the disk is full: can't write ")
    assert bodies(store) == sent(1)
    store.tick()
    assert store.failure is None
    assert send(store, 4).status is PutStatus.PUT_OK
    store.close()
    store = opened(disk)
    assert bodies(store) == sent(1, 4)
    store.close()


def test_a_full_disk_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock, index_enabled=False)
    assert send(store, 0).status is PutStatus.PUT_OK
    store.tick()
    disk.fail("allocate", "commitlog", errno.ENOSPC, times=None)
    disk.fail("open", "checkpoint.tmp", errno.ENOSPC, times=None)
    disk.fail("open", "checkpoint", errno.ENOSPC, times=None)
    refused = 0
    for number in range(100):
        refused += not send(store, number).status.is_stored
        clock.now += 1_000
        store.tick()
    assert refused > 10
    assert len([one for one in caplog.messages if "the log has no space" in one]) == 1
    assert len([one for one in caplog.messages if "checkpoint could not be written" in one]) <= 1
    disk.heal()
    assert send(store, 1).status is PutStatus.PUT_OK
    assert "the log has space again: messages are accepted" in caplog.messages
    store.close()


def test_a_disk_that_fills_up_and_gets_room_again() -> None:
    disk, clock = SimulatedDisk(capacity=30 * 4096), HandClock()
    store = opened(disk, clock=clock)
    accepted: list[int] = []
    reasons = set()
    for number in range(2_000):
        result = send(store, number)
        if result.status is PutStatus.PUT_OK:
            accepted.append(number)
        else:
            reasons.add(result.status)
        clock.now += 10
        store.tick()
    assert reasons
    assert bodies(store) == sent(*accepted)
    disk.resize(1 << 30)
    clock.now += 10_000
    store.tick()
    assert send(store, 5_000).status is PutStatus.PUT_OK
    store.close()
    store = opened(disk, clock=clock)
    assert bodies(store) == sent(*accepted, 5_000)
    store.close()
    own = read_checkpoint(disk, "/store/checkpoint").own
    assert own is not None


def test_a_real_disk_that_fills_up_and_gets_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mib=4) as directory:
        clock = HandClock()
        store = opened(RealDisk(), str(directory / "store"), clock=clock, segment_bytes=MIB // 16)
        weight = ballast(directory, left=256 * 1024)
        accepted: list[int] = []
        result = PutResult(status=PutStatus.PUT_OK)
        for number in range(6_000):
            result = send(store, number)
            if result.status is PutStatus.PUT_OK:
                accepted.append(number)
            clock.now += 1
            store.tick()
        assert result.status in (
            PutStatus.CREATE_MAPPED_FILE_FAILED,
            PutStatus.SERVICE_NOT_AVAILABLE,
        )
        assert "No space left on device" in result.remark or result.remark == "the disk is full"
        assert bodies(store) == sent(*accepted)
        weight.unlink()
        clock.now += 10_000
        store.tick()
        assert send(store, 9_000).status is PutStatus.PUT_OK
        store.close()
        store = opened(RealDisk(), str(directory / "store"), clock=clock, segment_bytes=MIB // 16)
        assert bodies(store) == sent(*accepted, 9_000)
        store.close()
