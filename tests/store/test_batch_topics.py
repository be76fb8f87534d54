"""Topics with batch queues in a store: sends, pulls, starts after a stop and a crash, removal."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import StoreDamaged
from orbitmq.message import batch, flags, properties
from orbitmq.message.scan import split_inner
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.log.append import Incoming, InnerBatch, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE
from orbitmq.store.queues.batch_queue import BatchQueue
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.serving.pull_reader import GetMessageStatus
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from tests.golden_files import golden
from tests.store.logs import incoming, records_of
from tests.store.stores import SMALL, HandClock, flush

BATCHED = "batched"
DIRECTORY = f"/store/batchconsumequeue/{BATCHED}"


def opened(
    disk: SimulatedDisk, clock: HandClock | None = None, *, known: bool = True, **chosen: object
) -> MessageStore:
    """Return a store whose topic ``batched`` has batch queues, if it is known at all."""
    given = {**SMALL, "batch_queue_file_entries": 5, **chosen}
    store = MessageStore(
        "/store",
        StoreSettings(**given),  # type: ignore[arg-type]
        disk=disk,
        clock=clock or HandClock(),
        workers=InlineWorkers(),
    )
    store.queues.topic_has_batches = lambda topic: topic == BATCHED if known else None
    store.open()
    return store


def inner_batch(*names: bytes) -> Incoming:
    """Return messages as one record."""
    body = batch.encode([(0, name, b"UNIQ_KEY\x01%s\x02" % name) for name in names])
    text = properties.join({"UNIQ_KEY": "ALL", properties.INNER_COUNT: str(len(names))})
    sys_flag = flags.INNER_BATCH | flags.NEED_UNWRAP
    message = incoming(body, topic=BATCHED, properties=text, sys_flag=sys_flag)
    return InnerBatch.of(message, len(names))


def alone(name: bytes) -> Incoming:
    return incoming(name, topic=BATCHED, properties=b"")


def as_sent(names: Sequence[bytes]) -> Incoming:
    return inner_batch(*names) if len(names) > 1 else alone(names[0])


def consumed(store: MessageStore, offset: int = 0, **limits: int) -> list[tuple[int, bytes]]:
    """Pull from an offset to the end; return offsets and bodies, as a client sees them."""
    found: list[tuple[int, bytes]] = []
    while True:
        limits = {"max_count": 32, **limits}
        result = store.lookup.get_messages(BATCHED, 0, offset, **limits)  # type: ignore[arg-type]
        if result.status is not GetMessageStatus.FOUND:
            return found
        for view in records_of(result):
            message = store.record(_offset_of(view))
            assert message is not None
            found += [(one.queue_offset, one.body) for one in split_inner(message.message())]
        assert result.next_offset > offset
        offset = result.next_offset


def _offset_of(view: memoryview) -> int:
    return int.from_bytes(view[28:36])


def names(sends: Sequence[Sequence[bytes]]) -> list[tuple[int, bytes]]:
    return list(enumerate(name for send in sends for name in send))


def queue_of(store: MessageStore) -> BatchQueue:
    queue = store.queues.queue(BATCHED, 0)
    assert isinstance(queue, BatchQueue)
    return queue


SENDS = [[b"a", b"b", b"c"], [b"d"], [b"e", b"f"], [b"g"], [b"h"], [b"i", b"j"], [b"k", b"l"]]


def test_a_batch_is_one_record_and_each_message_has_an_offset() -> None:
    store = opened(SimulatedDisk())
    results = store.append([as_sent(one) for one in SENDS])
    assert [result.queue_offset for result in results] == [0, 3, 4, 6, 7, 8, 10]
    assert [len(result.offsets) for result in results] == list(map(len, SENDS))
    assert len(set(results[0].offsets)) == 1
    record = store.record(results[2].offsets[0])
    assert record is not None
    found = properties.decode(record.properties)
    assert (found["INNER_NUM"], found["INNER_BASE"], record.queue_offset) == ("2", "4", 4)
    assert consumed(store) == names(SENDS)
    assert store.lookup.min_offset(BATCHED, 0) == 0
    assert store.lookup.max_offset(BATCHED, 0) == 12
    store.close()


def test_a_pull_from_inside_a_batch_returns_all_of_it() -> None:
    store = opened(SimulatedDisk())
    store.append([as_sent(one) for one in SENDS])
    for offset in (0, 1, 2):
        assert consumed(store, offset) == names(SENDS)
    assert consumed(store, 5)[0] == (4, b"e")
    first = store.lookup.get_messages(BATCHED, 0, 0, max_count=1)
    assert (len(first.views), first.next_offset, first.count) == (1, 3, 3)
    some = store.lookup.get_messages(BATCHED, 0, 0, max_count=5)  # d fits, e and f don't
    assert (len(some.views), some.next_offset, some.count) == (2, 4, 4)
    assert consumed(store, max_count=1) == names(SENDS)
    few_bytes = store.lookup.get_messages(BATCHED, 0, 0, max_count=32, max_bytes=1)
    assert (len(few_bytes.views), few_bytes.next_offset) == (1, 3)
    store.close()


def test_a_pull_skips_an_entry_that_leads_to_no_record(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    results = store.append([as_sent(one) for one in SENDS])
    disk.open(f"/store/commitlog/{0:020d}").write([bytes(8)], results[2].offsets[0])
    assert [offset for offset, _ in consumed(store)] == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert "a pull skipped a message" in caplog.text


def test_tags_are_looked_for_in_the_batch_by_the_client() -> None:
    store = opened(SimulatedDisk())
    tagged = [
        incoming(name, topic=BATCHED, properties=b"TAGS\x01%s\x02" % name) for name in (b"x", b"y")
    ]
    store.append([*tagged, inner_batch(b"a", b"b")])
    wanted = tagged[0].properties and 120  # the code of x
    result = store.lookup.get_messages(
        BATCHED, 0, 0, max_count=9, wants=lambda code: code == wanted
    )
    assert (len(result.views), result.next_offset) == (2, 4)
    nothing = store.lookup.get_messages(BATCHED, 0, 1, max_count=1, wants=lambda _code: False)
    assert (len(nothing.views), nothing.next_offset) == (1, 4)
    store.close()


def test_times_are_those_of_the_batches() -> None:
    clock = HandClock()
    store = opened(SimulatedDisk(), clock)
    begin = clock.now
    for send in SENDS:
        store.append([as_sent(send)])
        clock.now += 10
    assert store.lookup.offset_by_time(BATCHED, 0, begin + 11) == 4
    assert store.lookup.offset_by_time(BATCHED, 0, begin, Boundary.UPPER) == 2
    assert store.lookup.offset_by_time(BATCHED, 0, begin + 999) == 12
    assert store.lookup.store_time_ms(BATCHED, 0, 5) == begin + 20
    store.close()


@pytest.mark.parametrize("known", [True, False])
def test_a_stopped_store_goes_on_where_it_was(known: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([as_sent(one) for one in SENDS])
    store.close()
    again = opened(disk, known=known)  # without its settings, by the directory of the topic
    assert again.damages == []
    assert consumed(again) == names(SENDS)
    again.append([as_sent([b"m", b"n"])])
    assert consumed(again) == names([*SENDS, [b"m", b"n"]])
    again.close()
    assert not disk.exists(f"/store/consumequeue/{BATCHED}")


@pytest.mark.parametrize("crashed", [True, False])
def test_queues_that_are_gone_are_rebuilt_from_the_log(crashed: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([as_sent(one) for one in SENDS])
    store.close()
    before = {name: _content(disk, f"{DIRECTORY}/0/{name}") for name in disk.list(f"{DIRECTORY}/0")}
    assert len(before) == 2
    remove_tree(disk, DIRECTORY)
    if crashed:
        disk.open("/store/abort", create=True).close()
    again = opened(disk)
    assert again.damages == []
    assert consumed(again) == names(SENDS)
    again.close()
    after = {name: _content(disk, f"{DIRECTORY}/0/{name}") for name in disk.list(f"{DIRECTORY}/0")}
    assert after == before


def _content(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path, writable=False)
    return file.read(1 << 20, 0)


_SEND = st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=6)


@settings(max_examples=60)
@given(st.lists(_SEND, max_size=40), st.integers(0, 40), st.integers(0, 1 << 32))
def test_what_was_flushed_survives_a_power_loss(
    sends: list[list[bytes]], flushed: int, seed: int
) -> None:
    disk = SimulatedDisk(SeededRandomness(seed))
    store = opened(disk)
    store.append([as_sent(one) for one in sends[:flushed]])
    flush(store)
    store.tick()
    store.append([as_sent(one) for one in sends[flushed:]])
    disk.crash()
    found: list[tuple[int, bytes]] = []
    for _ in range(2):
        again = opened(disk)
        found = consumed(again)
        assert found == names(sends)[: len(found)]
        assert len(found) >= sum(map(len, sends[:flushed]))
        assert again.lookup.max_offset(BATCHED, 0) == len(found)
        disk.crash()
    last = opened(disk)
    (result,) = last.append([as_sent([b"next", b"one"])])
    assert result.queue_offset == len(found)
    assert [name for _, name in consumed(last)] == [*(name for _, name in found), b"next", b"one"]
    last.close()
    stopped = opened(disk)
    assert stopped.damages == []
    assert len(consumed(stopped)) == len(found) + 2
    stopped.close()


def test_offsets_of_lost_messages_are_not_given_out_again() -> None:
    disk = SimulatedDisk()
    store = opened(disk, flush_mode=FlushMode.SYNC)
    store.append([as_sent(one) for one in SENDS])
    flush(store)
    store.close()
    remove_tree(disk, DIRECTORY)
    name = disk.list("/store/commitlog")[-1]
    disk.open(f"/store/commitlog/{name}").write([b"\xff" * 40], 0)  # the first record is unreadable
    again = opened(disk)
    assert again.damages
    assert queue_of(again).max_offset == 12
    assert [offset for offset, _ in consumed(again, queue_of(again).min_offset)] == list(
        range(3, 12)
    )
    again.close()


@pytest.mark.parametrize("which", [2, 5])
def test_a_record_with_a_damaged_offset_is_left_out(which: int) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    results = store.append([alone(b"%d" % number) for number in range(6)])
    store.close()
    disk.remove("/store/queue_ends.json")
    remove_tree(disk, DIRECTORY)
    disk.open("/store/abort", create=True).close()
    log = disk.open(f"/store/commitlog/{0:020d}")
    log.write([(1000).to_bytes(8)], results[which].offsets[0] + 20)
    again = opened(disk)
    assert [body for _, body in consumed(again)] == [
        b"%d" % number for number in range(6) if number != which
    ]
    assert "the record before offset 1001 follows no other" in again.damages[0].reason
    again.close()


def test_expired_log_files_take_entries_with_them() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock, reserved_hours=1)
    store.append([inner_batch(*(b"%03d" % n + bytes(50) for n in range(4))) for _ in range(40)])
    clock.now += 3_600_000
    store.append([as_sent([b"new", b"er"])])
    store.tick()
    assert store.clean(asked=True)
    queue = queue_of(store)
    assert 0 < queue.min_offset < queue.max_offset == 162
    assert len(disk.list(f"{DIRECTORY}/0")) < 9
    assert consumed(store, queue.min_offset)[-1] == (161, b"er")
    assert store.lookup.get_messages(BATCHED, 0, 0, max_count=1).next_offset == queue.min_offset
    low = queue.min_offset
    store.close()
    again = opened(disk)
    assert (queue_of(again).min_offset, queue_of(again).max_offset) == (low, 162)
    again.close()


def test_a_deleted_topic_may_come_back_with_other_queues() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([as_sent(one) for one in SENDS])
    store.delete_topic(BATCHED)
    assert not disk.exists(DIRECTORY)
    store.queues.topic_has_batches = lambda _topic: False
    store.append([alone(b"plain")])
    store.close()
    assert disk.exists(f"/store/consumequeue/{BATCHED}/0")
    disk.open("/store/abort", create=True).close()
    remove_tree(disk, "/store/consumequeue")
    again = opened(disk, known=False)  # inner batches of a topic without batch queues have none
    assert again.lookup.max_offset(BATCHED, 0) == 1
    again.close()


def test_messages_of_a_deleted_topic_replace_none_of_a_later_one() -> None:
    """The log has message 3 of the topic with batch queues, and that of the topic without."""
    disk = SimulatedDisk()
    store = opened(disk)
    store.queues.topic_has_batches = lambda _topic: False
    store.append([alone(b"0")])
    store.delete_topic(BATCHED)
    store.queues.topic_has_batches = lambda topic: topic == BATCHED
    store.append([inner_batch(b"a", b"b", b"c"), alone(b"d")])
    store.delete_topic(BATCHED)
    store.close()
    again = opened(disk, known=False)  # message 0 is back, as there is no later one
    assert again.append([alone(b"%d" % number) for number in range(1, 6)])[0].queue_offset == 1
    again.close()
    disk.open("/store/abort", create=True).close()
    last = opened(disk, known=False)
    assert consumed(last) == [(number, b"%d" % number) for number in range(6)]
    last.close()


def test_a_directory_of_the_wrong_kind_is_refused_with_a_way_out() -> None:
    disk = SimulatedDisk()
    store = opened(disk, known=False)
    store.append([alone(b"plain")])
    store.close()
    with pytest.raises(StoreDamaged, match="queue.type is BatchCQ; move the directory away"):
        opened(disk)
    disk.rename(f"/store/consumequeue/{BATCHED}", "/away")
    again = opened(disk)
    assert consumed(again) == [(0, b"plain")]
    again.close()


@pytest.mark.parametrize("rebuilt", [False, True])
def test_java_s_batch_queues_are_read_and_rebuilt_byte_for_byte(
    rebuilt: bool, tmp_path: Path
) -> None:
    java = golden("batch_queues")
    size = java["config"]["mappedFileSizeCommitLog"]
    files = {name: bytes.fromhex(data) for name, data in java["files"].items()}
    log = bytes.fromhex(java["commitlog"]).ljust(size, b"\0")
    for name, data in {f"commitlog/{0:020d}": log, **({} if rebuilt else files)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    per_file = java["config"]["mapperFileSizeBatchConsumeQueue"] // BATCH_ENTRY_SIZE
    sizes = StoreSettings(segment_bytes=size, batch_queue_file_entries=per_file)
    store = MessageStore(str(tmp_path), sizes, clock=HandClock(), workers=InlineWorkers())
    store.queues.topic_has_batches = lambda _topic: True
    store.open()
    assert store.damages == []
    sent: list[list[str]] = [[], []]
    for one in java["sent"]:
        assert int(one["answer"]["queueOffset"]) == len(sent[one["queue"]])
        sent[one["queue"]] += one["names"]
    for queue_id, expected in enumerate(sent):
        queue = store.queues.queue(java["topic"], queue_id)
        assert isinstance(queue, BatchQueue)
        views = [store.record(entry.commit_log_offset) for _, entry in queue.iterate(0)]
        found = [one for view in views if view for one in split_inner(view.message())]
        assert [one.body.decode() for one in found] == expected
        assert [one.queue_offset for one in found] == list(range(queue.max_offset))
    store.close()
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


def test_more_than_a_record_may_hold_is_refused() -> None:
    store = opened(SimulatedDisk(), max_message_bytes=1000)
    results = store.append([inner_batch(bytes(600), bytes(600)), as_sent([b"a", b"b"])])
    assert [one.status for one in results] == [PutStatus.MESSAGE_ILLEGAL, PutStatus.PUT_OK]
    assert results[1].queue_offset == 0
    store.close()


def test_a_checksum_of_the_record_covers_its_offset() -> None:
    disk = SimulatedDisk()
    store = opened(disk, append_crc=True)
    store.append([as_sent(one) for one in SENDS])
    disk.crash()
    again = opened(disk, append_crc=True)
    assert consumed(again) == names(SENDS)[: len(consumed(again))]
    record = again.record(0)
    assert record is None or record.is_whole(crc_property=True)
    again.close()


def batches_on(disk: SimulatedDisk, store: MessageStore) -> dict[str, bytes]:
    """Return the files of the queue as they are on the disk, but for zeros at their ends."""
    flush(store)
    store.queues.write()
    paths = [f"{DIRECTORY}/0/{name}" for name in disk.list(f"{DIRECTORY}/0")]
    return {path: disk.open(path).read(1 << 20, 0).rstrip(b"\0") for path in paths}


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=20),
    kept=st.integers(0, 20),
    later=st.lists(st.integers(1, 4), max_size=4),
)
def test_batches_are_cut_with_the_log(sizes: list[int], kept: int, later: list[int]) -> None:
    disk, other_disk = SimulatedDisk(), SimulatedDisk()
    store, other = opened(disk), opened(other_disk)
    sends = [[b"%d.%d" % (number, one) for one in range(size)] for number, size in enumerate(sizes)]
    ends = [0]
    for send in sends:
        store.append([as_sent(send)])
        ends.append(store.log.end)
    kept = min(kept, len(sends))
    for send in sends[:kept]:
        other.append([as_sent(send)])
    store.truncate(ends[kept])
    more = [[b"later%d.%d" % (number, one) for one in range(n)] for number, n in enumerate(later)]
    for send in more:
        for each in (store, other):
            each.append([as_sent(send)])
    assert batches_on(disk, store) == batches_on(other_disk, other)
    assert consumed(store) == consumed(other) == names([*sends[:kept], *more])
    disk.kill()
    assert consumed(opened(disk)) == names([*sends[:kept], *more])
