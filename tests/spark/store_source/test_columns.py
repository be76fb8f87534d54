"""What ``test_rows`` doesn't compare: extreme values, and columns that nobody asked for."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from orbitmq.spark.store_source import columns
from orbitmq.spark.store_source.schema import CORRUPT, STORE_COLUMNS
from tests.spark.store_source.made_logs import LogMaker
from tests.spark.store_source.reads import read


def test_there_is_a_builder_for_each_column() -> None:
    assert set(columns._BUILDERS) == {*STORE_COLUMNS, CORRUPT}


@pytest.mark.parametrize(
    ("stored_ms", "shown"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (2**63 - 1, datetime(9999, 12, 31, tzinfo=UTC)),
        (-(2**63), datetime(1, 1, 3, tzinfo=UTC)),
    ],
)
def test_times_beyond_the_calendar_are_its_ends(
    stored_ms: int, shown: datetime, tmp_path: Path
) -> None:
    maker = LogMaker(tmp_path)
    maker.add(store_timestamp_ms=stored_ms)
    (row,) = read(maker.write(), columns="timestamp")
    assert row["timestamp"] == shown


def test_columns_that_are_not_read_are_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_arguments: object) -> None:
        raise AssertionError("the properties were looked at")

    maker = LogMaker(tmp_path)
    at = maker.add(properties=b"TAGS\x01paid\x02")
    directory = maker.write()
    monkeypatch.setattr(columns, "PropertyPairs", unwanted)
    assert read(directory, columns="physical_offset") == [{"physical_offset": at}]


def test_a_topic_that_is_not_utf8_is_shown_with_marks(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    maker.add(topic=b"ord\xffers")
    assert read(maker.write(), columns="topic") == [{"topic": "ord\ufffders"}]
