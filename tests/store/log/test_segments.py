import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.stream_files import file_name
from orbitmq.store.log.segments import Segments
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.threads import Future, Workers
from tests.store.counting import CountingDisk

SIZE = 4096
P = ParamSpec("P")
T = TypeVar("T")


def chain_in(directory: Path) -> Segments:
    chain = Segments(RealDisk(), str(directory), SIZE)
    chain.load()
    return chain


def test_files_are_named_by_where_they_begin_and_have_their_full_size(tmp_path: Path) -> None:
    chain = chain_in(tmp_path / "commitlog")
    for base in (0, SIZE, 2 * SIZE):
        chain.add(base)
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert names == [file_name(base) for base in (0, SIZE, 2 * SIZE)]
    assert {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()} == {SIZE}
    assert (chain.first_offset, chain.next_base()) == (0, 3 * SIZE)


def test_an_offset_leads_to_its_file(tmp_path: Path) -> None:
    chain = chain_in(tmp_path)
    for base in (SIZE, 2 * SIZE):
        chain.add(base)
    found = [chain.segment_at(offset) for offset in (0, SIZE, 2 * SIZE - 1, 2 * SIZE, 3 * SIZE)]
    assert [segment and segment.base for segment in found] == [None, SIZE, SIZE, 2 * SIZE, None]


def test_what_was_there_is_loaded(tmp_path: Path) -> None:
    first = chain_in(tmp_path)
    first.add(0).write([b"hello ", b"world"], 10)
    first.close()
    again = chain_in(tmp_path)
    assert bytes(again.files[0].view[10:21]) == b"hello world"
    assert again.last is again.files[0]


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    chain = chain_in(tmp_path)
    segment = chain.add(0)
    segment.write([b"still here"], 0)
    view = segment.view[:10]
    chain.remove_last()
    assert list(tmp_path.iterdir()) == []
    assert bytes(view) == b"still here"
    assert chain.last is None


def test_an_empty_last_file_is_removed_as_java_does(tmp_path: Path) -> None:
    chain_in(tmp_path).add(0)
    (tmp_path / file_name(SIZE)).touch()
    assert len(chain_in(tmp_path).files) == 1
    assert not (tmp_path / file_name(SIZE)).exists()


def test_a_file_of_another_size_is_named(tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(bytes(100))
    with pytest.raises(StoreDamaged, match="has 100 bytes, not 4096; set the file size") as caught:
        chain_in(tmp_path)
    assert caught.value.path.endswith(file_name(0))


def test_a_missing_file_in_the_middle_is_named(tmp_path: Path) -> None:
    for base in (0, 2 * SIZE):
        (tmp_path / file_name(base)).write_bytes(bytes(SIZE))
    with pytest.raises(StoreDamaged, match="should: a file is missing") as caught:
        chain_in(tmp_path)
    assert caught.value.position == SIZE
    assert file_name(SIZE) in str(caught.value)


def test_strangers_are_left_alone_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    assert chain_in(tmp_path).files == []
    assert "notes.txt does not belong there" in caplog.text
    assert "folder" not in caplog.text


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "commitlog").write_text("a file")
    with pytest.raises(DiskFailed, match="commitlog"):
        chain_in(tmp_path / "commitlog" / "deeper")


def test_a_file_that_cannot_be_removed_stays_in_use() -> None:
    disk = SimulatedDisk()
    chain = Segments(disk, "/commitlog", SIZE)
    chain.load()
    chain.add(0)
    chain.add(SIZE)
    disk.fail("remove", "commitlog", errno.EIO)
    with pytest.raises(DiskFailed):
        chain.remove_last()
    assert (chain.first_offset, len(chain.files)) == (0, 2)
    chain.files[1].write([b"still open"], SIZE)
    chain.remove_last()
    assert chain.next_base() == SIZE


def test_a_file_that_is_taken_out_may_come_back() -> None:
    disk = SimulatedDisk()
    chain = Segments(disk, "/commitlog", SIZE)
    chain.load()
    chain.add(0).write([b"still here"], 0)
    chain.add(SIZE)
    taken = chain.take_first()
    assert (chain.first_offset, chain.segment_at(0)) == (SIZE, None)
    chain.put_back([taken])
    assert bytes(chain.files[0].view[:10]) == b"still here"


class LateWorkers:
    """Workers that have not begun yet."""

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        return Future()

    def close(self, *, wait: bool = True) -> None:
        return


def prepared(disk: SimulatedDisk, workers: Workers | None = None) -> Segments:
    """Return a chain of one file whose next one is being made."""
    chain = Segments(disk, "/commitlog", SIZE, workers or InlineWorkers())
    chain.load()
    chain.prepare(chain.add(0), SIZE // 2)
    return chain


def allocations(disk: SimulatedDisk) -> list[str]:
    return [call.path[-4:] for call in disk.log if call.operation == "allocate" and not call.errno]


def test_the_next_file_is_made_ahead_and_counts_when_it_is_added() -> None:
    disk = SimulatedDisk()
    chain = prepared(disk)
    chain.prepare(chain.files[0], SIZE // 2)  # once is enough
    assert disk.size(f"/commitlog/{file_name(SIZE)}") == SIZE
    assert (len(chain.files), chain.next_base()) == (1, SIZE)
    assert chain.add(SIZE).base == SIZE
    assert allocations(disk) == ["0000", "4096"]
    chain.close()


def test_without_workers_nothing_is_made_ahead() -> None:
    disk = SimulatedDisk()
    chain = Segments(disk, "/commitlog", SIZE)
    chain.load()
    chain.prepare(chain.add(0), SIZE // 2)
    assert disk.list("/commitlog") == [file_name(0)]


def test_a_file_that_nobody_has_begun_is_made_by_whoever_needs_it() -> None:
    disk = SimulatedDisk()
    chain = prepared(disk, LateWorkers())
    assert disk.list("/commitlog") == [file_name(0)]
    assert chain.add(SIZE).base == SIZE
    assert allocations(disk) == ["0000", "4096"]


def test_what_could_not_be_made_ahead_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    disk.fail("allocate", "commitlog", errno.ENOSPC, after=1)
    chain = prepared(disk)
    assert disk.list("/commitlog") == [file_name(0)]
    assert chain.add(SIZE).base == SIZE
    assert "could not be created in advance" in caplog.text


def test_a_disk_that_stays_full_is_told_of_when_the_file_is_needed() -> None:
    disk = SimulatedDisk()
    disk.fail("allocate", "commitlog", errno.ENOSPC, after=1, times=2)
    chain = prepared(disk)
    with pytest.raises(DiskFailed, match="No space left"):
        chain.add(SIZE)
    assert len(chain.files) == 1
    assert chain.add(SIZE).base == SIZE


def test_a_stop_removes_what_is_not_in_use_for_good() -> None:
    disk = SimulatedDisk()
    chain = prepared(disk)
    chain.sync_names()  # as a flush does, whatever names there are by then
    chain.remove_unused(100)
    disk.crash()
    assert disk.list("/commitlog") == [file_name(0)]


def test_a_stop_removes_files_behind_the_end_and_keeps_the_first() -> None:
    disk = SimulatedDisk()
    chain = prepared(disk)
    chain.add(SIZE)
    chain.add(2 * SIZE)
    chain.remove_unused(SIZE + 1)
    assert [segment.base for segment in chain.files] == [0, SIZE]
    chain.remove_unused(0)
    assert disk.list("/commitlog") == [file_name(0)]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_file_that_can_be_neither_made_nor_removed_is_dealt_with_later(ahead: bool) -> None:
    """A short file would keep Java, and us, from the next start."""
    disk = SimulatedDisk()
    disk.fail("allocate", "commitlog", errno.ENOSPC, after=1, times=1 if ahead else 2)
    disk.fail("remove", "commitlog", errno.EIO, times=1 if ahead else 2)
    chain = prepared(disk)
    if not ahead:
        with pytest.raises(DiskFailed, match="No space left"):
            chain.add(SIZE)
    assert disk.size(f"/commitlog/{file_name(SIZE)}") == 0
    chain.remove_unused(100)
    assert disk.list("/commitlog") == [file_name(0)]
    assert chain.add(SIZE).file.size == SIZE


def stepwise(disk: SimulatedDisk, workers: Workers | None = None) -> Segments:
    """Return a chain of files of four steps, which are a page each."""
    chain = Segments(disk, "/commitlog", 4 * SIZE, workers, step_bytes=SIZE)
    chain.load()
    return chain


def space(disk: SimulatedDisk) -> int:
    return disk.usage("/").used


def test_a_new_file_has_its_length_and_space_for_one_step() -> None:
    disk = SimulatedDisk()
    segment = stepwise(disk).add(0)
    assert (segment.file.size, segment.reserved, space(disk)) == (4 * SIZE, SIZE, SIZE)


def test_space_is_reserved_when_half_a_step_is_left_and_then_the_next_file_is_made() -> None:
    disk = SimulatedDisk()
    chain = stepwise(disk, InlineWorkers())
    segment = chain.add(0)
    steps = []
    for position in range(0, 4 * SIZE, SIZE // 4):
        chain.reserve(segment, position, SIZE // 4)
        chain.prepare(segment, position + SIZE // 4)
        steps.append(space(disk) // SIZE)
    assert steps == [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert disk.list("/commitlog") == [file_name(0), file_name(4 * SIZE)]


def test_what_a_worker_has_not_reserved_yet_is_reserved_when_it_is_needed() -> None:
    disk = SimulatedDisk()
    chain = stepwise(disk, LateWorkers())
    segment = chain.add(0)
    chain.prepare(segment, SIZE - 10)
    chain.reserve(segment, SIZE - 10, 100)
    assert (segment.reserved, space(disk)) == (2 * SIZE, 2 * SIZE)


def test_a_file_that_is_loaded_gets_space_from_where_the_log_goes_on() -> None:
    disk = SimulatedDisk()
    stepwise(disk).add(0)
    chain = stepwise(disk)
    chain.reserve(chain.files[0], 3 * SIZE, 10)
    assert (chain.files[0].reserved, space(disk)) == (4 * SIZE, 2 * SIZE)


def test_a_full_disk_refuses_space_and_gives_it_later(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    chain = stepwise(disk, InlineWorkers())
    segment = chain.add(0)
    disk.fail("allocate", "commitlog", errno.ENOSPC, times=2)
    chain.prepare(segment, SIZE - 10)
    with pytest.raises(DiskFailed, match="No space left"):
        chain.reserve(segment, SIZE - 10, 100)
    assert "could not be reserved in advance" in caplog.text
    chain.reserve(segment, SIZE - 10, 10)  # there is space for that
    chain.reserve(segment, SIZE - 10, 100)
    assert segment.reserved > SIZE


def test_a_file_without_records_takes_one_page() -> None:
    disk = SimulatedDisk()
    chain = stepwise(disk)
    chain.add_blank(0)
    chain.sync_names()
    assert (chain.next_base(), space(disk)) == (4 * SIZE, SIZE)
    disk.crash()
    assert disk.size(f"/commitlog/{file_name(0)}") == 4 * SIZE


def test_files_that_are_loaded_are_not_kept_open(tmp_path: Path) -> None:
    first = chain_in(tmp_path)
    for base in range(0, 5 * SIZE, SIZE):
        first.add(base).write([b"record"], base)
    first.close()
    disk = CountingDisk()
    chain = Segments(disk, str(tmp_path), SIZE)
    chain.load()
    assert disk.open_now() == []
    assert [bytes(segment.view[:6]) for segment in chain.files] == [b"record"] * 5
    assert disk.open_now() == []
    chain.files[4].write([b"again!"], 4 * SIZE)
    assert bytes(chain.files[4].view[:6]) == b"again!"
    assert disk.open_now() == [file_name(4 * SIZE)]
    chain.close()
    assert disk.open_now() == []


def test_without_a_descriptor_room_is_made_for_the_next_file_and_for_a_map() -> None:
    disk, rooms = SimulatedDisk(), list[int]()
    chain = Segments(disk, "/commitlog", SIZE, make_room=lambda: rooms.append(1))
    chain.load()
    disk.fail("open", "commitlog", errno.EMFILE)
    segment = chain.add(0)
    assert rooms == [1]
    disk.fail("map", "commitlog", errno.EMFILE)
    assert len(segment.view) == SIZE
    assert rooms == [1, 1]


def read_at_random(chain: Segments) -> list[bool]:
    """Return which files, by what the system knows of their maps, are read without read-ahead."""
    maps = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    flags = {
        one.split("\n")[0].split()[-1]: " rr" in one.partition("VmFlags:")[2] for one in maps if one
    }
    return [flags[segment.path] for segment in chain.files]


def test_read_ahead_can_be_turned_off_for_files_read_now_and_later(tmp_path: Path) -> None:
    chain = chain_in(tmp_path)
    chain.add(0)
    first = chain.files[0].view
    chain.set_read_ahead(False)
    chain.add(SIZE)
    second = chain.files[1].view
    assert read_at_random(chain) == [True, True]
    chain.set_read_ahead(True)
    assert read_at_random(chain) == [False, False]
    assert (len(first), len(second)) == (SIZE, SIZE)
