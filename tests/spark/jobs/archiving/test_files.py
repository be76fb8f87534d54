"""Rows are in files of their topic and day, whatever the limits."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from orbitmq.errors import InvalidInput
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.jobs.archiving.files import FileOptions, PartitionedFiles, by_day, folder_of
from orbitmq.spark.locations.location import Location

SCHEMA = arrow_schema(["queue_offset", "timestamp", "value", "tags", "properties"])
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rows(first: int, times: list[datetime]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "queue_offset": first + number,
                "timestamp": time,
                "value": b"x" * 100,
                "tags": "paid",
                "properties": [("colour", "blue")],
            }
            for number, time in enumerate(times)
        ],
        schema=SCHEMA,
    )


def test_a_batch_is_cut_where_the_day_changes() -> None:
    times = [NOON, NOON + 11 * HOUR, NOON + 12 * HOUR, NOON + 11 * HOUR, NOON + 30 * HOUR]
    found = [(date, part.column(0).to_pylist()) for date, part in by_day(rows(0, times))]
    assert found == [
        *(("2026-11-18", [0, 1]), ("2026-11-19", [2]), ("2026-11-18", [3])),
        ("2026-11-19", [4]),
    ]
    assert [date for date, _ in by_day(rows(0, [datetime(1969, 12, 31, 23, tzinfo=UTC)]))] == [
        "1969-12-31"
    ]
    assert [*by_day(rows(0, []))] == []


@pytest.mark.parametrize(
    "options",
    [
        FileOptions(),
        FileOptions(compression="snappy", group_bytes=1),
        FileOptions(compression="none", file_bytes=1, group_bytes=1),
        FileOptions(held_bytes=1),
        FileOptions(open_max=1),
        FileOptions(open_max=1, held_bytes=500, group_bytes=300, file_bytes=2_000),
    ],
)
def test_all_rows_are_there_once(tmp_path: Path, options: FileOptions) -> None:
    files = PartitionedFiles(Location(str(tmp_path)), "staging", "part-1", SCHEMA, options)
    for number in range(20):
        topic = "orders" if number % 3 else "%RETRY%billing"
        files.add(topic, rows(number * 4, [NOON + number * HOUR] * 4))
    found = files.finish()
    assert sum(one.rows for one in found) == 80
    assert {one.name for one in found} == {
        file.relative_to(tmp_path / "staging").as_posix() for file in tmp_path.rglob("*.parquet")
    }
    for one in found:
        path = tmp_path / "staging" / one.name
        assert path.stat().st_size == one.bytes
        assert one.name.startswith(folder_of(one.topic, one.date))
        table = pq.read_table(path, partitioning=None)
        assert table.schema == SCHEMA
        assert len(table) == one.rows
        assert {str(time.date()) for time in table["timestamp"].to_pylist()} == {one.date}
    everything = ds.dataset(tmp_path / "staging", partitioning="hive").to_table()
    assert sorted(everything["queue_offset"].to_pylist()) == [*range(80)]
    assert set(everything["topic"].to_pylist()) == {"orders", "%RETRY%billing"}
    if options.file_bytes == 1:
        assert len(found) == 20
    if options == FileOptions():
        assert len(found) == 4  # one for each topic and day


def test_dictionaries_are_for_what_repeats(tmp_path: Path) -> None:
    files = PartitionedFiles(Location(str(tmp_path)), "s", "part", SCHEMA)
    files.add("orders", rows(0, [NOON] * 50))
    (one,) = files.finish()
    group = pq.ParquetFile(tmp_path / "s" / one.name).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    with_dictionary = {one.path_in_schema for one in columns if one.dictionary_page_offset}
    assert with_dictionary == {"tags", "properties.key_value.key"}
    with_statistics = {one.path_in_schema for one in columns if one.is_stats_set}
    assert with_statistics == {"queue_offset", "timestamp", "tags"}


@pytest.mark.parametrize("wrong", [{"compression": "lzo"}, {"file_bytes": 0}, {"open_max": 0}])
def test_options_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        FileOptions(**wrong)
