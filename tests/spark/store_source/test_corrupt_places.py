import logging
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.spark.store_source.corrupt_places import CorruptPlaces
from orbitmq.spark.store_source.partitions import open_store
from orbitmq.store.reader.reader import Damage
from tests.spark.store_source.made_logs import SEGMENT, log_of_all_kinds
from tests.spark.store_source.reads import options_of

PLACE = Damage(SEGMENT + 100, "not a record", 50)
BEHIND = Damage(1 << 40, "no file holds these bytes", 7)


def places(tmp_path: Path, on_corrupt: str, columns: str = "value,corrupt") -> CorruptPlaces:
    directory = log_of_all_kinds(tmp_path, 200, 1).write()
    columns = columns if on_corrupt == "report" else "value"
    options = options_of(directory, onCorrupt=on_corrupt, columns=columns)
    return CorruptPlaces(open_store(options), options)


def test_the_first_place_ends_a_read(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="Set onCorrupt to skip or report") as caught:
        places(tmp_path, "fail").note(PLACE)
    assert str(caught.value).startswith(
        f"{tmp_path}/commitlog/{SEGMENT:020d}: commitlog at byte {PLACE.position}: not a record"
    )
    assert caught.value.position == PLACE.position


def test_a_place_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skipping = places(tmp_path, "skip")
    with caplog.at_level(logging.WARNING):
        skipping.note(PLACE)
    assert list(skipping.reports()) == []
    assert f"skipped {tmp_path}/commitlog/{SEGMENT:020d}: " in caplog.text


def test_places_are_rows_once(tmp_path: Path) -> None:
    reporting = places(tmp_path, "report", "value,physical_offset,properties,corrupt")
    reporting.note(PLACE)
    reporting.note(BEHIND)
    (batch,) = reporting.reports()
    batch.validate(full=True)
    file = f"{tmp_path}/commitlog/{SEGMENT:020d}"
    assert batch.to_pylist() == [
        {
            "value": None,
            "physical_offset": one.position,
            "properties": None,
            "corrupt": f"{where}: {one}",
        }
        for one, where in ((PLACE, file), (BEHIND, f"{tmp_path}/commitlog"))
    ]
    assert list(reporting.reports()) == []
