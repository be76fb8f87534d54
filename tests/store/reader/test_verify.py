import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.entry import ENTRY
from orbitmq.store.reader.index_reader import index_files
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import Verdict, verify
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.store.golden import manifest
from tests.store.logs import incoming
from tests.store.unpacked import NAMES, flip, overwrite, records_of, unpacked


def verified(directory: str) -> Verdict:
    return verify(StoreReader(directory))


def places(verdict: Verdict) -> list[tuple[str, int]]:
    return [(damage.where, damage.position) for damage in verdict.damages]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "crash-torn"])
def test_every_golden_store_is_sound(name: str, tmp_path: Path) -> None:
    verdict = verified(unpacked(name, tmp_path))
    dump = manifest(name)["dump"]
    assert verdict.damages == []
    assert not verdict.is_damaged
    assert verdict.messages == len(records_of(name))
    assert verdict.queue_entries == sum(map(len, dump["consumeQueues"].values()))
    assert verdict.index_entries == sum(one["indexCount"] - 1 for one in dump["indexFiles"])


def test_a_torn_record_is_missed_by_its_queue_and_its_keys(tmp_path: Path) -> None:
    verdict = verified(unpacked("crash-torn", tmp_path))
    assert places(verdict) == [
        ("commitlog", 996400),
        ("consumequeue/GoldenCrash/1", 183 * 20),
        ("index/20261115104213862", 2640),
    ]


def test_a_flipped_bit_of_a_body(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    broken = next(one for one in records_of("normal") if one["bodyLen"] > 100)
    flip(f"{directory}/commitlog/{0:020d}", broken["physicalOffset"] + 88)
    verdict = verified(directory)
    assert places(verdict) == [("commitlog", broken["physicalOffset"])]
    assert verdict.is_damaged


def test_an_entry_of_another_message(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    queue = f"{directory}/consumequeue/GoldenA/1/{0:020d}"
    data = Path(queue).read_bytes()
    overwrite(queue, 40, data[20:40])
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == ("consumequeue/GoldenA/1", 40)
    assert damage.reason == "offset 2 points to message 1 of GoldenA/1"


def test_an_entry_with_other_tags(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    flip(f"{directory}/consumequeue/GoldenA/1/{0:020d}", 59)
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == ("consumequeue/GoldenA/1", 40)
    assert "tags code" in damage.reason


def test_an_entry_of_the_wrong_size(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    flip(f"{directory}/consumequeue/GoldenA/1/{0:020d}", 51)
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == ("consumequeue/GoldenA/1", 40)


def test_a_zeroed_entry(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    overwrite(f"{directory}/consumequeue/GoldenA/1/{0:020d}", 40, bytes(ENTRY.size))
    assert places(verified(directory)) == [("consumequeue/GoldenA/1", 40)]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (0, "the log has messages from 0 on, but the queue begins at 20"),
        (400, "the log has messages up to 24, but the queue ends at 19"),
    ],
)
def test_a_missing_queue_file(file: int, reason: str, tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    (Path(directory) / "consumequeue" / "GoldenB" / "2" / f"{file:020d}").unlink()
    [damage] = verified(directory).damages
    assert (damage.where, damage.reason) == ("consumequeue/GoldenB/2", reason)


def test_a_missing_file_in_the_middle_of_a_queue(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "consumequeue" / "GoldenCrash" / "2" / f"{800:020d}").unlink()
    assert verified(directory).damages == [
        Damage(800, "no file holds offsets 40 to 59", 400, where="consumequeue/GoldenCrash/2")
    ]


def test_missing_queues(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    shutil.rmtree(f"{directory}/consumequeue")
    damages = verified(directory).damages
    assert len(damages) == 8
    reason = "the log has messages 0 to 24, but the queue has no files"
    assert damages[0].reason.startswith(reason)


def test_queues_of_a_deleted_topic_are_not_missed(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    shutil.rmtree(f"{directory}/consumequeue/GoldenB")
    topics = Path(directory) / "config" / "topics.json"
    topics.parent.mkdir(exist_ok=True)
    topics.write_text('{"topicConfigTable": {"GoldenA": {}, "GoldenB": {}}}')
    assert all(
        where.startswith("consumequeue/GoldenB/") for where, _ in places(verified(directory))
    )
    assert verified(directory).is_damaged
    topics.write_text('{"topicConfigTable": {"GoldenA": {}}}')
    assert verified(directory).damages == []


def test_a_list_of_topics_that_can_not_be_read_is_damage(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    topics = Path(directory) / "config" / "topics.json"
    topics.parent.mkdir(exist_ok=True)
    topics.write_text('{"topicConfigTable": ')
    [damage] = verified(directory).damages
    assert damage.where == "config/topics.json"
    assert "can't be read" in damage.reason


def test_a_missing_segment_is_missed_by_queues_and_index_too(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "commitlog" / f"{262144:020d}").unlink()
    verdict = verified(directory)
    assert places(verdict)[0] == ("commitlog", 262144)
    # Each of its records too, one of them with keys in two index files.
    assert verdict.damage_count == 1 + 193 + 194
    assert verdict.messages == 735 - 193


def test_a_broken_index_file(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    flip(f"{directory}/index/20261115105049366", 38)
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == ("index/20261115105049366", 0)


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (0, "whose record has no such key"),  # in the hash
        (8, "where no record can be read"),  # in the offset
    ],
)
def test_an_index_entry_of_another_record(at: int, reason: str, tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    name = "20261115105049366"
    [file] = [one for one in index_files(RealDisk(), directory) if one.where.endswith(name)]
    flip(f"{directory}/index/{name}", file.position_of(5) + at)
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == (f"index/{name}", file.position_of(5))
    assert damage.reason.startswith("entry 5 points to byte ")
    assert damage.reason.endswith(reason)


def test_what_cannot_be_checked_is_named(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    assert verified(directory).not_checked == ()
    (Path(directory) / "consumequeue_ext").mkdir()
    assert verified(directory).not_checked == ("consumequeue_ext",)


def test_keys_whose_records_are_gone_with_their_file_are_no_damage(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "commitlog" / f"{0:020d}").unlink()
    assert verified(directory).damages == []


def test_progress_never_goes_back_and_ends_at_all(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    verify(StoreReader(unpacked("crash", tmp_path)), lambda *step: told.append(step))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == 5 * 262144 + 40 * 400 + 2205 * 20


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_missing_index_file_is_found_by_the_one_after_it(missing: int, tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    files = manifest("crash")["dump"]["indexFiles"]
    (Path(directory) / "index" / files[missing]["file"]).unlink()
    last = files[missing - 1]["endPhyOffset"] if missing else -1
    lost = next(one for one in records_of("crash") if one["physicalOffset"] > last)
    behind = files[missing + 1]
    [damage] = verified(directory).damages
    assert (damage.where, damage.position) == (f"index/{behind['file']}", 0)
    assert damage.reason == (
        f"it begins at byte {behind['beginPhyOffset']} of the log, but no file before it has the "
        f"keys of the record at byte {lost['physicalOffset']}"
    )


def test_a_missing_last_index_file_is_left_to_the_next_start(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "index" / manifest("crash")["dump"]["indexFiles"][-1]["file"]).unlink()
    assert verified(directory).damages == []


def test_an_index_without_the_files_that_went_with_the_log_is_whole(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "commitlog" / f"{0:020d}").unlink()
    files = manifest("crash")["dump"]["indexFiles"]
    gone = [one["file"] for one in files if one["endPhyOffset"] < 262144]
    for name in gone:
        (Path(directory) / "index" / name).unlink()
    assert gone
    assert verified(directory).damages == []
    (Path(directory) / "index" / files[len(gone)]["file"]).unlink()
    [damage] = verified(directory).damages
    assert damage.reason.endswith("the record at byte 262144")


def test_a_broken_index_file_hides_what_is_missing_before_the_next(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    files = [one["file"] for one in manifest("crash")["dump"]["indexFiles"]]
    flip(f"{directory}/index/{files[1]}", 38)
    (Path(directory) / "index" / files[2]).unlink()
    (Path(directory) / "index" / files[5]).unlink()
    assert places(verified(directory)) == [(f"index/{files[1]}", 0), (f"index/{files[6]}", 0)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """Return a store in use; what it appends is in the log, and not in queues or index yet."""
    settings = StoreSettings(segment_bytes=1 << 20)
    opened = MessageStore(str(tmp_path), settings, workers=InlineWorkers())
    opened.open()
    yield opened
    opened.close()


def test_a_broker_that_writes_meanwhile_files_its_messages_later(store: MessageStore) -> None:
    store.append([incoming(properties=b"KEYS\x01k\x02") for _ in range(3)])
    reader = StoreReader(store.directory)
    assert verify(reader).is_damaged  # as after a crash: nobody writes

    more = [incoming()]

    def write(_done: int, _total: int) -> None:
        if more:
            store.append([more.pop()])

    verdict = verify(reader, write)
    assert not verdict.is_damaged
    assert [(one.where, one.harmless) for one in verdict.damages] == [
        ("consumequeue/orders/0", True)
    ]


class Growing(StoreReader):
    """A store whose log has another byte each time."""

    @property
    def written_end(self) -> int:
        self.grown = getattr(self, "grown", 0) + 1
        return super().written_end + self.grown


def test_the_index_file_that_grows_meanwhile_is_no_damage(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    newest = manifest("crash")["dump"]["indexFiles"][-1]["file"]
    flip(f"{directory}/index/{newest}", 38)  # its header counts other entries than there are
    assert places(verified(directory)) == [(f"index/{newest}", 0)]
    verdict = verify(Growing(directory))
    assert (verdict.is_damaged, places(verdict)) == (False, [(f"index/{newest}", 0)])


def test_a_topic_that_was_made_again_has_only_its_new_messages(store: MessageStore) -> None:
    store.append([incoming(queue_id=one) for one in (0, 0, 0, 1)])
    store.delete_topic("orders")
    store.append([incoming()])
    store.close()
    verdict = verified(store.directory)
    assert (verdict.messages, verdict.queue_entries, verdict.damages) == (5, 1, [])


def test_the_index_file_of_an_idle_broker_has_its_slots_later(store: MessageStore) -> None:
    store.append([incoming(properties=b"KEYS\x01k%d\x02" % number) for number in range(3)])
    store.dispatch_confirmed()
    store.queues.write()
    store.index.sync_mark(store.log.end)
    verdict = verified(store.directory)
    assert (verdict.index_entries, verdict.damages) == (3, [])
    found = StoreReader(store.directory).find_key("orders", "k1")
    assert [view.queue_offset for view in found] == [1]

    [file] = index_files(RealDisk(), store.directory)
    flip(f"{store.directory}/{file.where}", file.position_of(2))
    [damage] = verified(store.directory).damages
    assert (damage.position, damage.where) == (file.position_of(2), file.where)


def test_only_the_newest_index_file_of_a_store_in_use_may_lack_slots(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    newest, older, *_ = index_files(RealDisk(), directory)
    assert newest.slots is not None
    overwrite(f"{directory}/{newest.where}", 40, bytes(4 * newest.slots))
    assert places(verified(directory)) == [(newest.where, 0)]  # it was stopped
    (Path(directory) / "abort").touch()
    assert verified(directory).damages == []
    overwrite(f"{directory}/{older.where}", 40, bytes(4 * newest.slots))
    assert places(verified(directory)) == [(older.where, 0)]
