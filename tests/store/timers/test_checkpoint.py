from orbitmq.store.timers.checkpoint import TimerCheckpoint, read_checkpoint, write_checkpoint
from orbitmq.testing.disks import SimulatedDisk

PATH = "/store/config/timercheck"


def test_a_checkpoint_survives_a_power_loss() -> None:
    disk = SimulatedDisk()
    values = TimerCheckpoint(5_000, 520, 10, 7, 3, 1_000)
    write_checkpoint(disk, PATH, values)
    disk.crash()
    assert read_checkpoint(disk, PATH) == values
    assert disk.size(PATH) == 4096


def test_java_s_fields_come_first() -> None:
    values = TimerCheckpoint(5_000, 520, 10, 7, 3, 1_000)
    numbers = [5_000, 520, 10, 10, 0, 7, 3]
    assert values.to_bytes() == b"".join(number.to_bytes(8) for number in numbers)


def test_what_java_wrote_last_has_no_precision() -> None:
    disk = SimulatedDisk()
    write_checkpoint(disk, PATH, TimerCheckpoint(5_000, 520, 10, 7, 3, 1_000))
    disk.open(PATH).write([(6_000).to_bytes(8)], 0)
    assert read_checkpoint(disk, PATH) == TimerCheckpoint(6_000, 520, 10, 7, 3, 0)


def test_a_missing_or_short_file_counts_as_zeros() -> None:
    disk = SimulatedDisk()
    assert read_checkpoint(disk, "/timercheck") == TimerCheckpoint()
    disk.open("/timercheck", create=True).write([(9).to_bytes(8)], 0)
    assert read_checkpoint(disk, "/timercheck") == TimerCheckpoint(read_ms=9)
