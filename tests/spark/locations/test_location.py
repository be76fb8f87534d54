"""Files are written whole, and only once where that is asked."""

import pickle
from pathlib import Path

import pytest

from orbitmq.errors import InvalidInput, LocationDamaged
from orbitmq.spark.locations.location import Location, local_path
from tests.spark.faulty_location import BucketLocation


@pytest.fixture(params=[Location, BucketLocation])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    found: Location = request.param(str(tmp_path))
    return found


def test_files(location: Location) -> None:
    assert location.read("a/b.json") is None
    assert location.size("a/b.json") is None
    location.replace("a/b.json", b"1")
    location.replace("a/b.json", b"[1]")
    assert location.read("a/b.json") == b"[1]"
    assert location.load("a/b.json", list[int]) == [1]
    assert location.names("a") == ["b.json"]
    assert location.names("missing") == []
    location.move("a/b.json", "c/d/e.json")
    assert location.all_files("") == location.all_files("c") == ["c/d/e.json"]
    location.remove_folder("c")
    location.remove_folder("c")
    location.remove("c/d/e.json")
    assert location.all_files("") == []


def test_a_file_is_created_once(location: Location) -> None:
    assert location.create("runs/1.json", b"mine")
    assert not location.create("runs/1.json", b"other")
    assert location.read("runs/1.json") == b"mine"
    assert location.names("runs") == ["1.json"]


def test_of_two_that_create_at_once_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(str(tmp_path))
    assert location.create("1.json", b"mine")
    monkeypatch.setattr(location, "size", lambda _name: None)  # as if it had looked just before
    assert not location.create("1.json", b"other")
    assert (tmp_path / "1.json").read_bytes() == b"mine"
    assert [file.name for file in tmp_path.iterdir()] == ["1.json"]


def test_what_is_not_json_is_damage(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1,")
    with pytest.raises(LocationDamaged, match=r"a\.json"):
        Location(str(tmp_path)).load("a.json", list[int])


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing://there"):
        Location("nothing://there/x")


def test_it_crosses_processes(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(Location(str(tmp_path))))
    assert again.place == str(tmp_path)
    assert local_path(again, "x") == str(tmp_path / "x")
