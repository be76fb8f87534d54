from pathlib import Path

import pytest

from orbitmq.client.consumer.offsets.offset_file import OffsetFile
from orbitmq.errors import DiskFailed


def test_a_new_version_keeps_the_last_one_as_the_backup(tmp_path: Path) -> None:
    file = OffsetFile(str(tmp_path / "a" / "b" / "offsets.json"))
    assert list(file.versions()) == []
    file.replace(b"one")
    assert list(file.versions()) == [b"one"]
    file.replace(b"two")
    assert list(file.versions()) == [b"two", b"one"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "offsets.json",
        "offsets.json.bak",
    ]
    assert "offsets.json" in repr(file)


def test_an_empty_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "offsets.json").write_bytes(b"")
    (tmp_path / "offsets.json.bak").write_bytes(b"old")
    assert list(OffsetFile(str(tmp_path / "offsets.json")).versions()) == [b"old"]


def test_a_failing_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file, not a directory")
    file = OffsetFile(str(tmp_path / "a" / "offsets.json"))
    with pytest.raises(DiskFailed, match=r"offsets\.json"):
        list(file.versions())
    with pytest.raises(DiskFailed):
        file.replace(b"one")
