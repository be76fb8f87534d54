from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.stream_files import (
    StreamFile,
    StreamMaps,
    file_path,
    load_stream,
    map_file,
    named_files,
    stream_files,
)


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


def test_a_stream_that_is_written_has_files_of_one_size(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [write(tmp_path, base, b"abcd") for base in (0, 4, 12)]
    write(tmp_path, 16, b"")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    files, others = load_stream(RealDisk(), str(tmp_path), 4)
    assert [(file.path, file.base) for file in files] == list(zip(paths, (0, 4, 12), strict=True))
    assert others == [str(tmp_path / "notes.txt")]
    assert f"removed {file_path(str(tmp_path), 16)}" in caplog.text
    assert len(named_files(RealDisk(), str(tmp_path))) == 3


@pytest.mark.parametrize(
    ("base", "data", "why"), [(4, b"abc", "has 3 bytes, not 4"), (6, b"abcd", "no multiple of 4")]
)
def test_a_file_of_another_size_or_place_is_refused(
    base: int, data: bytes, why: str, tmp_path: Path
) -> None:
    path = write(tmp_path, base, data)
    with pytest.raises(StoreDamaged, match=why) as refused:
        load_stream(RealDisk(), str(tmp_path), 4)
    assert refused.value.path == path


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
