"""Missing files at the end of the log: a start refuses, or goes on and keeps all offsets."""

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import NOW
from tests.store.recovery.java_checkpoints import written_by_java
from tests.store.stores import HandClock, bodies, flush, opened, put

LOG = "/store/commitlog"
NAMES = [b"%04d" % number for number in range(60)]


def filled(disk: SimulatedDisk, clock: HandClock | None = None) -> MessageStore:
    """Return a store whose log has three files."""
    store = opened(disk, clock=clock)
    for name in NAMES:
        put(store, name)
    assert len(disk.list(LOG)) > 3
    return store


def test_a_start_without_the_log_is_refused_and_changes_nothing() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    end = store.log.end
    store.close()
    kept = {name: disk.open(f"{LOG}/{name}").read(1 << 20, 0) for name in disk.list(LOG)}
    remove_tree(disk, LOG)
    for _ in range(2):
        with pytest.raises(StoreDamaged) as refused:
            opened(disk)
        assert f"up to byte 0, but {end} bytes were on the disk" in str(refused.value)
        assert "--accept-loss" in str(refused.value)
        assert refused.value.path == LOG
    for name, data in kept.items():  # the disk is mounted again
        disk.open(f"{LOG}/{name}", create=True).write([data], 0)
    store = opened(disk)
    assert bodies(store) == [name * 40 for name in NAMES]
    assert store.damages == []
    store.close()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_start_without_the_last_files_of_the_log_is_refused(crashed: bool) -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    if crashed:
        flush(store)
        store.tick()
        disk.kill()
    else:
        store.close()
    while len(disk.list(LOG)) > 2:
        disk.remove(f"{LOG}/{disk.list(LOG)[-1]}")
    with pytest.raises(StoreDamaged, match="up to byte 8192, but .* bytes were on the disk"):
        opened(disk)


def test_a_crash_before_the_log_was_flushed_is_no_missing_file() -> None:
    """Queues may be on the disk, and listed, before the log is: a start drops what they have."""
    for seed in range(20):
        disk, clock = SimulatedDisk(SeededRandomness(seed)), HandClock()
        store = filled(disk, clock)
        store.queues.write()
        store.queues.sync()
        disk.crash()
        store = opened(disk, clock=clock)
        found = bodies(store)
        assert found == [name * 40 for name in NAMES[: len(found)]]
        store.close()


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("crashed", [False, True])
def test_an_accepted_loss_costs_no_offset(
    left: int, crashed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    end = store.log.end
    if crashed:
        flush(store)
        clock.now += 2_000
        store.tick()
        disk.kill()
    else:
        store.close()
    while len(disk.list(LOG)) > left:
        disk.remove(f"{LOG}/{disk.list(LOG)[-1]}")
    store = opened(disk, clock=clock, accept_loss=True)
    assert "The loss is accepted" in caplog.text
    assert store.damages[0].position == left * 4096
    (result,) = put(store, b"on")
    assert (result.queue_offset, result.offsets[0] >= end) == (len(NAMES), True)
    store.close()
    found = {damage.where for damage in verify(StoreReader("/store", disk)).damages}
    assert "commitlog" not in found  # queues and index may have entries that lead to no record
    for accept_loss in (False, True):  # from now on all is in order
        store = opened(disk, clock=clock, accept_loss=accept_loss)
        assert store.damages == []
        view = store.lookup.message("orders", 0, len(NAMES))
        assert view is not None
        assert bytes(view.body) == b"on" * 40
        store.close()


def test_an_accepted_loss_of_log_and_queues_goes_on_at_the_listed_ends() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    for part in ("commitlog", "consumequeue", "index"):
        remove_tree(disk, f"/store/{part}")
    disk.remove("/store/checkpoint")
    with pytest.raises(StoreDamaged, match="60 messages are listed"):
        opened(disk)
    store = opened(disk, accept_loss=True)
    assert put(store, b"on")[0].queue_offset == 60
    store.close()


def test_retention_leaves_no_missing_file() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=1)
    put(store, *NAMES)
    flush(store)
    clock.now += 3_600_000
    assert store.clean(asked=True)
    store.close()
    store = opened(disk, clock=clock)
    assert store.log.first_offset > 0
    assert put(store, b"on")[0].queue_offset == 60
    store.close()


def test_what_java_left_is_refused_only_if_its_checkpoint_agrees() -> None:
    """Behind the end of a queue Java leaves old entries when it cuts the log."""
    disk = SimulatedDisk()
    filled(disk).close()
    disk.remove(f"{LOG}/{disk.list(LOG)[-1]}")
    written_by_java(disk, log_ms=NOW + 10_000, queues_ms=NOW)
    with pytest.raises(StoreDamaged, match="consume queues lead to messages up to byte"):
        opened(disk)
    written_by_java(disk, log_ms=NOW, queues_ms=NOW)
    store = opened(disk)
    found = bodies(store)
    assert 0 < len(found) < 60
    store.close()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_log_that_java_had_flushed_is_missed(crashed: bool) -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    remove_tree(disk, LOG)
    written_by_java(disk, log_ms=NOW)
    if crashed:
        disk.open("/store/abort", create=True).close()
    with pytest.raises(StoreDamaged, match=f"it had messages at {NOW}"):
        opened(disk)
    written_by_java(disk, log_ms=0)
    if crashed:  # nothing was flushed: a power loss may have taken it all
        assert opened(disk).log.end == 0
    else:
        with pytest.raises(StoreDamaged, match="60 messages are listed|consume queues lead"):
            opened(disk)


def test_a_damaged_entry_says_nothing_of_the_log() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    written_by_java(disk, log_ms=NOW)
    queue = "/store/consumequeue/orders/0"
    last = f"{queue}/{disk.list(queue)[-1]}"
    disk.open(last).write([b"\x20"], 80)
    store = opened(disk)
    assert len(bodies(store)) >= 59
    store.close()
