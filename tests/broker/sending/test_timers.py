import errno
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.broker.sending import timers
from orbitmq.message import properties
from orbitmq.message.names import TIMER_TOPIC
from orbitmq.randomness import SeededRandomness
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.power_loss import PAGE
from tests.broker.send_world import SMALL, SendWorld
from tests.store.logs import NOW, incoming

FILES = replace(SMALL, timer_log_file_bytes=4096)
DAY_MS = 86_400_000
assert NOW % 1000 == 0
assert PAGE == 4096


def timed(
    world: SendWorld, name: str, delay_ms: int, *, queue_id: int = 0, **given: str
) -> Incoming:
    """Return a message as a send with a delivery time puts it; its body is its name."""
    found = {"UNIQ_KEY": name, "TIMER_DELAY_MS": str(delay_ms), **given}
    topic, place = world.timer_rules.place(found, "orders", queue_id)
    return incoming(name.encode(), topic=topic, queue_id=place, properties=properties.encode(found))


def recall_of(world: SendWorld, message: Incoming, *, with_topic: bool = False) -> Incoming:
    found = properties.decode(message.properties)
    key = found["UNIQ_KEY"]
    recall = {
        "UNIQ_KEY": key,
        "TIMER_DEL_UNIQKEY": f"orders+{key}" if with_topic else key,
        "TIMER_DELIVER_MS": str(int(found["TIMER_OUT_MS"]) + 1),
    }
    topic, queue_id = world.timer_rules.place(recall, "orders", 0)
    return incoming(b"0", topic=topic, queue_id=queue_id, properties=properties.encode(recall))


def pass_time(world: SendWorld, milliseconds: int, *, step_ms: int = 100) -> None:
    """Let time pass, with a tick for each step."""
    end = world.clock.now + milliseconds
    while world.clock.now < end:
        world.clock.now = min(end, world.clock.now + step_ms)
        world.timers.tick(world.clock.now)
        world.take_turns()


def bodies(world: SendWorld, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in world.stored(topic, queue_id)]


def flush(world: SendWorld) -> None:
    world.store.when_durable(world.store.log.end, lambda _: None)
    world.store.flush_soon()


def stop(world: SendWorld) -> None:
    """Stop cleanly, as a broker does."""
    world.timers.stop()
    world.inbox.flush()
    flush(world)
    world.timers.close(durable=True)
    world.store.close()


def restarted(world: SendWorld, **more: Any) -> SendWorld:
    again = SendWorld(
        more.pop("store", world.store.settings), disk=world.disk, clock=world.clock, **more
    )
    again.timers.start(world.clock.now, ["orders"])
    return again


def crashed(world: SendWorld) -> SendWorld:
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return restarted(world)


def full(messages: list[Incoming]) -> list[PutResult]:
    """Store nothing, as a store whose disk is full."""
    return [PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark="full") for _ in messages]


# Delivery


def test_a_message_is_delivered_in_the_second_of_its_time_and_not_before() -> None:
    world = SendWorld()
    world.put(timed(world, "U1", 1_500, queue_id=3))
    pass_time(world, 1_900)
    assert not bodies(world, queue_id=3)
    pass_time(world, 100)  # the slot from 1 to 2 s has passed
    assert bodies(world, queue_id=3) == [b"U1"]
    pass_time(world, 10_000)
    assert bodies(world, queue_id=3) == [b"U1"]


@pytest.mark.parametrize("delay_ms", [1, 400, 999, 1_000, 1_001, 2_000, 60_000])
@pytest.mark.parametrize("sent_at_ms", [0, 1, 500, 999])
@pytest.mark.parametrize("precision_ms", [1_000, 100])
def test_none_is_early_nor_more_than_a_slot_and_a_tick_late(
    delay_ms: int, sent_at_ms: int, precision_ms: int
) -> None:
    world = SendWorld(replace(FILES, timer_precision_ms=precision_ms))
    world.clock.now += sent_at_ms
    world.put(timed(world, "U1", delay_ms))
    due = world.clock.now + delay_ms
    while not bodies(world):
        pass_time(world, 100)
        assert world.clock.now <= due + precision_ms + 100
    assert world.clock.now >= due


def test_messages_of_a_slot_are_delivered_in_their_order_and_slots_by_their_time() -> None:
    world = SendWorld()
    names = [f"U{number:03d}" for number in range(600)]
    world.put(timed(world, "later", 3_500), *(timed(world, name, 2_500) for name in names))
    pass_time(world, 4_000)
    assert bodies(world) == [*(name.encode() for name in names), b"later"]


def test_the_copy_has_the_properties_that_java_adds() -> None:
    world = SendWorld()
    message = replace(timed(world, "U1", 2_500), flag=7, reconsume_times=2)
    world.put(message)
    pass_time(world, 3_000)
    (copy,) = world.stored("orders")
    found = dict(copy.properties)
    assert found.pop("TIMER_ENQUEUE_MS") == str(NOW)
    assert found.pop("TIMER_DEQUEUE_MS") == str(NOW + 3_000)
    assert found.items() <= properties.decode(message.properties).items()
    record = world.store.record(copy.commit_log_offset)
    assert record is not None
    kept = properties.decode(record.properties)
    assert (kept["REAL_TOPIC"], kept["REAL_QID"]) == ("orders", "0")
    assert kept["TIMER_OUT_MS"] == str(NOW + 2_000)
    assert (record.flag, record.reconsume_times) == (7, 2)


def test_properties_that_leave_no_room_for_more_stay_as_they_are() -> None:
    world = SendWorld(replace(SMALL, segment_bytes=1 << 20))
    message = timed(world, "U1", 1_000)
    room = 32_767 - len(message.properties) - len("colour12")
    text = message.properties + b"colour\x01" + b"b" * room + b"\x02"
    world.put(replace(message, properties=text))
    pass_time(world, 2_000)
    assert bodies(world) == [b"U1"]


def test_a_slot_of_many_is_collected_and_delivered_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "_UNITS_AT_ONCE", 3)
    monkeypatch.setattr(timers, "_AT_ONCE", 4)
    monkeypatch.setattr(timers, "_TAKEN_AT_ONCE", 2)
    world = SendWorld()
    world.put(*(timed(world, f"U{number}", 1_500) for number in range(9)))
    pass_time(world, 1_900)
    world.clock.now += 100
    world.timers.tick(world.clock.now)
    parts = []
    while world.take_turn():
        parts.append(len(bodies(world)))
    assert parts[-1] == 9
    assert set(parts) >= {0, 4, 8}  # collecting took turns of its own
    assert bodies(world) == [b"U%d" % number for number in range(9)]


def test_a_clock_that_is_set_years_ahead_costs_a_few_turns() -> None:
    world = SendWorld(slots=20_000)
    world.put(timed(world, "U1", 2_500), timed(world, "U2", 11_000_000))
    pass_time(world, 100)
    world.clock.now += 20_000 * DAY_MS
    world.timers.tick(world.clock.now)
    turns = 0
    while world.take_turn():
        turns += 1
        assert turns < 50
    assert bodies(world) == [b"U1", b"U2"]
    world.put(timed(world, "U3", 1_500))
    pass_time(world, 3_000)
    assert bodies(world) == [b"U1", b"U2", b"U3"]


def test_what_the_store_does_not_take_now_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()
    world.put(timed(world, "U1", 1_000), timed(world, "U2", 1_000))
    forward = world.store.forward
    world.store.forward = full  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING, logger="orbitmq.broker"):
        pass_time(world, 2_000)
    assert caplog.messages == ["timers wait: full"]  # once, not for each message and tick
    world.store.forward = forward  # type: ignore[method-assign]
    pass_time(world, 100)
    assert bodies(world) == [b"U1", b"U2"]


def test_a_message_that_is_none_of_a_timer_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    world = SendWorld()
    text = properties.encode({"UNIQ_KEY": "bad", "TIMER_OUT_MS": "soon", "REAL_TOPIC": "orders"})
    far = properties.encode({"TIMER_OUT_MS": "9" * 18, "REAL_TOPIC": "orders", "REAL_QID": "0"})
    world.put(
        incoming(b"bad", topic=TIMER_TOPIC, properties=text),
        incoming(b"far", topic=TIMER_TOPIC, properties=far),
        timed(world, "U1", 1_000),
    )
    pass_time(world, 2_000)
    assert bodies(world) == [b"U1"]
    assert "no TIMER_OUT_MS" in caplog.text


def test_taking_in_and_delivering_can_be_stopped_each() -> None:
    world = SendWorld()
    world.settings.store = replace(world.settings.store, timer_stop_dequeue=True)
    world.put(timed(world, "U1", 1_000))
    pass_time(world, 3_000)
    assert not bodies(world)
    world.settings.store = replace(SMALL, timer_stop_enqueue=True)
    world.put(timed(world, "U2", 1_000))
    pass_time(world, 3_000)
    assert bodies(world) == [b"U1"]
    assert world.timers.running_info()["timerOffsetBehind"] == "1"
    world.settings.store = SMALL
    pass_time(world, 2_000)
    assert bodies(world) == [b"U1", b"U2"]


# Far future


def test_a_message_beyond_the_window_is_put_back_on_the_way() -> None:
    store = replace(SMALL, timer_roll_window_slots=10)
    world = SendWorld(store)
    world.put(timed(world, "U1", 25_500))
    pass_time(world, 25_900)
    assert not bodies(world)
    pass_time(world, 100)
    (copy,) = world.stored("orders")
    assert copy.body == b"U1"
    assert copy.properties["TIMER_ROLL_TIMES"] == "2"  # in the slots of 10 s and 21 s
    assert len(world.stored(TIMER_TOPIC)) == 3
    assert not world.timers.counts.total


def test_a_message_on_the_way_is_delivered_after_a_month_without_a_broker() -> None:
    world = SendWorld(replace(SMALL, timer_roll_window_slots=10))
    world.put(timed(world, "far", 30_500))
    pass_time(world, 1_000)
    stop(world)
    world.clock.now += 30 * DAY_MS
    again = restarted(world)
    pass_time(again, 100)
    assert bodies(again) == [b"far"]


def test_the_window_is_shorter_than_the_log_is_kept() -> None:
    world = SendWorld(replace(SMALL, reserved_hours=3), slots=2 * 7 * 86_400)
    message = timed(world, "U1", DAY_MS)
    world.put(message)
    pass_time(world, 2 * 3_600_000 + 1_000, step_ms=60_000)
    assert len(world.stored(TIMER_TOPIC)) == 2


# Recalls


@pytest.mark.parametrize("with_topic", [False, True])
def test_a_recalled_message_is_not_delivered(with_topic: bool) -> None:
    world = SendWorld()
    first, second = timed(world, "U1", 3_500), timed(world, "U2", 3_500)
    world.put(first, second)
    pass_time(world, 1_000)
    assert world.timers.counts.total == 2
    world.put(recall_of(world, first, with_topic=with_topic))
    pass_time(world, 10_000)
    assert bodies(world) == [b"U2"]
    assert world.timers.counts.total == 0
    assert world.timers.running_info()["timerCongestNum"] == "0"


def test_a_recall_in_the_last_moment_counts() -> None:
    world = SendWorld()
    message = timed(world, "U1", 1_500)
    world.put(message)
    world.clock.now += 1_000  # the last at which it is accepted
    world.put(recall_of(world, message))
    pass_time(world, 5_000)
    assert not bodies(world)


def test_a_recall_of_a_far_message_travels_with_it() -> None:
    world = SendWorld(replace(SMALL, timer_roll_window_slots=5))
    message = timed(world, "U1", 20_500)
    world.put(message, timed(world, "U2", 20_500))
    pass_time(world, 3_000)
    world.put(recall_of(world, message))
    pass_time(world, 30_000)
    assert bodies(world) == [b"U2"]
    assert world.timers.counts.total == 0


def test_a_recall_of_nothing_leaves_no_trace() -> None:
    world = SendWorld()
    world.put(recall_of(world, timed(world, "gone", 2_500)), timed(world, "U1", 2_500))
    pass_time(world, 5_000)
    assert bodies(world) == [b"U1"]
    assert world.timers.counts.total == 0


# Restart and crash


def test_a_stop_and_a_start_lose_nothing_and_repeat_nothing() -> None:
    world = SendWorld(FILES)
    world.put(timed(world, "U1", 1_500), timed(world, "U2", 8_500), timed(world, "U3", 30_500))
    pass_time(world, 4_000)
    stop(world)
    world.clock.now += 10_000
    again = restarted(world)
    assert again.timers.counts.total == 2  # found in the timer log, without the saved table
    pass_time(again, 2_000)
    assert bodies(again) == [b"U1", b"U2"]
    stop(again)
    last = restarted(again)
    pass_time(last, 60_000)
    assert bodies(last) == [b"U1", b"U2", b"U3"]


def test_a_stop_in_the_middle_of_a_slot_moves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_AT_ONCE", 4)
    world = SendWorld(FILES)
    messages = [timed(world, f"U{number}", 1_500) for number in range(9)]
    world.put(*messages)
    pass_time(world, 1_000)
    world.put(recall_of(world, messages[7]))
    pass_time(world, 900)
    world.clock.now += 100
    world.timers.tick(world.clock.now)
    while not bodies(world):
        world.take_turn()
    assert len(bodies(world)) == 4
    stop(world)
    world.clock.now += 60_000
    again = restarted(world)
    again.timers._unsure_to_ms = 0  # no look for copies: a Java broker could take over
    pass_time(again, 3_000)
    assert bodies(again) == [b"U%d" % number for number in range(9) if number != 7]
    assert again.timers.counts.total == 0


def test_a_crash_before_the_checkpoint_delivers_nothing_twice() -> None:
    world = SendWorld(FILES)
    world.settings.store = replace(FILES, timer_flush_interval_ms=1_000_000)
    world.put(*(timed(world, f"U{number}", 1_500) for number in range(5)))
    pass_time(world, 3_000)
    flush(world)
    assert len(bodies(world)) == 5
    again = crashed(world)
    pass_time(again, 10_000)
    assert len(bodies(again)) == 5


def test_a_message_sent_twice_is_delivered_twice_after_a_crash_too() -> None:
    world = SendWorld(FILES)
    message = timed(world, "U1", 1_500)
    world.put(message, message)
    pass_time(world, 1_000)
    flush(world)
    again = crashed(world)
    pass_time(again, 5_000)
    assert bodies(again) == [b"U1", b"U1"]


def test_a_start_without_timer_files_finds_what_was_delivered() -> None:
    world = SendWorld(FILES)
    world.put(timed(world, "U1", 1_500), timed(world, "U2", 60_500))
    pass_time(world, 5_000)
    stop(world)
    for path in ("/store/timerwheel", "/store/config/timercheck", f"/store/timerlog/{0:020d}"):
        world.disk.remove(path)
    again = restarted(world)
    pass_time(again, 70_000)
    assert bodies(again) == [b"U1", b"U2"]


@pytest.mark.parametrize("taken_in", [True, False])
def test_after_a_clock_that_was_ahead_a_start_goes_back_to_the_present(*, taken_in: bool) -> None:
    world = SendWorld()
    world.put(timed(world, "early", 2_500))
    ahead_ms = 600_000
    world.clock.now += ahead_ms
    pass_time(world, 1_000)
    assert bodies(world) == [b"early"]
    world.put(timed(world, "far", 60_000))
    if taken_in:
        pass_time(world, 100)
    stop(world)
    world.clock.now -= ahead_ms
    again = restarted(world)
    again.put(timed(again, "soon", 1_500))
    pass_time(again, 10_000)
    assert bodies(again) == [b"early", b"soon"]
    once_more = crashed(again)
    pass_time(once_more, ahead_ms + 60_000, step_ms=1_000)
    assert bodies(once_more) == [b"early", b"soon", b"far"]


def test_a_clock_that_is_set_back_is_followed_when_all_is_delivered_that_was_due() -> None:
    world = SendWorld()
    world.put(timed(world, "early", 2_500))
    pass_time(world, 100)
    forward = world.store.forward
    world.store.forward = full  # type: ignore[method-assign, assignment]
    ahead_ms = 600_000
    world.clock.now += ahead_ms
    pass_time(world, 1_000)
    world.put(timed(world, "far", 60_000))
    world.clock.now -= ahead_ms
    world.put(timed(world, "soon", 1_500))
    pass_time(world, 1_000)
    assert not bodies(world)
    world.store.forward = forward  # type: ignore[method-assign]
    pass_time(world, 2_000)
    assert bodies(world) == [b"early", b"soon"]
    again = crashed(world)
    pass_time(again, ahead_ms + 60_000, step_ms=1_000)
    assert bodies(again) == [b"early", b"soon", b"far"]


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_clock_is_not_followed_before_that_is_saved(error: int) -> None:
    world = SendWorld(FILES)
    assert isinstance(world.disk, SimulatedDisk)
    ahead_ms = 60_000
    world.put(timed(world, "early", 2_500))
    pass_time(world, 100)
    world.clock.now += ahead_ms
    pass_time(world, 2_000)
    world.disk.fail("open", "timercheck", error, times=None)
    world.clock.now -= ahead_ms
    world.put(timed(world, "soon", 1_500))
    pass_time(world, 5_000)
    assert bodies(world) == [b"early"]
    flush(world)
    world.disk.heal()
    again = crashed(world)
    pass_time(again, 1_000)
    assert bodies(again) == [b"early", b"soon"]


def test_timers_stay_ahead_if_what_waits_is_too_far_from_the_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, ahead_ms = SendWorld(slots=1_000), 600_000
    world.clock.now += ahead_ms
    pass_time(world, 1_000)
    world.put(timed(world, "far", 400_000))
    pass_time(world, 100)
    world.clock.now -= ahead_ms
    world.put(timed(world, "soon", 1_500))
    pass_time(world, 3_000)
    assert not bodies(world)
    assert caplog.text.count("too far from the clock") == 1
    pass_time(world, ahead_ms + 400_000, step_ms=1_000)
    assert bodies(world) == [b"soon", b"far"]


def test_another_precision_keeps_what_waits() -> None:
    world = SendWorld(FILES)
    world.put(timed(world, "U1", 5_500), timed(world, "U2", 9_300))
    pass_time(world, 2_000)
    stop(world)
    again = restarted(world, store=replace(FILES, timer_precision_ms=100))
    pass_time(again, 10_000)
    assert bodies(again) == [b"U1", b"U2"]


def test_a_save_that_fails_is_final_and_delivery_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    world = SendWorld(FILES)
    assert isinstance(world.disk, SimulatedDisk)
    world.put(timed(world, "U1", 5_500))
    world.disk.fail("sync", "timerlog", errno.EIO)
    pass_time(world, 7_000)
    assert bodies(world) == [b"U1"]
    assert caplog.text.count("can't be saved any more") == 1
    flush(world)
    again = crashed(world)
    pass_time(again, 5_000)
    assert bodies(again) == [b"U1"]


def test_a_save_without_descriptors_is_repeated() -> None:
    world = SendWorld(FILES)
    assert isinstance(world.disk, SimulatedDisk)
    world.put(timed(world, "U1", 8_500))
    world.disk.fail("open", "timerwheel", errno.EMFILE, times=2)
    pass_time(world, 5_000)
    flush(world)
    again = crashed(world)
    assert again.timers.counts.total == 1
    pass_time(again, 5_000)
    assert bodies(again) == [b"U1"]


def test_a_full_disk_delays_the_save_and_not_the_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld(FILES)
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.fail("open", "timerlog", errno.ENOSPC, times=None)
    world.put(timed(world, "U1", 2_500), timed(world, "U2", 9_500))
    pass_time(world, 5_000)
    assert bodies(world) == [b"U1"]
    assert "the timer log can't be written" in caplog.text
    world.disk.heal()
    pass_time(world, 2_000)
    flush(world)
    again = crashed(world)
    assert again.timers.counts.total == 1
    pass_time(again, 5_000)
    assert bodies(again) == [b"U1", b"U2"]


@pytest.mark.parametrize("seed", range(12))
def test_no_crash_loses_or_repeats_what_the_log_kept(seed: int) -> None:
    chance = SeededRandomness(seed)
    settings = replace(
        FILES,
        timer_log_file_bytes=1024,
        timer_roll_window_slots=4 + chance.below(20),
        timer_precision_ms=chance.choice((100, 500, 1_000)),
        append_crc=True,  # a power loss may tear a record; without this only its body is checked
    )
    world = SendWorld(settings, disk=SimulatedDisk(chance))
    sent: dict[bytes, int] = {}
    recalled: set[bytes] = set()
    for round_ in range(6):
        ahead_ms = chance.choice((0, 1_500, 30_000))
        world.clock.now += ahead_ms
        for number in range(chance.below(12)):
            name = f"R{round_}N{number}"
            delay_ms = chance.choice((1, 700, 3_000, 9_000, 25_000))
            message = timed(world, name, delay_ms)
            sent[name.encode()] = world.clock.now + delay_ms
            world.put(message)
            if delay_ms >= 3_000 and chance.below(4) == 0:
                world.put(recall_of(world, message))
                recalled.add(name.encode())
            _deliver_checked(world, sent, chance.below(900))
        if chance.below(2):
            flush(world)
        _deliver_checked(world, sent, chance.below(6_000))
        world.clock.now -= ahead_ms
        _deliver_checked(world, sent, chance.below(2_000))
        if chance.below(4) == 0:
            stop(world)
            world = restarted(world)
        else:
            assert isinstance(world.disk, SimulatedDisk)
            if chance.below(2):
                world.disk.crash()
            else:
                world.disk.kill()
            world = restarted(world)
        kept = {message.body for message in world.stored(TIMER_TOPIC) if message.body != b"0"}
        recalls = {
            message.properties["UNIQ_KEY"].encode()
            for message in world.stored(TIMER_TOPIC)
            if message.body == b"0"
        }
        sent = {name: due for name, due in sent.items() if name in kept}
        recalled &= recalls
        world.clock.now += chance.below(3_000)
    _deliver_checked(world, sent, 60_000)
    delivered = bodies(world)
    assert sorted(delivered) == sorted(sent.keys() - recalled)
    assert world.timers.counts.total == 0


def _deliver_checked(world: SendWorld, sent: dict[bytes, int], milliseconds: int) -> None:
    before = len(bodies(world))
    end = world.clock.now + milliseconds
    while world.clock.now < end:
        pass_time(world, 100)
        fresh = bodies(world)[before:]
        assert all(sent[name] <= world.clock.now for name in fresh)
        before += len(fresh)


# Cleaning and reports


def test_files_of_the_timer_log_go_with_their_records() -> None:
    world = SendWorld(replace(FILES, timer_log_file_bytes=1024))
    world.put(*(timed(world, f"U{number}", 1_500) for number in range(60)))
    pass_time(world, 3_000)
    assert len(world.disk.list("/store/timerlog")) == 4
    world.timers._files.clean(world.store.log.end)
    assert len(world.disk.list("/store/timerlog")) == 1
    world.put(timed(world, "more", 1_500))
    pass_time(world, 3_000)
    stop(world)
    again = restarted(world)
    pass_time(again, 5_000)
    assert len(bodies(again)) == 61


def test_the_runtime_info_is_java_s() -> None:
    world = SendWorld()
    world.put(timed(world, "U1", 60_000), timed(world, "U2", 60_000))
    pass_time(world, 1_100)
    info = world.timers.running_info()
    assert info["timerCongestNum"] == "2"
    assert info["timerOffsetBehind"] == "0"
    assert info["timerReadBehind"] in ("0", "1")
    assert float(info["timerEnqueueTps"]) == 0.0 or float(info["timerEnqueueTps"]) == 2.0
    assert info["timerDequeueTps"] == "0.0"


def test_without_timers_nothing_is_created_and_all_figures_are_zero() -> None:
    world = SendWorld(StoreSettings(segment_bytes=256 * 1024, timer_wheel_enabled=False))
    unused = SendWorld()
    for one in (world, unused):
        pass_time(one, 5_000)
        stop(one)
        assert not one.disk.exists("/store/timerwheel")
        assert not one.disk.exists("/store/config/timercheck")
    assert set(world.timers.running_info().values()) == {"0", "0.0"}
