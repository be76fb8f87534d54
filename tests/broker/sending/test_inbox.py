import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.broker.sending import fast_fail
from orbitmq.broker.sending.inbox import OrderedRun, PutOutcome
from orbitmq.message import properties
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.settings import FlushMode
from orbitmq.threads import Future
from tests.broker.send_world import SMALL, SendWorld
from tests.store.logs import incoming

SYNC = replace(SMALL, flush_mode=FlushMode.SYNC)


class LaterWorkers:
    """Workers that do nothing until ``work``."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append(lambda: future.set_result(work(*args, **kwargs)))
        return future

    def work(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one()

    def close(self, *, wait: bool = True) -> None:
        self.work()


def counted_appends(world: SendWorld) -> list[int]:
    """Return a list that gets the size of each append."""
    sizes: list[int] = []
    append = world.store.append

    def counting(messages: list[Incoming]) -> list[PutResult]:
        sizes.append(len(messages))
        return append(messages)

    world.store.append = counting  # type: ignore[method-assign, assignment]
    return sizes


def statuses(results: list[PutOutcome]) -> list[PutStatus | str]:
    return [
        one.remark.partition("]")[0] + "]" if isinstance(one, Refusal) else one.status
        for one in results
    ]


def test_what_one_turn_brings_is_one_append_in_order() -> None:
    world = SendWorld()
    sizes = counted_appends(world)
    results = world.put(*(incoming(b"%d" % number) for number in range(5)))
    assert sizes == [5]
    assert [one.queue_offset for one in results if isinstance(one, PutResult)] == [0, 1, 2, 3, 4]
    assert [message.body for message in world.stored("orders")] == [b"0", b"1", b"2", b"3", b"4"]


def test_no_callback_is_called_inside_put() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append)
    assert not results
    world.take_turns()
    assert len(results) == 1


def test_a_turn_stores_a_bounded_part_of_what_waits() -> None:
    world = SendWorld()
    sizes = counted_appends(world)
    results = world.put(*(incoming() for _ in range(600)))
    assert sizes == [256, 256, 88]
    assert len(results) == 600


def test_large_messages_share_a_turn_only_up_to_a_megabyte() -> None:
    world = SendWorld(replace(SMALL, segment_bytes=8 * 1024 * 1024))
    sizes = counted_appends(world)
    world.put(*(incoming(bytes(600_000)) for _ in range(5)))
    assert sizes == [2, 2, 1]


def test_above_the_capacity_a_send_is_an_overload() -> None:
    world = SendWorld(send_thread_pool_queue_capacity=2)
    results: list[PutOutcome] = []
    for _ in range(2):
        world.inbox.put(incoming(), results.append)
    world.clock.now += 12
    with pytest.raises(Refusal, match=r"^\[OVERLOAD\].* in queue: 12ms, size of queue: 2$"):
        world.inbox.put(incoming(), results.append)
    world.take_turns()
    assert statuses(results) == [PutStatus.PUT_OK] * 2
    world.inbox.put(incoming(), results.append)  # there is room again


def test_what_waits_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fail, "WAITING_BYTES_MAX", 1_000)
    world = SendWorld()
    world.inbox.put(incoming(bytes(1_000)), lambda _: None)
    with pytest.raises(Refusal, match=r"^\[REJECTREQUEST\]"):
        world.inbox.put(incoming(), lambda _: None)
    world.take_turns()
    world.inbox.put(incoming(), lambda _: None)


def test_a_send_that_waited_too_long_is_refused() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append)
    world.clock.now += 200
    world.take_turns()
    (refusal,) = results
    assert isinstance(refusal, Refusal)
    assert refusal.remark.startswith("[TIMEOUT_CLEAN_QUEUE]")
    assert "period in queue: 200ms, size of queue: 1" in refusal.remark
    assert not world.stored("orders")
    assert world.inbox.waiting == 0


def test_a_message_may_be_allowed_to_wait_longer() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append, more_wait_ms=2_800)
    world.clock.now += 2_999
    assert world.inbox.head_wait_ms == 199
    world.take_turns()
    assert statuses(results) == [PutStatus.PUT_OK]
    world.inbox.put(incoming(), results.append, more_wait_ms=2_800)
    world.clock.now += 3_000
    world.take_turns()
    assert statuses(results)[1:] == ["[TIMEOUT_CLEAN_QUEUE]"]


def test_with_fast_failure_off_it_is_stored_all_the_same() -> None:
    world = SendWorld(broker_fast_failure_enable=False)
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append)
    world.clock.now += 5_000
    world.take_turns()
    assert statuses(results) == [PutStatus.PUT_OK]


def test_a_send_behind_a_slow_write_is_refused() -> None:
    world = SendWorld(wait_time_mills_in_send_queue=60_000)
    append = world.store.append

    def slow(messages: list[Incoming]) -> list[PutResult]:
        world.clock.now += 1_001
        return append(messages)

    world.store.append = slow  # type: ignore[method-assign, assignment]
    results = world.put(*(incoming() for _ in range(258)))
    assert statuses(results) == [PutStatus.PUT_OK] * 256 + ["[PCBUSY_CLEAN_QUEUE]"] * 2
    assert isinstance(results[-1], Refusal)
    assert results[-1].remark.endswith("size of queue: 1, the last write took 1001ms")


def test_with_sync_flush_a_turn_is_acknowledged_when_it_is_flushed() -> None:
    workers = LaterWorkers()
    world = SendWorld(SYNC, workers=workers)
    results: list[PutOutcome] = []
    for _ in range(3):
        world.inbox.put(incoming(), results.append)
    world.take_turns()
    assert not results
    assert world.inbox.waiting == 3
    workers.work()
    assert statuses(results) == [PutStatus.PUT_OK] * 3
    assert world.inbox.waiting == 0


def test_a_message_that_does_not_wait_is_acknowledged_before_the_flush() -> None:
    world = SendWorld(SYNC, workers=LaterWorkers())
    results: list[str] = []
    world.inbox.put(incoming(), lambda _: results.append("waits"))
    world.inbox.put(incoming(wait=False), lambda _: results.append("goes on"))
    world.take_turns()
    assert results == ["goes on"]


def test_a_disk_that_is_late_is_a_timeout_with_the_place_of_the_message() -> None:
    world = SendWorld(SYNC, workers=LaterWorkers())
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append)
    world.take_turns()
    world.clock.now += SYNC.sync_flush_timeout_ms
    world.store.tick()
    (late,) = results
    assert isinstance(late, PutResult)
    assert late.status is PutStatus.FLUSH_DISK_TIMEOUT
    assert late.offsets == (0,)


def test_messages_that_wait_for_the_flush_count_for_the_capacity() -> None:
    world = SendWorld(SYNC, workers=LaterWorkers(), send_thread_pool_queue_capacity=1)
    world.inbox.put(incoming(), lambda _: None)
    world.take_turns()
    with pytest.raises(Refusal, match="OVERLOAD"):
        world.inbox.put(incoming(), lambda _: None)


def test_an_unexpected_failure_of_the_store_reaches_all_callbacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()

    def broken(_messages: list[Incoming]) -> list[PutResult]:
        raise ZeroDivisionError("a fault of ours")

    world.store.append = broken  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.ERROR):
        results = world.put(incoming(), incoming())
    assert statuses(results) == [PutStatus.UNKNOWN_ERROR] * 2
    assert "2 messages could not be stored" in caplog.text


def test_a_failing_callback_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()
    results: list[PutOutcome] = []

    def failing(_outcome: PutOutcome) -> None:
        raise ZeroDivisionError

    world.inbox.put(incoming(), failing)
    world.inbox.put(incoming(), results.append)
    with caplog.at_level(logging.ERROR):
        world.take_turns()
    assert len(results) == 1
    assert "the callback of a message of orders failed" in caplog.text


def test_a_callback_may_put_the_next_message() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []

    def again(outcome: PutOutcome) -> None:
        results.append(outcome)
        if len(results) < 3:
            world.inbox.put(incoming(), again)

    world.inbox.put(incoming(), again)
    world.take_turns()
    assert statuses(results) == [PutStatus.PUT_OK] * 3


def test_flush_stores_all_that_waits() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    for _ in range(600):
        world.inbox.put(incoming(), results.append)
    world.inbox.flush()
    assert len(results) == 600
    assert world.inbox.waiting == 0


def test_what_is_stored_is_counted_by_topic() -> None:
    world = SendWorld()
    world.put(incoming(topic="a"), incoming(topic="a"), incoming(topic="b"), incoming(queue_id=-1))
    world.stats.sample(world.clock.now + 10_000)
    assert world.stats.topic_put_tps("a") == 2 * world.stats.topic_put_tps("b") > 0
    assert world.stats.info(0)["putMessageFailedTimes"] == "1"
    assert int(world.stats.info(0)["putMessageSizeTotal"]) == world.store.log.end


def test_sends_to_a_held_topic_are_acknowledged_when_it_is_released() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    world.inbox.hold(["orders", "refunds"])
    world.inbox.hold(["orders"])
    world.inbox.put(incoming(), results.append)
    world.take_turns()
    assert (results, world.inbox.waiting) == ([], 1)
    world.inbox.release(["refunds", "unknown"])
    assert not results
    world.inbox.release(["orders"])
    assert statuses(results) == [PutStatus.PUT_OK]
    assert world.inbox.waiting == 0
    world.inbox.put(incoming(), results.append)
    world.take_turns()
    assert len(results) == 2


def test_sends_to_other_topics_are_acknowledged_while_one_is_held() -> None:
    world = SendWorld()
    results: list[str] = []
    world.inbox.hold(["orders"])
    for topic in ("orders", "refunds"):
        world.inbox.put(incoming(topic=topic), partial(lambda name, _: results.append(name), topic))
    world.take_turns()
    assert results == ["refunds"]


def test_a_delayed_message_to_a_held_topic_waits_for_it() -> None:
    world = SendWorld()
    results: list[PutOutcome] = []
    world.inbox.hold(["orders"])
    raw = properties.encode({"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "0"})
    world.inbox.put(incoming(topic="SCHEDULE_TOPIC_XXXX", properties=raw), results.append)
    world.take_turns()
    assert not results
    world.inbox.release(["orders"])
    assert statuses(results) == [PutStatus.PUT_OK]


def put_in_a_row(world: SendWorld, messages: list[Incoming]) -> list[PutOutcome]:
    """Put messages in one run, without a turn; return the list of their results."""
    run = OrderedRun()
    results: list[PutOutcome] = []
    for message in messages:
        world.inbox.put(message, results.append, run)
    return results


def test_in_a_row_none_is_stored_behind_one_that_is_not() -> None:
    world = SendWorld()
    before: list[PutOutcome] = []
    world.inbox.put(incoming(b"0"), before.append)
    results = put_in_a_row(world, [incoming(b"1"), incoming(queue_id=-1), incoming(b"3")])
    other = put_in_a_row(world, [incoming(b"4")])
    after = world.put(incoming(queue_id=-1), incoming(b"5"))
    assert statuses(results) == [PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.NOT_TRIED]
    assert statuses(before + other) == [PutStatus.PUT_OK] * 2
    assert statuses(after) == [PutStatus.MESSAGE_ILLEGAL, PutStatus.PUT_OK]
    assert [message.body for message in world.stored("orders")] == [b"0", b"1", b"4", b"5"]
    assert world.stats.info(0)["putMessageFailedTimes"] == "2"  # what was not tried is no failure


def test_a_row_that_takes_several_turns_stays_in_order() -> None:
    world = SendWorld()
    results = put_in_a_row(world, [incoming(b"%d" % number) for number in range(600)])
    world.take_turns()
    assert statuses(results) == [PutStatus.PUT_OK] * 600
    results = put_in_a_row(world, [incoming(queue_id=-1), *(incoming() for _ in range(599))])
    world.take_turns()
    assert statuses(results) == [PutStatus.MESSAGE_ILLEGAL] + [PutStatus.NOT_TRIED] * 599
    assert len(world.stored("orders")) == 600


def test_a_run_ends_at_a_refused_message() -> None:
    world = SendWorld()
    run = OrderedRun()
    results: list[PutOutcome] = []
    world.inbox.put(incoming(), results.append, run)
    world.clock.now += 200
    world.take_turn()
    world.inbox.put(incoming(), results.append, run)
    world.take_turns()
    assert statuses(results) == ["[TIMEOUT_CLEAN_QUEUE]", PutStatus.NOT_TRIED]
    assert statuses(world.put(incoming())) == [PutStatus.PUT_OK]
