"""A log that is a copy of another, whose bytes arrive cut anywhere."""

import itertools
import random
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged, StoreError
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.append import PutStatus
from orbitmq.store.log.tail import LogTail
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from tests.store.logs import NOW, incoming, new_log
from tests.store.stores import bodies, opened, put


def log_bytes(store: MessageStore) -> bytes:
    tail, position, found = store.tail, store.tail.first_offset, b""
    while piece := tail.piece(position, 1 << 20):
        found += piece
        position += len(piece)
    return found


def a_primary(path: Path) -> MessageStore:
    store = opened(RealDisk(), str(path / "primary"))
    for number in range(30):
        put(store, b"%d" % number, queue_id=number % 3)
    return store


def a_replica(path: Path, name: str = "replica", **settings: object) -> MessageStore:
    store = opened(RealDisk(), str(path / name), **settings)  # type: ignore[arg-type]
    store.is_replica = True
    return store


@pytest.mark.parametrize("seed", range(5))
def test_log_and_queues_are_those_of_the_primary_however_it_is_cut(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    primary, replica = a_primary(tmp_path), a_replica(tmp_path)
    data = log_bytes(primary)
    cuts = [0, *sorted(chance.sample(range(1, len(data)), 40)), len(data)]
    arrived: list[int] = []
    replica.on_arrival = lambda entries: arrived.extend(one.queue_offset for one in entries)
    for begin, end in itertools.pairwise(cuts):
        assert replica.copy.next_offset == begin
        replica.append_copy(data[begin:end])
        assert replica.log.record(replica.log.end) is None  # it never ends inside a record
    assert log_bytes(replica) == data
    assert len(arrived) == 30
    for queue_id in range(3):
        assert bodies(replica, queue_id=queue_id) == bodies(primary, queue_id=queue_id)
    for store in (primary, replica):
        store.close()


def test_a_replica_stops_and_starts_inside_a_record(tmp_path: Path) -> None:
    primary = a_primary(tmp_path)
    data = log_bytes(primary)
    replica, stops = a_replica(tmp_path), 0
    while replica.log.end < len(data):
        begin = replica.copy.next_offset
        replica.append_copy(data[begin : begin + 777])
        assert replica.log.end <= begin + 777
        replica.close()
        replica = a_replica(tmp_path)
        stops += 1
    assert stops > 5
    assert log_bytes(replica) == data
    assert bodies(replica) == bodies(primary)
    replica.close()
    primary.close()


def test_a_copy_may_begin_with_the_last_file(tmp_path: Path) -> None:
    primary, replica = a_primary(tmp_path), a_replica(tmp_path)
    start = primary.tail.last_file_offset()
    assert start > 0
    replica.begin_copy(start)
    replica.append_copy(log_bytes(primary)[start:])
    replica.close()
    replica = a_replica(tmp_path)  # as a start sees it
    assert (replica.log.first_offset, replica.log.end) == (start, primary.log.end)
    queue, whole = replica.queues.queue("orders", 0), primary.queues.queue("orders", 0)
    assert queue is not None
    assert whole is not None
    assert queue.max_offset == whole.max_offset
    assert bodies(replica) == bodies(primary)[queue.min_offset :]
    replica.close()
    primary.close()


def test_a_copy_begins_only_in_an_empty_log_and_where_a_file_does(tmp_path: Path) -> None:
    primary, replica = a_primary(tmp_path), a_replica(tmp_path)
    with pytest.raises(StoreDamaged, match="can't begin at 100"):
        replica.begin_copy(100)
    replica.append_copy(log_bytes(primary))
    with pytest.raises(StoreDamaged, match="can't begin at 0"):
        replica.begin_copy(0)
    replica.close()
    primary.close()


def test_bytes_of_another_place_are_refused_and_the_records_before_them_stay(
    tmp_path: Path,
) -> None:
    primary, replica = a_primary(tmp_path), a_replica(tmp_path)
    first = primary.record(0)
    assert first is not None
    data = log_bytes(primary)
    with pytest.raises(StoreDamaged, match=f"for offset {first.size} of the log"):
        replica.append_copy(data[: first.size] + data[: first.size])
    assert replica.copy.next_offset == replica.log.end == first.size
    assert bodies(replica) == bodies(primary)[:1]
    replica.append_copy(data[first.size :])
    assert log_bytes(replica) == data
    replica.close()
    primary.close()


def test_files_of_another_size_are_named(tmp_path: Path) -> None:
    primary = a_primary(tmp_path)
    replica = a_replica(tmp_path, segment_bytes=8192)
    with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog"):
        replica.append_copy(log_bytes(primary))
    replica.close()
    primary.close()


def test_a_replica_stores_no_messages_of_its_own(tmp_path: Path) -> None:
    replica = a_replica(tmp_path)
    [result] = put(replica, b"mine")
    assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "slave mode" in result.remark
    replica.close()


def test_with_sync_flush_consumers_see_what_is_on_disk(tmp_path: Path) -> None:
    primary = a_primary(tmp_path)
    replica = a_replica(tmp_path, mode=FlushMode.SYNC)
    replica.append_copy(log_bytes(primary))
    assert bodies(replica) == []
    told: list[bool] = []
    replica.when_durable(replica.log.end, told.append)
    replica.flush_soon()
    assert told == [True]
    assert bodies(replica) == bodies(primary)
    replica.close()
    primary.close()


def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    replica = a_replica(tmp_path)
    replica.close()
    with pytest.raises(StoreError, match="not open"):
        replica.append_copy(b"x")


def test_a_record_larger_than_many_pieces_is_collected(tmp_path: Path) -> None:
    log, _ = new_log(RealDisk(), str(tmp_path / "log"), segment_bytes=1 << 20)
    log.append([incoming(bytes(500_000))], NOW)
    replica = a_replica(tmp_path, segment_bytes=1 << 20)
    tail = LogTail(log)
    while piece := tail.piece(replica.copy.next_offset, 4096):
        replica.append_copy(piece)
    assert replica.log.end == log.end
    replica.close()
