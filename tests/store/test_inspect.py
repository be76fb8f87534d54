from collections import Counter
from pathlib import Path

import pytest

from orbitmq.store.damage import Damage
from orbitmq.store.inspect import MOST_DAMAGES, DamageList, inspect
from orbitmq.store.reader import StoreReader
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
