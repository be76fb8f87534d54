"""Stores that the Java broker left, after a stop and after a kill, opened by ours."""

from pathlib import Path
from typing import Any

import pytest

from orbitmq.message.tags import TagFilter
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.serving.pull_reader import GetMessageStatus, PullReader
from tests.store.golden import GoldenStore, contents, opened, unpack
from tests.store.logs import incoming, records_of

STOPPED = ("normal", "delay", "trans", "batch", "timer", "retry", "edge", "cqext")
KILLED = ("crash", "crash-torn")
PULL_STATUS = {
    "FOUND": GetMessageStatus.FOUND,
    "NO_NEW_MSG": GetMessageStatus.OFFSET_OVERFLOW_ONE,
    "NO_MATCHED_MSG": GetMessageStatus.NO_MATCHED_MESSAGE,
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_store_opens_with_every_record_and_changes_no_queue(
    name: str, tmp_path: Path
) -> None:
    golden = unpack(name, tmp_path)
    before = contents(tmp_path / "consumequeue")
    store = opened(golden)
    assert store.damages == []
    records = [one for one in golden.manifest["dump"]["records"] if "topic" in one]
    assert records
    for one in records:
        view = store.record(one["physicalOffset"])
        assert view is not None
        assert (view.queue_id, view.queue_offset) == (one["queueId"], one["queueOffset"])
    last = records[-1]
    assert store.log.end == last["physicalOffset"] + last["size"]
    store.close()
    assert contents(tmp_path / "consumequeue") == before


@pytest.mark.parametrize("name", STOPPED)
def test_queues_that_were_removed_come_back_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden = unpack(name, tmp_path / "store")
    (golden.root / "consumequeue").rename(tmp_path / "before")
    store = opened(golden)
    store.close()
    if name != "cqext":  # its entries point into extension files, which only Java writes
        assert contents(golden.root / "consumequeue") == contents(tmp_path / "before")


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_store_recovers_to_what_java_recovered_to(name: str, tmp_path: Path) -> None:
    golden = unpack(name, tmp_path)
    told: dict[str, Any] = golden.manifest["javaRestart"]
    for _ in range(2):  # the second time it was we who were killed
        store = opened(golden)
        assert store.log.end == told["maxPhyOffset"]
        for topic, queues in told["topicOffsets"].items():
            for queue_id, offsets in queues.items():
                queue = store.queues.queue(topic, int(queue_id))
                assert queue is not None
                assert (queue.min_offset, queue.max_offset) == (offsets["min"], offsets["max"])
        assert store._lock is not None
        store._lock.release()


def test_a_killed_store_keeps_all_that_was_acknowledged_and_goes_on(tmp_path: Path) -> None:
    golden = unpack("crash", tmp_path)
    store = opened(golden)
    for sent in golden.manifest["sends"]:
        offset = int(sent["offsetMsgId"][16:], 16)
        view = store.record(offset)
        assert view is not None
        assert view.queue_offset == sent["queueOffset"]
    (result,) = store.append([incoming(topic="GoldenCrash", queue_id=3)])
    assert result.queue_offset == 183
    store.close()


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    return unpack("normal", tmp_path_factory.mktemp("normal"))


def test_pulls_get_what_they_got_from_java(normal: GoldenStore) -> None:
    store = opened(normal)
    pull_reader = PullReader(store.log, store.settings, memory_bytes=2**34)
    for pull in normal.manifest["pulls"]:
        if "error" in pull:
            continue
        queue = store.queues.queue(pull["topic"], pull["queueId"])
        filtered = TagFilter.parse(pull["sub"])
        result = pull_reader.get_messages(
            queue,
            pull["offset"],
            max_count=pull["maxNums"],
            wants=None if filtered.selects_all else filtered.matches_code,
        )
        assert result.next_offset == pull["nextBegin"], pull
        assert (result.min_offset, result.max_offset) == (pull["min"], pull["max"])
        if pull["status"] in PULL_STATUS:
            assert result.status is PULL_STATUS[pull["status"]], pull
        found = [store.record(view_offset(view)) for view in records_of(result)]
        matching = [
            view.queue_offset for view in found if view and filtered.matches(view.message().tags)
        ]
        assert matching == pull["queueOffsets"], pull
    store.close()


def offsets_by_tag(store: MessageStore, queue_id: int, tag: str) -> list[int]:
    """Return the queue offsets that pulls by a tag bring, from the first message to the last."""
    found: list[int] = []
    offset = 0
    while True:
        pull = store.lookup.get_messages(
            "GoldenExt", queue_id, offset, max_count=32, wants=TagFilter.parse(tag).matches_code
        )
        if pull.status is GetMessageStatus.OFFSET_OVERFLOW_ONE:
            return found
        found += [int.from_bytes(view[20:28], "big") for view in records_of(pull)]
        assert pull.next_offset > offset
        offset = pull.next_offset


@pytest.mark.parametrize("tag", ["TagA", "TagB", "TagC"])
def test_pulls_by_tag_find_messages_whose_tags_codes_java_keeps_elsewhere(
    tag: str, tmp_path: Path
) -> None:
    golden = unpack("cqext", tmp_path)
    store = opened(golden)
    records = [one for one in golden.manifest["dump"]["records"] if "topic" in one]
    for queue_id in (0, 1):
        tagged = [
            one["queueOffset"]
            for one in records
            if one["queueId"] == queue_id and one["properties"].get("TAGS") == tag
        ]
        assert offsets_by_tag(store, queue_id, tag) == tagged
        assert bool(tagged) is (tag != "TagC")
    store.close()


@pytest.mark.parametrize("damage", ["removed", "cut", "zeros"])
def test_where_an_extension_is_gone_a_pull_by_tag_gets_every_message(
    damage: str, tmp_path: Path
) -> None:
    golden = unpack("cqext", tmp_path)
    for path in (golden.root / "consumequeue_ext").rglob("0*"):
        if path.is_file():
            size = path.stat().st_size
            path.write_bytes(bytes(size if damage == "zeros" else 10))
            if damage == "removed":
                path.unlink()
    store = opened(golden)
    most = store.lookup.max_offset("GoldenExt", 0)
    assert offsets_by_tag(store, 0, "TagC") == list(range(most))
    # What we store in such a queue has its tags code in the entry.
    store.append([incoming(topic="GoldenExt", properties=b"TAGS\x01paid\x02")])
    assert offsets_by_tag(store, 0, "TagC") == list(range(most))
    assert offsets_by_tag(store, 0, "paid") == list(range(most + 1))
    store.close()


def view_offset(view: memoryview) -> int:
    return int.from_bytes(view[28:36], "big")


def test_moments_stand_for_the_offsets_that_java_gave(normal: GoldenStore) -> None:
    store = opened(normal)
    for asked in normal.manifest["searchOffsetByTimestamp"]:
        found = store.lookup.offset_by_time(
            asked["topic"], asked["queueId"], asked["timestamp"], Boundary.LOWER
        )
        assert found == asked["offset"], asked
    store.close()
