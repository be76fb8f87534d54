"""The stores that Java made, read by every road; all that Java says of them must be found."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import StoreDamaged, StoreError
from orbitmq.message.ids import offset_id, parse_offset_id
from orbitmq.message.record_view import RecordView
from orbitmq.store.disk.disk import RealDisk, RealFile
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import Damage, QueueName, StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.store.golden import manifest
from tests.store.logs import incoming
from tests.store.unpacked import NAMES, SEGMENT, overwrite, records_of, unpacked

every_store = pytest.mark.parametrize("name", NAMES)


def unfaulty(damage: Damage) -> None:
    raise AssertionError(damage)


def offsets(views: Iterable[RecordView]) -> list[int]:
    return [view.commit_log_offset for view in views]


def java_offsets(name: str) -> list[int]:
    return [record["physicalOffset"] for record in records_of(name)]


def as_java_lists_it(view: RecordView) -> dict[str, Any]:
    message = view.message()
    listed = {
        "physicalOffset": view.commit_log_offset,
        "recordedPhysicalOffset": view.commit_log_offset,
        "size": view.size,
        "magic": f"{view.version.value:08x}",
        "bodyCrc": view.body_crc,
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "flag": message.flag,
        "sysFlag": view.sys_flag,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "storedBodyLen": len(view.body),
        "bodyLen": len(message.body),
        "offsetMsgId": offset_id(view.store_host, view.commit_log_offset),
        "properties": dict(message.properties),
    }
    if message.body:  # Java lists no hash of an empty one
        listed["bodySha256"] = hashlib.sha256(message.body).hexdigest()
    return listed


# Hosts are compared through the offset id, and in tests of the record: Java writes IPv6 otherwise.
NOT_COMPARED = {"bornHost", "storeHost"}


@every_store
def test_every_record_is_read_as_java_reads_it(name: str, tmp_path: Path) -> None:
    damages: list[Damage] = []
    reader = StoreReader(unpacked(name, tmp_path))
    listed = [
        as_java_lists_it(view) for view in reader.records(verify=True, on_damage=damages.append)
    ]
    expected = [
        {field: value for field, value in record.items() if field not in NOT_COMPARED}
        for record in records_of(name)
    ]
    assert listed == expected
    assert [damage.position for damage in damages] == ([996400] if name == "crash-torn" else [])


@every_store
def test_every_queue_is_as_java_lists_it(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    listed = manifest(name)["dump"]["consumeQueues"]
    assert {f"{topic}/{queue_id}" for topic, queue_id in reader.queues()} == set(listed)
    for topic, queue_id in reader.queues():
        expected = [tuple(entry[:3]) for entry in listed[f"{topic}/{queue_id}"]]
        if name == "crash-torn":
            expected = [entry for entry in expected if entry[1] != 996400]
        queue = reader.queue(topic, queue_id)
        assert (queue.min_offset, queue.max_offset) == (expected[0][0], expected[-1][0] + 1)
        found = queue.read(0, 1_000_000)
        assert [(at, view.commit_log_offset, view.size) for at, view in found] == expected


@every_store
def test_acknowledged_messages_are_found_by_offset_id(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    sends = manifest(name).get("sends", ())
    told = [send for send in sends if send["offsetMsgId"]]
    for send in told:
        _, offset = parse_offset_id(send["offsetMsgId"])
        view = reader.message(offset)
        assert view is not None
        assert view.queue_offset == send["queueOffset"]
        assert hashlib.sha256(view.message().body).hexdigest() == send["bodySha256"]
    # The manifest lists half messages without one, batches with several, crash-torn without sends.
    assert told or name in {"trans", "batch", "crash-torn"}


@every_store
def test_every_key_that_java_found_is_found(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    for query in manifest(name).get("queriesByKey", ()):
        found = offsets(reader.find_key(query["topic"], query["key"]))
        # What was delivered after Java was asked is in the store as well.
        expected = [
            record["physicalOffset"]
            for record in records_of(name)
            if record["topic"] == query["topic"]
            and query["key"]
            in (record["properties"].get("UNIQ_KEY"), *record["properties"].get("KEYS", "").split())
        ]
        assert found == expected
        assert {hit["commitLogOffset"] for hit in query["found"]} <= set(found)


@every_store
def test_every_record_is_found_by_its_keys(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    for record in records_of(name):
        for key in record["properties"].get("KEYS", "").split():
            assert record["physicalOffset"] in offsets(reader.find_key(record["topic"], key))


@every_store
def test_without_an_index_the_log_is_read_for_keys(name: str, tmp_path: Path) -> None:
    directory = unpacked(name, tmp_path)
    indexed = StoreReader(directory)
    asked = {
        (record["topic"], key)
        for record in records_of(name)[:40]
        for key in record["properties"].get("KEYS", "").split()
    }
    found = {pair: offsets(indexed.find_key(*pair)) for pair in asked}
    assert indexed.has_index
    shutil.rmtree(f"{directory}/index")
    if name == "crash-torn":  # its end can't be read, and that is reported
        with pytest.raises(StoreDamaged):
            StoreReader(directory).find_key("GoldenCrash", "ck-1")
        return
    bare = StoreReader(directory)
    assert not bare.has_index
    assert {pair: offsets(bare.find_key(*pair)) for pair in asked} == found
    assert all(bare.find_key(*pair, 0, 1) == [] for pair in asked)


def test_keys_of_another_time_are_not_found(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    shared = reader.find_key("GoldenA", "shared")
    times = [view.store_timestamp_ms for view in shared]
    middle = times[len(times) // 2]
    found = reader.find_key("GoldenA", "shared", times[0], middle)
    assert offsets(found) == [
        view.commit_log_offset for view in shared if view.store_timestamp_ms < middle
    ]


@every_store
def test_every_time_is_found(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    times = sorted({record["storeTimestamp"] for record in records_of(name)})
    for begin, end in ((times[0], times[-1]), (times[len(times) // 2], times[-1] + 1), (0, 1)):
        found = reader.by_time(begin, end, on_damage=lambda damage: None)
        assert offsets(found) == [
            record["physicalOffset"]
            for record in records_of(name)
            if begin <= record["storeTimestamp"] < end
        ]


def test_segments_outside_the_time_are_not_opened(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    second = records_of("crash")[194]["storeTimestamp"]
    # Damage in the middle of the first two segments: reading them would report it.
    for segment in (0, SEGMENT):
        overwrite(f"{directory}/commitlog/{segment:020d}", 100_000, bytes(4096))
    reader = StoreReader(directory)
    last_segment = records_of("crash")[-1]["storeTimestamp"]
    assert offsets(reader.by_time(last_segment, last_segment + 1))
    with pytest.raises(StoreDamaged, match="commitlog at byte"):
        list(reader.by_time(second, second + 1))


@pytest.mark.parametrize(("start", "end"), [(0, 10), (100, 300_000), (262_144, None), (7, 7)])
def test_a_range_has_the_records_that_begin_in_it(
    start: int, end: int | None, tmp_path: Path
) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    assert offsets(reader.records(start, end)) == [
        offset
        for offset in java_offsets("normal")
        if start <= offset and (end is None or offset < end)
    ]


def test_topics_and_queues(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    assert reader.topics() == ["GoldenA", "GoldenB"]
    assert reader.queues()[:2] == [QueueName("GoldenA", 0), QueueName("GoldenA", 1)]
    assert reader.queue("no-such-topic", 0).max_offset == 0
    assert list(reader.queue("no-such-topic", 0).read(0, 10)) == []


@pytest.mark.parametrize("offset", [-1, 1, 253_350, 10**12])
def test_no_message_where_no_record_begins(offset: int, tmp_path: Path) -> None:
    assert StoreReader(unpacked("normal", tmp_path)).message(offset) is None


def test_what_is_no_directory_is_no_queue(tmp_path: Path) -> None:
    root = Path(unpacked("normal", tmp_path))
    reader = StoreReader(str(root))
    found = reader.queues()
    queues = root / "consumequeue"
    for stray in (queues / ".DS_Store", queues / found[0].topic / "77"):
        stray.touch()
    (queues / found[0].topic / "007").mkdir()
    assert reader.queues() == found
    assert verify(reader).damages == []


def test_a_directory_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a store directory") as caught:
        StoreReader(str(tmp_path))
    assert caught.value.path == str(tmp_path)


def test_a_store_before_its_first_message(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    reader = StoreReader(str(tmp_path))
    assert list(reader.records()) == []
    assert reader.queues() == []
    assert reader.find_key("orders", "o-1") == []


def test_a_segment_deleted_while_it_is_read_stays_readable(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    views = StoreReader(directory).records(on_damage=unfaulty)
    first = next(views)
    (Path(directory) / "commitlog" / f"{0:020d}").unlink()
    rest = [as_java_lists_it(view) for view in views]
    assert as_java_lists_it(first)["physicalOffset"] == 0
    assert [listed["physicalOffset"] for listed in rest] == java_offsets("normal")[1:]


class Deleting(RealDisk):
    """A disk whose file is deleted between being listed and being opened."""

    def __init__(self, doomed: Path) -> None:
        self._doomed = doomed

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        if path == str(self._doomed):
            self._doomed.unlink(missing_ok=True)
        return super().open(path, create=create, writable=writable)


def test_a_segment_deleted_before_it_is_read_is_noted(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    disk = Deleting(Path(directory) / "commitlog" / f"{0:020d}")
    damages: list[Damage] = []
    found = offsets(StoreReader(directory, disk).records(on_damage=damages.append))
    assert found == [offset for offset in java_offsets("normal") if offset >= SEGMENT]
    assert damages == [Damage(0, "the file was deleted before it was read", SEGMENT, harmless=True)]


def test_harmless_damage_is_logged_without_a_callback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = unpacked("normal", tmp_path)
    disk = Deleting(Path(directory) / "commitlog" / f"{0:020d}")
    list(StoreReader(directory, disk).records())
    assert "deleted before it was read" in caplog.text


def test_nothing_is_written(tmp_path: Path) -> None:
    directory = Path(unpacked("crash-torn", tmp_path))
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    for path in directory.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    reader = StoreReader(str(directory))
    list(reader.records(on_damage=lambda damage: None))
    reader.find_key("GoldenCrash", "ck-1")
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_our_own_store_while_it_is_written(tmp_path: Path) -> None:
    settings = StoreSettings(
        segment_bytes=4096, queue_file_entries=5, index_slots=20, index_entries=50
    )
    store = MessageStore(str(tmp_path), settings, workers=InlineWorkers())
    store.open()
    reader = StoreReader(str(tmp_path))
    text = b"TAGS\x01paid\x02KEYS\x01shared\x02"
    for stored in range(0, 90, 30):
        store.append([incoming(b"x" * 50, properties=text) for _ in range(30)])
        store.tick()
        numbers = [view.queue_offset for view in reader.records(on_damage=unfaulty)]
        assert numbers == [*range(stored + 30)]
    store.close()
    assert [at for at, _ in reader.queue("orders", 0).read(0, 100)] == [*range(90)]
    assert len(reader.find_key("orders", "shared")) == 90
    assert verify(reader).damages == []
