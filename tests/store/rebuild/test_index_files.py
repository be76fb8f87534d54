"""Index files made one by one equal those that an index makes in one go."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.index.index_file import IndexKey
from orbitmq.store.index.key_hashes import index_keys
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.rebuild.index_files import index_plan, make_index_file
from orbitmq.store.rebuild.log_parts import LogFile
from orbitmq.store.settings import StoreSettings
from tests.store.entries import keyed
from tests.store.rebuild.made import bytes_of

SETTINGS = StoreSettings(index_slots=7, index_entries=11)  # ten keys a file


def in_one_go(directory: Path, records: Sequence[int]) -> list[bytes]:
    """Index records with so many keys each, and return the files."""
    names = count(1)
    index = KeyIndex(
        *(RealDisk(), str(directory)), slots=7, entries=11, file_name=lambda: f"{next(names):017d}"
    )
    for entry in entries(records):
        index.put(entry)
    index.sync()
    index.close()
    return bytes_of(directory)


def entries(records: Sequence[int]) -> list[Dispatched]:
    return [
        keyed(
            100 * at,
            " ".join(f"k{at}-{key}" for key in range(keys)),
            store_timestamp_ms=5_000 + 700 * at,
        )
        for at, keys in enumerate(records)
    ]


@pytest.mark.parametrize("per_part", [1, 3, 10, 25, 1000])
@pytest.mark.parametrize(
    "records",
    [[0], [0, 0], [10], [10, 0], [10, 1], [9, 0, 5, 0], [25, 0, 7], [1] * 47, [3] * 40, [20, 0, 0]],
)
def test_they_equal(records: list[int], per_part: int, tmp_path: Path) -> None:
    keys = index_keys(entries(records), 0, tag_keys=True)
    # Log files of four records each, and their keys in parts.
    log, found = [], []
    for begin in range(0, len(records), 4):
        own: list[IndexKey] = [key for key in keys if begin * 100 <= key[1] < (begin + 4) * 100]
        log.append(
            LogFile(
                base=begin * 100,
                end=0,
                records=len(records[begin : begin + 4]),
                last_offset=100 * (begin + len(records[begin : begin + 4]) - 1),
                keys=len(own),
                last_keyed=own[-1][1] if own else -1,
            )
        )
        found += [
            (begin * 100, first, own[first : first + per_part])
            for first in range(0, len(own), per_part)
        ]
    plan = index_plan(log, SETTINGS)
    for number in range(plan.files):
        given = [
            (plan.before[base] + first, part)
            for base, first, part in found
            if number in plan.numbers(base, first, len(part))
        ]
        made = make_index_file(RealDisk(), str(tmp_path / "made"), plan, number, given)
        assert made.is_full is (made.next_number == 11)
    assert bytes_of(tmp_path / "made") == in_one_go(tmp_path / "all", records)


def test_the_last_header_may_reach_to_the_end(tmp_path: Path) -> None:
    plan = index_plan([LogFile(base=0, end=200, records=1)], SETTINGS)
    made = make_index_file(RealDisk(), str(tmp_path), plan, 0, (), reach=199)
    assert made.end_offset == 199


def test_no_records_no_file() -> None:
    assert index_plan([LogFile(base=0, end=0)], SETTINGS).files == 0
