"""Every row of Java's stores, of ours, and of records of every kind, compared one by one."""

from pathlib import Path

import pytest

from orbitmq.store.reader.reader import StoreReader
from tests.spark.store_source.expected import rows_of
from tests.spark.store_source.reads import EVERYTHING, read
from tests.store.unpacked import NAMES, unpacked

every_store = pytest.mark.parametrize("name", NAMES)


@every_store
@pytest.mark.parametrize("parts", [{}, {"minPartitions": "13"}])
def test_every_row_is_that_of_its_record(name: str, parts: dict[str, str], tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    views = list(reader.records(verify=True, on_damage=lambda _: None))
    assert views
    found = read(reader.directory, onCorrupt="skip", **EVERYTHING, **parts)
    assert found == rows_of(reader, views)
