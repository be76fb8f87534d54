import errno
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.disk import RealDisk
from orbitmq.store.segment_chain import SegmentChain, file_name
from orbitmq.testing.disks import SimulatedDisk

SIZE = 4096


def chain_in(directory: Path) -> SegmentChain:
    chain = SegmentChain(RealDisk(), str(directory), SIZE)
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
    assert bytes(again.segments[0].view[10:21]) == b"hello world"
    assert again.last is again.segments[0]


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    chain = chain_in(tmp_path)
    segment = chain.add(0)
    segment.write([b"still here"], 0)
    view = segment.view[:10]
    chain.remove_first()
    assert list(tmp_path.iterdir()) == []
    assert bytes(view) == b"still here"
    assert chain.last is None


def test_an_empty_last_file_is_removed_as_java_does(tmp_path: Path) -> None:
    chain_in(tmp_path).add(0)
    (tmp_path / file_name(SIZE)).touch()
    assert len(chain_in(tmp_path).segments) == 1
    assert not (tmp_path / file_name(SIZE)).exists()


def test_a_file_of_another_size_is_named(tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(bytes(100))
    with pytest.raises(
        StoreDamaged, match="has 100 bytes, and files of this log have 4096"
    ) as caught:
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
    assert chain_in(tmp_path).segments == []
    assert "notes.txt does not belong there" in caplog.text
    assert "folder" not in caplog.text


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "commitlog").write_text("a file")
    with pytest.raises(DiskFailed, match="commitlog"):
        chain_in(tmp_path / "commitlog" / "deeper")


def test_a_file_that_cannot_be_removed_stays_in_use() -> None:
    disk = SimulatedDisk()
    chain = SegmentChain(disk, "/commitlog", SIZE)
    chain.load()
    chain.add(0)
    chain.add(SIZE)
    disk.fail("remove", "commitlog", errno.EIO)
    with pytest.raises(DiskFailed):
        chain.remove_first()
    assert (chain.first_offset, len(chain.segments)) == (0, 2)
    chain.segments[0].write([b"still open"], 0)
    assert chain.remove_first().base == 0
