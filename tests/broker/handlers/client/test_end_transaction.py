from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.message import flags, properties
from orbitmq.message.ids import offset_id
from orbitmq.message.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC
from orbitmq.message.record import Record, encode
from orbitmq.net.refusal import Refusal
from orbitmq.store.settings import FlushMode
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.transaction import EndTransaction, ResumeCheckHalfMessage
from tests.broker.fake_clients import Client
from tests.broker.send_world import HERE, SMALL
from tests.broker.transaction_world import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Half,
    Transactions,
    checks_of,
)
from tests.store.logs import incoming

HEAD_SIZE = 88  # of a record, up to its body


def refused(world: Transactions, half: Half, decision: int, **more: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        world.end(half, decision, **more)
    return caught.value


def test_a_half_message_is_not_delivered_before_its_commit() -> None:
    world = Transactions.started()
    half = world.half("U1", queue_id=3)
    assert world.bodies(queue_id=3) == []
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies(queue_id=3) == [b"U1"]


def test_a_rolled_back_message_is_never_delivered() -> None:
    world = Transactions.started()
    half = world.half()
    assert world.end(half, ROLLBACK).code == ResponseCode.SUCCESS
    assert world.bodies() == []
    producer = world.producer()
    world.round()
    assert not checks_of(producer)


def test_unknown_leaves_the_transaction_undecided() -> None:
    world = Transactions.started()
    half = world.half()
    assert world.end(half, UNKNOWN).code == ResponseCode.SUCCESS
    assert world.bodies() == []
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
def test_the_first_outcome_holds(first: int, second: int) -> None:
    world = Transactions.started()
    half = world.half()
    world.end(half, first)
    answer = world.end(half, second)
    assert world.bodies() == ([b"U1"] if first == COMMIT else [])
    if first == second:
        assert answer.code == ResponseCode.SUCCESS
    else:
        outcome = "committed" if first == COMMIT else "rolled back"
        assert answer.code == ResponseCode.ILLEGAL_OPERATION
        assert answer.remark == f"the transaction was {outcome} before, and stays so"


def test_two_ends_in_one_turn_get_one_outcome() -> None:
    world = Transactions.started()
    half = world.half()
    clients = [Client("c1"), Client("c2")]
    for client, decision in zip(clients, (COMMIT, ROLLBACK), strict=True):
        asked = EndTransaction(
            producer_group="payments",
            tran_state_table_offset=half.offset,
            commit_log_offset=half.commit_log_offset,
            commit_or_rollback=decision,
            msg_id="U1",
        )
        assert client.ask(world.handlers_table, asked) is None
    world.take_turns()
    codes = [answer.code for client in clients for _, answer in client.answers]
    assert codes == [ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION]
    assert world.bodies() == [b"U1"]


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"producer_group": "others"}, "The producer group wrong"),
        ({"tran_state_table_offset": 7}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 5}, "Find prepared transaction message failed"),
        ({"commit_or_rollback": 3}, "commitOrRollback is 3"),
    ],
)
def test_an_end_that_does_not_fit_is_refused(change: dict[str, object], remark: str) -> None:
    world = Transactions.started()
    half = world.half()
    refusal = refused(world, half, COMMIT, **change)
    assert refusal.code == ResponseCode.SYSTEM_ERROR
    assert refusal.remark.startswith(remark)
    assert world.bodies() == []


def test_another_message_than_a_half_can_not_be_committed() -> None:
    world = Transactions.started()
    world.put(incoming(b"plain", topic="orders"))
    refusal = refused(world, Half(0, 0), COMMIT)
    assert refusal.remark.startswith("Find prepared transaction message failed")
    assert world.bodies() == [b"plain"]


def test_bytes_of_a_body_that_look_like_a_half_are_none() -> None:
    world = Transactions.started()
    victim = world.half("U1")
    found = {"UNIQ_KEY": "U1", "PGROUP": "payments", "REAL_TOPIC": "orders", "REAL_QID": "0"}
    looks_alike = Record(
        topic=HALF_TOPIC.encode(),
        queue_id=0,
        queue_offset=victim.offset,
        commit_log_offset=world.store.log.end + HEAD_SIZE,
        store_timestamp_ms=world.clock.now,
        body=b"forged",
        properties=properties.join(found),
        born_timestamp_ms=world.clock.now,
        born_host=HERE,
        store_host=HERE,
    )
    world.put(incoming(bytes(encode(looks_alike)), topic="others"))
    assert world.store.record(looks_alike.commit_log_offset) is not None
    forged = Half(victim.offset, looks_alike.commit_log_offset)
    remark = refused(world, forged, COMMIT).remark
    assert remark.startswith("Find prepared transaction message failed")
    assert world.bodies() == []
    assert world.end(victim, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_an_end_after_the_immunity_time_is_left_to_the_check() -> None:
    world = Transactions.started()
    producer = world.producer()
    half = world.half(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    world.clock.now += 60_001
    assert refused(world, half, COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    world.round(0)
    assert world.reply(producer, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_a_short_immunity_time_counts_as_the_usual_one() -> None:
    world = Transactions.started()
    half = world.half(CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    world.clock.now += 5_000
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS


def test_the_answer_comes_when_the_outcome_is_on_disk() -> None:
    world = Transactions.started(store=replace(SMALL, flush_mode=FlushMode.SYNC))
    half = world.half()
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.store.flushed == world.store.log.end
    assert world.bodies() == [b"U1"]


def test_an_end_that_can_not_be_stored_says_why_and_can_be_repeated() -> None:
    world = Transactions.started()
    half = world.half()
    is_open, world.store._is_open = world.store._is_open, False
    for decision in (COMMIT, ROLLBACK):
        answer = world.end(half, decision)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert answer.remark == "Service not available now. the store is not open"
    world.store._is_open = is_open
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]


def test_a_half_that_was_checked_too_often_can_be_checked_again() -> None:
    world = Transactions.started(transaction_check_max=1)
    world.half()
    producer = world.producer()
    world.round()
    world.round()
    [kept] = world.stored(CHECKED_TOO_OFTEN_TOPIC)
    message_id = offset_id(HERE, kept.commit_log_offset)
    answer = world.answer(ResumeCheckHalfMessage(msg_id=message_id))
    assert answer.code == ResponseCode.SUCCESS
    world.round()
    assert len(checks_of(producer)) == 2
    assert world.reply(producer, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"U1"]
    assert world.open_transactions.count("orders") == 0


def test_one_that_was_committed_late_is_not_checked_again() -> None:
    world = Transactions.started(transaction_check_max=1)
    half = world.half()
    world.producer()
    world.round()
    world.round()
    [kept] = world.stored(CHECKED_TOO_OFTEN_TOPIC)
    assert world.open_transactions.count("orders") == 0
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.open_transactions.count("orders") == 0
    resume = ResumeCheckHalfMessage(msg_id=offset_id(HERE, kept.commit_log_offset))
    with pytest.raises(Refusal, match="the transaction was committed"):
        world.answer(resume)
    world = world.stopped_and_started()
    with pytest.raises(Refusal, match="the transaction was committed"):
        world.answer(resume)


def test_one_that_is_checked_again_waits_once() -> None:
    world = Transactions.started(transaction_check_max=1)
    world.half()
    world.producer()
    world.round()
    world.round()
    [kept] = world.stored(CHECKED_TOO_OFTEN_TOPIC)
    resume = ResumeCheckHalfMessage(msg_id=offset_id(HERE, kept.commit_log_offset))
    assert world.answer(resume).code == ResponseCode.SUCCESS
    with pytest.raises(Refusal, match="it is checked again already"):
        world.answer(resume)
    assert world.open_transactions.count("orders") == 1


@pytest.mark.parametrize("message_id", ["nonsense", offset_id(HERE, 0), offset_id(HERE, 10**9)])
def test_nothing_else_can_be_checked_again(message_id: str) -> None:
    world = Transactions.started()
    world.half()
    with pytest.raises(Refusal) as caught:
        world.answer(ResumeCheckHalfMessage(msg_id=message_id))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert "putting message back to RMQ_SYS_TRANS_HALF_TOPIC" in caught.value.remark


def test_the_delivered_message_is_marked_as_committed() -> None:
    world = Transactions.started()
    half = world.half()
    world.end(half, COMMIT)
    [message] = world.stored("orders")
    assert flags.transaction_state(message.sys_flag) == flags.TRANSACTION_COMMIT
    assert message.prepared_transaction_offset == half.commit_log_offset
