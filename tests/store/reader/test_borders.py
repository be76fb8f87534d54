"""Where a log is divided: at records, as named by queues or found by their bytes."""

import os
import random
from pathlib import Path

import pytest

from orbitmq.store.reader.borders import borders, largest_queues, log_end
from orbitmq.store.reader.queue_reader import QueueReader
from orbitmq.store.reader.reader import StoreReader
from tests.store.unpacked import NAMES, SEGMENT, overwrite, unpacked

every_store = pytest.mark.parametrize("name", NAMES)


def starts_of(reader: StoreReader) -> list[int]:
    return [view.commit_log_offset for view in reader.records(on_damage=lambda _: None)]


@every_store
@pytest.mark.parametrize("step", [1, 700, 5_000, 1 << 30])
@pytest.mark.parametrize("named", [True, False])
def test_a_border_is_the_first_record_from_each_step_on(
    name: str, step: int, named: bool, tmp_path: Path
) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    queues = largest_queues(reader) if named else []
    starts, high = starts_of(reader), reader.written_end
    step = max(step, (high - starts[0]) // 100)
    found = list(borders(reader, starts[0], high, step, queues))
    assert found[0] == starts[0]
    assert set(found) <= set(starts)
    assert found == sorted(set(found))
    if not queues:
        targets = range(starts[0], high, step)
        firsts = {next((start for start in starts if start >= one), None) for one in targets}
        assert set(found) == firsts - {None}


def test_an_entry_that_points_to_no_record_is_not_trusted(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    starts = starts_of(StoreReader(directory))
    for queue in Path(directory, "consumequeue").rglob("0" * 20):
        data = bytearray(queue.read_bytes())
        for at in range(0, len(data), 20):
            data[at + 7] ^= 1  # each entry points one byte away
        queue.write_bytes(data)
    reader = StoreReader(directory)
    found = list(borders(reader, 0, reader.written_end, 10_000, largest_queues(reader)))
    assert len(found) > 10
    assert set(found) <= set(starts)


@every_store
def test_a_log_ends_after_its_last_sound_record(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    last = list(reader.records(verify=True, on_damage=lambda _: None))[-1]
    for queues in ([], largest_queues(reader)):
        end = log_end(reader, reader.segments[0].base, queues)
        assert end.position == last.commit_log_offset + last.size
        # Java crashed there after a queue had named the record.
        assert bool(end.behind) is (name == "crash-torn")


def test_a_record_that_is_being_written_is_behind_the_end(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    views = list(StoreReader(directory).records())
    last, before = views[-1], views[-2]
    body = last.commit_log_offset + last.size - 30
    file = f"{directory}/commitlog/{last.commit_log_offset // SEGMENT * SEGMENT:020d}"
    overwrite(file, body % SEGMENT, bytes(30))
    for queue in Path(directory, "consumequeue").rglob("0" * 20):
        forget(queue, last.commit_log_offset)
    Path(directory, "abort").touch()
    reader = StoreReader(directory)
    end = log_end(reader, 0, largest_queues(reader))
    assert (end.position, end.behind) == (before.commit_log_offset + before.size, ())
    Path(directory, "abort").unlink()  # no broker is writing
    assert [one.position for one in log_end(reader, 0).behind] == [last.commit_log_offset]


def forget(queue: Path, commit_log_offset: int) -> None:
    """Remove the entry of a record from a queue file."""
    data = bytearray(queue.read_bytes())
    for at in range(0, len(data), 20):
        if data[at : at + 8] == commit_log_offset.to_bytes(8) and any(data[at : at + 20]):
            data[at : at + 20] = bytes(20)
    queue.write_bytes(data)


def test_a_last_file_that_was_cut_off_is_reported_behind_the_end(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    files = sorted(Path(directory, "commitlog").iterdir())
    os.truncate(files[-1], 10_000)
    (behind,) = log_end(StoreReader(directory), 0).behind
    assert behind.position == int(files[-1].name) + 10_000


def test_the_largest_queues_come_first(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    sizes = [queue.stored_bytes for queue in largest_queues(reader)]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < len(sizes) <= 16


# What borders stand on


@every_store
def test_the_first_entry_from_a_log_offset_on(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    chance = random.Random(name)
    for queue in (reader.queue(*one) for one in reader.queues()):
        entries = dict(queue.written())
        for offset in (0, chance.randrange(reader.written_end), 1 << 50):
            expected = [
                number
                for number, entry in entries.items()
                if entry.commit_log_offset >= offset and entry.size > 0
            ]
            assert queue.first_from(offset) == min(expected, default=queue.numbers.stop)
        check_raw(queue, list(entries))


def check_raw(queue: QueueReader, numbers: list[int]) -> None:
    """Compare bytes of entries with the entries."""
    if not numbers:
        return
    first, last = numbers[0], numbers[-1] + 1
    raw, size = queue.raw(first, last), queue.entry_size
    assert len(raw) == (last - first) * size
    for number in (first, (first + last) // 2, last - 1):
        entry = queue.entry(number)
        at = (number - first) * size
        assert entry is not None
        assert raw[at : at + 8] == entry.commit_log_offset.to_bytes(8, signed=True)


def test_where_a_file_of_a_queue_is_missing_its_entries_are_zeros(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    queue = reader.queue(*reader.queues()[0])
    end = 1_000_000
    raw = queue.raw(end - 2, end)
    assert raw == bytes(40)


@every_store
def test_the_written_end_is_behind_the_last_record(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    last = list(reader.records(on_damage=lambda _: None))[-1]
    data = b"".join(Path(file.path).read_bytes() for file in reader.segments)
    assert reader.written_end == reader.segments[0].base + len(data.rstrip(b"\0"))
    assert reader.written_end >= last.commit_log_offset + last.size - 1
    assert reader.next_record(last.commit_log_offset + 1, reader.segments[-1].end) is None
    assert reader.next_record(1 << 50, 1 << 51) is None
