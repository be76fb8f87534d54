"""Transactions: what is decided, what the broker hears of it, and what is remembered."""

import asyncio
from datetime import timedelta

import pytest

from orbitmq.client.producer import transactions as transaction
from orbitmq.client.producer.transactions import TransactionEnd, TransactionState
from orbitmq.errors import InvalidInput, TransactionNotBegun
from orbitmq.message.model import Message, SendStatus, StoredMessage
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.headers.transaction import EndTransaction
from tests.client.transaction_links import FakeBroker

COMMIT, ROLLBACK, UNKNOWN = TransactionState
MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


async def commit(_message: Message) -> TransactionState:
    return COMMIT


# As a block


def test_a_block_that_ends_well_commits() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        async with broker.transactions().transaction(MESSAGE, broker.half()) as begun:
            assert begun.message_id == "7F01"
            assert begun.state is None
            assert broker.connection.ends == []
        assert begun.state is COMMIT
        assert broker.marks == [{"TRAN_MSG": "true", "PGROUP": "billing"}]
        assert broker.connection.ends == [
            EndTransaction(
                topic="orders",
                producer_group="billing",
                tran_state_table_offset=5,
                commit_log_offset=8888,
                commit_or_rollback=8,
                msg_id="7F01",
                transaction_id="T1",
                target_broker="broker-a",
            )
        ]

    run_virtual(main)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, KeyboardInterrupt])
def test_a_block_left_by_an_exception_rolls_back(error: type[BaseException]) -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        with pytest.raises(error):
            async with broker.transactions().transaction(MESSAGE, broker.half()):
                raise error
        assert broker.connection.decisions == [ROLLBACK]

    run_virtual(main)


@pytest.mark.parametrize(
    ("decide", "state"),
    [("commit", COMMIT), ("rollback", ROLLBACK), ("leave_undecided", UNKNOWN)],
)
def test_a_decision_inside_the_block_is_final(decide: str, state: TransactionState) -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        async with broker.transactions().transaction(MESSAGE, broker.half()) as begun:
            await getattr(begun, decide)()
            with pytest.raises(InvalidInput, match="has already ended with"):
                await begun.commit()
        assert broker.connection.decisions == [state]

    run_virtual(main)


def test_a_half_message_stored_less_safely_is_rolled_back_without_work() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker(SendStatus.FLUSH_DISK_TIMEOUT)
        with pytest.raises(TransactionNotBegun, match="FLUSH_DISK_TIMEOUT"):
            async with broker.transactions().transaction(MESSAGE, broker.half()):
                pytest.fail("the block ran")
        assert broker.connection.decisions == [ROLLBACK]

    run_virtual(main)


def test_a_transaction_is_for_one_message() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        once = broker.transactions().transaction(MESSAGE, broker.half())
        with pytest.raises(InvalidInput, match="has not begun"):
            _ = once.receipt
        async with once:
            pass
        with pytest.raises(InvalidInput, match="was used before"):
            async with once:
                pass

    run_virtual(main)


@pytest.mark.parametrize("delayed", [{"delay_level": 3}, {"delay": timedelta(seconds=1)}])
def test_a_delayed_message_is_refused(delayed: dict[str, object]) -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        with pytest.raises(InvalidInput, match="can't be delayed"):
            broker.transactions().transaction(MESSAGE.replace(**delayed), broker.half())
        with pytest.raises(InvalidInput, match="can't be delayed"):
            await broker.transactions().send(MESSAGE.replace(**delayed), broker.half(), commit)
        assert broker.marks == []

    run_virtual(main)


# With local work


class Listener:
    def __init__(self, state: TransactionState) -> None:
        self.state = state
        self.executed: list[Message] = []

    def execute(self, message: Message) -> TransactionState:
        self.executed.append(message)
        return self.state

    def check(self, message: StoredMessage) -> TransactionState:
        return self.state


@pytest.mark.parametrize("state", TransactionState)
def test_a_listener_decides(state: TransactionState) -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        listener = Listener(state)
        ended = await broker.transactions(listener=listener).send(MESSAGE, broker.half())
        assert ended.state is state
        assert ended.receipt.message_id == "7F01"
        assert listener.executed == [MESSAGE]
        assert broker.connection.decisions == [state]

    run_virtual(main)


def test_a_function_given_with_the_send_goes_before_the_listener() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        transactions = broker.transactions(listener=Listener(ROLLBACK))
        assert (await transactions.send(MESSAGE, broker.half(), commit)).state is COMMIT

    run_virtual(main)


def test_work_that_raises_leaves_it_to_the_broker_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_message: Message) -> TransactionState:
        raise OSError("the database is gone")

    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        transactions = broker.transactions()
        assert (await transactions.send(MESSAGE, broker.half(), fail)).state is UNKNOWN
        assert broker.connection.decisions == [UNKNOWN]
        assert broker.connection.remarks == [
            "executeLocalTransactionBranch exception: OSError: the database is gone"
        ]
        assert transactions.known_state("7F01") is None

    run_virtual(main)
    assert "the local work of 7F01 failed" in caplog.text


def test_work_that_returns_no_state_decides_nothing() -> None:
    async def forget(_message: Message) -> TransactionState:
        return None  # type: ignore[return-value]

    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        assert (await broker.transactions().send(MESSAGE, broker.half(), forget)).state is UNKNOWN

    run_virtual(main)


def test_no_work_is_done_for_a_half_message_stored_less_safely() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker(SendStatus.SLAVE_NOT_AVAILABLE)
        listener = Listener(COMMIT)
        ended = await broker.transactions(listener=listener).send(MESSAGE, broker.half())
        assert (ended.state, listener.executed) == (ROLLBACK, [])

    run_virtual(main)


def test_without_local_work_nothing_is_sent() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        with pytest.raises(InvalidInput, match="has no local work"):
            await broker.transactions().send(MESSAGE, broker.half())
        assert broker.marks == []

    run_virtual(main)


# What is told and remembered


def test_a_decision_that_does_not_arrive_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        transactions = broker.transactions()
        async with transactions.transaction(MESSAGE, broker.half()):
            assert (
                transactions.known_state("7F01") is UNKNOWN
            )  # it is open: nobody may decide for it
            broker.is_reachable = False
        assert transactions.known_state("7F01") is COMMIT
        assert broker.connection.ends == []

    run_virtual(main)
    assert "the COMMIT of 7F01 can't be sent to broker-a" in caplog.text


def test_memory_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "DECIDED_MAX", 2)

    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        transactions = broker.transactions()
        for number in range(3):
            await transactions.send(MESSAGE, broker.half(f"id-{number}"), commit)
        assert [transactions.known_state(f"id-{number}") for number in range(3)] == [
            None,
            COMMIT,
            COMMIT,
        ]

    run_virtual(main)


def test_each_decision_is_reported_to_on_end() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        ends: list[TransactionEnd] = []
        await broker.transactions(on_end=ends.append).send(MESSAGE, broker.half(), commit)
        assert ends == [
            TransactionEnd(
                topic="orders",
                tags="paid",
                keys=("o-42",),
                message_id="7F01",
                transaction_id="T1",
                broker_address="10.0.0.7:10911",
                region="DefaultRegion",
                state=COMMIT,
                from_check=False,
            )
        ]

    run_virtual(main)


def test_namespaces_travel_in_name_and_header() -> None:
    async def main(_clock: VirtualClock) -> None:
        broker = FakeBroker()
        transactions = broker.transactions(namespace="ns", namespace_v2="eu")
        await transactions.send(MESSAGE, broker.half(), commit)
        texts = broker.connection.ends[0].to_texts()
        assert (texts["topic"], texts["ns"], texts["nsd"]) == ("ns%orders", "eu", "true")

    run_virtual(main)
