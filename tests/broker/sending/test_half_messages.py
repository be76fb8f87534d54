"""Halves and how they end, over stops, crashes and other brokers' stores."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.broker.sending.half_messages import copy_of
from orbitmq.message import properties
from orbitmq.message.ids import offset_id
from orbitmq.message.names import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from orbitmq.net.refusal import Refusal
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.settings import FlushMode
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.transaction import ResumeCheckHalfMessage
from tests.broker.send_world import HERE, SMALL, header
from tests.broker.transaction_world import (
    COMMIT,
    GROUP,
    ROLLBACK,
    Half,
    Transactions,
    checks_of,
)
from tests.broker.world import HandClock
from tests.store.golden import unpack
from tests.store.logs import incoming


def test_a_half_is_stored_as_java_stores_it() -> None:
    world = Transactions.started()
    world.half("U1", queue_id=3, KEYS="k1")
    [half] = world.stored(HALF_TOPIC)
    assert half.sys_flag == 0
    assert half.properties == {
        "UNIQ_KEY": "U1",
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "KEYS": "k1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "__transactionId__": "U1",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }


def test_the_delivered_message_has_the_properties_that_java_leaves() -> None:
    world = Transactions.started()
    world.end(world.half("U1", KEYS="k1"), COMMIT)
    [half] = world.stored(HALF_TOPIC)
    [message] = world.stored("orders")
    left = {key: text for key, text in half.properties.items() if not key.startswith("REAL_")}
    assert message.properties == left
    assert message.born_timestamp_ms == half.born_timestamp_ms


def test_a_delay_begins_with_the_commit() -> None:
    world = Transactions.started()
    half = world.half("U1", queue_id=2, DELAY="3")
    world.clock.now += 5_000
    world.end(half, COMMIT)
    [waiting] = world.stored(SCHEDULE_TOPIC, 2)
    assert waiting.properties["REAL_TOPIC"] == "orders"
    assert waiting.properties["REAL_QID"] == "2"
    assert "TRAN_MSG" not in waiting.properties
    world.clock.now += 9_999
    world.delays.tick(world.clock.now)
    world.take_turns()
    assert world.bodies(queue_id=2) == []
    world.clock.now += 1
    world.delays.tick(world.clock.now)
    world.take_turns()
    assert world.bodies(queue_id=2) == [b"U1"]
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert len(world.stored(SCHEDULE_TOPIC, 2)) == 1


def test_a_delivery_time_counts_from_the_commit() -> None:
    world = Transactions.started()
    half = world.half("U1", TIMER_DELAY_MS="2500")
    world.clock.now += 5_000
    assert world.stored(TIMER_TOPIC) == []
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    (waiting,) = world.stored(TIMER_TOPIC)
    assert waiting.properties["TIMER_OUT_MS"] == str((world.clock.now + 2_499) // 1000 * 1000)
    assert world.bodies() == []


@pytest.mark.parametrize(
    "more",
    [{"DELAY": "soon"}, {"TIMER_DELAY_MS": "soon"}, {"INNER_MULTI_DISPATCH": "no light queue"}],
)
def test_a_half_that_could_not_be_committed_is_refused(more: dict[str, str]) -> None:
    world = Transactions.started(
        store=replace(SMALL, lmq_enabled=True, multi_dispatch_enabled=True)
    )
    found = {"UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": GROUP, **more}
    assert world.answer(header(properties=found)).code != ResponseCode.SUCCESS
    assert world.store.log.end == 0


def test_the_offsets_pass_what_has_ended_and_is_flushed() -> None:
    world = Transactions.started()
    halves = [world.half(f"U{number}") for number in range(3)]
    world.end(halves[0], COMMIT)
    world.end(halves[2], COMMIT)
    world.tick()
    assert world.saved_offsets()[0] == -1  # the delivered message is not on disk yet
    world.flush()
    world.tick(3_000)
    assert world.saved_offsets() == (1, 0)
    assert world.op_bodies() == [b"0,2,"]
    world.end(halves[1], ROLLBACK)
    assert world.op_bodies() == [b"0,2,", b"1,"]
    world.flush()
    world.tick()
    assert world.saved_offsets() == (3, 2)


def test_counts_of_undecided_transactions() -> None:
    world = Transactions.started()
    halves = [world.half(f"U{number}") for number in range(3)]
    assert world.open_transactions.count("orders") == 3
    world.end(halves[0], COMMIT)
    world.end(halves[0], COMMIT)
    world.end(halves[1], ROLLBACK)
    assert world.open_transactions.count("orders") == 1


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_a_transaction_ends_after_a_restart(decision: int) -> None:
    world = Transactions.started()
    half = world.half()
    world = world.stopped_and_started()
    assert world.end(half, decision).code == ResponseCode.SUCCESS
    assert world.bodies() == ([b"U1"] if decision == COMMIT else [])


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
def test_the_first_outcome_holds_over_a_restart(first: int, second: int) -> None:
    world = Transactions.started()
    half = world.half()
    world.end(half, first)
    world = world.stopped_and_started()
    is_same = world.end(half, second).code == ResponseCode.SUCCESS
    assert is_same == (first == second)
    assert world.bodies() == ([b"U1"] if first == COMMIT else [])


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("ticks", [False, True])
def test_a_crash_after_the_answer_ends_nothing_twice(first: int, ticks: bool) -> None:
    """In particular one between a commit and its op message."""
    world = Transactions.started(store=replace(SMALL, flush_mode=FlushMode.SYNC))
    half = world.half()
    world.end(half, first)
    if ticks:
        world.tick()
    world = world.crashed_and_started(saved=ticks)
    producer = world.producer()
    world.round()
    assert not checks_of(producer)
    assert world.end(half, first).code == ResponseCode.SUCCESS
    other = COMMIT if first == ROLLBACK else ROLLBACK
    assert world.end(half, other).code == ResponseCode.ILLEGAL_OPERATION
    assert world.bodies() == ([b"U1"] if first == COMMIT else [])
    world.tick(3_000)
    assert world.halves.offset == 1


def test_a_half_is_not_lost_by_a_crash_before_the_commit_is_on_disk() -> None:
    world = Transactions.started()
    half = world.half()
    world.flush()
    world.end(half, COMMIT)
    world.tick(3_000)
    world = world.crashed_and_started()
    assert world.bodies() == []
    producer = world.producer()
    world.round()
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U1"]


def test_the_same_message_sent_twice_is_two_transactions() -> None:
    world = Transactions.started()
    first = world.half("U1")
    world.clock.now += 1
    second = world.half("U1")
    world.end(first, ROLLBACK)
    assert world.end(second, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_an_end_of_a_half_that_was_copied_ends_its_copy() -> None:
    world = Transactions.started()
    half = world.half()
    producer = world.producer()
    world.round()
    assert len(checks_of(producer)) == 1
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.reply(producer, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]
    world.round()
    world.round()
    assert len(checks_of(producer)) == 1
    assert world.halves.offset == 2


def test_an_end_of_a_half_that_an_earlier_run_copied_ends_its_copy() -> None:
    world = Transactions.started()
    half = world.half()
    world.producer()
    world.round()
    world = world.stopped_and_started()
    assert world.saved_offsets()[0] == 1
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]
    producer = world.producer()
    world.round()
    assert not checks_of(producer)


def test_a_copy_that_is_stored_after_the_end_is_done_with() -> None:
    world = Transactions.started()
    half = world.half()
    producer = world.producer()
    world.clock.now += 30_000
    world.transaction_checks.begin_round()
    world.transaction_checks.tick(world.clock.now)  # the copy is in the inbox
    world.end(half, COMMIT)
    world.take_turns()
    assert world.bodies() == [b"U1"]
    world.round()
    assert len(checks_of(producer)) <= 1
    assert world.halves.offset == 2


def test_without_a_key_index_a_transaction_that_left_no_trace_is_decided_by_a_check() -> None:
    without = replace(SMALL, index_enabled=False)
    world = Transactions.started(store=without)
    half = world.half()
    world.producer()
    world.round()
    world = world.stopped_and_started(store=without)
    with pytest.raises(Refusal, match="messageIndexEnable"):
        world.end(half, COMMIT)
    producer = world.producer()
    world.round()
    assert world.reply(producer, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_more_ends_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.sending.half_messages._ENDED_MAX", 2)
    world = Transactions.started()
    halves = [world.half(f"U{number}") for number in range(5)]
    for number, half in enumerate(halves):
        world.end(half, COMMIT if number % 2 else ROLLBACK)
    for number, half in enumerate(halves):
        assert (world.end(half, COMMIT).code == ResponseCode.SUCCESS) == bool(number % 2)
    assert world.bodies() == [b"U1", b"U3"]


def test_a_long_key_takes_little_memory() -> None:
    world = Transactions.started()
    half = world.half("k" * 10_000)
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.end(half, ROLLBACK).code == ResponseCode.ILLEGAL_OPERATION
    assert all(len(key) < 100 for key, _ in world.halves._ended)
    world = world.stopped_and_started()
    assert world.end(half, ROLLBACK).code == ResponseCode.ILLEGAL_OPERATION


def test_the_offset_stays_inside_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    world = Transactions.started()
    world.half()
    world.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 100)
    world = world.stopped_and_started()
    assert world.halves.offset == 1
    assert "at offset 100" in caplog.text


def test_a_saved_offset_without_a_queue_is_not_used() -> None:
    world = Transactions.started()
    world.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 100)
    world = world.stopped_and_started()
    world.end(world.half(), COMMIT)
    assert world.bodies() == [b"U1"]


def test_two_halves_of_one_transaction_are_both_done_with() -> None:
    """A client may repeat a send, to be sure, with the same key and time."""
    world = Transactions.started()
    world.half()
    second = world.half()
    producer = world.producer()
    world.end(second, COMMIT)
    world.round()
    assert [one.tran_state_table_offset for one in checks_of(producer)] == []
    assert world.bodies() == [b"U1"]
    world.round()
    assert world.halves.offset == world.halves.queue.max_offset  # type: ignore[union-attr]


def test_a_message_that_was_committed_can_be_sent_again() -> None:
    """With all its properties, those of its checks among them."""
    world = Transactions.started(transaction_check_max=3)
    producer = world.producer()
    world.half(TRANSACTION_CHECK_TIMES="9", TRAN_PREPARED_QUEUE_OFFSET="4")
    world.round()
    assert len(checks_of(producer)) == 1


# A store that Java's broker has written

UNDECIDED = {b"tx-2", b"tx-5", b"tx-8"}


def golden(tmp_path: Path) -> Transactions:
    directory = unpack("trans", tmp_path).root
    clock = HandClock()
    clock.now = 1794739542000
    store = replace(
        SMALL, segment_bytes=262144, queue_file_entries=20, index_slots=100, index_entries=300
    )
    world = Transactions(disk=RealDisk(), directory=str(directory), clock=clock, store=store)
    world.offsets.load_json((directory / "config/consumerOffset.json").read_text())
    world.open_transactions.load_json((directory / "config/transactionMetrics").read_text())
    world.halves.start()
    return world


def test_the_checks_of_a_java_broker_go_on(tmp_path: Path) -> None:
    world = golden(tmp_path)
    assert world.halves.offset == 25
    assert world.open_transactions.count("GoldenTx") == 3
    producer = world.producer(group="PG_tx")
    world.round()
    checks = checks_of(producer)
    assert [one.tran_state_table_offset for one in checks] == [28, 29, 30]
    copies = world.halves_stored()[28:]
    assert [one.message().properties["TRANSACTION_CHECK_TIMES"] for one in copies] == ["6"] * 3
    assert {one.message().properties["KEYS"].encode() for one in copies} == UNDECIDED
    for asked in checks:
        half = Half(asked.tran_state_table_offset, asked.commit_log_offset)
        world.end(half, COMMIT, producer_group="PG_tx", from_transaction_check=True)
    assert world.open_transactions.count("GoldenTx") == 0
    world.store.close()


def test_what_a_java_broker_has_ended_is_not_ended_again(tmp_path: Path) -> None:
    world = golden(tmp_path)
    committed, rolled_back = Half(0, 0), Half(1, 963)
    before = world.store.log.end
    assert world.end(committed, COMMIT, producer_group="PG_tx").code == ResponseCode.SUCCESS
    answer = world.end(committed, ROLLBACK, producer_group="PG_tx")
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    answer = world.end(rolled_back, COMMIT, producer_group="PG_tx")
    assert answer.remark == "the transaction was rolled back before, and stays so"
    assert world.store.log.end == before
    # A copy of a half of Java: the first one still ends it.
    assert world.end(Half(2, 1469), COMMIT, producer_group="PG_tx").code == ResponseCode.SUCCESS
    assert world.bodies("GoldenTx", 0).count(world.stored("GoldenTx", 0)[-1].body) == 1
    assert len(world.stored("GoldenTx", 0)) == 2
    world.store.close()


def test_op_messages_of_java_4_are_read() -> None:
    world = Transactions.started()
    world.half("U1")
    world.half("U2")
    text = properties.encode({"TAGS": "d"})
    world.put(incoming(b"1", topic=OP_HALF_TOPIC, properties=text))
    world = world.stopped_and_started()
    producer = world.producer()
    world.round()
    assert [one.msg_id for one in checks_of(producer)] == ["U1"]


def test_a_commit_that_an_earlier_broker_made_long_before_its_last_check_is_found() -> None:
    """Java's broker checks again if its op message was lost."""
    world = Transactions.started()
    half = world.half()
    world.end(half, COMMIT)
    [first] = world.halves_stored()
    world.clock.now += 3_600_000
    found = {**properties.decode(first.properties), "TRANSACTION_CHECK_TIMES": "1"}
    world.put(copy_of(first, HALF_TOPIC, found))
    world = world.stopped_and_started()
    copy = world.halves_stored()[1]
    assert world.end(Half(1, copy.commit_log_offset), COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_a_resumed_one_that_is_rolled_back_stays_so() -> None:
    world = Transactions.started(transaction_check_max=1)
    producer = world.producer()
    world.half()
    world.round()
    world.round()
    [kept] = world.stored(CHECKED_TOO_OFTEN_TOPIC)
    message_id = offset_id(HERE, kept.commit_log_offset)
    assert world.answer(ResumeCheckHalfMessage(msg_id=message_id)).code == ResponseCode.SUCCESS
    world.round()
    world.reply(producer, ROLLBACK)
    check = checks_of(producer)[-1]
    world = world.stopped_and_started()
    again = Half(check.tran_state_table_offset, check.commit_log_offset)
    assert world.end(again, COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    assert world.bodies() == []
