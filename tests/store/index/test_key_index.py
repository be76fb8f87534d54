"""The key index: against a plain model, and against what Java made of the same logs."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, InvalidInput, StoreDamaged
from orbitmq.message import flags
from orbitmq.message.model import StoredMessage
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.index.key_index import KeyIndex, KeyKind
from orbitmq.store.layout import INDEX_ENTRY, INDEX_HEADER, key_hash
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import keyed
from tests.store.golden import REDERIVED, GoldenStore, contents, manifest, unpack

pytestmark = pytest.mark.usefixtures("implementation")

FOREVER_MS = (1 << 63) - 1
MAX_COUNT = 64


def names() -> Callable[[], str]:
    numbers = itertools.count(20_240_229_120_000_000)
    return lambda: f"{next(numbers):017d}"


def index_in(
    directory: Path, *, slots: int = 10, entries: int = 8, tag_keys: bool = True
) -> KeyIndex:
    return KeyIndex(
        RealDisk(),
        str(directory / "index"),
        slots=slots,
        entries=entries,
        file_name=names(),
        tag_keys=tag_keys,
    )


def find(index: KeyIndex, key: str, topic: str = "orders") -> list[int]:
    return index.query(topic, key, MAX_COUNT, 0, FOREVER_MS)


def header(path: Path) -> tuple[int, ...]:
    return INDEX_HEADER.unpack_from(path.read_bytes())


# Golden stores.


@pytest.fixture(scope="module", params=REDERIVED)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


def index_like(store: GoldenStore, directory: Path) -> KeyIndex:
    return index_in(directory, slots=store.index_slots, entries=store.index_entries)


def fill(index: KeyIndex, store: GoldenStore) -> None:
    for entry in store.dispatched():
        index.put(entry)
    index.write()


def test_files_made_from_a_log_are_those_of_java(golden: GoldenStore, tmp_path: Path) -> None:
    fill(index_like(golden, tmp_path), golden)
    # File names are the times they were made at.
    ours, java = contents(tmp_path / "index"), contents(golden.root / "index")
    assert len(ours) == len(golden.manifest["dump"]["indexFiles"])
    assert list(ours.values()) == list(java.values())


QUERIED = [name for name in REDERIVED if "queriesByKey" in manifest(name)]


@pytest.mark.parametrize("name", QUERIED)
def test_queries_of_java(name: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    index = index_like(store, tmp_path)
    index.load(clean_stop=True, checkpoint_ms=0)
    records = {view.commit_log_offset: view.message() for view in store.records()}
    for query in store.manifest["queriesByKey"]:
        offsets = index.query(query["topic"], query["key"], query["maxNum"], 0, FOREVER_MS)
        found = {offset for offset in offsets if is_meant(records[offset], query)}
        seen = {offset for offset in found if was_there(records[offset], store.manifest)}
        assert seen == {java["commitLogOffset"] for java in query["found"]}, query["key"]


def is_meant(record: StoredMessage, query: dict[str, Any]) -> bool:
    """Look at the keys, as the client does: others may have the same hash."""
    unique = query.get("indexType") == "UNIQ_KEY"
    keys = record.properties.get("UNIQ_KEY" if unique else "KEYS", "")
    return record.topic == query["topic"] and query["key"] in keys.split(" ")


def was_there(record: StoredMessage, manifest: dict[str, Any]) -> bool:
    """Find out when Java was asked by the offsets it returned; delayed messages came later."""
    offsets = manifest["topicOffsets"].get(record.topic, {})
    return bool(record.queue_offset < offsets[str(record.queue_id)]["max"])


# What is indexed.


def test_keys_of_every_kind_are_found(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=100)
    index.put(keyed(640, "a  b", unique_key="7F00", tags="TagA"))
    assert [find(index, key) for key in ("7F00", "a", "b", "", "TagA")] == [
        [640],
        [640],
        [640],
        [],
        [],
    ]
    tags = index.query("orders", "TagA", MAX_COUNT, 0, FOREVER_MS, kind=KeyKind.TAGS)
    assert tags == [640]
    assert find(index, "a", topic="other") == []


def test_tags_need_not_be_indexed(tmp_path: Path) -> None:
    index = index_in(tmp_path, tag_keys=False)
    index.put(keyed(640, "a", tags="TagA"))
    assert index.query("orders", "TagA", MAX_COUNT, 0, FOREVER_MS, kind=KeyKind.TAGS) == []


def test_long_tags_are_indexed_too(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.put(keyed(640, "", tags="T" * 1000))
    tags = index.query("orders", "T" * 1000, MAX_COUNT, 0, FOREVER_MS, kind=KeyKind.TAGS)
    assert tags == [640]


def test_a_record_that_was_rolled_back_has_no_keys(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.put(keyed(640, "a", sys_flag=flags.TRANSACTION_ROLLBACK))
    index.put(keyed(740, "a", sys_flag=flags.TRANSACTION_PREPARED))
    assert find(index, "a") == [740]


def test_a_replay_indexes_the_last_record_once_more(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    for offset in (100, 200, 100, 200):
        index.put(keyed(offset, "a"))
    assert find(index, "a") == [200, 200, 100]
    assert index.end_offset == 200


# Queries.


def test_the_newest_come_first_and_no_more_than_asked(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    for offset in range(100, 2100, 100):
        index.put(keyed(offset, "a b"))
    assert find(index, "a") == list(range(2000, 0, -100))
    assert index.query("orders", "b", 3, 0, FOREVER_MS) == [2000, 1900, 1800]
    assert index.query("orders", "b", 0, 0, FOREVER_MS) == []


def test_a_span_of_time_selects_to_the_second(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=100)
    for number in range(9):
        index.put(keyed(number * 100, "a", store_timestamp_ms=10_500 + number * 1000))

    def between(begin_ms: int, end_ms: int) -> list[int]:
        return index.query("orders", "a", MAX_COUNT, begin_ms, end_ms)

    assert between(12_500, 14_500) == [400, 300, 200]
    assert between(12_501, 14_499) == [300]
    assert between(0, 10_499) == []
    assert between(18_501, FOREVER_MS) == []


def test_colliding_keys_are_left_to_the_caller(tmp_path: Path) -> None:
    assert key_hash("orders#Aa") == key_hash("orders#BB")
    index = index_in(tmp_path)
    index.put(keyed(100, "Aa"))
    assert find(index, "BB") == [100]


# Files.


def test_a_record_may_begin_in_one_file_and_end_in_the_next(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=4)
    index.put(keyed(100, "a b", store_timestamp_ms=10_000))
    index.put(keyed(200, "c d", store_timestamp_ms=17_000))
    index.write()
    first, second = sorted((tmp_path / "index").iterdir())
    assert header(first)[:4] == (10_000, 17_000, 100, 200)
    # Its range is its own record's; the entry's time still counts from the end of the file before.
    assert header(second)[:4] == (17_000, 17_000, 200, 200)
    assert [find(index, key) for key in "abcd"] == [[100], [100], [200], [200]]


def test_the_first_entry_of_a_file_counts_its_time_from_the_file_before(tmp_path: Path) -> None:
    index = index_in(tmp_path, slots=1, entries=3)
    index.put(keyed(100, "a b", store_timestamp_ms=10_000))
    index.put(keyed(200, "c d", store_timestamp_ms=17_000))
    index.write()
    second = sorted((tmp_path / "index").iterdir())[1].read_bytes()
    entries_at = INDEX_HEADER.size + 4
    seconds = [INDEX_ENTRY.unpack_from(second, entries_at + 20 * number)[2] for number in (1, 2)]
    assert seconds == [7, 0]


def test_a_file_from_before_the_span_ends_the_search(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=2)
    index.put(keyed(100, "a", store_timestamp_ms=90_000))
    index.put(keyed(200, "a", store_timestamp_ms=10_000))  # the clock went back
    assert index.query("orders", "a", MAX_COUNT, 50_000, FOREVER_MS) == []
    assert index.query("orders", "a", MAX_COUNT, 10_000, FOREVER_MS) == [200, 100]


@pytest.mark.parametrize("given_name", ["20240229120000000", "20240229115959999"])
def test_a_new_file_name_is_always_after_the_last_whatever_the_clock_says(
    tmp_path: Path, given_name: str
) -> None:
    clock = iter(["20240229120000000", given_name])
    index = KeyIndex(RealDisk(), str(tmp_path), slots=10, entries=2, file_name=lambda: next(clock))
    index.put(keyed(100, "a b"))
    assert sorted(contents(tmp_path)) == ["20240229120000000", "20240229120000001"]


def test_a_new_start_goes_on_in_the_same_file(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    for offset in range(100, 600, 100):
        index.put(keyed(offset, "a"))
        index.write()
        index = index_in(tmp_path)
        assert index.load(clean_stop=True, checkpoint_ms=0) == []
    assert find(index, "a") == [500, 400, 300, 200, 100]
    assert len(contents(tmp_path)) == 1


def test_what_is_no_index_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index" / "20240229120000000").mkdir(parents=True)
    (tmp_path / "index" / "notes.txt").write_text("mine")
    index = index_in(tmp_path)
    assert index.load(clean_stop=True, checkpoint_ms=0) == []
    assert (index.last_timestamp_ms, index.filled_timestamp_ms, index.end_offset) == (0, 0, 0)
    assert find(index, "a") == []


def filled(tmp_path: Path) -> KeyIndex:
    """Two full files, records 100 and 200, and one that is not."""
    index = index_in(tmp_path, entries=3)
    for number in (1, 2, 3):
        index.put(keyed(number * 100, "a b"[: 3 if number < 3 else 1], store_timestamp_ms=number))
    index.write()
    return index


def test_after_a_crash_only_full_and_checked_files_are_trusted(tmp_path: Path) -> None:
    assert filled(tmp_path).filled_timestamp_ms == 2
    index = index_in(tmp_path, entries=3)
    removed = index.load(clean_stop=False, checkpoint_ms=1)
    assert len(removed) == 2
    assert list(contents(tmp_path)) == ["index/20240229120000000"]
    assert find(index, "a") == [100]


def test_after_a_crash_a_file_that_was_not_full_goes_even_if_it_is_old(tmp_path: Path) -> None:
    filled(tmp_path)
    index = index_in(tmp_path, entries=3)
    assert len(index.load(clean_stop=False, checkpoint_ms=FOREVER_MS)) == 1
    assert find(index, "a") == [200, 100]


@pytest.mark.parametrize(("length", "clean_stop"), [(0, True), (0, False), (39, False)])
def test_a_file_that_was_just_being_made_is_removed(
    tmp_path: Path, length: int, clean_stop: bool
) -> None:
    torn = tmp_path / "index" / "20240229120000000"
    torn.parent.mkdir()
    torn.write_bytes(bytes(length))
    index = index_in(tmp_path)
    assert index.load(clean_stop=clean_stop, checkpoint_ms=0) == [str(torn)]
    index.put(keyed(100, "a"))
    assert find(index, "a") == [100]


def test_a_file_of_other_sizes_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(
        StoreDamaged, match="has 140 bytes, but an index file of 10 slots"
    ) as caught:
        index_in(tmp_path, entries=4).load(clean_stop=True, checkpoint_ms=0)
    assert caught.value.path.endswith("20240229120000000")


@pytest.mark.parametrize(("slots", "entries", "field"), [(0, 2, "slots"), (1, 1, "entries")])
def test_sizes_that_hold_nothing_are_refused(
    tmp_path: Path, slots: int, entries: int, field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        index_in(tmp_path, slots=slots, entries=entries)
    assert caught.value.field == field


def test_files_of_records_that_are_gone_are_removed_but_the_last(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.clean(100) == []
    assert len(index.clean(200)) == 1
    assert find(index, "a") == [300, 200]
    assert len(index.clean(10_000)) == 1
    assert find(index, "a") == [300]
    assert index.last_timestamp_ms == 3


@pytest.mark.parametrize("written", [False, True])
def test_another_process_is_noticed(tmp_path: Path, written: bool) -> None:
    index = index_in(tmp_path)
    assert index.is_untouched()
    for number in range(9):
        index.put(keyed(100 * number, keys=f"k{number}"))
    if written:
        index.write()
    assert index.is_untouched()
    last = max((tmp_path / "index").iterdir())
    before = last.read_bytes()
    last.write_bytes(b"\x01" + before[1:])
    assert not index.is_untouched()
    last.write_bytes(before)
    assert index.is_untouched()
    (tmp_path / "index" / "20991231235959999").touch()
    assert not index.is_untouched()


def test_all_files_are_removed_even_those_of_other_processes(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.remove_spoiled()
    index.put(keyed(100, keys="k"))
    for name in ("20991231235959999", "notes.txt"):
        (tmp_path / "index" / name).touch()
    index.remove_spoiled()
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["notes.txt"]
    assert find(index, "k") == []


def test_closed_files_open_again(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    assert find(index, "a") == [300, 200, 100]


def test_a_full_file_is_written_at_once(tmp_path: Path) -> None:
    """A checkpoint may speak for it from then on, and no further record need ever come."""
    index = index_in(tmp_path, entries=3)
    index.put(keyed(100, "a b"))
    (path,) = index.take_unsynced().files
    assert index.filled_end_offset == 100
    assert INDEX_HEADER.unpack_from(Path(path).read_bytes())[-1] == 3


def test_a_full_file_has_a_next_one_when_there_is_a_next_record(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=3)
    index.put(keyed(100, "a b"))
    index.put_waiting()  # as a stop does
    assert len(list((tmp_path / "index").iterdir())) == 1
    index.put(keyed(200, ""))
    assert len(list((tmp_path / "index").iterdir())) == 2


def test_what_was_written_is_synced_once(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.put(keyed(100, "a"))
    index.write()
    unsynced = index.take_unsynced()
    assert [Path(path).name for path in unsynced.files] == ["20240229120000000"]
    assert str(tmp_path / "index") in unsynced.directories
    assert not index.take_unsynced()
    index.sync()


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(2, 9))
def test_records_put_together_are_indexed_as_one_by_one(counts: list[int], entries: int) -> None:
    records = [
        keyed(100 * number, " ".join("abcd"[:count]), store_timestamp_ms=1000 * number)
        for number, count in enumerate(counts, 1)
    ]
    made = []
    for turns in ([records] if records else [], [[one] for one in records]):
        with TemporaryDirectory() as home:
            index = index_in(Path(home), slots=3, entries=entries)
            for turn in turns:
                index.put_all(turn)
            index.put(keyed(5000, "last"))
            index.sync()
            index.close()
            made.append([path.read_bytes() for path in sorted(Path(home, "index").iterdir())])
    assert made[0] == made[1]


# A plain model.

KEYS = st.lists(st.sampled_from(["a", "b", "Aa", "BB", "标签", "k" * 40]), max_size=4)
STEPS = st.lists(KEYS | st.sampled_from(["write", "start again"]), max_size=25)


@given(STEPS, st.integers(1, 7), st.integers(2, 9))
def test_every_key_is_found_whatever_the_files(
    steps: list[list[str] | str], slots: int, entries: int
) -> None:
    with TemporaryDirectory() as home:
        index = index_in(Path(home), slots=slots, entries=entries)
        model: list[tuple[str, int]] = []
        offset = 0
        for step in steps:
            if step == "write":
                index.write()
            elif step == "start again":
                index.write()
                index = index_in(Path(home), slots=slots, entries=entries)
                index.load(clean_stop=True, checkpoint_ms=0)
            else:
                offset += 100
                index.put(keyed(offset, " ".join(step)))
                model += [(key, offset) for key in step]
            for key in ("a", "Aa", "标签", "k" * 40, "never"):
                wanted = key_hash(f"orders#{key}")
                expected = [at for name, at in model if key_hash(f"orders#{name}") == wanted]
                assert find(index, key) == expected[::-1]


def test_files_that_end_at_the_time_of_the_checkpoint_are_trusted_up_to_the_first(
    tmp_path: Path,
) -> None:
    """While the clock does not advance, the checkpoint may vouch for only the first of them."""
    index = index_in(tmp_path, entries=3)
    for number, ms in enumerate((1, 1, 2, 2, 2, 2, 3)):
        index.put(keyed(100 * number, f"key-{number}", store_timestamp_ms=ms))
    index.sync()
    again = index_in(tmp_path, entries=3)
    assert len(again.load(clean_stop=False, checkpoint_ms=2)) == 2
    assert [bool(find(again, f"key-{number}")) for number in range(7)] == [True] * 4 + [False] * 3


def test_what_was_reached_is_known_to_the_next_start(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.reach(5)  # nothing is indexed, and there is no file to say so
    index.put(keyed(100, "a"))
    index.reach(640)
    index.reach(500)
    index.sync()
    again = index_in(tmp_path)
    again.load(clean_stop=True, checkpoint_ms=0)
    assert again.end_offset == 640
    again.put(keyed(639, "before"))
    again.put(keyed(641, "behind"))
    assert (find(again, "a"), find(again, "before"), find(again, "behind")) == ([100], [], [641])


def test_the_last_record_of_full_files_is_known(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=3)
    assert index.filled_end_offset == -1
    for number in range(3):
        index.put(keyed(100 * number, f"key-{number}"))
    assert index.filled_end_offset == 100


def test_of_the_file_that_grew_a_crash_leaves_what_the_mark_speaks_for(tmp_path: Path) -> None:
    index = index_in(tmp_path, slots=4, entries=30)
    for number in range(8):
        index.put(keyed(100 * number, f"key-{number} all"))
    mark = index.write_mark(800)
    for number in range(8, 12):
        index.put(keyed(100 * number, f"key-{number} all"))
    index.write_mark(1_200)
    expected = find(index, "all")
    again = index_in(tmp_path, slots=4, entries=30)
    assert again.load(clean_stop=False, checkpoint_ms=0, mark=mark) == []
    assert again.end_offset == 799
    assert find(again, "all") == [100 * number for number in range(7, -1, -1)]
    for number in range(8, 12):
        again.put(keyed(100 * number, f"key-{number} all"))
    assert find(again, "all") == expected
    again.sync()
    loaded = index_in(tmp_path, slots=4, entries=30)
    loaded.load(clean_stop=True, checkpoint_ms=0)
    assert find(loaded, "all") == expected


def test_a_mark_that_is_not_that_of_the_file_keeps_nothing(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    assert index.write_mark(0) is None
    index.put(keyed(100, "a"))
    mark = index.write_mark(200)
    assert mark is not None
    for wrong in (mark._replace(name=1), mark._replace(number=7), mark._replace(offset=100)):
        again = index_in(tmp_path)
        removed = again.load(clean_stop=False, checkpoint_ms=0, mark=wrong)
        assert (len(removed), again.end_offset) == (1, 0)
        index = index_in(tmp_path)
        index.put(keyed(100, "a"))
        index.write_mark(200)


def test_there_is_no_mark_while_java_could_take_the_file_for_a_full_one(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=3)
    for number in range(3):
        index.put(keyed(100 * number, f"key-{number}", store_timestamp_ms=5_000))
    assert index.write_mark(300) is None
    index.put(keyed(300, "key-3", store_timestamp_ms=5_001))
    assert index.write_mark(400) is None  # that file is full by now
    index.put(keyed(400, "key-4", store_timestamp_ms=5_002))
    assert index.write_mark(500) is not None


def lost_at(place: int, asked: list[tuple[int, int]]) -> Callable[[int, int], int | None]:
    """Return a log in which one record with keys is in no file."""

    def find_keyed(after: int, before: int) -> int | None:
        asked.append((after, before))
        return place if after < place < before else None

    return find_keyed


@pytest.mark.parametrize(
    ("place", "kept", "asked"),
    [
        (50, 0, [(-1, 100)]),
        (150, 1, [(-1, 100), (100, 200)]),
        (250, 2, [(-1, 100), (100, 200), (200, 300)]),
        (350, 3, [(-1, 100), (100, 200), (200, 300)]),
    ],
)
def test_files_after_a_gap_are_removed_after_an_orderly_stop_too(
    place: int, kept: int, asked: list[tuple[int, int]], tmp_path: Path
) -> None:
    filled(tmp_path)
    before, told = list(contents(tmp_path)), list[tuple[int, int]]()
    index = index_in(tmp_path, entries=3)
    removed = index.load(clean_stop=True, checkpoint_ms=0, find_keyed=lost_at(place, told))
    assert list(contents(tmp_path)) == before[:kept]
    assert [f"{tmp_path}/{name}" for name in before[kept:]] == removed
    assert told == asked
    assert index.ends_full is (kept in {1, 2})


def test_files_after_a_gap_are_removed_after_a_crash(tmp_path: Path) -> None:
    mark = filled(tmp_path).write_mark(400)
    index = index_in(tmp_path, entries=3)
    find_keyed = lost_at(150, [])
    index.load(clean_stop=False, checkpoint_ms=2, mark=mark, find_keyed=find_keyed)
    assert (index.end_offset, len(contents(tmp_path))) == (100, 1)


def test_a_mark_is_returned_when_it_is_on_disk() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/store")
    disk.sync_directory("/")
    index = KeyIndex(disk, "/store/index", slots=10, entries=4, file_name=names())
    for number in range(4):
        index.put(keyed(100 * number, f"key-{number}", store_timestamp_ms=number))
    mark = index.sync_mark(400)
    assert index.filled == (2, 200)
    disk.crash()
    again = KeyIndex(disk, "/store/index", slots=10, entries=4, file_name=names())
    assert again.load(clean_stop=False, checkpoint_ms=2, mark=mark) == []
    assert [find(again, f"key-{number}") for number in range(4)] == [[0], [100], [200], [300]]


@given(
    offsets=st.lists(st.integers(1, 40), min_size=1, max_size=40, unique=True).map(sorted),
    end=st.integers(0, 45),
    later=st.integers(0, 5),
)
def test_an_index_that_was_cut_is_one_that_never_had_more(
    offsets: list[int], end: int, later: int
) -> None:
    def record(offset: int, mark: str = "a") -> list[Any]:
        keys = " ".join(f"{mark}{offset % number}" for number in (2, 3, 5))
        return [keyed(offset, keys, store_timestamp_ms=1_000 + 700 * offset)]

    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        index, other = index_in(Path(one), slots=3), index_in(Path(two), slots=3)
        for offset in offsets:
            index.put_all(record(offset))
            if offset < end:
                other.put_all(record(offset))
        index.truncate(end, lambda offset: 1_000 + 700 * offset)
        for number in range(later):
            for each in (index, other):
                each.put_all(record(end + number, "b"))
        wanted = {f"{mark}{number}" for mark in "ab" for number in range(5)}
        found = {key: find(index, key) for key in wanted}
        assert found == {key: find(other, key) for key in wanted}
        index.sync()
        loaded = index_in(Path(one), slots=3)
        loaded.load(clean_stop=True, checkpoint_ms=0)
        assert {key: find(loaded, key) for key in wanted} == found
        assert loaded.last_timestamp_ms == index.last_timestamp_ms


def test_what_is_full_before_a_cut_is_known(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries=3)
    assert index.filled_before(99) == (0, -1)
    for offset in (10, 20, 30, 40):
        index.put_all([keyed(offset, "a b", store_timestamp_ms=offset * 100)])
    assert index.filled_before(99) == index.filled == (4000, 40)
    assert index.filled_before(40) == (3000, 30)
    assert index.filled_before(10) == (0, -1)


def test_a_file_that_finds_no_space_leaves_nothing_behind() -> None:
    disk = SimulatedDisk()
    index = KeyIndex(disk, "/index", slots=10, entries=8, file_name=names())
    disk.fail("extend", "/index", errno.ENOSPC)
    with pytest.raises(DiskFailed):
        index.put(keyed(640, "a"))
    index.put_waiting()
    index.write()
    assert find(index, "a") == [640]
    assert len(disk.list("/index")) == 1
    assert index.is_untouched()
