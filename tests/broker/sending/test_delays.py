import errno
import json
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.errors import InvalidBody
from orbitmq.message import properties
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import ENTRY
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.bodies.offsets import DelayOffsetTable
from orbitmq.wire.bodies.topic import DataVersion
from tests.broker.send_world import SMALL, SendWorld
from tests.broker.world import HandClock
from tests.store.golden import unpack
from tests.store.logs import incoming

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def delayed(
    name: str,
    *,
    level: int = 1,
    topic: str = "orders",
    queue_id: int = 0,
    body: bytes | None = None,
    **fields: object,
) -> Incoming:
    """Return a message as a send with a delay level puts it; its body is its name unless given."""
    text = properties.encode(
        {"UNIQ_KEY": name, "DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
    )
    return incoming(
        name.encode() if body is None else body,
        topic=SCHEDULE,
        queue_id=level - 1,
        properties=text,
        **fields,
    )


def pass_time(world: SendWorld, milliseconds: int) -> None:
    """Let time pass, with a tick at its end."""
    world.clock.now += milliseconds
    world.delays.tick(world.clock.now)
    world.take_turns()


def bodies(world: SendWorld, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in world.stored(topic, queue_id)]


def flush(world: SendWorld) -> None:
    world.store.when_durable(world.store.log.end, lambda _: None)
    world.store.flush_soon()


def crash(world: SendWorld) -> None:
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()


def in_file(world: SendWorld) -> DelayOffsetTable:
    """Return what the file says now, and replicas get."""
    return DelayOffsetTable.from_json(world.delays.to_json().encode())


def delivered(world: SendWorld) -> dict[int, int]:
    """Return the next offset of each level of which something is delivered."""
    told = world.delays.running_info().items()
    offsets = {int(key.rpartition("_")[2]): int(text.partition(",")[0]) for key, text in told}
    return {level: offset for level, offset in offsets.items() if offset}


def restarted(world: SendWorld, *, saved: str | None) -> SendWorld:
    """Return a broker on the same disk, with what it saved, ready to tick."""
    again = SendWorld(disk=world.disk, clock=world.clock)
    if saved is not None:
        again.delays.load_json(saved)
    again.delays.start(world.clock.now)
    return again


def test_a_message_is_delivered_when_it_is_due_and_not_before() -> None:
    world = SendWorld()
    world.put(delayed("U1", queue_id=3))
    pass_time(world, 999)
    assert not bodies(world, queue_id=3)
    pass_time(world, 1)
    assert bodies(world, queue_id=3) == [b"U1"]
    pass_time(world, 5_000)
    assert bodies(world, queue_id=3) == [b"U1"]


def test_the_copy_is_the_message_as_it_was_with_the_properties_that_java_leaves() -> None:
    world = SendWorld()
    world.put(delayed("U1", flag=7, reconsume_times=2, sys_flag=1))
    pass_time(world, 1_000)
    queue = world.store.queues.queue("orders", 0)
    assert queue is not None
    entry = queue.entry(0)
    assert entry is not None
    copy, waiting = world.store.record(entry.commit_log_offset), world.store.record(0)
    assert copy is not None
    assert waiting is not None
    assert copy.properties == waiting.properties
    assert (copy.flag, copy.reconsume_times, copy.sys_flag) == (7, 2, 1)
    assert (copy.born_host, copy.store_host) == (waiting.born_host, waiting.store_host)
    assert copy.born_timestamp_ms == waiting.born_timestamp_ms


def test_levels_wait_each_their_own_time() -> None:
    world = SendWorld()
    world.put(delayed("slow", level=3), delayed("quick", level=1), delayed("later", level=2))
    for _ in range(100):
        pass_time(world, 100)
    assert bodies(world) == [b"quick", b"later", b"slow"]


def test_many_are_delivered_in_their_order_a_part_at_a_time() -> None:
    world = SendWorld()
    names = [f"U{number:03d}" for number in range(600)]
    world.put(*(delayed(name) for name in names))
    pass_time(world, 1_000)
    assert bodies(world) == [name.encode() for name in names]


def test_large_ones_are_handed_over_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.sending.delays._BYTES_AT_ONCE", 300)
    world = SendWorld()
    world.put(*(delayed(f"U{number}") for number in range(7)))
    world.clock.now += 1_000
    world.delays.tick(world.clock.now)
    assert world.inbox.waiting == 2  # records of some 170 bytes
    world.take_turns()
    assert len(bodies(world)) == 7


def test_a_message_later_than_its_level_allows_has_waited_enough() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    pass_time(world, -60_000)  # the clock is set back
    assert bodies(world) == [b"U1"]


def test_what_the_store_will_not_take_now_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2"))
    forward = world.store.forward

    def full(messages: list[Incoming]) -> list[PutResult]:
        return [PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark="full") for _ in messages]

    world.store.forward = full  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING, logger="orbitmq.broker"):
        pass_time(world, 1_000)
        pass_time(world, 100)
    assert caplog.messages == ["delay level 1 waits: full"]  # once, not for each message and tick
    world.store.forward = forward  # type: ignore[method-assign]
    pass_time(world, 100)
    assert bodies(world) == [b"U1", b"U2"]


def a_world_without_room_for_large_messages() -> SendWorld:
    """Return a world with three delayed messages, of which the log takes the large one no more.

    It would need the next file, which can't be made; the others fit behind the end.
    """
    world = SendWorld()
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.fail("open", f"commitlog/{SMALL.segment_bytes:020d}", errno.ENOSPC, times=None)
    large = delayed("U1", body=bytes(120_000))
    world.put(large, delayed("U2"), delayed("U3"), delayed("V1", level=2))
    world.put(incoming(bytes(100_000), topic="filler"))
    flush(world)
    return world


def test_a_level_waits_for_a_message_that_cannot_be_stored_while_others_go_on() -> None:
    world = a_world_without_room_for_large_messages()
    pass_time(world, 5_000)
    pass_time(world, 100)
    assert bodies(world) == [b"V1"]  # of the second level
    assert delivered(world) == {2: 1}
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.heal()
    pass_time(world, 100)
    assert bodies(world) == [b"V1", bytes(120_000), b"U2", b"U3"]
    assert delivered(world) == {1: 3, 2: 1}


def test_a_restart_while_a_level_waits_loses_nothing_and_repeats_nothing() -> None:
    world = a_world_without_room_for_large_messages()
    pass_time(world, 5_000)
    world.delays.stop()
    world.inbox.flush()
    flush(world)
    saved = world.delays.to_json()
    world.store.close()
    again = restarted(world, saved=saved)
    pass_time(again, 100)
    assert bodies(again) == [b"V1"]
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.heal()
    pass_time(again, 100)
    assert bodies(again) == [b"V1", bytes(120_000), b"U2", b"U3"]


def test_a_failure_in_one_turn_stops_what_would_come_in_the_next() -> None:
    world = SendWorld()
    names = [f"U{number:03d}" for number in range(300)]
    world.put(*(delayed(name) for name in names))
    forward = world.store.forward
    sizes: list[int] = []

    def but_the_first(messages: list[Incoming]) -> list[PutResult]:
        sizes.append(len(messages))
        if len(sizes) > 1:
            return forward(messages)
        return [PutResult(status=PutStatus.UNKNOWN_ERROR, remark="failed") for _ in messages]

    world.store.forward = but_the_first  # type: ignore[method-assign, assignment]
    world.clock.now += 1_000
    for _ in range(200):  # before the delayed ones in the inbox, so that they take two turns
        world.inbox.put(incoming(topic="others"), lambda _: None)
    world.delays.tick(world.clock.now)
    world.take_turns()
    assert sizes == [56]
    assert not bodies(world)
    pass_time(world, 100)
    assert bodies(world) == [name.encode() for name in names]


def test_a_skipped_message_behind_a_waiting_one_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = a_world_without_room_for_large_messages()
    world.put(incoming(topic=SCHEDULE, properties=b"DELAY\x011\x02"))
    with caplog.at_level(logging.ERROR, logger="orbitmq.broker"):
        for _ in range(3):
            pass_time(world, 5_000)
    assert sum("offset 3: it can't be read" in line for line in caplog.messages) == 1


def test_a_limit_that_was_lowered_keeps_no_delayed_message_back() -> None:
    world = SendWorld()
    world.put(delayed("U1", body=bytes(100_000)), delayed("U2"))
    world.store.apply(replace(SMALL, max_message_bytes=10))
    pass_time(world, 1_000)
    assert bodies(world) == [bytes(100_000), b"U2"]


def test_a_full_inbox_makes_a_level_wait() -> None:
    world = SendWorld(send_thread_pool_queue_capacity=2)
    world.put(delayed("U1"), delayed("U2"))
    world.put(delayed("U3"))
    pass_time(world, 1_000)
    pass_time(world, 100)
    assert bodies(world) == [b"U1", b"U2", b"U3"]


def test_a_message_that_can_never_be_stored_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2", topic="a/b"), delayed("U3"))
    with caplog.at_level(logging.ERROR, logger="orbitmq.broker"):
        pass_time(world, 1_000)
    assert bodies(world) == [b"U1", b"U3"]
    assert "offset 1, which can't be delivered" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        b"UNIQ_KEY\x01U2\x02",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x01x\x02",
        b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02",
    ],
)
def test_a_message_without_a_destination_is_skipped(text: bytes) -> None:
    world = SendWorld()
    lost = incoming(topic=SCHEDULE, properties=text + b"DELAY\x011\x02")
    world.put(lost, delayed("U1"))
    pass_time(world, 1_000)
    assert bodies(world) == [b"U1"]


def test_after_a_stop_nothing_more_is_delivered() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    world.delays.stop()
    pass_time(world, 1_000)
    assert not bodies(world)


def test_a_clean_restart_goes_on_where_it_was() -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2", level=2))
    pass_time(world, 1_000)
    world.delays.stop()
    world.inbox.flush()
    flush(world)
    saved = world.delays.to_json()
    world.store.close()
    again = restarted(world, saved=saved)
    pass_time(again, 4_000)
    assert bodies(again) == [b"U1", b"U2"]
    assert delivered(again) == {1: 1, 2: 1}


def test_the_file_is_never_ahead_of_what_replicas_have() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    flush(world)
    confirmed = world.store.log.end
    world.store.confirmed_end = lambda: confirmed
    pass_time(world, 1_000)
    flush(world)
    assert delivered(world) == {1: 1}
    assert '"offsetTable":{}' in world.delays.to_json()
    confirmed = world.store.log.end
    assert in_file(world).offset_table == {1: 1}


def test_the_file_is_never_ahead_of_the_copies_on_the_disk() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    flush(world)
    version = world.delays.version
    pass_time(world, 1_000)
    assert delivered(world) == {1: 1}
    assert '"offsetTable":{}' in world.delays.to_json()
    assert world.delays.version == version
    flush(world)
    assert '"offsetTable":{1:1}' in world.delays.to_json().replace('"1"', "1")
    assert world.delays.version != version


def test_after_a_power_loss_nothing_is_lost_and_nothing_repeated() -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2"), delayed("U3"))
    flush(world)
    pass_time(world, 1_000)
    flush(world)  # the copies are on the disk, and the file knows nothing of them
    crash(world)
    again = restarted(world, saved=None)
    pass_time(again, 100)
    assert bodies(again) == [b"U1", b"U2", b"U3"]


def test_copies_that_the_disk_lost_are_made_again() -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2"))
    flush(world)
    pass_time(world, 1_000)
    saved = world.delays.to_json()
    crash(world)
    again = restarted(world, saved=saved)
    pass_time(again, 100)
    assert bodies(again) == [b"U1", b"U2"]


def test_one_message_sent_twice_is_delivered_twice_whatever_happens() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    world.clock.now += 500
    world.put(delayed("U1"))
    flush(world)
    pass_time(world, 500)
    assert bodies(world) == [b"U1"]
    flush(world)
    crash(world)
    world.clock.now += 1_000  # the second is due too when the broker is back
    again = restarted(world, saved=None)
    pass_time(again, 0)
    assert bodies(again) == [b"U1", b"U1"]


def test_another_try_of_a_message_is_not_taken_for_its_copy() -> None:
    world = SendWorld()
    retry = "%RETRY%billing"
    world.put(delayed("U1", topic=retry, reconsume_times=1))
    pass_time(world, 1_000)
    world.put(delayed("U1", topic=retry, reconsume_times=2))
    flush(world)
    crash(world)
    again = restarted(world, saved=None)
    pass_time(again, 1_000)
    assert [message.reconsume_times for message in again.stored(retry)] == [1, 2]


def test_sealed_records_are_recognised_too() -> None:
    sealed = replace(SMALL, append_crc=True)
    world = SendWorld(sealed)
    world.put(delayed("U1"))
    pass_time(world, 1_000)
    flush(world)
    crash(world)
    again = SendWorld(sealed, disk=world.disk, clock=world.clock)
    again.delays.start(world.clock.now)
    pass_time(again, 100)
    assert bodies(again) == [b"U1"]


def test_an_offset_beyond_the_queue_is_brought_into_it() -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    world.delays.load_json('{"offsetTable":{"1":9}}')
    world.delays.start(world.clock.now)
    assert delivered(world) == {1: 1}


def test_offsets_of_levels_that_are_gone_are_kept_and_bad_files_are_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld(replace(SMALL, message_delay_level="1s 2s"))
    world.store.append([delayed("a", level=3), delayed("b", level=3)])
    world.delays.load_json('{"offsetTable":{1:0,3:1,18:7}}')
    assert world.delays.levels == 2
    world.delays.start(world.clock.now)
    (results,) = caplog.messages
    assert results.startswith("1 messages wait in delay level 3, which does not exist any more")
    saved = world.delays.to_json()
    later = SendWorld()
    later.delays.load_json(saved)
    assert in_file(later).offset_table == {3: 1, 18: 7}
    with pytest.raises(InvalidBody):
        world.delays.load_json("[]")


def test_running_info_tells_offset_and_end_of_each_level_in_use() -> None:
    world = SendWorld()
    world.put(delayed("U1"), delayed("U2", level=4))
    pass_time(world, 1_000)
    assert world.delays.running_info() == {
        "scheduleMessageOffset_1": "1,1",
        "scheduleMessageOffset_4": "0,1",
    }


def test_the_version_of_the_table_moves_by_steps() -> None:
    world = SendWorld(delay_offset_update_version_step=2)
    for number in range(3):
        world.put(delayed(f"U{number}"))
        pass_time(world, 1_000)
        flush(world)
        world.delays.to_json()
    version = in_file(world).data_version
    assert version is not None
    assert version.counter == 1


def test_an_entry_with_an_extension_is_due_by_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SendWorld()
    world.put(delayed("U1"))
    queue = world.store.queues.queue(SCHEDULE, 0)
    assert queue is not None
    entry = queue.entry(0)
    assert entry is not None
    address = ENTRY.pack(entry.commit_log_offset, entry.size, -(2**63))
    monkeypatch.setattr(ConsumeQueue, "entries", lambda *_: address)
    pass_time(world, 999)
    assert world.inbox.waiting == 0
    world.clock.now += 1
    world.delays.tick(world.clock.now)
    assert world.inbox.waiting > 0


def test_java_s_store_goes_on_without_a_repeat(tmp_path: Path) -> None:
    store = unpack("delay", tmp_path)
    records = [view.message() for view in store.records()]
    waiting = [one for one in records if one.topic == SCHEDULE]
    pending = {one.properties["KEYS"] for one in waiting} - {
        one.properties["KEYS"] for one in records if one.topic != SCHEDULE
    }
    assert pending
    settings = replace(
        SMALL,
        segment_bytes=store.segment_bytes,
        queue_file_entries=store.queue_file_bytes // 20,
        index_slots=store.index_slots,
        index_entries=store.index_entries,
    )
    clock = HandClock()
    clock.now = max(one.store_timestamp_ms for one in records) + 7_200_001
    world = SendWorld(settings, disk=RealDisk(), directory=str(store.root), clock=clock)
    # Without Java's delayOffset.json: the log alone tells what was delivered.
    world.delays.start(clock.now)
    pass_time(world, 0)
    copies = [
        message.properties["KEYS"]
        for queue_id in range(4)
        for message in world.stored("GoldenDelay", queue_id)
    ]
    world.store.close()
    assert sorted(copies) == sorted(one.properties["KEYS"] for one in waiting)


def test_java_s_file_says_where_each_level_goes_on(tmp_path: Path) -> None:
    store = unpack("delay", tmp_path)
    text = (store.root / "config" / "delayOffset.json").read_text()
    assert '"offsetTable":{\n\t\t1:16,\n\t\t2:16,\n\t\t3:7,\n\t\t18:0\n\t}' in text
    records = [view.message() for view in store.records()]
    waiting = [one for one in records if one.topic == SCHEDULE]
    clock = HandClock()
    clock.now = max(one.store_timestamp_ms for one in records) + 7_200_001
    settings = replace(
        SMALL,
        segment_bytes=store.segment_bytes,
        queue_file_entries=store.queue_file_bytes // 20,
        index_enabled=False,  # so that the log can't tell what was delivered: the file does
    )
    world = SendWorld(settings, disk=RealDisk(), directory=str(store.root), clock=clock)
    world.delays.load_json(text)
    world.delays.start(clock.now)
    assert delivered(world) == {1: 16, 2: 16, 3: 7}
    assert in_file(world).data_version == DataVersion(counter=2, timestamp=1794739631096)
    end = world.store.log.end
    pass_time(world, 0)
    keys = [
        message.properties["KEYS"]
        for queue_id in range(4)
        for message in world.stored("GoldenDelay", queue_id)
        if message.commit_log_offset >= end
    ]
    world.store.close()
    after = {1: 16, 2: 16, 3: 7, 18: 0}
    expected = [
        one.properties["KEYS"] for one in waiting if one.queue_offset >= after[one.queue_id + 1]
    ]
    assert expected
    assert sorted(keys) == sorted(expected)


def test_the_file_has_java_s_shape() -> None:
    world = SendWorld(delay_offset_update_version_step=1)
    world.put(delayed("U1"), delayed("U2", level=3))
    pass_time(world, 10_000)
    flush(world)
    found = json.loads(world.delays.to_json())
    now = world.clock.now
    assert found == {
        "dataVersion": {"counter": 2, "stateVersion": 0, "timestamp": now},
        "offsetTable": {"1": 1, "3": 1},
    }
    again = SendWorld()
    again.delays.load_json(world.delays.to_json())
    assert in_file(again) == in_file(world)


class JumpingClock(HandClock):
    """A clock whose time of day can be set apart."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return self.now + self.ahead_ms


def jumped(world: SendWorld, clock: JumpingClock, ahead_ms: int) -> list[int]:
    """Set the clock, send messages for five and ten seconds, and return when they were there."""
    clock.ahead_ms = ahead_ms
    before, sent_ms = len(bodies(world)), clock.now
    world.put(delayed("five", level=2), delayed("ten", level=3))
    arrivals: list[int] = []
    while len(arrivals) < 2 and clock.now < sent_ms + 60_000:
        clock.now += 100
        world.delays.tick(world.store.now_ms())
        world.take_turns()
        arrivals += [clock.now - sent_ms] * (len(bodies(world)) - before - len(arrivals))
    return arrivals


def test_delays_are_kept_while_the_clock_jumps() -> None:
    """While it is behind the log they take up to twice as long, and are never shorter."""
    clock = JumpingClock()
    world = SendWorld(clock=clock)
    assert jumped(world, clock, 0) == [5_000, 10_000]
    assert jumped(world, clock, 3_600_000) == [5_000, 10_000]
    assert jumped(world, clock, 0) == [10_000, 20_000]
    assert jumped(world, clock, 3_600_000) == [5_000, 10_000]
    assert jumped(world, clock, 3_596_000) == [9_000, 14_000]
