from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orbitmq.broker.sending import fast_fail
from orbitmq.broker.sending.inbox import PutOutcome
from orbitmq.message import batch, flags, properties
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.codes import RequestCode, ResponseCode
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.sending.test_inbox import LaterWorkers
from tests.store.logs import incoming

SYNC = replace(SMALL, flush_mode=FlushMode.SYNC)


_unique_key = properties.finder(properties.UNIQUE_KEY.encode())


def sent(key: str | None = "U1", body: bytes = b"body", **fields: Any) -> Incoming:
    """Return a message as the handler makes it of a send."""
    found = {"TAGS": "paid"} | ({} if key is None else {properties.UNIQUE_KEY: key})
    return incoming(body, properties=properties.join(found | fields.pop("more", {})), **fields)


def batched(*keys: str | None, queue_id: int = 0) -> Incoming:
    parts = [(0, b"of %s" % str(key).encode(), sent(key).properties) for key in keys]
    return incoming(batch.encode(parts), properties=b"", is_batch=True, queue_id=queue_id)


class World(SendWorld):
    """A broker that recognizes repeats; ``answers`` has the queue and the outcome of each send."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **({"send_deduplication_enable": True} | more))
        self.deduplication.load()
        self.answers: list[tuple[int, PutOutcome]] = []

    def begin(self, message: Incoming, topic: str = "orders") -> None:
        answer = partial(self._note, len(self.answers))
        self.answers.append((-1, PutResult(status=PutStatus.NOT_TRIED)))
        key = _unique_key(message.properties)
        text = None if key is None else key.decode()
        self.deduplication.put(message, topic, text, message.queue_id, answer)

    def _note(self, number: int, queue_id: int, outcome: PutOutcome) -> None:
        assert self.answers[number][0] == -1, "answered twice"
        self.answers[number] = queue_id, outcome

    def receive(self, message: Incoming, topic: str = "orders") -> tuple[int, int, tuple[int, ...]]:
        """Send a message; return queue, queue offset and log offsets of its receipt."""
        self.begin(message, topic)
        self.take_turns()
        return self.receipt(-1)

    def receipt(self, number: int) -> tuple[int, int, tuple[int, ...]]:
        queue_id, outcome = self.answers[number]
        assert isinstance(outcome, PutResult)
        assert outcome.status is PutStatus.PUT_OK
        return queue_id, outcome.queue_offset, outcome.offsets

    def bodies(self, topic: str = "orders") -> list[bytes]:
        found = (self.stored(topic, queue_id) for queue_id in range(4))
        return [message.body for messages in found for message in messages]


def crashed(world: World, **more: Any) -> World:
    """Return a broker on the disk of one whose process was killed."""
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.kill()
    return World(world.store.settings, disk=world.disk, clock=world.clock, **more)


# Live


def test_a_repeat_gets_the_first_receipt_and_is_not_stored() -> None:
    world = World()
    world.receive(sent("U0"))
    first = world.receive(sent("U1", queue_id=2))
    assert world.receive(sent("U1", queue_id=2)) == first
    assert world.receive(sent("U1", queue_id=3)) == first  # a retry may choose another queue
    assert first[:2] == (2, 0)
    assert len(world.bodies()) == 2


def test_a_long_id_takes_little_memory() -> None:
    world = World()
    first = world.receive(sent("k" * 10_000))
    assert world.receive(sent("k" * 10_000)) == first
    assert world.receive(sent("k" * 9_999)) != first
    assert all(len(name) < 300 for name in world.deduplication._young)


def test_another_topic_or_another_body_is_another_message() -> None:
    world = World()
    receipts = {
        world.receive(sent("U1")),
        world.receive(sent("U1", body=b"changed")),  # a message object that was used twice
        world.receive(sent("U1", topic="invoices"), "invoices"),
    }
    assert len(receipts) == 3
    assert world.receive(sent("U1", body=b"changed"))[1] == 1


def test_consumers_may_send_a_message_to_their_retry_topic_many_times() -> None:
    world, topic = World(), "%RETRY%readers"
    for _ in range(2):
        world.receive(sent(topic=topic), topic)
    assert len(world.stored(topic)) == 2


def test_a_delayed_message_is_recognized_by_the_topic_it_was_sent_to() -> None:
    world = World()
    waiting = sent(
        topic="SCHEDULE_TOPIC_XXXX",
        queue_id=2,
        more={"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "1"},
    )
    for one in (world, crashed(world)):
        one.deduplication.put(waiting, "orders", "U1", 1, partial(one._note, len(one.answers)))
        one.answers.append((-1, PutResult(status=PutStatus.NOT_TRIED)))
        one.take_turns()
        assert one.receipt(-1)[:2] == (1, 0)
    assert len(one.stored("SCHEDULE_TOPIC_XXXX", 2)) == 1


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_repeat_of_a_pending_send_waits_for_its_outcome(is_stored: bool) -> None:
    world = World()
    world.begin(sent())
    world.begin(sent(queue_id=1))
    world.begin(sent(queue_id=2))
    assert [queue_id for queue_id, _ in world.answers] == [-1, -1, -1]
    if not is_stored:
        world.clock.now += world.settings.broker.wait_time_mills_in_send_queue
    world.take_turns()
    refused = [isinstance(outcome, Refusal) for _, outcome in world.answers]
    assert refused == [not is_stored, False, False]  # the repeat of a refused send is stored
    assert world.receipt(1) == world.receipt(2)
    assert world.receipt(1)[0] == (0 if is_stored else 1)
    assert len(world.bodies()) == 1


def test_a_repeat_waits_for_the_disk_as_the_first_send_does() -> None:
    workers = LaterWorkers()
    world = World(SYNC, workers=workers)
    world.begin(sent())
    world.take_turns()
    world.begin(sent())
    world.take_turns()
    assert [queue_id for queue_id, _ in world.answers] == [-1, -1]
    workers.work()
    assert world.receipt(0) == world.receipt(1)


def test_a_repeat_after_a_flush_that_took_too_long_waits_for_the_disk_again() -> None:
    workers = LaterWorkers()
    world = World(SYNC, workers=workers)
    world.begin(sent())
    world.take_turns()
    world.clock.now += world.store.settings.sync_flush_timeout_ms
    world.store.tick()
    (_, late) = world.answers[0]
    assert isinstance(late, PutResult)
    assert late.status is PutStatus.FLUSH_DISK_TIMEOUT
    world.begin(sent())
    assert world.answers[1][0] == -1
    workers.work()
    assert world.receipt(1)[2] == late.offsets


def test_repeats_that_wait_are_limited_in_number_and_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(send_thread_pool_queue_capacity=2)
    for _ in range(3):
        world.begin(sent())
    with pytest.raises(Refusal, match=r"^\[OVERLOAD\]"):
        world.begin(sent())
    world.take_turns()
    monkeypatch.setattr(fast_fail, "WAITING_BYTES_MAX", 4)
    world.begin(sent("U2"))
    world.begin(sent("U2"))
    with pytest.raises(Refusal, match=r"^\[REJECTREQUEST\]"):
        world.begin(sent("U2"))


def test_a_repeat_that_finds_no_room_in_the_inbox_is_refused() -> None:
    world = World(send_thread_pool_queue_capacity=1)
    world.begin(sent())
    world.begin(sent())
    world.clock.now += world.settings.broker.wait_time_mills_in_send_queue

    def full(*_args: object) -> None:
        raise Refusal(ResponseCode.SYSTEM_BUSY, "full")

    world.inbox.put = full  # type: ignore[method-assign, assignment]
    world.take_turns()
    assert [isinstance(outcome, Refusal) for _, outcome in world.answers] == [True, True]
    assert repr(world.deduplication) == "<Deduplication 0 ids, 0 repeats waiting>"


def test_a_message_of_a_deleted_topic_is_stored_again() -> None:
    world = World()
    world.receive(sent())
    world.store.delete_topic("orders")
    world.receive(sent("U2"))
    assert world.receive(sent())[1] == 1
    assert len(world.bodies()) == 2


# Batches


def test_a_repeated_batch_gets_the_first_receipt() -> None:
    world = World()
    first = world.receive(batched("B1", "B2", "B3", queue_id=1))
    assert world.receive(batched("B1", "B2", "B3", queue_id=2)) == first
    assert len(first[2]) == len(world.bodies()) == 3


def test_a_batch_waits_for_the_same_batch() -> None:
    world = World()
    world.begin(batched("B1", "B2"))
    world.begin(batched("B1", "B2"))
    world.take_turns()
    assert world.receipt(0) == world.receipt(1)
    assert len(world.bodies()) == 2


def test_of_a_batch_that_a_crash_cut_the_rest_is_stored() -> None:
    world = World()
    world.receive(sent("B1", body=b"of B1"))  # what is left of it
    queue_id, queue_offset, offsets = world.receive(batched("B1", "B2", None))
    assert (queue_id, queue_offset, len(set(offsets))) == (0, 0, 3)
    assert world.bodies() == [b"of B1", b"of B2", b"of None"]
    assert world.receive(batched("B3", "B1"))[1] == 3


def test_an_id_twice_in_a_batch_and_an_unreadable_batch_are_left_to_the_store() -> None:
    world = World()
    world.receive(batched("B1", "B1"))
    assert len(world.bodies()) == 2
    world.begin(incoming(b"no batch", is_batch=True))
    world.take_turns()
    _, outcome = world.answers[-1]
    assert isinstance(outcome, PutResult)
    assert outcome.status is PutStatus.MESSAGE_ILLEGAL


# The window


def test_the_youngest_ids_are_remembered_and_at_most_twice_as_many() -> None:
    world = World(send_deduplication_max_num=10)
    for number in range(35):
        world.receive(sent(f"U{number}"))
    assert len(world.deduplication) <= 20
    for number in range(25, 35):
        world.receive(sent(f"U{number}"))
    assert len(world.bodies()) == 35
    world.receive(sent("U0"))
    assert len(world.bodies()) == 36


def test_ids_are_remembered_for_the_time_set_and_at_most_twice_that() -> None:
    world = World(send_deduplication_time_mills=1_000)
    first = world.receive(sent("U1"))
    world.clock.now += 900
    world.receive(sent("U2"))
    assert world.receive(sent("U1")) == first
    for number in range(2):
        world.clock.now += 1_001
        world.receive(sent(f"later {number}"))
    assert world.receive(sent("U1")) != first


# After a start


def test_a_start_after_a_crash_knows_the_ids_of_the_log() -> None:
    world = World()
    first = world.receive(sent("U1"))
    many = world.receive(batched("B1", "B2", queue_id=3))
    world.clock.now += 3_600_000  # however long it was down
    again = crashed(world)
    assert len(again.deduplication) == 3
    assert again.receive(sent("U1", queue_id=1)) == first
    assert again.receive(batched("B1", "B2")) == many
    assert len(again.bodies()) == 3


def test_a_start_reads_the_end_of_the_log_only() -> None:
    world = World()
    for number in range(600):  # several queue files and reads
        world.receive(sent(f"U{number}", queue_id=number % 2))
        world.clock.now += 1
    assert len(crashed(world, send_deduplication_max_num=550).deduplication) == 550
    again = crashed(world, send_deduplication_time_mills=250)
    assert len(again.deduplication) == 251
    for number in (349, 599):
        again.receive(sent(f"U{number}"))
    assert len(again.bodies()) == 600
    again.receive(sent("U348"))
    assert len(again.bodies()) == 601


def test_copies_made_by_a_broker_are_not_taken_for_sends_at_a_start() -> None:
    world = World()
    copies = [
        sent("U1", more={"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "0"}),
        sent("U2", sys_flag=flags.TRANSACTION_COMMIT),
        sent("U3", more={properties.TIMER_OUT_MS: "5"}),
        sent("U4", topic="SCHEDULE_TOPIC_XXXX", more={"REAL_TOPIC": "%RETRY%a", "REAL_QID": "0"}),
        sent("U5", topic="%RETRY%a"),
        sent(
            "U6",
            topic="rmq_sys_wheel_timer",
            more={"REAL_TOPIC": "orders", "REAL_QID": "0", "TIMER_DEL_UNIQKEY": "U6"},
        ),
        sent(None),
    ]
    world.put(*copies)
    assert len(crashed(world).deduplication) == 0


# Through the handlers


def test_the_answer_to_a_repeat_is_the_first_answer() -> None:
    world = SendWorld(send_deduplication_enable=True)
    world.create("orders")
    first = world.send(header(queue_id=1))
    assert world.send(header(queue_id=2)).texts() == first.texts()
    several = header(queue_id=1, batch=True, properties={properties.UNIQUE_KEY: "whole"})
    body = bytes(batched("B1", "B2").body)
    code = RequestCode.SEND_BATCH_MESSAGE
    stored = world.send(several, body, code=code)
    assert world.send(several, body, code=code).texts() == stored.texts()
    assert len(world.stored("orders", 1)) == 3


def test_the_setting_can_change_while_the_broker_runs() -> None:
    world = SendWorld()
    world.create("orders")

    def send() -> str | None:
        return world.send(header()).texts()["queueOffset"]

    def switch(on: bool) -> None:
        world.settings.broker = replace(world.settings.broker, send_deduplication_enable=on)

    assert [send(), send()] == ["0", "1"]
    switch(True)
    assert [send(), send(), send()] == ["2", "2", "2"]
    switch(False)
    assert [send(), send()] == ["3", "4"]
    assert len(world.deduplication) == 0


# Everything together

SENDS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 5), st.integers(0, 3)),
    st.tuples(st.just("batch"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("turn"), st.just(0), st.just(0)),
    st.tuples(st.just("late"), st.just(0), st.just(0)),
    st.tuples(st.just("kill"), st.just(0), st.just(0)),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(SENDS, max_size=30), st.sampled_from([SMALL, SYNC]))
def test_whatever_is_repeated_each_message_is_stored_once(
    steps: list[tuple[str, int, int]], store: StoreSettings
) -> None:
    world = World(store)
    asked: set[bytes] = set()
    for step, number, queue_id in steps:
        if step == "send":
            asked.add(b"of S%d" % number)
            world.begin(sent(f"S{number}", b"of S%d" % number, queue_id=queue_id))
        elif step == "batch":
            keys = [f"B{number}", f"B{number + 1}"]
            asked |= {b"of %s" % key.encode() for key in keys}
            world.begin(batched(*keys, queue_id=queue_id))
        elif step == "turn":
            world.take_turn()
        elif step == "late":  # what is pending is refused in the next turn
            world.clock.now += world.settings.broker.wait_time_mills_in_send_queue
        else:
            world = crashed(world)
    world.take_turns()
    assert all(queue_id >= 0 for queue_id, _ in world.answers)
    counts = Counter(world.bodies())
    assert counts.keys() <= asked
    assert not counts or max(counts.values()) == 1
    for _, outcome in world.answers:  # a receipt says where the message is
        for offset in outcome.offsets if isinstance(outcome, PutResult) else ():
            assert world.store.record(offset) is not None
