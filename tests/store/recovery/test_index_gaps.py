"""Records with keys between two places of the log, as far as a start looks for them."""

from pathlib import Path

import pytest

from orbitmq.message.record import blank
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.segments import Segments
from orbitmq.store.recovery import index_gaps
from orbitmq.store.recovery.index_gaps import first_keyed
from tests.store.small_logs import SEGMENT, record, write_log

KEYED = b"KEYS\x01o-41\x02"
SIZE = len(record(0, properties=KEYED))
PLAIN = b"TAGS\x01" + b"x" * (len(KEYED) - 6) + b"\x02"  # no key of every index
assert len(record(0, properties=PLAIN)) == SIZE


def segment(keyed: str, base: int = 0, *, ended: bool = True) -> bytes:
    """Return a file of the log: a record for each letter, with keys where it is a ``k``."""
    data = b""
    for number, letter in enumerate(keyed):
        data += record(base + len(data), number, properties=KEYED if letter == "k" else PLAIN)
    return (data + blank(SEGMENT - len(data)) if ended else data).ljust(SEGMENT, b"\0")


def chain_of(directory: Path, *segments: bytes) -> Segments:
    chain = Segments(RealDisk(), f"{write_log(directory, *segments)}/commitlog", SEGMENT)
    chain.load()
    return chain


@pytest.mark.parametrize(
    ("after", "before", "found"),
    [
        (-1, 0, None),
        (-1, SIZE, None),
        (-1, 2 * SIZE, SIZE),
        (SIZE, SEGMENT, 3 * SIZE),
        (3 * SIZE, SEGMENT, None),
        (3 * SIZE, SEGMENT + SIZE, None),
        (3 * SIZE, SEGMENT + 2 * SIZE, SEGMENT + SIZE),
        (5 * SIZE - 1, 2 * SEGMENT, SEGMENT + SIZE),  # an index that reached the end of the log
        (SEGMENT - 1, 2 * SEGMENT, SEGMENT + SIZE),
        (SEGMENT + SIZE, 9 * SEGMENT, None),
        (5 * SEGMENT, 9 * SEGMENT, None),
        (3 * SIZE, 3 * SIZE, None),  # a record whose keys are in two files
    ],
)
def test_the_first_record_with_keys_is_found(
    after: int, before: int, found: int | None, tmp_path: Path
) -> None:
    chain = chain_of(tmp_path, segment("-k-k-"), segment("-k", SEGMENT, ended=False))
    assert first_keyed(chain, after, before) == found


def test_the_log_begins_where_its_first_file_does(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, segment("kk"), segment("-k-", SEGMENT), segment("k", 2 * SEGMENT))
    chain.take_first()
    assert first_keyed(chain, 0, SEGMENT + SIZE) is None
    assert first_keyed(chain, -1, 2 * SEGMENT) == SEGMENT + SIZE
    assert first_keyed(chain, -1, 0) is None


def test_a_place_that_can_not_be_read_is_passed_over(tmp_path: Path) -> None:
    data = bytearray(segment("--k"))
    data[SIZE] ^= 1
    chain = chain_of(tmp_path, bytes(data))
    assert first_keyed(chain, -1, SEGMENT) == 2 * SIZE
    assert first_keyed(chain, 0, SEGMENT) == 2 * SIZE
    assert first_keyed(chain, 0, 2 * SIZE) is None


def test_a_file_that_can_not_be_read_is_passed_over(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, segment("---"), bytes(SEGMENT), segment("-k", 2 * SEGMENT))
    assert first_keyed(chain, -1, 3 * SEGMENT) == 2 * SEGMENT + SIZE
    assert first_keyed(chain, -1, 2 * SEGMENT) is None


def test_a_start_looks_at_some_records_and_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(tmp_path, segment("---"), segment("--k", SEGMENT))
    assert first_keyed(chain, -1, 2 * SEGMENT) == SEGMENT + 2 * SIZE
    monkeypatch.setattr(index_gaps, "_LOOKED_AT", 5)
    assert first_keyed(chain, -1, 2 * SEGMENT) is None
    assert first_keyed(chain, 0, 2 * SEGMENT) == SEGMENT + 2 * SIZE
