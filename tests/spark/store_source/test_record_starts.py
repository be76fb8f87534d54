from pathlib import Path

import numpy as np
import pytest

from orbitmq.spark.store_source.heads import Bytes
from orbitmq.spark.store_source.record_starts import (
    entries_between,
    find_starts,
    follow,
    named_places,
    sizes_at,
)
from orbitmq.store.reader.reader import QueueName, StoreReader
from tests.spark.store_source.made_logs import SEGMENT, LogMaker, log_of_all_kinds
from tests.store.unpacked import unpacked


@pytest.fixture
def maker(tmp_path: Path) -> LogMaker:
    return log_of_all_kinds(tmp_path, 80, 2)


@pytest.fixture
def data(maker: LogMaker) -> Bytes:
    file = Path(maker.write(queues=True)) / "commitlog" / f"{0:020d}"
    return np.frombuffer(file.read_bytes(), np.uint8)


def of_first(maker: LogMaker) -> list[int]:
    return [at for at in maker.starts if at < SEGMENT]


def test_sizes_lead_from_record_to_record_and_over_the_blank(maker: LogMaker, data: Bytes) -> None:
    found = follow(data, 0, SEGMENT, 1_000)
    assert found is not None
    assert found.places.tolist() == of_first(maker)
    assert found.after == SEGMENT


def test_a_walk_ends_before_a_place_or_after_some_records(maker: LogMaker, data: Bytes) -> None:
    starts = of_first(maker)
    for most, end in ((7, SEGMENT), (1_000, starts[7]), (1_000, starts[6] + 1)):
        found = follow(data, 0, end, most)
        assert found is not None
        assert (found.places.tolist(), found.after) == (starts[:7], starts[7])


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize("most", [1, 5, 20, 1_000])
def test_named_places_change_nothing(
    step: int, first: int, most: int, maker: LogMaker, data: Bytes
) -> None:
    named = np.array(of_first(maker)[first::step], np.int64)
    found = find_starts(data, named, SEGMENT, most)
    assert found is not None
    starts = of_first(maker)
    count = len(found.places)
    assert found.places.tolist() == starts[:count]
    assert 0 < count <= most
    assert found.after == (starts[count] if count < len(starts) else found.after)


def test_a_place_that_no_size_leads_to_is_odd(maker: LogMaker, data: Bytes) -> None:
    named = np.array(of_first(maker)[:9], np.int64)
    named[5] += 1
    assert find_starts(data, named, SEGMENT, 100) is None


@pytest.mark.parametrize("size", [0, 90, -5, 1 << 30])
def test_an_odd_size_is_odd_with_queues_and_without(
    size: int, maker: LogMaker, data: Bytes
) -> None:
    broken = data.copy()
    starts = np.array(of_first(maker), np.int64)
    at = int(starts[8])
    broken[at : at + 4] = list(size.to_bytes(4, signed=True))
    assert sizes_at(broken, starts[8:9]).tolist() == [size]
    assert follow(broken, 0, SEGMENT, 100) is None
    assert find_starts(broken, starts, SEGMENT, 100) is None
    assert find_starts(broken, starts[:9], SEGMENT, 100) is None


def test_a_place_near_the_end_is_not_read_beyond_it(data: Bytes) -> None:
    assert find_starts(data, np.array([len(data) - 3]), SEGMENT, 10) is None
    assert follow(data, len(data) - 3, SEGMENT, 10) is None


def test_queues_name_the_records_that_they_hold(maker: LogMaker, data: Bytes) -> None:
    assert len(data)
    reader = StoreReader(str(maker.directory))
    queued = sorted(
        entry.commit_log_offset
        for name in reader.queues()
        for _, entry in reader.queue(*name).written()
    )
    low, high = queued[10], queued[40]
    found = named_places(reader, reader.queues(), low, high)
    assert found.tolist() == queued[10:40]
    twice = [*reader.queues(), *reader.queues()]
    assert named_places(reader, twice, low, high).tolist() == found.tolist()
    assert named_places(reader, [], 0, high).tolist() == []


def test_batch_queues_name_records_too(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("batch", tmp_path))
    for name in reader.queues():
        entries = [entry for _, entry in reader.queue(*name).written()]
        places, codes = entries_between(reader, name, 0, 1 << 40)
        assert places.tolist() == [entry.commit_log_offset for entry in entries]
        assert codes.tolist() == [entry.tags_code for entry in entries]
    assert entries_between(reader, QueueName("none", 0), 0, 1 << 40)[0].tolist() == []
