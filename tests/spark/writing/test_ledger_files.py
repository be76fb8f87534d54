from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbitmq.errors import InvalidOption, LedgerDamaged
from orbitmq.spark.writing.ledger_files import LedgerFiles
from tests.spark.faulty_location import BucketLocation


@pytest.fixture(params=["local", "other"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerFiles:
    """Files on a local disk, and on a file system that is not known to be one."""
    found = LedgerFiles(str(tmp_path))
    if request.param == "other":
        found._files = BucketLocation(str(tmp_path))
    return found


def test_the_first_content_stays(files: LedgerFiles) -> None:
    assert files.create("w/DECISION", b"one") == b"one"
    assert files.create("w/DECISION", b"two") == b"one"
    assert files.read("w/DECISION") == b"one"
    assert files.names("w") == ["DECISION"]


def test_all_who_create_a_file_at_once_get_the_same(tmp_path: Path) -> None:
    files = LedgerFiles(str(tmp_path))

    def create(number: int) -> bytes:
        return files.create("w/DECISION", b"%d" % number)

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(create, range(32)))
    assert found == {files.read("w/DECISION")}
    assert files.names("w") == ["DECISION"]


def test_a_file_is_replaced_as_a_whole(files: LedgerFiles) -> None:
    for content in (b"a long one", b"short", b""):
        files.replace("w/PROGRESS", content)
        assert files.read("w/PROGRESS") == content
    assert files.names("w") == ["PROGRESS"]


def test_lines_are_whole(files: LedgerFiles) -> None:
    with files.written("w/a.halves") as target:
        target.write(b"x" * 3_000_000 + b"\none\n\ntwo\npart")
    assert list(files.lines("w/a.halves")) == [b"x" * 3_000_000, b"one", b"", b"two"]
    assert files.read_head("w/a.halves", 5) == b"xxxxx"


def test_what_is_missing(files: LedgerFiles) -> None:
    assert files.names() == []
    assert files.names("w") == []
    assert files.read("w/DECISION") is None
    assert files.read_head("w/DECISION", 9) is None
    files.delete("w/DECISION")
    files.delete_folder("w")
    with pytest.raises(LedgerDamaged, match="lacks w/a.halves"):
        list(files.lines("w/a.halves"))


def test_folders_are_deleted(files: LedgerFiles) -> None:
    files.create("w/a", b"")
    files.create("v/a", b"")
    files.delete("w/a")
    assert files.names("w") == []
    files.delete_folder("w")
    assert files.names() == ["v"]


def test_a_location_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(InvalidOption, match="ledgerLocation 'nosuch://bucket' can't be opened"):
        LedgerFiles("nosuch://bucket")
    with pytest.raises(InvalidOption, match="give an absolute path"):
        LedgerFiles("ledger")
