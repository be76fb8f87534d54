"""The broker's questions about half messages: who answers, when, and how many may wait."""

import asyncio

import pytest

from orbitmq.client.producer.transaction_checks import TransactionChecks, read_check_request
from orbitmq.client.producer.transactions import Check, TransactionEnd, TransactionState
from orbitmq.client.user_code import UserCode
from orbitmq.errors import CorruptRecord
from orbitmq.message.model import StoredMessage
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.wire.headers.transaction import EndTransaction
from tests.client import frames
from tests.client.transaction_links import FakeConnection

COMMIT, ROLLBACK, UNKNOWN = TransactionState


def checks(check: Check | None, **options: object) -> TransactionChecks:
    options = {"known": lambda _id: None} | options
    return TransactionChecks(
        group="billing",
        check=check,
        user_code=UserCode(InlineWorkers()),
        **options,  # type: ignore[arg-type]
    )


async def settled(one: TransactionChecks) -> None:
    await asyncio.sleep(1)  # virtual: all that can happen has happened
    assert repr(one) == "<TransactionChecks of billing, 0 running, 0 waiting>"


def test_a_question_is_read_with_the_users_name_of_the_topic() -> None:
    question = read_check_request(frames.check(group="ns%billing", topic="ns%orders"), "ns")
    assert question.group == "ns%billing"
    assert question.message.topic == "orders"
    assert question.header.topic == "ns%orders"


@pytest.mark.parametrize("body", [b"", frames.half_message() * 2, frames.half_message()[:-1]])
def test_a_question_without_one_message_can_not_be_read(body: bytes) -> None:
    asked = frames.check()
    asked.body = body
    with pytest.raises(CorruptRecord):
        read_check_request(asked)


@pytest.mark.parametrize("state", TransactionState)
def test_the_answer_is_what_the_function_says(state: TransactionState) -> None:
    asked: list[StoredMessage] = []

    def check(message: StoredMessage) -> TransactionState:
        asked.append(message)
        return state

    async def main(_clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(check)
        one.take(connection, read_check_request(frames.check()))
        await settled(one)
        assert connection.ends == [
            EndTransaction(
                topic="orders",
                producer_group="billing",
                tran_state_table_offset=5,
                commit_log_offset=8888,
                commit_or_rollback=state.wire,
                from_transaction_check=True,
                msg_id="7F01",
                transaction_id="T1",
                target_broker="broker-a",
            )
        ]

    run_virtual(main)
    assert [message.message_id for message in asked] == ["7F01"]


@pytest.mark.parametrize("kind", [OSError, TypeError])
def test_a_function_that_fails_answers_unknown(kind: type[Exception]) -> None:
    async def check(_message: StoredMessage) -> TransactionState:
        if kind is OSError:
            raise OSError("the database is gone")
        return None  # type: ignore[return-value]

    async def main(_clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(check)
        one.take(connection, read_check_request(frames.check()))
        await settled(one)
        assert connection.decisions == [UNKNOWN]
        (remark,) = connection.remarks
        assert remark is not None
        assert remark.startswith(f"checkLocalTransactionState Exception: {kind.__name__}: ")

    run_virtual(main)


def test_what_this_process_decided_is_answered_without_the_function() -> None:
    def check(_message: StoredMessage) -> TransactionState:
        raise AssertionError("asked")

    async def main(_clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(check, known={"7F01": COMMIT}.get)
        one.take(connection, read_check_request(frames.check("7F01")))
        assert connection.decisions == [COMMIT]

    run_virtual(main)


def test_without_a_function_the_broker_gets_no_answer_and_we_are_warned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(_clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(None)
        for number in range(3):
            one.take(connection, read_check_request(frames.check(f"id-{number}")))
        assert connection.ends == []

    run_virtual(main)
    assert caplog.text.count("there is no check function") == 1


def test_running_and_waiting_checks_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    running, most = 0, 0

    async def check(_message: StoredMessage) -> TransactionState:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return COMMIT

    async def main(clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(check, at_once=2, waiting_max=3)
        for number in range(3):
            one.take(connection, read_check_request(frames.check(f"id-{number}")))
        await asyncio.sleep(0)  # two of them run now, and one waits
        for number in range(3, 9):
            one.take(connection, read_check_request(frames.check(f"id-{number}")))
        assert one.dropped == 4
        await asyncio.sleep(10)
        assert sorted(end.msg_id for end in connection.ends) == [
            f"id-{number}" for number in range(5)
        ]

    run_virtual(main)
    assert most == 2
    assert caplog.text.count("the broker will ask again") == 1


def test_a_broker_that_is_gone_will_ask_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def main(_clock: VirtualClock) -> None:
        connection = FakeConnection()
        connection.is_broken = True
        one = checks(lambda _message: COMMIT)
        one.take(connection, read_check_request(frames.check()))
        await settled(one)

    run_virtual(main)
    assert "10.0.0.7:10911 is lost, and it will ask again" in caplog.text


def test_a_stop_waits_for_checks_that_run_and_cuts_them_off_in_the_end() -> None:
    async def check(message: StoredMessage) -> TransactionState:
        await asyncio.sleep(1 if message.message_id == "quick" else 3600)
        return COMMIT

    async def main(clock: VirtualClock) -> None:
        connection = FakeConnection()
        one = checks(check, at_once=2)
        for name in ("quick", "slow", "waits"):
            one.take(connection, read_check_request(frames.check(name)))
        await asyncio.sleep(0)
        await one.close(5_000)
        assert clock.monotonic_ms() == 5_000
        assert [end.msg_id for end in connection.ends] == ["quick"]
        one.take(connection, read_check_request(frames.check("late")))
        assert repr(one) == "<TransactionChecks of billing, 0 running, 0 waiting>"

    run_virtual(main)


def test_each_decision_is_reported_to_on_end() -> None:
    async def main(_clock: VirtualClock) -> None:
        ends: list[TransactionEnd] = []
        one = checks(lambda _message: ROLLBACK, on_end=ends.append)
        one.take(FakeConnection(), read_check_request(frames.check()))
        await settled(one)
        (end,) = ends
        assert (end.message_id, end.keys, end.tags) == ("7F01", ("o-42", "o-43"), "paid")
        assert (end.state, end.from_check, end.region) == (ROLLBACK, True, None)

    run_virtual(main)
