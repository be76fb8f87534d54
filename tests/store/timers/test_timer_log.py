import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk.durable import make_durable_directory
from orbitmq.store.timers.timer_log import DELETE, NONE, NORMAL, ROLL, UNIT_SIZE, TimerLog, Unit
from orbitmq.testing.disks import SimulatedDisk

FILE_BYTES = 10 * UNIT_SIZE  # nine units, and a blank one


def unit(number: int, *, magic: int = NORMAL, previous: int = NONE) -> Unit:
    return Unit(previous, magic, 1_000 * number, 500, 100 * number, 100, -7)


def opened(disk: SimulatedDisk) -> TimerLog:
    make_durable_directory(disk, "/store")
    log = TimerLog(disk, "/store/timerlog", FILE_BYTES)
    log.load()
    return log


def filled(disk: SimulatedDisk, count: int) -> TimerLog:
    log = opened(disk)
    log.end_at(0, 0)
    for number in range(count):
        log.append(unit(number))
    log.write()
    log.take_unsynced().sync(disk)
    return log


def test_units_are_found_before_and_after_they_are_written() -> None:
    log = opened(SimulatedDisk())
    log.end_at(0, 0)
    positions = [log.append(unit(number)) for number in range(3)]
    assert [log.unit(position) for position in positions] == [unit(0), unit(1), unit(2)]
    log.write()
    assert [log.unit(position) for position in positions] == [unit(0), unit(1), unit(2)]
    assert log.unit(log.end) is None


def test_units_written_behind_those_that_were_read_are_found() -> None:
    log = opened(SimulatedDisk())
    log.end_at(0, 0)
    for number in range(30):  # over several files
        position = log.append(unit(number))
        log.write()
        assert log.unit(position) == unit(number)
    assert log.unit(0) == unit(0)
    log.end_at(UNIT_SIZE, 0)
    assert log.unit(UNIT_SIZE) is None


def test_a_file_ends_with_a_blank_unit_where_java_expects_it() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 20)
    assert disk.list("/store/timerlog") == [f"{number * FILE_BYTES:020d}" for number in range(3)]
    blank = disk.open("/store/timerlog/" + "0" * 20).read(UNIT_SIZE, 9 * UNIT_SIZE)
    assert blank[:16].hex() == "00000034" + "00" * 8 + "cbd43194"
    found = [one for _, one in log.units_from(0)]
    assert found == [unit(number) for number in range(20)]


def test_a_start_finds_the_units_and_cuts_what_is_behind_them() -> None:
    disk = SimulatedDisk()
    filled(disk, 20)
    log = opened(disk)
    positions = [position for position, _ in log.units_from(0)]
    assert len(positions) == 20
    log.end_at(positions[12], 0)
    assert log.end == positions[12]
    assert [one for _, one in log.units_from(0)] == [unit(number) for number in range(12)]
    assert log.append(unit(99)) == positions[12]
    log.write()
    again = opened(disk)
    assert [one for _, one in again.units_from(positions[11])] == [unit(11), unit(99)]


def test_the_end_before_the_first_unit_of_a_file_is_behind_the_last_of_the_file_before() -> None:
    log = filled(SimulatedDisk(), 20)
    assert log.end_before(FILE_BYTES) == 9 * UNIT_SIZE
    assert log.end_before(FILE_BYTES + UNIT_SIZE) == FILE_BYTES + UNIT_SIZE
    assert log.end_before(0) == 0


def test_units_that_were_not_synced_may_be_lost_in_a_crash_and_files_are_mended() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 5)
    for number in range(5, 15):
        log.append(unit(number))
    log.write()
    disk.crash()
    again = opened(disk)
    assert [one for _, one in again.units_from(0)] == [unit(number) for number in range(5)]


def test_another_file_size_is_damage() -> None:
    disk = SimulatedDisk()
    filled(disk, 3)
    with pytest.raises(StoreDamaged, match="set the file size"):
        TimerLog(disk, "/store/timerlog", FILE_BYTES // 2).load()


def test_files_are_removed_when_the_records_of_their_last_units_are_gone() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 20)
    assert log.clean(800) == 0  # the last unit of the first file is of the record at 800
    assert log.clean(801) == 1
    assert log.start == FILE_BYTES
    assert log.clean(10_000) == 1
    assert log.clean(10_000) == 0  # the last file stays


def test_what_a_unit_says() -> None:
    recall = unit(1, magic=NORMAL | DELETE)
    assert (recall.is_delete, recall.weight, recall.slot_ms) == (True, -1, 1_500)
    travelling = unit(1, magic=NORMAL | DELETE | ROLL)
    assert (travelling.is_delete, travelling.weight) == (False, -1)
    assert unit(1).weight == 1
