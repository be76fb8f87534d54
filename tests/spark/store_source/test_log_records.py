"""Chunks of a log: all its records, in order, quickly where it is sound."""

from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.spark.columns.record_columns import MARGIN
from orbitmq.spark.store_source import log_records
from orbitmq.spark.store_source.log_records import chunks
from orbitmq.store.reader.reader import Damage, StoreReader
from tests.spark.store_source.made_logs import LogMaker, log_of_all_kinds
from tests.store.unpacked import flip


@pytest.fixture
def maker(tmp_path: Path) -> LogMaker:
    return log_of_all_kinds(tmp_path, 200, 7)


def starts(
    reader: StoreReader, start: int, end: int, damages: list[Damage] | None = None
) -> list[int]:
    """Return where the records of all chunks begin; without a list, damage fails the test."""
    found: list[int] = []
    on_damage = unexpected if damages is None else damages.append
    for chunk in chunks(reader, start, end, on_damage, reader.queues()):
        assert len(chunk.data) == chunk.heads.ends[-1] + MARGIN
        found += (chunk.base + chunk.heads.starts).tolist()
    return found


def unexpected(damage: Damage) -> None:
    raise AssertionError(damage)


def careful(*_arguments: object) -> None:
    raise AssertionError("a sound log was read carefully")


def test_a_sound_log_is_read_quickly(maker: LogMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_records, "_careful_chunks", careful)
    for queues in (False, True):
        where = maker.directory / str(queues)
        again = log_of_all_kinds(where, 200, 7)
        reader = StoreReader(again.write(queues=queues))
        assert starts(reader, 0, reader.written_end) == maker.starts


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_a_chunk_ends_after_some_rows(
    rows: int, maker: LogMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_records, "CHUNK_ROWS", rows)
    reader = StoreReader(maker.write(queues=True))
    sizes = [len(one.heads) for one in chunks(reader, 0, reader.written_end, unexpected)]
    assert max(sizes) == rows
    assert starts(reader, 0, reader.written_end) == maker.starts


def test_a_chunk_ends_after_some_bytes(maker: LogMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_records, "CHUNK_BYTES", 2_000)
    reader = StoreReader(maker.write())
    found = list(chunks(reader, 0, reader.written_end, unexpected))
    assert len(found) >= reader.written_end // 4_000
    flip(f"{maker.directory}/commitlog/{0:020d}", maker.starts[3] + 5)
    damages: list[Damage] = []
    assert starts(reader, 0, reader.written_end, damages) == [
        *maker.starts[:3],
        *maker.starts[4:],
    ]
    assert [one.position for one in damages] == [maker.starts[3]]


def test_a_range_of_the_log(maker: LogMaker) -> None:
    reader = StoreReader(maker.write())
    low, high = maker.starts[20], maker.starts[150]
    assert starts(reader, low, high) == maker.starts[20:150]


def test_a_record_across_the_end_is_an_error(maker: LogMaker) -> None:
    reader = StoreReader(maker.write())
    with pytest.raises(StoreDamaged, match="a record lies across it") as caught:
        starts(reader, 0, maker.starts[30] + 1)
    assert caught.value.position == maker.starts[30] + 1


def test_missing_files_are_damage_and_the_rest_is_read(maker: LogMaker) -> None:
    directory = maker.write()
    files = sorted(Path(directory, "commitlog").iterdir())
    assert len(files) == 3
    reader = StoreReader(directory)
    end = reader.written_end
    bounds = [int(file.name) for file in files]
    files[1].unlink()
    damages: list[Damage] = []
    found = starts(reader, 0, end, damages)
    assert found == [at for at in maker.starts if not bounds[1] <= at < bounds[2]]
    assert [(one.position, one.skipped_bytes) for one in damages] == [
        (bounds[1], bounds[2] - bounds[1])
    ]
    files[-1].unlink()
    starts(reader, 0, end, damages)
    assert (damages[-1].position, damages[-1].skipped_bytes) == (bounds[1], end - bounds[1])


def test_a_file_that_cannot_be_read_says_what_to_do(
    maker: LogMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = maker.write()
    reader = StoreReader(directory)
    listed = reader.segments
    monkeypatch.setattr(StoreReader, "segments", property(lambda _self: listed))
    Path(listed[0].path).unlink()
    with pytest.raises(DiskFailed, match="if retention deleted it, read a copy of the store"):
        starts(reader, 0, 100)


def test_zeros_up_to_a_sector_are_found_in_each_chunk_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_records, "CHUNK_ROWS", 1)
    maker = LogMaker(tmp_path)
    maker.add(bytes(100))
    torn = maker.add(properties=b"NOTE\x01" + b"x" * 1_500 + b"\x02")
    maker.add(b"after", properties=b"TAGS\x01paid\x02")
    reader = StoreReader(maker.write())
    file = Path(reader.segments[0].path)
    data = bytearray(file.read_bytes())
    data[torn // 512 * 512 + 1_014 : torn // 512 * 512 + 1_024] = bytes(10)
    file.write_bytes(data)
    damages: list[Damage] = []
    assert starts(reader, 0, reader.written_end, damages) == [maker.starts[0], maker.starts[2]]
    assert [one.position for one in damages] == [torn]
