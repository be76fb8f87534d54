from collections import Counter
from pathlib import Path

import pytest

from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.reader.inspect import MOST_DAMAGES, DamageList, inspect
from orbitmq.store.reader.reader import StoreReader
from tests.store.golden import manifest
from tests.store.unpacked import NAMES, flip, records_of, unpacked


@pytest.mark.parametrize("name", NAMES)
def test_totals_are_those_of_java(name: str, tmp_path: Path) -> None:
    summary = inspect(StoreReader(unpacked(name, tmp_path)))
    records = records_of(name)
    counts = Counter((record["topic"], record["queueId"]) for record in records)
    sizes: Counter[tuple[str, int]] = Counter()
    for record in records:
        sizes[record["topic"], record["queueId"]] += record["size"]
    found = {(queue.topic, queue.queue_id): queue for queue in summary.queues}
    assert {key: queue.messages for key, queue in found.items() if queue.messages} == counts
    assert {key: queue.bytes for key, queue in found.items() if queue.messages} == sizes
    times = [record["storeTimestamp"] for record in records]
    assert (summary.first_stored_ms, summary.last_stored_ms) == (min(times), max(times))
    assert summary.messages == len(records)
    assert summary.log_end == records[-1]["physicalOffset"] + records[-1]["size"]
    assert summary.stopped_cleanly == (name not in {"crash", "crash-torn"})
    assert summary.is_damaged == (name == "crash-torn")


@pytest.mark.parametrize("name", NAMES)
def test_disk_use_counts_every_file_once(name: str, tmp_path: Path) -> None:
    disk = inspect(StoreReader(unpacked(name, tmp_path))).disk
    files = manifest(name)["files"]
    lengths = [files[path]["length"] for path in files if path != "timerwheel"]  # not unpacked
    assert sum(part.files for part in disk.values()) == len(lengths)
    assert sum(part.bytes for part in disk.values()) == sum(lengths)


def test_progress_never_goes_back_and_ends_at_all(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    inspect(StoreReader(unpacked("crash", tmp_path)), lambda *step: told.append(step))
    assert told == sorted(told)
    assert told[-1] == (5 * 262144, 5 * 262144)


def test_a_store_without_messages(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    summary = inspect(StoreReader(str(tmp_path)))
    assert (summary.messages, summary.first_stored_ms, summary.queues) == (0, None, [])


def test_damage_is_in_the_summary(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    flip(f"{directory}/commitlog/{0:020d}", 4)
    summary = inspect(StoreReader(directory))
    assert [damage.position for damage in summary.damages] == [0]
    assert summary.is_damaged
    assert summary.messages == 199


def test_only_the_first_damages_are_kept() -> None:
    damages = DamageList()
    for position in range(MOST_DAMAGES + 5):
        damages.add(Damage(position, "broken", 1))
    damages.add(Damage(0, "stale", 1, harmless=True))
    assert (len(damages.kept), damages.count) == (MOST_DAMAGES, MOST_DAMAGES + 5)


@pytest.mark.parametrize(
    ("name", "queue", "file", "reason"),
    [
        ("normal", "GoldenB/2", 0, "the log has messages from 0 on, but the queue begins at 20"),
        ("crash", "GoldenCrash/2", 800, "no file holds offsets 40 to 59"),
    ],
)
def test_a_missing_file_of_a_queue(
    name: str, queue: str, file: int, reason: str, tmp_path: Path
) -> None:
    directory = unpacked(name, tmp_path)
    (Path(directory) / "consumequeue" / queue / f"{file:020d}").unlink()
    [damage] = inspect(StoreReader(directory)).damages
    assert (damage.where, damage.position) == (f"consumequeue/{queue}", file)
    assert damage.reason == reason


def test_files_of_queues_that_went_with_the_log_are_not_missed(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "commitlog" / f"{0:020d}").unlink()
    (Path(directory) / "consumequeue" / "GoldenCrash" / "2" / f"{0:020d}").unlink()
    summary = inspect(StoreReader(directory))
    assert summary.damages == []
    assert all(queue.first_offset == queue.min_offset > 20 for queue in summary.queues)


def test_queues_are_not_compared_with_a_log_that_lost_files_meanwhile(tmp_path: Path) -> None:
    directory = Path(unpacked("crash", tmp_path))

    def retain(done: int, _total: int) -> None:
        """Take the first file of the log away once it is read, and then one of a queue."""
        if done > 262144:
            (directory / "commitlog" / f"{0:020d}").unlink(missing_ok=True)
            queue = directory / "consumequeue" / "GoldenCrash" / "2"
            (queue / f"{0:020d}").unlink(missing_ok=True)

    summary = inspect(StoreReader(str(directory)), retain)
    assert not (directory / "commitlog" / f"{0:020d}").exists()
    assert summary.queues[2].first_offset == 0
    assert summary.damages == []


def test_files_that_go_while_disk_use_is_counted_do_no_harm(tmp_path: Path) -> None:
    class Disk(RealDisk):
        """One whose files of queues are gone as soon as one is looked at."""

        def exists(self, path: str) -> bool:
            there = super().exists(path)
            if "/consumequeue/" in path:
                Path(path).unlink()
            return there

    reader = StoreReader(unpacked("normal", tmp_path), disk=Disk())
    use = inspect(reader).disk
    assert use["consumequeue"].bytes == 0
    assert use["commitlog"].bytes > 0
    assert use["other"].bytes > 0
