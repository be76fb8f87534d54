"""Queues made from the log: the same as were lost, around what can't be read any more."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message import flags
from orbitmq.message.host import Host
from orbitmq.message.record import Record, encode
from orbitmq.message.record_view import RecordView
from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import SCHEDULE_TOPIC, Dispatched, Dispatcher
from orbitmq.store.log.record_rows import Block, sound_rows
from orbitmq.store.queues.consume_queue import ENTRY_SIZE, ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.recovery import queue_restore
from orbitmq.store.recovery.queue_restore import QueueRestore, plain_code
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import dispatched

HERE = Host.parse("127.0.0.1:10911")
DISPATCHER = Dispatcher((1_000, 5_000))


def new_queues() -> ConsumeQueues:
    return ConsumeQueues(SimulatedDisk(), "/queues", entries_per_file=5)


def restored(
    *entries: Dispatched,
    queues: ConsumeQueues | None = None,
    correct: bool = True,
    lost_bytes: int = 0,
    log_start: int = 0,
    listed_end: int = 0,
) -> tuple[ConsumeQueues, list[Damage]]:
    """Return queues that were given these entries, and what was reported."""
    queues = queues or new_queues()
    damages = [Damage(0, "lost", lost_bytes)]
    restore = QueueRestore(
        queues,
        DISPATCHER,
        correct=correct,
        damages=damages,
        log_start=log_start,
        listed={"orders": {0: listed_end}},
    )
    for entry in entries:
        restore.add(entry)
    restore.finish()
    restore.keep_ends([(b"orders", 0)])
    return queues, damages[1:]


def places(queues: ConsumeQueues, topic: str = "orders") -> list[int]:
    """Return where in the log the entries of a queue lead, from its first message on."""
    queue = queues.queue(topic, 0)
    assert queue is not None
    return [entry.commit_log_offset for _, entry in queue.iterate(0)]


def run_of(offsets: range, *, at: int = 0, topic: str = "orders") -> list[Dispatched]:
    return [dispatched(offset, at + 100 * offset, topic=topic) for offset in offsets]


def test_an_empty_queue_gets_them_all_over_several_files() -> None:
    queues, damages = restored(*run_of(range(13)))
    assert (places(queues), damages) == ([100 * i for i in range(13)], [])


def test_a_queue_whose_first_records_are_gone_begins_where_the_log_does() -> None:
    queues, damages = restored(*run_of(range(7, 12)))
    queue = queues.queue("orders", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset, damages) == (7, 12, [])


def test_entries_that_contradict_the_log_are_dropped_with_all_after_them() -> None:
    queues, _ = restored(*run_of(range(8)), *run_of(range(8, 12), at=5_000_000))
    assert places(queues)[8:] == [5_000_000 + 100 * i for i in range(8, 12)]
    queues, damages = restored(*run_of(range(3, 10)), queues=queues)
    assert (places(queues), damages) == ([100 * i for i in range(10)], [])


def test_entries_are_taken_for_right_after_an_orderly_stop() -> None:
    queues, _ = restored(*run_of(range(8), at=1))
    queues, damages = restored(*run_of(range(3, 10)), queues=queues, correct=False)
    assert places(queues) == [1 + 100 * i for i in range(8)] + [800, 900]
    assert damages == []


def test_a_lost_message_has_the_next_one_in_its_place() -> None:
    queues, damages = restored(*run_of(range(5)), *run_of(range(7, 9)), lost_bytes=400)
    assert places(queues) == [0, 100, 200, 300, 400, 700, 700, 700, 800]
    (damage,) = damages
    assert (damage.where, damage.position) == ("consumequeue/orders/0", 5 * 20)


def test_a_file_full_of_lost_messages_is_bridged_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_restore, "_ENTRIES_BUFFERED", 4)
    written: list[int] = []
    restore = ConsumeQueue.restore

    def noted(queue: ConsumeQueue, offset: int, entries: bytes) -> None:
        written.append(len(entries) // ENTRY_SIZE)
        restore(queue, offset, entries)

    monkeypatch.setattr(ConsumeQueue, "restore", noted)
    first, behind = run_of(range(1)), run_of(range(11, 13))
    queues, damages = restored(*first, *behind, lost_bytes=10_000)
    assert places(queues) == [0, *[1100] * 11, 1200]
    assert max(written) <= 4
    (damage,) = damages
    assert "messages 1 to 10 are lost" in damage.reason


def test_the_entry_of_a_lost_message_stays_if_the_queue_has_one() -> None:
    queues, _ = restored(*run_of(range(8)))
    queues, damages = restored(*run_of(range(3)), *run_of(range(4, 10)), queues=queues)
    assert (places(queues), damages) == ([100 * i for i in range(10)], [])


def test_a_hole_that_nothing_explains_is_reported_once_and_not_filled() -> None:
    queues, damages = restored(*run_of(range(5)), *run_of(range(1 << 40, (1 << 40) + 3)))
    assert (places(queues), len(damages)) == ([0, 100, 200, 300, 400], 1)


def test_a_hole_before_the_listed_end_is_filled_though_nothing_is_known_to_be_lost() -> None:
    queues, damages = restored(*run_of(range(5)), *run_of(range(7, 9)), listed_end=9)
    assert places(queues) == [0, 100, 200, 300, 400, 700, 700, 700, 800]
    (damage,) = damages
    assert "messages 5 to 6 are lost; message 7 takes their place" in damage.reason
    queues, damages = restored(*run_of(range(5)), *run_of(range(7, 8)), listed_end=8)
    assert places(queues) == [0, 100, 200, 300, 400, 700, 700, 700]
    assert len(damages) == 1


def test_an_offset_that_is_damaged_does_not_displace_those_before_the_listed_end() -> None:
    queues, damages = restored(
        *run_of(range(5)), dispatched(25, 500), *run_of(range(6, 30)), listed_end=30
    )
    assert places(queues) == [0, 100, 200, 300, 400, 600, *range(600, 3000, 100)]
    assert len(damages) == 1


def test_a_queue_that_has_lost_its_last_messages_ends_where_it_is_listed_to() -> None:
    queues, damages = restored(*run_of(range(5)), listed_end=7)
    assert places(queues) == [0, 100, 200, 300, 400, 400, 400]
    (damage,) = damages
    assert "messages 5 to 6, the last of the queue, are lost" in damage.reason


@pytest.mark.parametrize("end", [5, 7])
def test_a_queue_that_has_lost_all_messages_begins_where_it_is_listed_to_end(end: int) -> None:
    queues, damages = restored(lost_bytes=1_000, listed_end=end)
    queue = queues.queue("orders", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset, len(damages)) == (end, end, 1)
    assert queue.append(dispatched(end, 2_000))
    queues.write()
    assert places(queues) == [2_000]


def test_a_queue_that_is_listed_by_mistake_is_not_made() -> None:
    queues, damages = restored(listed_end=7)
    assert (queues.topics(), damages) == ([], [])
    queues, damages = restored(*run_of(range(5)), *run_of(range(2), at=900), listed_end=5)
    assert (places(queues), damages) == ([900, 1_000], [])


def test_a_record_whose_own_offset_is_damaged_costs_itself_alone() -> None:
    queues, damages = restored(
        *run_of(range(5)), dispatched(5 + (1 << 40), 500), *run_of(range(6, 9))
    )
    assert places(queues) == [0, 100, 200, 300, 400, 600, 600, 700, 800]
    assert len(damages) == 1


def test_of_two_records_with_one_place_the_first_has_it() -> None:
    again = dispatched(2, 5_000)
    queues, damages = restored(*run_of(range(4)), again, *run_of(range(4, 6)))
    assert (places(queues), damages) == ([0, 100, 200, 300, 400, 500], [])


def test_a_recreated_topic_begins_at_offset_0() -> None:
    queues, damages = restored(*run_of(range(7)), *run_of(range(3), at=9_000))
    assert (places(queues), damages) == ([9_000, 9_100, 9_200], [])


def test_records_of_the_deleted_topic_are_no_damage() -> None:
    """The queue that is there is the new one; the walk comes by the old records first."""
    queues, _ = restored(*run_of(range(2), at=9_000))
    queues, damages = restored(*run_of(range(40, 43)), *run_of(range(3), at=9_000), queues=queues)
    assert (places(queues), damages) == ([9_000, 9_100, 9_200], [])


def test_a_light_queue_never_begins_again() -> None:
    """Its offsets come from a property that a client may set to anything."""
    topic = "%LMQ%a"
    queues, _ = restored(*run_of(range(3), topic=topic), *run_of(range(1), at=9_000, topic=topic))
    assert places(queues, topic) == [0, 100, 200]


def test_entries_that_went_with_the_files_of_their_records_are_no_hole() -> None:
    """Of a queue whose last file is missing too, the log does not have what that file had first."""
    queues, _ = restored(*run_of(range(4)))
    queues, damages = restored(*run_of(range(7, 9)), queues=queues, correct=False, log_start=700)
    assert (places(queues), damages) == ([700, 800], [])
    queues, _ = restored(*run_of(range(4)))
    _, damages = restored(*run_of(range(7, 9)), queues=queues, correct=False, log_start=399)
    assert len(damages) == 1


def test_of_a_block_only_what_some_queues_lack_is_taken() -> None:
    lmq = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02"
    log = b""
    for text, queue_id, queue_offset in ((b"", 0, 0), (b"", 1, 0), (lmq, 1, 1), (b"", 0, 1)):
        log += bytes(view_of_one(text, queue_offset, len(log), queue_id=queue_id).raw)
    rows, _ = sound_rows(memoryview(log), 0, 0, len(log), 4)
    queues = new_queues()
    restore = QueueRestore(queues, DISPATCHER, correct=False, damages=[])
    restore.add_block(Block(memoryview(log), rows), {(b"orders", 0), (b"%LMQ%b", 0)})
    restore.finish()
    assert queues.ends() == {"orders": {0: 2}, "%LMQ%b": {0: 1}}


def test_a_record_whose_topic_no_directory_can_have_is_reported_once() -> None:
    queues, damages = restored(*run_of(range(3), topic="a/b"), *run_of(range(2)))
    assert places(queues) == [0, 100]
    (damage,) = damages
    assert damage.position == 0


def view_of_one(text: bytes, queue_offset: int = 0, at: int = 0, **fields: object) -> RecordView:
    """Return a record with these properties at an offset of the log."""
    given_fields = {
        "topic": b"orders", "body": b"1 pizza", "queue_id": 0, "born_timestamp_ms": 0,
        "born_host": HERE, "store_host": HERE, "properties": text, "queue_offset": queue_offset,
        "commit_log_offset": at, "store_timestamp_ms": 1_000,
    }  # fmt: skip
    raw = encode(Record(**{**given_fields, **fields}))  # type: ignore[arg-type]
    return RecordView(memoryview(raw), 0, len(raw))


def test_a_block_becomes_what_the_dispatcher_says_of_each_record() -> None:
    lmq = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02"
    records: list[tuple[bytes, dict[str, object]]] = [
        (b"TAGS\x01paid\x02", {}),
        (b"KEYS\x01o-1\x02TAGS\x01paid\x02WAIT\x01true\x02", {}),
        (b"KEYS\x01o-2\x02", {}),
        (b"", {"sys_flag": flags.TRANSACTION_PREPARED}),
        (b"TAGS\x01" + b"long" * 30 + b"\x02", {}),
        (lmq + b"TAGS\x01paid\x02", {}),
        (b"DELAY\x012\x02TAGS\x01paid\x02", {"topic": SCHEDULE_TOPIC.encode()}),
        (b"TAGS\x01paid\x02DELAY\x011\x02", {"topic": SCHEDULE_TOPIC.encode()}),
        (b"TAGS\x01last", {}),
    ]
    log, offsets = b"", Counter[object]()
    entries: list[Dispatched] = []
    for text, fields in records:
        topic = fields.get("topic")
        view = view_of_one(text, offsets[topic], len(log), **fields)
        offsets[topic] += "sys_flag" not in fields
        entries += [entry for entry in DISPATCHER.entries(view) if entry.in_queue]
        log += bytes(view.raw)
    rows, _ = sound_rows(memoryview(log), 0, 0, len(log), len(records))
    queues = new_queues()
    restore = QueueRestore(queues, DISPATCHER, correct=True, damages=[])
    restore.add_block(Block(memoryview(log), rows))
    restore.finish()
    assert len(entries) == len(records) - 1 + 2
    for entry in entries:
        queue = queues.queue(entry.topic, entry.queue_id)
        assert queue is not None
        wanted = (entry.commit_log_offset, entry.size, entry.tags_code)
        assert queue.entry(entry.queue_offset) == wanted


@given(
    st.lists(
        st.sampled_from([b"TAGS", b"KEYS", b"\x01", b"\x02", b"paid", b"xTAGS", b"\xff", b"INNER_"])
    ).map(b"".join)
)
def test_the_code_of_an_ordinary_record_is_the_dispatchers(text: bytes) -> None:
    code = plain_code(text)
    if code is not None:
        (entry,) = DISPATCHER.entries(view_of_one(text))
        assert code == entry.tags_code


def test_tags_have_the_code_of_java() -> None:
    assert plain_code(b"KEYS\x01a\x02") == 0
    assert plain_code(b"TAGS\x01no\x02TAGS\x01TagA\x02") == 2598919
