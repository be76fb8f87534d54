import errno
import itertools
import json
import logging

import pytest

from orbitmq.errors import DiskFailed, InvalidBody, StoreDamaged, StoreError
from orbitmq.randomness import SeededRandomness
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.disk.durable import make_durable_directory, read_file
from orbitmq.testing.disks import Operation, PowerLost, SimulatedDisk

CONFIG = "/store/config"
TOPICS = f"{CONFIG}/topics.json"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    make_durable_directory(disk, CONFIG)
    return disk


@pytest.fixture
def config(disk: SimulatedDisk) -> ConfigFiles:
    return ConfigFiles(disk, CONFIG)


def put(disk: SimulatedDisk, path: str, data: bytes) -> None:
    if disk.exists(path):
        disk.remove(path)
    disk.open(path, create=True).write([data], 0)


def parse(text: str) -> object:
    return json.loads(text)


# Reading.


def test_what_was_written_is_read(config: ConfigFiles) -> None:
    config.write("topics.json", '{"名": 1}')
    assert config.read("topics.json", parse) == {"名": 1}
    assert config.read("topics.json", str) == '{"名": 1}'


def test_no_file_is_no_value(config: ConfigFiles) -> None:
    assert config.read("topics.json", parse) is None
    assert ConfigFiles(SimulatedDisk(), CONFIG).read("topics.json", parse) is None


@pytest.mark.parametrize("bad", [None, b"", b"{", b"\xff\xfe", bytes(100)])
def test_the_backup_stands_in_and_the_bad_file_is_kept(
    disk: SimulatedDisk, config: ConfigFiles, bad: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    put(disk, f"{TOPICS}.bak", b"[1]")
    if bad is not None:
        put(disk, TOPICS, bad)
    with caplog.at_level(logging.WARNING, "orbitmq.store"):
        assert config.read("topics.json", parse) == [1]
    assert not disk.exists(TOPICS)
    assert read_file(disk, f"{TOPICS}.damaged") == bad
    [line] = caplog.messages
    assert line.startswith(f"{TOPICS} can't be used (")
    assert line.endswith(f"); its older version {TOPICS}.bak is used")
    # And the good backup is not pushed out by the next write.
    config.write("topics.json", "[2]")
    assert read_file(disk, f"{TOPICS}.bak") == b"[1]"
    assert config.read("topics.json", parse) == [2]


def test_an_error_of_ours_says_that_a_text_can_not_be_used(
    disk: SimulatedDisk, config: ConfigFiles
) -> None:
    def refuse(text: str) -> str:
        if text == "new":
            raise InvalidBody("topicConfigTable is missing")
        return text

    put(disk, TOPICS, b"new")
    put(disk, f"{TOPICS}.bak", b"old")
    assert config.read("topics.json", refuse) == "old"


def test_an_error_that_is_not_about_the_text_is_not_hidden(
    disk: SimulatedDisk, config: ConfigFiles
) -> None:
    put(disk, TOPICS, b"{}")
    put(disk, f"{TOPICS}.bak", b"{}")
    with pytest.raises(ZeroDivisionError):
        config.read("topics.json", lambda text: 1 // 0)
    disk.fail("read", TOPICS, errno.EIO)
    with pytest.raises(DiskFailed):
        config.read("topics.json", parse)
    assert disk.exists(TOPICS)


@pytest.mark.parametrize(
    ("main", "backup", "at_fault"),
    [
        (b"{", None, TOPICS),
        (b"{", b"", TOPICS),
        (b"{", b"[", TOPICS),
        (b"", b"[", f"{TOPICS}.bak"),
        (None, b"[", f"{TOPICS}.bak"),
    ],
)
def test_no_usable_version_is_an_error_and_changes_nothing(
    disk: SimulatedDisk,
    config: ConfigFiles,
    main: bytes | None,
    backup: bytes | None,
    at_fault: str,
) -> None:
    for path, data in ((TOPICS, main), (f"{TOPICS}.bak", backup)):
        if data is not None:
            put(disk, path, data)
    before = disk.list(CONFIG)
    for _ in range(2):  # a second start must not take the loss for a new store
        with pytest.raises(
            StoreDamaged, match=r"can't be used \(.*replace it by a good one"
        ) as caught:
            config.read("topics.json", parse)
        assert caught.value.path == at_fault
        assert isinstance(caught.value.__cause__, json.JSONDecodeError)
    assert disk.list(CONFIG) == before


@pytest.mark.parametrize("backup", [None, b""])
def test_empty_files_hold_nothing(
    disk: SimulatedDisk, config: ConfigFiles, backup: bytes | None
) -> None:
    put(disk, TOPICS, b"")
    if backup is not None:
        put(disk, f"{TOPICS}.bak", backup)
    assert config.read("topics.json", parse) is None


def test_a_reader_of_somebody_else_s_store_changes_nothing(disk: SimulatedDisk) -> None:
    put(disk, TOPICS, b"{")
    put(disk, f"{TOPICS}.bak", b"[1]")
    before = disk.list(CONFIG)
    disk.fail("rename", "", errno.EROFS, times=None)
    config = ConfigFiles(disk, CONFIG, writable=False)
    assert config.read("topics.json", parse) == [1]
    with pytest.raises(StoreError, match="opened for reading only; topics.json was not written"):
        config.write("topics.json", "[2]")
    assert disk.list(CONFIG) == before


def test_a_long_text_is_not_repeated_in_an_error(disk: SimulatedDisk, config: ConfigFiles) -> None:
    put(disk, TOPICS, b"x" * 100_000)
    with pytest.raises(StoreDamaged, match="could not convert string to float: 'xxx") as caught:
        config.read("topics.json", float)
    assert len(str(caught.value)) < 500


# Writing.


def test_the_version_before_is_kept(disk: SimulatedDisk, config: ConfigFiles) -> None:
    for number in range(3):
        config.write("topics.json", str(number))
    assert disk.list(CONFIG) == ["topics.json", "topics.json.bak"]
    assert read_file(disk, f"{TOPICS}.bak") == b"1"


def test_the_first_write_makes_the_directory_for_good() -> None:
    disk = SimulatedDisk()
    config = ConfigFiles(disk, CONFIG)
    config.write("topics.json", "[1]")
    disk.crash()
    assert config.read("topics.json", parse) == [1]


@pytest.mark.parametrize(
    ("operation", "after"), [("write", 0), ("sync", 0), ("rename", 0), ("rename", 1)]
)
def test_a_failed_write_leaves_the_old_version(
    disk: SimulatedDisk, config: ConfigFiles, operation: Operation, after: int
) -> None:
    config.write("topics.json", "[1]")
    disk.fail(operation, CONFIG, errno.ENOSPC, after=after)
    with pytest.raises(DiskFailed, match="No space left"):
        config.write("topics.json", "[2]")
    assert config.read("topics.json", parse) == [1]
    config.write("topics.json", "[3]")
    disk.crash()
    assert config.read("topics.json", parse) == [3]


# Crashes.


def version(number: int) -> str:
    """Return a text of two or three pages, so that a crash can tear it; longer, then shorter."""
    return json.dumps([number] * (4000 - 700 * (number % 2)))


def number_of(config: ConfigFiles) -> int | None:
    found = config.read("topics.json", parse)
    if found is None:
        return None
    assert isinstance(found, list)
    assert found == json.loads(version(found[0]))
    return int(found[0])


@pytest.mark.parametrize("seed", [None, *range(30)])
@pytest.mark.parametrize("versions", [0, 1, 2])
def test_a_crash_at_any_point_leaves_the_old_version_or_the_new(
    versions: int, seed: int | None
) -> None:
    for calls in itertools.count():
        disk = SimulatedDisk(None if seed is None else SeededRandomness(seed))
        config = ConfigFiles(disk, CONFIG)
        for number in range(versions):
            config.write("topics.json", version(number))
        disk.cut_power(after=calls)
        try:
            config.write("topics.json", version(versions))
        except PowerLost:
            disk.crash()
            assert number_of(config) in ({None, 0} if not versions else {versions - 1, versions})
            assert not disk.exists(f"{TOPICS}.damaged")
            continue
        disk.crash()
        assert number_of(config) == versions
        assert calls > 4  # it was cut before each call
        break


@pytest.mark.parametrize("seed", range(50))
def test_crash_after_crash_the_versions_only_go_forward(seed: int) -> None:
    chance = SeededRandomness(seed)
    disk = SimulatedDisk(chance)
    config = ConfigFiles(disk, CONFIG)
    config.write("topics.json", version(0))
    sure = 0
    for number in range(1, 40):
        disk.cut_power(after=chance.below(12))
        try:
            config.write("topics.json", version(number))
        except PowerLost:
            disk.crash()
            found = number_of(config)
            assert found in (sure, number)
            sure = found
        else:
            sure = number
