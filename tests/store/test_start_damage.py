"""Starts on damaged stores: what is kept, what is reported, which offsets stay."""

import pytest

from orbitmq.message.record_view import RecordView
from orbitmq.store.checkpoint.checkpoint import Checkpoint
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.log.record_rows import Checked, sound_row
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE, QueueEntry
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import NOW, incoming, records_of
from tests.store.recovery.test_start import (
    BODIES,
    NAMES,
    SEGMENT,
    bodies_from,
    filled,
    tick_until_checkpointed,
)
from tests.store.stores import HandClock, bodies, flush, opened, put


def test_after_a_crash_a_damaged_record_that_was_on_the_disk_costs_itself_alone() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    tick_until_checkpointed(store, clock)
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    lost = queue.entry(7)
    assert lost is not None
    disk.crash()
    disk.open(f"/store/commitlog/{0:020d}").write([b"?"], lost.commit_log_offset + 100)
    store = opened(disk, clock=clock)
    assert store.log.end > lost.commit_log_offset + SEGMENT
    assert bodies_from(store, 8) == BODIES[8:]
    store.close()


def damage(disk: SimulatedDisk, offset: int, data: bytes) -> None:
    """Write over bytes of the log."""
    while data:
        at = offset % SEGMENT
        part, data = data[: SEGMENT - at], data[SEGMENT - at :]
        disk.open(f"/store/commitlog/{offset - at:020d}").write([part], at)
        offset += len(part)


def ended(disk: SimulatedDisk, store: MessageStore, clock: HandClock, end: str) -> None:
    """Let a store end, when all that it has is on the disk and vouched for."""
    if end == "stop":
        store.close()
        return
    tick_until_checkpointed(store, clock)
    clock.now += 100_000
    put(store, b"on", queue_id=5)
    tick_until_checkpointed(store, clock)
    disk.kill() if end == "kill" else disk.crash()


def entries_of(store: MessageStore, queue_id: int = 0) -> list[QueueEntry]:
    queue = store.queues.consume_queue("orders", queue_id)
    assert queue is not None
    return [entry for _, entry in queue.iterate(0)]


def pulled(store: MessageStore) -> list[bytes]:
    """Return the bodies that a consumer gets who pulls a queue from its beginning to its end.

    He leaves out what he can't decode: a pull looks at the heads of records alone.
    """
    offset, found = 0, []
    while offset < store.lookup.max_offset("orders", 0):
        selection = store.lookup.get_messages("orders", 0, offset, max_count=4)
        assert selection.next_offset > offset
        offset = selection.next_offset
        views = records_of(selection)
        records = [RecordView(view, 0, len(view)) for view in views]
        found += [
            bytes(record.body)
            for record, view in zip(records, views, strict=True)
            if sound_row(view, record.commit_log_offset, 0, Checked.BODY)
        ]
    return found


@pytest.mark.parametrize("removed", ["index", "consumequeue"])
@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
@pytest.mark.parametrize(
    "ranges",
    [
        [(SEGMENT - 300, SEGMENT + 300)],
        [(SEGMENT, 2 * SEGMENT)],
        [(0, 2 * SEGMENT)],
        [(SEGMENT - 250, SEGMENT - 200), (SEGMENT, 2 * SEGMENT + 8)],
    ],
    ids=["border", "one file", "first two files", "one file and its neighbours"],
)
def test_whatever_is_damaged_in_the_middle_the_rest_is_kept_and_can_be_pulled(
    ranges: list[tuple[int, int]], end: str, removed: str
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    entries, log_end = entries_of(store), store.log.end
    ended(disk, store, clock, end)
    for begin, stop in ranges:
        damage(disk, begin, bytes(stop - begin))
    remove_tree(disk, f"/store/{removed}")
    lost = {
        number
        for number, (offset, size, _) in enumerate(entries)
        if any(offset < stop and begin < offset + size for begin, stop in ranges)
    }
    store = opened(disk, clock=clock)
    assert store.log.end >= log_end
    places = [found.position for found in store.damages if found.where == "commitlog"]
    assert len(places) >= len(ranges)
    # A queue that is made again has the next message in place of each one that is lost.
    got = dict.fromkeys(pulled(store))
    assert [*got] == [body for number, body in enumerate(BODIES) if number not in lost]
    assert put(store, b"new")[0].queue_offset == len(NAMES)
    store.close()
    store = opened(disk, clock=clock)
    assert pulled(store)[-1] == b"new" * 40
    store.close()


@pytest.mark.parametrize(
    ("at", "data"),
    [(0, bytes(8)), (4, b"?"), (28, b"?"), (85, b"\1"), (88 + 5, b"?"), (88 + 10, b"?")],
    ids=["head", "magic", "place", "body length", "body", "topic length"],
)
@pytest.mark.parametrize("removed", [None, "index"], ids=["unread", "read"])
@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_the_offset_of_a_damaged_record_that_was_on_the_disk_is_not_given_out_again(
    at: int, data: bytes, removed: str | None, end: str
) -> None:
    """Whether the start reads its file or not."""
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock)
    last = store.append([incoming(b"quiet" * 2, queue_id=1) for _ in range(3)])[-1].offsets[0]
    for name in NAMES:
        clock.now += 1_000
        put(store, name)
    ended(disk, store, clock, end)
    damage(disk, last + at, data)
    if removed is not None:
        remove_tree(disk, f"/store/{removed}")
    store = opened(disk, clock=clock)
    is_seen = removed is not None or (end != "stop" and (at, data) != (88 + 5, b"?"))
    assert [found.position for found in store.damages] == [last] * is_seen
    assert len(entries_of(store, 1)) == 3
    assert put(store, b"new", queue_id=1)[0].queue_offset == 3
    assert bodies(store) == BODIES
    store.close()


@pytest.mark.parametrize("place", ["another record", "inside a record"])
def test_an_entry_that_java_left_after_the_end_of_a_queue_is_dropped(place: str) -> None:
    """It leads to what came to lie there later, in a part that the start does not read."""
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock)
    put(store, b"quiet", queue_id=1)
    for name in NAMES:
        clock.now += 1_000
        put(store, name)
    offset, size, code = entries_of(store)[3]
    ended(disk, store, clock, "crash")
    stale = ENTRY.pack(offset + 50 * (place == "inside a record"), size, code)
    disk.open(f"/store/consumequeue/orders/1/{0:020d}").write([stale], ENTRY_SIZE)
    store = opened(disk, clock=clock)
    assert len(entries_of(store, 1)) == 1
    assert store.damages == []
    store.close()


@pytest.mark.parametrize("queues", [True, False], ids=["queues", "no queues"])
@pytest.mark.parametrize(
    ("at", "length"), [(100, 1), (0, 8), (0, 187), (170, 17)], ids=["body", "head", "all", "end"]
)
def test_a_damaged_last_record_after_an_orderly_stop_is_reported_too(
    at: int, length: int, queues: bool
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    last, log_end = entries_of(store)[-1], store.log.end
    assert last.size == 187
    store.close()
    damage(disk, last.commit_log_offset + at, bytes(length))
    if not queues:
        remove_tree(disk, "/store/consumequeue")
    store = opened(disk, clock=clock)
    in_log = [found.position for found in store.damages if found.where == "commitlog"]
    assert in_log == [last.commit_log_offset]
    assert len(store.damages) == 1 + (not queues)  # that the queue lacks its last message, too
    assert store.log.end == log_end
    assert pulled(store)[:59] == BODIES[:59]
    assert put(store, b"on")[0].queue_offset == 60
    store.close()
    store = opened(disk, clock=clock)
    assert pulled(store)[-1] == b"on" * 40
    store.close()


def test_a_byte_after_the_end_where_no_blank_fits_continues_the_log_in_the_next_file() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    log_end = store.log.end
    store.close()
    file_end = log_end - log_end % SEGMENT + SEGMENT
    damage(disk, file_end - 3, b"?")
    store = opened(disk, clock=clock)
    (found,) = store.damages
    assert (found.position, found.skipped_bytes) == (log_end, file_end - log_end)
    (result,) = put(store, b"on")
    assert (result.queue_offset, result.offsets) == (60, (file_end,))
    assert bodies(store) == [*BODIES, b"on" * 40]
    store.close()


def test_a_queue_entry_that_leads_out_of_the_log_does_not_move_its_end() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    log_end, (offset, size, code) = store.log.end, entries_of(store)[-1]
    store.close()
    name = disk.list("/store/consumequeue/orders/0")[-1]
    stray = ENTRY.pack(offset + (1 << 40), size, code)
    disk.open(f"/store/consumequeue/orders/0/{name}").write([stray], 4 * ENTRY_SIZE)
    store = opened(disk, clock=clock)
    assert (store.log.end, store.damages) == (log_end, [])
    store.close()


def test_bytes_that_java_leaves_after_the_end_of_log_and_queues_are_no_damage() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    last = entries_of(store)[-1]
    store.close()
    damage(disk, last.commit_log_offset + 100, b"?")
    java = Checkpoint(disk, "/store/checkpoint")
    java.write(java.values._replace(log_ms=clock.now + 1, own=None))
    java.close()
    store = opened(disk, clock=clock)
    assert (store.log.end, store.damages) == (last.commit_log_offset, [])
    assert bodies(store) == BODIES[:-1]
    store.close()


@pytest.mark.parametrize("end", ["kill", "crash"])
@pytest.mark.parametrize("at", [-1, -2])
@pytest.mark.parametrize("count", [0, 1, 20])
@pytest.mark.parametrize("ticks", [True, False], ids=["ticks", "no ticks"])
def test_messages_acknowledged_after_known_damage_survive_a_crash(
    end: str, at: int, count: int, ticks: bool
) -> None:
    """Even if all records after the damage are newer than the checkpoint's time."""
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    damaged = entries_of(store)[at].commit_log_offset
    store.close()
    damage(disk, damaged + 100, b"?")
    store = opened(disk, clock=clock, mode=FlushMode.SYNC)
    for number in range(count):
        clock.now += 100
        put(store, b"n%d" % number)
        flush(store)
        if ticks:
            store.tick()
    log_end = store.log.end
    disk.kill() if end == "kill" else disk.crash()
    store = opened(disk, clock=clock, mode=FlushMode.SYNC)
    assert store.log.end == log_end
    assert [found.position for found in store.damages] == [damaged]
    assert bodies_from(store, 60) == [b"n%d" % number * 40 for number in range(count)]
    assert put(store, b"next")[0].queue_offset == 60 + count
    store.close()


def test_a_start_on_java_s_store_makes_damage_that_it_has_kept_known() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    damaged, log_end = entries_of(store)[-2].commit_log_offset, store.log.end
    store.close()
    damage(disk, damaged + 100, b"?")
    java = Checkpoint(disk, "/store/checkpoint")
    java.write(java.values._replace(own=None))
    java.close()
    store = opened(disk, clock=clock)
    assert store.log.end == log_end
    disk.crash()
    store = opened(disk, clock=clock)
    assert store.log.end == log_end
    store.close()


HEAD_FLIPS = {"queue id": 15, "queue offset": 27, "sys flag": 39}
"""Bytes of a record that no checksum covers."""


def flip(disk: SimulatedDisk, offset: int) -> None:
    """Flip a bit of the log."""
    file = disk.open(f"/store/commitlog/{offset - offset % SEGMENT:020d}")
    (byte,) = file.read(1, offset % SEGMENT)
    file.write([bytes([byte ^ 4])], offset % SEGMENT)


@pytest.mark.parametrize("number", [25, 30, 57, 58, 59])
@pytest.mark.parametrize("at", HEAD_FLIPS.values(), ids=HEAD_FLIPS)
def test_a_queue_that_is_made_again_lacks_only_the_record_that_names_another_place(
    at: int, number: int
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    place = entries_of(store)[number].commit_log_offset
    store.close()
    flip(disk, place + at)
    remove_tree(disk, "/store/consumequeue/orders/0")
    store = opened(disk, clock=clock)
    found = [*dict.fromkeys(entry.commit_log_offset for entry in entries_of(store))]
    assert len(found) == 59
    assert place not in found
    assert put(store, b"next")[0].queue_offset == 60
    disk.kill()
    store = opened(disk, clock=clock)
    assert put(store, b"next")[0].queue_offset == 61
    store.close()


@pytest.mark.parametrize("at", HEAD_FLIPS.values(), ids=HEAD_FLIPS)
@pytest.mark.parametrize("end", ["kill", "crash"])
def test_the_offset_of_a_last_record_that_names_another_place_is_not_given_out_again(
    at: int, end: str
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    place = entries_of(store)[-1].commit_log_offset
    store.close()
    flip(disk, place + at)
    opened(disk, clock=clock)
    disk.kill() if end == "kill" else disk.crash()
    store = opened(disk, clock=clock)
    assert put(store, b"next")[0].queue_offset == 60
    store.close()


def test_an_entry_keeps_its_place_before_it_is_listed_if_its_record_was_on_the_disk() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock, FlushMode.SYNC)
    flush(store)
    store.tick()
    place = entries_of(store)[-1].commit_log_offset
    disk.kill()
    remove_tree(disk, "/store/queue_ends.json")
    flip(disk, place + HEAD_FLIPS["queue offset"])
    store = opened(disk, clock=clock)
    assert put(store, b"next")[0].queue_offset == 60
    store.close()


@pytest.mark.parametrize("lost", [1, 7, 60])
@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_a_queue_whose_files_and_last_records_are_gone_ends_where_it_did(
    lost: int, end: str
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    places = entries_of(store)[-lost:]
    ended(disk, store, clock, end)
    for place in places:
        damage(disk, place.commit_log_offset + 90, b"?")
    remove_tree(disk, "/store/consumequeue/orders/0")
    for number in range(3):
        store = opened(disk, clock=clock)
        assert [*dict.fromkeys(pulled(store))] == BODIES[: 60 - lost] + [
            b"new%d" % before * 40 for before in range(number)
        ]
        assert put(store, b"new%d" % number)[0].queue_offset == 60 + number
        store.close() if number else disk.kill()


def test_the_last_offset_stays_if_an_entry_before_it_is_another_by_now() -> None:
    """All entries after one that contradicts its record are rebuilt; the last has no record."""
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    before, last = entries_of(store)[-2:]
    store.close()
    flip(disk, before.commit_log_offset + before.size - 3)  # in the tag
    damage(disk, last.commit_log_offset + 100, b"?")
    opened(disk, clock=clock)
    disk.kill()
    store = opened(disk, clock=clock)
    assert entries_of(store)[-2].tags_code != before.tags_code
    assert put(store, b"next")[0].queue_offset == 60
    store.close()


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_a_damaged_store_time_does_not_hide_records_after_the_next_damage(
    end: str,
) -> None:
    """They are older than it by then; but a log that orbitmq wrote has no stale records."""
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    entries = entries_of(store)
    ended(disk, store, clock, end)
    damage(disk, entries[20].commit_log_offset + 56, b"\x7f")  # the store time's first byte
    damage(disk, entries[21].commit_log_offset + 100, b"?")
    remove_tree(disk, "/store/consumequeue")
    store = opened(disk, clock=clock)
    assert [*dict.fromkeys(pulled(store))] == [*BODIES[:21], *BODIES[22:]]
    store.close()


@pytest.mark.parametrize("bit", [41, 62], ids=["decades", "millennia"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_last_record_with_a_damaged_time_takes_none_of_the_next_ones_along(
    end: str, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    last = entries_of(store)[-1]
    tick_until_checkpointed(store, clock)
    store.close() if end == "stop" else disk.kill()
    damage(disk, last.commit_log_offset + 56, (clock.now | 1 << bit).to_bytes(8))
    store = opened(disk, clock=clock)
    (stored,) = put(store, b"on")
    view = store.record(stored.offsets[0])
    assert view is not None
    assert clock.now <= view.store_timestamp_ms < clock.now + 60_000
    assert "the store time of the last record is damaged" in caplog.text
    assert bodies(store)[-2:] == [BODIES[-1], b"on" * 40]
    store.close()


def test_a_clock_that_was_set_back_a_little_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    filled(disk, clock).close()
    clock.now -= 3_600_000
    store = opened(disk, clock=clock)
    (stored,) = put(store, b"on")
    view = store.record(stored.offsets[0])
    assert view is not None
    assert view.store_timestamp_ms == clock.now + 3_600_000
    assert "damaged" not in caplog.text
    store.close()


@pytest.mark.parametrize("time", [-1, 0, 1 << 62], ids=["negative", "none", "millennia"])
@pytest.mark.parametrize("number", [0, 1, 16, 30, 59])
def test_a_damaged_time_hides_no_key_from_queries_when_the_index_is_made_again(
    number: int, time: int
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    entries = entries_of(store)
    store.close()
    place = entries[number].commit_log_offset + 56
    damage(disk, place, time.to_bytes(8, signed=True))
    remove_tree(disk, "/store/index")
    store = opened(disk, clock=clock)
    found = store.index.query("orders", "paid", 99, NOW, clock.now, kind=KeyKind.TAGS)
    missing = {entry.commit_log_offset for entry in entries}.difference(found)
    last_is_ahead = number == 59 and time > NOW  # no record after it shows that it is wrong
    assert missing == ({entries[59].commit_log_offset} if last_is_ahead else set())
    store.close()
