import pytest

from orbitmq.message import flags
from orbitmq.message.record import HEADS
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.serving.pull_reader import GetMessageStatus
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.stores import HandClock, opened, put


def a_store_of_three_hours() -> tuple[MessageStore, HandClock]:
    """Return a store with ten messages an hour, of which the files of the first are gone."""
    clock = HandClock()
    store = opened(SimulatedDisk(clock=clock), clock=clock, reserved_hours=2)
    for hour in range(3):
        put(store, *(b"%d-%d" % (hour, number) for number in range(10)))
        clock.now += 3_600_000
    store.tick()  # what is not on the disk stays
    assert store.clean(asked=True)
    return store, clock


def test_a_queue_without_writes_is_empty() -> None:
    store = opened(SimulatedDisk())
    found = store.lookup
    assert (found.min_offset("nobody", 0), found.max_offset("nobody", 0)) == (0, 0)
    assert found.offset_by_time("nobody", 0, NOW) == 0
    assert found.message("nobody", 0, 0) is None
    assert found.store_time_ms("nobody", 0, 0) is None
    assert found.earliest_store_time_ms("nobody", 0) is None
    assert found.log_start_time_ms() is None
    assert not found.is_in_memory("nobody", 0, 0)
    pull = found.get_messages("nobody", 0, 0, max_count=32)
    assert pull.status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE
    store.close()


def test_a_message_is_found_by_its_place_in_the_queue() -> None:
    store = opened(SimulatedDisk())
    put(store, b"a", b"b")
    view = store.lookup.message("orders", 0, 1)
    assert view is not None
    assert (bytes(view.body), view.queue_offset) == (b"b" * 40, 1)
    assert store.lookup.message("orders", 0, 2) is None
    assert store.lookup.message("orders", 1, 1) is None
    store.close()


def test_times_begin_where_the_log_begins_now() -> None:
    store, _ = a_store_of_three_hours()
    found = store.lookup
    first = found.min_offset("orders", 0)
    assert 0 < first < found.max_offset("orders", 0) == 30
    earliest = found.earliest_store_time_ms("orders", 0)
    assert earliest == found.store_time_ms("orders", 0, first) == found.log_start_time_ms()
    assert found.store_time_ms("orders", 0, 29) == NOW + 2 * 3_600_000
    assert found.store_time_ms("orders", 0, first - 1) is None
    assert found.offset_by_time("orders", 0, NOW + 2 * 3_600_000) == 20
    assert found.offset_by_time("orders", 0, NOW + 3 * 3_600_000, Boundary.UPPER) == 29
    store.close()


def test_consumers_see_what_is_on_the_disk_and_senders_are_further() -> None:
    store = opened(SimulatedDisk(), mode=FlushMode.SYNC)
    put(store, b"a")
    assert store.lookup.max_offset("orders", 0) == 0
    assert store.log.next_queue_offset("orders", 0) == 1
    assert store.undispatched_bytes == store.log.end
    store.close()


def test_old_records_count_as_being_on_the_disk() -> None:
    # Of the memory, 40 % count; and a pull doesn't go past the end of a queue's file.
    store = opened(SimulatedDisk(), memory_limit=10_000, queue_file_entries=100)
    put(store, *(b"%04d" % number for number in range(40)))
    young, old = (store.lookup.get_messages("orders", 0, at, max_count=32) for at in (35, 0))
    assert (young.status, young.from_disk, young.count) == (GetMessageStatus.FOUND, False, 5)
    assert (old.status, old.from_disk, old.count) == (GetMessageStatus.FOUND, True, 8)
    assert store.lookup.is_in_memory("orders", 0, 35)
    assert not store.lookup.is_in_memory("orders", 0, 0)
    store.close()


def test_a_pull_takes_no_more_than_it_asks_for() -> None:
    store = opened(SimulatedDisk(), queue_file_entries=100)
    put(store, *(b"%04d" % number for number in range(9)))
    pull = store.lookup.get_messages("orders", 0, 0, max_count=2)
    assert (pull.count, pull.next_offset) == (2, 2)
    pull = store.lookup.get_messages("orders", 0, 0, max_count=9, max_bytes=pull.size + 1)
    assert (pull.count, pull.next_offset) == (2, 2)
    pull = store.lookup.get_messages("orders", 0, 0, max_count=9, wants=lambda _code: False)
    assert (pull.status, pull.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 9)
    store.close()


@pytest.mark.parametrize(
    ("key", "kind", "offsets"),
    [
        ("o-1", KeyKind.KEY, [1]),
        ("all", KeyKind.KEY, [0, 1, 2, 3]),
        ("U3", KeyKind.KEY, [3]),
        ("paid", KeyKind.TAGS, [0, 1, 2, 3]),
        ("paid", KeyKind.KEY, []),
        ("nothing", KeyKind.KEY, []),
    ],
)
def test_records_are_found_by_their_keys(key: str, kind: KeyKind, offsets: list[int]) -> None:
    store = opened(SimulatedDisk())
    texts = [b"TAGS\x01paid\x02KEYS\x01all o-%d\x02UNIQ_KEY\x01U%d\x02" % (i, i) for i in range(4)]
    store.append([incoming(properties=text) for text in texts])
    found = store.lookup.query(
        "orders", key, max_count=32, begin_ms=0, end_ms=NOW + 1000, kind=kind
    )
    assert [view.queue_offset for view in found] == offsets
    store.close()


def test_the_newest_of_many_are_found_and_no_twin_of_the_hash() -> None:
    store = opened(SimulatedDisk())
    texts = [b"KEYS\x01Aa\x02"] * 5 + [b"KEYS\x01BB\x02"]  # Java hashes both to the same number
    store.append([incoming(properties=text) for text in texts])

    def found(key: str, most: int) -> list[int]:
        views = store.lookup.query("orders", key, max_count=most, begin_ms=0, end_ms=NOW)
        return [view.queue_offset for view in views]

    assert found("BB", 6) == [5]
    assert found("Aa", 3) == [3, 4]  # the twin is looked at, too
    store.close()


def test_a_prepared_message_is_in_no_queue() -> None:
    store = opened(SimulatedDisk())
    store.append([incoming(sys_flag=flags.TRANSACTION_PREPARED)])
    assert store.lookup.max_offset("orders", 0) == 0
    assert store.lookup.log_start_time_ms() == NOW
    store.close()


def test_a_damaged_record_hides_no_other_with_its_key() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    messages = [incoming(b"b" * 50, properties=b"KEYS\x01order-1\x02") for _ in range(3)]
    results = store.append(messages)
    topic_length_at = results[1].offsets[0] + HEADS[0].size + 50
    disk.open("/store/commitlog/" + "0" * 20).write([b"\x7f"], topic_length_at)
    found = store.lookup.query("orders", "order-1", max_count=32, begin_ms=0, end_ms=2 * NOW)
    assert [view.queue_offset for view in found] == [0, 2]
    assert store.lookup.message("orders", 0, 1) is None
    assert store.record(results[1].offsets[0]) is None
    store.close()
