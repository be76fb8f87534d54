from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.stream_files import StreamFile, StreamMaps, map_file, stream_files


def write(directory: Path, base: int, data: bytes) -> str:
    path = directory / f"{base:020d}"
    path.write_bytes(data)
    return str(path)


def test_files_are_what_their_names_say(tmp_path: Path) -> None:
    second, first = write(tmp_path, 4, b"efgh"), write(tmp_path, 0, b"abcd")
    write(tmp_path, 8, b"")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠").write_text("digits of another script")
    (tmp_path / f"{12:020d}").mkdir()
    assert stream_files(RealDisk(), str(tmp_path)) == [
        StreamFile(first, 0, 4),
        StreamFile(second, 4, 4),
    ]


def test_a_file_longer_than_its_place_counts_up_to_the_next(tmp_path: Path) -> None:
    path = write(tmp_path, 0, b"abcd and more")
    write(tmp_path, 4, b"efgh")
    [first, _] = stream_files(RealDisk(), str(tmp_path))
    assert first == StreamFile(path, 0, 4)
    assert bytes(map_file(RealDisk(), first) or b"") == b"abcd"


def test_no_directory_has_no_files(tmp_path: Path) -> None:
    assert stream_files(RealDisk(), str(tmp_path / "absent")) == []


def test_a_file_deleted_before_it_was_opened(tmp_path: Path) -> None:
    assert map_file(RealDisk(), StreamFile(str(tmp_path / "absent"), 0, 4)) is None


def test_a_file_that_can_not_be_opened(tmp_path: Path) -> None:
    path = write(tmp_path, 0, b"abcd")
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(DiskFailed, match="can't open"):
        map_file(RealDisk(), StreamFile(str(tmp_path / "link"), 0, 4))
    assert bytes(map_file(RealDisk(), StreamFile(path, 0, 4)) or b"") == b"abcd"


def test_bytes_at_any_offset(tmp_path: Path) -> None:
    write(tmp_path, 8, b"abcd")
    write(tmp_path, 12, b"efgh")
    maps = StreamMaps(RealDisk(), str(tmp_path))
    for offset, data in ((8, b"abcd"), (11, b"abcd"), (12, b"efgh")):
        found = maps.at(offset)
        assert found is not None
        assert found[1] == data
    assert maps.at(7) is None
    assert maps.at(16) is None


def test_files_that_came_since_are_found(tmp_path: Path) -> None:
    maps = StreamMaps(RealDisk(), str(tmp_path))
    assert maps.at(0) is None
    write(tmp_path, 0, b"abcd")
    assert maps.at(0) is not None


def test_only_some_maps_are_kept(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, 4 * number, b"%04d" % number)
    maps = StreamMaps(RealDisk(), str(tmp_path))
    for number in [*range(20), *range(20)]:
        found = maps.at(4 * number)
        assert found is not None
        assert found[1] == b"%04d" % number
    assert len(maps._maps) == 8
