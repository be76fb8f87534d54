"""The timer files; what a broker does with them is in tests/broker/sending/test_timers.py."""

import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.message.names import TIMER_TOPIC
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.settings import StoreSettings
from orbitmq.store.timers.timer_files import TimerFiles, TimerRecord, forget_timers
from orbitmq.store.timers.timer_log import NORMAL, ROLL
from orbitmq.store.timers.wheel import Slot
from orbitmq.testing.disks import SimulatedDisk
from tests.golden_files import GOLDEN
from tests.store.golden import opened, unpack

NOW = 1_794_739_346_000
SETTINGS = StoreSettings(timer_log_file_bytes=4096)
WINDOW_MS = 10_000


def files(disk: SimulatedDisk, settings: StoreSettings = SETTINGS) -> TimerFiles:
    made = TimerFiles(disk, "/store", settings, slots=1_000)
    made.open(NOW, 1 << 40, lambda _: None, None)
    return made


def record(number: int, deliver_ms: int) -> TimerRecord:
    return TimerRecord(100 * number, 100, deliver_ms, False, -7)


def test_a_message_goes_into_the_slot_of_its_time_or_into_one_on_the_way() -> None:
    made = files(SimulatedDisk())
    slots = {
        NOW + 3_000: (NOW + 3_000, NORMAL),
        NOW - 60_000: (NOW, NORMAL),  # late: in the next slot
        NOW + 9_999: (NOW + 9_000, NORMAL),
        NOW + 10_000: (NOW + 5_000, NORMAL | ROLL),
        NOW + 13_000: (NOW + 5_000, NORMAL | ROLL),  # less than a third beyond the window
        NOW + 13_400: (NOW + 10_000, NORMAL | ROLL),
        NOW + 900_000: (NOW + 10_000, NORMAL | ROLL),
    }
    for number, (deliver_ms, (slot_ms, magic)) in enumerate(slots.items()):
        before = made.wheel.slot(slot_ms)
        assert made.add(record(number, deliver_ms), WINDOW_MS)
        slot = made.wheel.slot(slot_ms)
        unit = made.unit(slot.last)
        assert unit is not None
        assert (unit.slot_ms, unit.magic, unit.previous) == (slot_ms, magic, before.last)
    assert made.waiting == len(slots)


def test_the_ring_takes_no_slot_that_would_replace_one_to_be_delivered() -> None:
    made = files(SimulatedDisk())
    made.write_ms = NOW + 939_000
    assert made.add(record(1, NOW + 939_000), WINDOW_MS)
    made.write_ms = NOW + 940_000
    assert not made.add(record(2, NOW + 940_000), WINDOW_MS)


def test_nothing_is_saved_before_something_waits() -> None:
    disk = SimulatedDisk()
    made = files(disk)
    assert made.take_save(NOW) is None
    assert made.take_save(NOW, last=True) is None
    assert disk.list("/") == []


def test_the_roll_window_is_java_s_by_default_and_shorter_than_the_log_is_kept() -> None:
    made = TimerFiles(SimulatedDisk(), "/store", SETTINGS)
    assert made.roll_window_ms(SETTINGS) == 172_800_000
    assert made.roll_window_ms(replace(SETTINGS, reserved_hours=6)) == 4 * 3_600_000
    assert made.roll_window_ms(replace(SETTINGS, timer_roll_window_slots=1)) == 172_800_000
    kept = replace(SETTINGS, timer_roll_window_slots=1, reserved_hours=10_000)
    assert made.roll_window_ms(kept) == (604_800 - 60) * 1_000


@pytest.mark.parametrize("with_wheel", [True, False])
def test_java_s_files_are_read(tmp_path: Path, with_wheel: bool) -> None:
    golden = unpack("timer", tmp_path)
    if with_wheel:
        with tarfile.open(GOLDEN / "store" / "timer.tar.gz") as archive:
            wheel = next(member for member in archive if member.name.endswith("timerwheel"))
            archive.extract(wheel, golden.root, filter="data")
    store = opened(golden)
    settings = replace(store.settings, timer_log_file_bytes=65_536)
    made = TimerFiles(RealDisk(), store.directory, settings)
    queue = store.queues.consume_queue(TIMER_TOPIC, 0)
    made.open(1_794_739_400_000, store.log.end, store.record, queue)
    assert (made.read_ms, made.queue_offset, made.waiting) == (1_794_739_365_000, 12, 4)
    assert made.wheel.slot(1_794_742_946_000) == Slot(104, 104, 1)
    chain = [position for position, _ in made.chain(Slot(52, 572, 6))]
    assert chain == [572, 416, 364, 260, 208, 52]
    assert made.count_by_topic() == {-143_292_516: 4}
    made.close()
    store.close()


def test_forgotten_files_are_gone_and_can_be_made_again() -> None:
    disk = SimulatedDisk()
    made = files(disk)
    assert made.add(record(1, NOW + 3_000), WINDOW_MS)
    save = made.take_save(NOW)
    assert save is not None
    made.save(save)
    made.close()
    before = disk.list("/store")
    forget_timers(disk, "/store")
    assert "timerwheel" in before
    assert not {"timerwheel", "timerlog"} & set(disk.list("/store"))
    assert files(disk).waiting == 0
    forget_timers(SimulatedDisk(), "/store")
