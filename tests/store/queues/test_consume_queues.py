"""All queues of a store: against a plain model, and against what Java made of the same logs."""

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orbitmq.errors import DiskFailed, InvalidInput, InvalidTopic, StoreDamaged
from orbitmq.message import flags
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.entry import ENTRY_SIZE, QueueEntry
from orbitmq.store.queues.extension import QueueExtensions, is_address
from tests.store.entries import dispatched
from tests.store.golden import REDERIVED, GoldenStore, contents, unpack


def queues_in(directory: Path, per_file: int = 4, open_files_max: int = 512) -> ConsumeQueues:
    return ConsumeQueues(
        RealDisk(),
        str(directory / "consumequeue"),
        entries_per_file=per_file,
        open_files_max=open_files_max,
    )


def reopened(directory: Path, per_file: int = 4) -> ConsumeQueues:
    queues = queues_in(directory, per_file)
    queues.load()
    queues.recover()
    return queues


# Golden stores.


@pytest.fixture(scope="module", params=REDERIVED)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    return unpack("normal", tmp_path_factory.mktemp("normal"))


def opened(store: GoldenStore) -> ConsumeQueues:
    return reopened(store.root, store.queue_file_bytes // ENTRY_SIZE)


def fill(queues: ConsumeQueues, store: GoldenStore) -> None:
    for entry in store.dispatched():
        if entry.in_queue:
            queues.append_all([entry])
    queues.write()


def without_tags_codes(data: bytes) -> list[bytes]:
    return [data[at : at + 12] for at in range(0, len(data), ENTRY_SIZE)]


def test_queues_made_from_a_log_are_those_of_java(golden: GoldenStore, tmp_path: Path) -> None:
    fill(queues_in(tmp_path, golden.queue_file_bytes // ENTRY_SIZE), golden)
    ours, java = contents(tmp_path / "consumequeue"), contents(golden.root / "consumequeue")
    assert ours.keys() == java.keys()
    for path in ours:
        if golden.name == "cqext":  # there they are addresses; see the test of these
            assert without_tags_codes(ours[path]) == without_tags_codes(java[path])
        else:
            assert ours[path] == java[path], path


def test_appending_a_log_again_changes_nothing(golden: GoldenStore, tmp_path: Path) -> None:
    directory = tmp_path / "consumequeue"
    fill(queues_in(tmp_path, golden.queue_file_bytes // ENTRY_SIZE), golden)
    before = contents(directory)
    fill(reopened(tmp_path, golden.queue_file_bytes // ENTRY_SIZE), golden)
    assert contents(directory) == before


def test_queues_of_java_are_read_as_java_lists_them(golden: GoldenStore) -> None:
    before = contents(golden.root / "consumequeue")
    queues = opened(golden)
    listed = {
        f"{queue.topic}/{queue.queue_id}": [[at, *entry] for at, entry in queue.iterate(0)]
        for queue in queues
    }
    assert listed == golden.manifest["dump"]["consumeQueues"]
    assert contents(golden.root / "consumequeue") == before


# Java was asked before it stopped, and in these two the broker itself went on writing.
STILL_GROWING = ("delay", "trans")


def test_offsets_of_java(golden: GoldenStore) -> None:
    queues = opened(golden)
    times = {view.commit_log_offset: view.store_timestamp_ms for view in golden.records()}
    for topic, by_id in golden.manifest.get("topicOffsets", {}).items():
        for queue_id, java in by_id.items():
            queue = queues.queue(topic, int(queue_id))
            if queue is None:
                assert java["max"] == 0
                continue
            assert queue.min_offset == java["min"]
            last = queue.entry(java["max"] - 1)
            assert last is not None
            assert times[last.commit_log_offset] == java["lastUpdate"]
            if golden.name not in STILL_GROWING:
                assert queue.max_offset == java["max"]


def test_the_highest_record_end_is_where_the_last_queued_record_ends(golden: GoldenStore) -> None:
    queues = queues_in(golden.root, golden.queue_file_bytes // ENTRY_SIZE)
    queues.load()
    ends = [entry.commit_log_offset + entry.size for entry in golden.dispatched() if entry.in_queue]
    assert queues.recover() == max(ends)


def test_offsets_by_time_of_java(normal: GoldenStore) -> None:
    queues = opened(normal)
    times = {view.commit_log_offset: view.store_timestamp_ms for view in normal.records()}
    asked = normal.manifest["searchOffsetByTimestamp"]
    assert len(asked) == 9
    for java in asked:
        queue = queues.queue(java["topic"], java["queueId"])
        assert queue is not None
        found = queue.offset_by_time(
            java["timestamp"], Boundary.LOWER, lambda offset, _: times[offset]
        )
        assert found == java["offset"], java["timestamp"]


def test_tags_codes_of_extensions(tmp_path: Path) -> None:
    store = unpack("cqext", tmp_path)
    queues = opened(store)
    extensions = QueueExtensions(RealDisk(), str(store.root / "consumequeue_ext"))
    checked = 0
    for record in store.dispatched():
        queue = queues.queue(record.topic, record.queue_id)
        assert queue is not None
        entry = queue.entry(record.queue_offset)
        assert entry is not None
        assert is_address(entry.tags_code)
        code = extensions.tags_code_of(record.topic, record.queue_id, entry.tags_code)
        assert code == record.tags_code
        checked += 1
    assert checked == len(store.manifest["sends"])


def test_a_torn_log_costs_its_entries(tmp_path: Path) -> None:
    store = unpack("crash-torn", tmp_path)
    queues = opened(store)
    restart = store.manifest["javaRestart"]
    queues.truncate(restart["maxPhyOffset"])
    assert {str(queue.queue_id): queue.max_offset for queue in queues} == {
        queue_id: java["max"] for queue_id, java in restart["topicOffsets"]["GoldenCrash"].items()
    }


# Topics and directories.


def test_queues_are_found_again(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    for number, (topic, queue_id) in enumerate([("b", 10), ("b", 2), ("%RETRY%a", 0)]):
        queues.append_all([dispatched(0, number * 100, topic=topic, queue_id=queue_id)])
    queues.write()
    queues.close()
    for seen in (queues, reopened(tmp_path)):
        assert seen.topics() == ["%RETRY%a", "b"]
        assert [queue.queue_id for queue in seen.queues_of("b")] == [2, 10]
        assert seen.queues_of("c") == []
        assert seen.queue("b", 3) is None
        assert seen.queue("c", 0) is None


def test_what_is_no_queue_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "consumequeue"
    (root / "orders" / "backup").mkdir(parents=True)
    (root / "orders" / "07").mkdir()
    (root / "orders" / "1").touch()
    (root / "notes.txt").touch()
    queues = reopened(tmp_path)
    assert list(queues) == []
    assert (root / "notes.txt").exists()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../orders", "a\x00"])
def test_a_topic_that_leads_elsewhere_is_refused(tmp_path: Path, topic: str) -> None:
    queues = queues_in(tmp_path)
    with pytest.raises(InvalidTopic, match="can't have a directory") as caught:
        queues.append_all([dispatched(topic=topic)])
    assert caught.value.length == len(topic)
    assert list(queues) == []


def test_a_negative_queue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTopic, match="queue -1"):
        queues_in(tmp_path).append_all([dispatched(queue_id=-1)])


def test_those_that_wait_longest_are_written_first(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queues.append_all([dispatched(queue_id=queue_id) for queue_id in (2, 0, 1)])
    queues.append_all([dispatched(1, 100, queue_id=2)])
    assert queues.buffered == 4
    queues.write(2)
    assert (queues.buffered, sorted(path.name for path in tmp_path.glob("*/*/*"))) == (
        1,
        ["0", "2"],
    )
    queues.write()
    assert queues.buffered == 0


def test_records_without_a_queue_entry_are_passed_over(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    prepared = msgspec.structs.replace(dispatched(), sys_flag=flags.TRANSACTION_PREPARED)
    sent = dispatched(0, 100)
    assert queues.append_all([prepared, sent, sent]) == [sent]


def test_a_light_queue_with_a_gap_does_not_block_other_queues(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    light = [dispatched(offset, offset * 100, topic="%LMQ%a") for offset in (0, 2)]
    sent = dispatched(0, 300)
    assert queues.append_all([*light, sent]) == [light[0], sent]
    with pytest.raises(StoreDamaged, match="the entries between are missing"):
        queues.append_all([dispatched(2, 400)])


def test_files_need_an_entry(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="entries_per_file is 0"):
        queues_in(tmp_path, 0)


def test_a_deleted_topic_is_gone(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    for offset in range(6):
        queues.append_all([dispatched(offset, offset * 100)])
    queues.write()
    queues.append_all([dispatched(6, 600)])
    queues.delete_topic("orders")
    queues.write()
    assert queues.topics() == []
    assert contents(tmp_path) == {}
    assert not (tmp_path / "consumequeue" / "orders").exists()
    queues.delete_topic("never there")
    assert queues.append_all([dispatched(0, 700)])


def test_a_deleted_topic_leaves_what_others_put_there(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queues.append_all([dispatched()])
    queues.write()
    (tmp_path / "consumequeue" / "orders" / "notes.txt").touch()
    queues.delete_topic("orders")
    assert contents(tmp_path) == {"consumequeue/orders/notes.txt": b""}


# Writing.


def test_a_failed_write_is_done_again(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queues.append_all([dispatched(0, 0, topic="a")])
    queues.append_all([dispatched(0, 100, topic="b")])
    blocked = tmp_path / "consumequeue" / "b"
    blocked.parent.mkdir()
    blocked.touch()  # a file where the directory of the topic belongs
    with pytest.raises(DiskFailed):
        queues.write()
    queues.append_all([dispatched(1, 200, topic="b")])
    blocked.unlink()
    queues.write()
    again = reopened(tmp_path)
    assert [(queue.topic, queue.max_offset) for queue in again] == [("a", 1), ("b", 2)]


def test_few_files_are_open_for_many_queues(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, open_files_max=3)
    for offset in range(10):
        for queue_id in range(20):
            at = (offset * 20 + queue_id) * 100
            queues.append_all([dispatched(offset, at, queue_id=queue_id)])
        queues.write()
    assert all(queue.max_offset == 10 for queue in reopened(tmp_path))


def test_only_what_was_written_is_synced_and_once(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, 1000)
    queues.append_all([dispatched()])
    assert not queues.take_unsynced()
    queues.write()
    directory = str(tmp_path / "consumequeue")
    unsynced = queues.take_unsynced()
    assert unsynced.files == (f"{directory}/orders/0/{0:020d}",)
    assert set(unsynced.directories) >= {f"{directory}/orders/0", f"{directory}/orders", directory}
    unsynced.sync(RealDisk())
    assert not queues.take_unsynced()
    queues.sync()


def test_a_few_new_bytes_wait_for_a_thorough_sync(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, 1000)
    for offset in range(300):
        queues.append_all([dispatched(offset, offset * 100)])
    queues.write()
    assert queues.take_unsynced(least_pages=2).files == ()
    assert len(queues.take_unsynced(least_pages=1).files) == 1


# Start, and the end of old files.


def test_a_new_store_knows_no_record(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queues.load()
    assert queues.recover() == -1


def test_truncation_and_cleaning_reach_every_queue(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    for offset in range(10):
        for queue_id in range(2):
            at = (offset * 2 + queue_id) * 100
            queues.append_all([dispatched(offset, at, queue_id=queue_id)])
    queues.write()
    queues.truncate(1_700)
    assert [queue.max_offset for queue in queues] == [9, 8]
    removed = [path for queue in queues for path in queue.clean(1_000)]
    assert removed == [
        str(tmp_path / f"consumequeue/orders/{queue_id}/{0:020d}") for queue_id in range(2)
    ]
    assert [queue.min_offset for queue in queues] == [5, 5]
    queues.correct_min_offsets(1_100)
    assert [queue.min_offset for queue in queues] == [6, 5]


# A plain model.


class Against(RuleBasedStateMachine):
    """Queues are lists of entries; appends, writes, cuts and new starts must show it."""

    @initialize(per_file=st.integers(1, 5), first=st.integers(0, 12))
    def start(self, per_file: int, first: int) -> None:
        self.home = TemporaryDirectory()
        self.per_file = per_file
        self.queues = queues_in(Path(self.home.name), per_file, open_files_max=2)
        self.first = first
        self.model: dict[int, dict[int, QueueEntry]] = defaultdict(dict)
        self.next: dict[int, int] = {}
        self.log_end = 100
        self.log_start = 0
        self.boundaries = [100]  # where a record of the log ends, and the next begins

    @rule(queue_id=st.integers(0, 2), size=st.integers(1, 300), code=st.integers(-(2**63), 2**31))
    def append(self, queue_id: int, size: int, code: int) -> None:
        offset = self.next.get(queue_id, self.first)
        entry = dispatched(offset, self.log_end, queue_id=queue_id, size=size, tags_code=code)
        assert self.queues.append_all([entry])
        assert not self.queues.append_all([entry])
        self.model[queue_id][offset] = QueueEntry(self.log_end, size, code)
        self.next[queue_id] = offset + 1
        self.log_end += size
        self.boundaries.append(self.log_end)

    @rule(queue_id=st.integers(0, 2), hole=st.integers(1, 9))
    def append_behind_a_gap(self, queue_id: int, hole: int) -> None:
        if self.model[queue_id]:
            with pytest.raises(StoreDamaged, match="missing"):
                self.queues.append_all(
                    [dispatched(self.next[queue_id] + hole, self.log_end, queue_id=queue_id)]
                )

    @rule()
    def write(self) -> None:
        self.queues.write()

    @rule()
    def start_again(self) -> None:
        self.queues.write()
        self.queues.close()
        self.queues = reopened(Path(self.home.name), self.per_file)
        self.queues.correct_min_offsets(self.log_start)

    @rule(records=st.integers(0, 5))
    def truncate(self, records: int) -> None:
        kept = [end for end in self.boundaries if end >= self.log_start]
        self.boundaries = kept[: max(len(kept) - records, 1)]
        self.log_end = self.boundaries[-1]
        self.queues.truncate(self.log_end)
        for queue_id, entries in self.model.items():
            for offset in [at for at in entries if entries[at][0] >= self.log_end]:
                del entries[offset]
            queue = self.queues.queue("orders", queue_id)
            if queue is not None:
                self.next[queue_id] = queue.max_offset
                if entries:
                    assert queue.max_offset == max(entries) + 1

    @rule(records=st.integers(0, 5))
    def clean(self, records: int) -> None:
        kept = [end for end in self.boundaries if end >= self.log_start]
        self.log_start = kept[min(records, len(kept) - 1)]
        for queue in self.queues:
            queue.clean(self.log_start)
        for entries in self.model.values():
            for offset in [at for at in entries if entries[at][0] < self.log_start]:
                del entries[offset]

    @invariant()
    def shows_the_model(self) -> None:
        for queue_id, entries in self.model.items():
            queue = self.queues.queue("orders", queue_id)
            if queue is None:
                assert not entries
                continue
            assert dict(queue.iterate(0)) == entries
            assert queue.max_offset == self.next[queue_id]
            assert queue.min_offset == min(entries, default=queue.max_offset)

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.home.cleanup()


TestAgainstAModel = Against.TestCase
TestAgainstAModel.settings = settings(stateful_step_count=20)


def test_queues_without_an_entry_are_deleted_and_those_that_had_one_stay(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queues.append_all([dispatched(offset, 100 * offset) for offset in range(3)])
    later = [dispatched(offset, 1000 + offset, queue_id=2) for offset in range(6, 9)]
    queues.append_all(later)
    queues.append_all([dispatched(0, 2000, topic="bills")])
    queues.write()
    queues.truncate(50)
    queues.delete_unbegun()
    assert queues.ends() == {"orders": {0: 1, 2: 6}}
    assert not (tmp_path / "consumequeue" / "bills").exists()
    queues.truncate(0)
    queues.delete_unbegun()
    assert queues.ends() == {"orders": {2: 6}}
    assert reopened(tmp_path).ends() == {"orders": {2: 6}}
    assert queues.append_all(later) == later


def test_the_last_record_before_a_place_is_known_to_the_queues(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    assert queues.place_before(1000) == -1
    queues.append_all([dispatched(offset, 100 * offset) for offset in range(3, 9)])
    queues.append_all([dispatched(0, 550, queue_id=1)])
    assert [queues.place_before(end) for end in (300, 301, 551, 600, 601, 9999)] == [
        *(-1, 300, 550, 550, 600, 800)
    ]
    queues.write()
    assert queues.place_before(551) == 550
