import errno
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, InvalidInput, StoreDamaged
from orbitmq.replication.epochs import EPOCH_FILE, Epoch, EpochFile, EpochHistory
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.epoch_stream import EpochEntry
from orbitmq.wire.replica_stream import OFFSET_MAX


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(EpochEntry(*entry) for entry in entries)


THREE = history((3, 0), (5, 1000), (8, 2500))


def test_a_log_is_divided_into_epochs() -> None:
    assert [THREE.at(offset) for offset in (0, 999, 1000, 2500, 10**9)] == [
        *([EpochEntry(3, 0)] * 2),
        EpochEntry(5, 1000),
        *([EpochEntry(8, 2500)] * 2),
    ]
    assert THREE.ranges(2600) == (Epoch(3, 0, 1000), Epoch(5, 1000, 2500), Epoch(8, 2500, 2600))
    assert [THREE.end_of(one) for one in THREE.entries] == [1000, 2500, None]
    assert history((4, 640)).at(639) is None
    assert EpochHistory().ranges(100) == ()


@pytest.mark.parametrize(
    ("end", "other", "other_end", "common"),
    [
        (3000, THREE, 2800, 2800),  # one is behind
        (3000, history((3, 0), (5, 1000)), 2000, 2000),
        (3000, history((3, 0), (5, 1000), (9, 2400)), 9000, 2400),  # we have more of epoch 5
        (3000, history((3, 0), (5, 1000), (9, 2600)), 9000, 2500),  # and here less
        (3000, history((3, 0), (5, 900), (9, 2500)), 3000, 900),
        (3000, history((3, 0), (6, 700)), 9000, 700),
        (3000, history((5, 1000), (9, 2400)), 9000, 2400),  # its oldest files are gone
        (3000, history((9, 0)), 9000, None),
        (3000, EpochHistory(), 9000, None),
    ],
)
def test_epochs_tell_where_two_logs_part(
    end: int, other: EpochHistory, other_end: int, common: int | None
) -> None:
    assert THREE.common_end(end, other, other_end) == common
    assert other.common_end(other_end, THREE, end) == common


def test_an_epoch_begins_at_the_end_of_the_log() -> None:
    assert THREE.begun(9, 2600) == history((3, 0), (5, 1000), (8, 2500), (9, 2600))
    assert THREE.begun(8, 2600) is THREE
    with pytest.raises(InvalidInput, match="epoch 7 is over: the log here has epoch 8"):
        THREE.begun(7, 2600)


def test_an_epoch_without_a_byte_is_forgotten_when_the_next_begins() -> None:
    assert THREE.begun(9, 2500) == history((3, 0), (5, 1000), (9, 2500))


def test_a_log_that_follows_another_has_its_epochs_from_there_on() -> None:
    other = history((3, 0), (5, 1000), (9, 2400), (10, 3000))
    assert THREE.followed(2400, other) == other
    assert history((1, 0), (3, 200)).followed(700, history((3, 200), (5, 1000))) == history(
        (1, 0), (3, 200), (5, 1000)
    )
    assert EpochHistory().followed(700, other) == other
    assert [other.count_before(offset) for offset in (0, 1, 2400, 2401, 9000)] == [0, 1, 2, 3, 4]


def test_epochs_are_cut_with_the_log() -> None:
    assert THREE.cut(2501) == THREE
    assert THREE.cut(2500) == THREE.cut(1001) == history((3, 0), (5, 1000))
    assert THREE.cut(0) == EpochHistory()
    assert THREE.trimmed(0) == THREE.trimmed(999) == THREE
    assert THREE.trimmed(1000) == history((5, 1000), (8, 2500))
    assert THREE.trimmed(9000) == history((8, 2500))
    assert history((4, 640)).trimmed(100) == history((4, 640))


@pytest.mark.parametrize(
    "entries",
    [
        [(3, 0), (3, 10)],
        [(3, 0), (2, 10)],
        [(3, 10), (4, 10)],
        [(-1, 0)],
        [(1, -1)],
        [(2**31, 0)],
        [(1, OFFSET_MAX + 1)],
    ],
)
def test_numbers_and_starts_increase(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(InvalidInput, match="both have to increase"):
        history(*entries)


histories = st.dictionaries(st.integers(0, 2**31 - 1), st.just(0), max_size=8).flatmap(
    lambda numbers: st.sets(
        st.integers(0, OFFSET_MAX), min_size=len(numbers), max_size=len(numbers)
    ).map(lambda starts: history(*zip(sorted(numbers), sorted(starts), strict=True)))
)


@given(histories)
def test_a_file_holds_what_was_written(one: EpochHistory) -> None:
    assert EpochHistory.decode(one.encode()) == one


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is no epoch file"),
        (b"1", "it is no epoch file"),
        (b"x\n0\n", "it is no epoch file"),
        (b"1\n0\n4\n", "it is no epoch file"),
        (b"1\n0\n4-5-6\n", "it is no epoch file"),
        (b"2\n0\n4-640\n", "it has 1 of 2 epochs"),
        (b"1\n77\n4-640\n", "its checksum is 1"),
        (b"2\n0\n4-640\n4-700\n", "have to increase"),
    ],
)
def test_a_damaged_file_stops_the_start(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        EpochHistory.decode(data)
    disk = SimulatedDisk()
    disk.open(f"/{EPOCH_FILE}", create=True).write([data], 0)
    with pytest.raises(StoreDamaged, match="can't be read"):
        EpochFile(disk, "/")


def test_what_a_method_has_changed_survives_a_power_loss() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/store")
    disk.sync_directory("/")
    epochs = EpochFile(disk, "/store")
    assert not epochs.history
    changes: list[Callable[[], None]] = [
        lambda: epochs.begin(1, 0),
        lambda: epochs.begin(2, 640),
        lambda: epochs.begin(4, 1280),
        lambda: epochs.cut(1280),
        lambda: epochs.trim(640),
    ]
    for change in changes:
        change()
        disk.crash()
        assert EpochFile(disk, "/store").history == epochs.history
    assert epochs.history == history((2, 640))


def test_without_epochs_there_is_no_file_nor_a_copy_of_java() -> None:
    disk = SimulatedDisk()
    epochs = EpochFile(disk, "/")
    epochs.begin(1, 0)
    disk.open(f"/{EPOCH_FILE}.bak", create=True).close()
    epochs.cut(0)
    disk.crash()
    assert disk.list("/") == []


def test_after_a_failure_the_old_epochs_count() -> None:
    disk = SimulatedDisk()
    epochs = EpochFile(disk, "/")
    epochs.begin(1, 0)
    disk.fail("sync", EPOCH_FILE, errno.EIO)
    with pytest.raises(DiskFailed):
        epochs.begin(2, 640)
    assert epochs.history == EpochFile(disk, "/").history == history((1, 0))


def test_what_a_log_had_before_the_first_election_is_epoch_0() -> None:
    disk = SimulatedDisk()
    epochs = EpochFile(disk, "/")
    epochs.begin(4, 900, log_start=100)
    assert epochs.history == history((0, 100), (4, 900))
    epochs.begin(5, 1900, log_start=100)
    assert epochs.history == history((0, 100), (4, 900), (5, 1900))
    empty = EpochFile(SimulatedDisk(), "/")
    empty.begin(4, 900, log_start=900)
    assert empty.history == history((4, 900))


def test_a_replica_takes_epochs_as_far_as_its_log_goes() -> None:
    disk = SimulatedDisk()
    epochs = EpochFile(disk, "/")
    epochs.follow(THREE, 1000)
    assert epochs.history == history((3, 0))
    epochs.follow(THREE, 1001)
    disk.crash()
    assert EpochFile(disk, "/").history == history((3, 0), (5, 1000))
