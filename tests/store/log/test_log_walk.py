"""The walk itself; what a start and a reader make of damage is tested with their walks."""

from collections.abc import Sequence

import pytest

from orbitmq.store.damage import Damage
from orbitmq.store.disk.stream_files import StreamFile
from orbitmq.store.log import log_walk
from orbitmq.store.log.log_walk import LogWalk
from orbitmq.store.log.record_rows import magics
from tests.store.small_logs import NOW, SEGMENT, record, segment_of

SIZE = len(record(0))


class Walk(LogWalk[StreamFile]):
    """A walk over files in memory, None for one that was deleted; it notes what it does."""

    def __init__(self, *data: bytes | None, rows: int | None = None, gap: int = 0) -> None:
        self.data = data
        self.damages: list[Damage] = []
        self.opened: list[int] = []
        self.left: list[int] = []
        bases = [number * SEGMENT + (gap if number else 0) for number in range(len(data))]
        self.files: Sequence[StreamFile] = [StreamFile("", base, SEGMENT) for base in bases]
        super().__init__(
            self.files, open_file=self.open, on_damage=self.damages.append, block_rows=rows
        )

    def open(self, file: StreamFile) -> memoryview | None:
        self.opened.append(file.base)
        data = self.data[self.files.index(file)]
        return None if data is None else memoryview(data)

    def leave(self, file: StreamFile) -> None:
        self.left.append(file.base)

    def found(self, start: int = 0, end: int = 9 * SEGMENT) -> list[list[int]]:
        """Return where the records of each block begin in their file."""
        return [[row[0] for row in block.rows] for block in self.blocks(start, end)]


def test_blocks_go_on_behind_the_blank_of_a_file() -> None:
    walk = Walk(segment_of(3, ended=True), segment_of(2, SEGMENT, ended=True))
    assert walk.found() == [[0, SIZE, 2 * SIZE], [0, SIZE]]
    assert (walk.end, walk.damages, walk.left) == (2 * SEGMENT, [], [0, SEGMENT])


def test_a_block_has_no_more_rows_than_asked_for() -> None:
    walk = Walk(segment_of(5, ended=True), rows=2)
    assert walk.found() == [[0, SIZE], [2 * SIZE, 3 * SIZE], [4 * SIZE]]


def test_the_walk_knows_how_far_it_is_while_a_block_is_used() -> None:
    walk = Walk(segment_of(3, ended=True), rows=2)
    seen = [(walk.end, walk.before_last_ms, walk.last_store_ms) for _ in walk.blocks()]
    assert seen == [(2 * SIZE, NOW, NOW + 1), (3 * SIZE, NOW + 1, NOW + 2)]


def test_start_and_end_bound_the_walk() -> None:
    files = [segment_of(3, number * SEGMENT, ended=True) for number in range(3)]
    walk = Walk(*files)
    assert walk.found(SEGMENT + SIZE, SEGMENT + 2 * SIZE) == [[SIZE]]
    assert (walk.opened, walk.end) == ([SEGMENT], SEGMENT + 2 * SIZE)


def test_a_place_without_a_sound_record_is_reported_and_skipped() -> None:
    data = bytearray(segment_of(4, ended=True))
    data[SIZE + 4] ^= 1
    walk = Walk(bytes(data), segment_of(1, SEGMENT, ended=True))
    assert walk.found() == [[0], [2 * SIZE, 3 * SIZE], [0]]
    (damage,) = walk.damages
    assert (damage.position, damage.skipped_bytes) == (SIZE, SIZE)
    assert damage.reason.startswith("not a record; its magic is")


def test_the_next_record_is_not_searched_behind_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[int] = []

    def noted(buffer: memoryview, base: int, position: int, stop: int) -> int | None:
        stops.append(stop)
        return next(magics(buffer, position, stop), None)

    monkeypatch.setattr(log_walk, "next_sound", noted)
    assert Walk(bytes(SEGMENT), bytes(SEGMENT)).found(end=SEGMENT + 100) == []
    assert stops == [SEGMENT, 100]


def test_where_resume_says_none_the_walk_ends() -> None:
    class Ending(Walk):
        def resume(self, file: StreamFile, buffer: memoryview, position: int) -> None:
            self.left.append(-position)

    walk = Ending(segment_of(2), segment_of(1, SEGMENT))
    assert walk.found() == [[0, SIZE]]
    assert (walk.end, walk.left) == (2 * SIZE, [-2 * SIZE])


def test_bytes_without_a_file_are_damage() -> None:
    walk = Walk(segment_of(1, ended=True), segment_of(1, SEGMENT + 96, ended=True), gap=96)
    assert walk.found() == [[0], [0]]
    assert walk.damages == [Damage(SEGMENT, "no file holds these bytes", 96)]


def test_a_deleted_file_is_no_damage_of_the_store() -> None:
    walk = Walk(None, segment_of(1, SEGMENT, ended=True))
    assert walk.found() == [[0]]
    (damage,) = walk.damages
    assert (damage.position, damage.skipped_bytes, damage.harmless) == (0, SEGMENT, True)


def test_a_walk_takes_a_new_map_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_walk, "MAP_BYTES", 3 * SIZE)
    walk = Walk(segment_of(12, ended=True), rows=2)
    assert [row for rows in walk.found() for row in rows] == [n * SIZE for n in range(12)]
    assert walk.opened == [0, 0, 0, 0]  # after four records, eight and twelve


def test_no_files_are_no_log() -> None:
    assert (Walk().found(), Walk().end) == ([], 0)
