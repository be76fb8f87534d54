"""Ends of transactions on a broker; its rules are tested with the broker."""

from collections.abc import Iterator

import pytest

from orbitmq import embedded
from orbitmq.blocking import Producer
from orbitmq.clock import SystemClock
from orbitmq.embedded import RunningCluster
from orbitmq.errors import BrokerError, NoRoute
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import Message, SendReceipt
from orbitmq.spark.options.options import Access
from orbitmq.spark.writing import ends as ends_module
from orbitmq.spark.writing.ends import TransactionEnds
from orbitmq.spark.writing.half_list import Half, HalfListHead
from tests.spark.stored import stored


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    # A busy machine is no reason to refuse: neither producer nor ends try again here.
    with embedded.start(brokers=2, settings={"brokerFastFailureEnable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster: RunningCluster) -> Iterator[Producer]:
    with Producer("etl", nameserver=cluster.nameserver, retries=0) as running:
        yield running


@pytest.fixture
def ends(cluster: RunningCluster) -> Iterator[TransactionEnds]:
    with TransactionEnds(Access(nameserver=cluster.nameserver), try_ms=0) as opened:
        yield opened


def head(age_ms: int = 0, timeout_ms: int = 60_000) -> HalfListHead:
    return HalfListHead("etl", SystemClock().now_ms() - age_ms, timeout_ms)


def halves(producer: Producer, topic: str, count: int, immunity_s: int = 60) -> list[Half]:
    bodies = (b"%04d" % number for number in range(count))
    messages = [Message(topic, body) for body in bodies]
    found = []
    for receipt in producer.prepare_many(messages, immunity_s=immunity_s):
        assert isinstance(receipt, SendReceipt)
        _, log_offset = parse_offset_id(receipt.offset_message_id)
        broker = receipt.queue.broker_name
        found.append(Half(topic, broker, receipt.queue_offset, log_offset, receipt.message_id))
    return found


def bodies(cluster: RunningCluster, topic: str) -> list[int]:
    return [int(one.body) for one in stored(cluster, topic)]


def test_all_are_committed_in_order_and_once(
    cluster: RunningCluster, producer: Producer, ends: TransactionEnds
) -> None:
    begun = halves(producer, "many", 700)
    assert bodies(cluster, "many") == []
    assert ends.commit(begun, head()) == {}
    assert ends.commit(begun, head()) == {}
    order = {half.message_id: number for number, half in enumerate(begun)}
    for broker in ("broker-a", "broker-b"):
        found = [one for one in stored(cluster, "many") if one.broker_name == broker]
        numbers = [order[one.message_id] for one in found]
        assert numbers == sorted(numbers)
    assert sorted(bodies(cluster, "many")) == list(range(700))


def test_the_first_outcome_stays(
    cluster: RunningCluster, producer: Producer, ends: TransactionEnds
) -> None:
    begun = halves(producer, "dropped", 3)
    assert ends.roll_back(begun, head()) == {}
    errors = ends.commit(begun, head())
    assert set(errors) == {0, 1, 2}
    assert all("rolled back before" in str(error) for error in errors.values())
    assert bodies(cluster, "dropped") == []


def test_what_is_late_is_ended_as_if_the_broker_had_asked(
    cluster: RunningCluster, producer: Producer, ends: TransactionEnds
) -> None:
    # The broker's own transactionTimeOut of 6 s is the least that counts, so its clock goes ahead.
    begun = halves(producer, "late", 2)
    assert ends.commit(begun, head(age_ms=99_000)) == {}
    assert sorted(bodies(cluster, "late")) == [0, 1]


def test_errors_of_some_leave_the_others_alone(
    cluster: RunningCluster, producer: Producer, ends: TransactionEnds
) -> None:
    first, second = halves(producer, "some", 2)
    wrong = first._replace(log_offset=first.log_offset + 1)
    errors = ends.commit([wrong, second], head())
    assert isinstance(errors[0], BrokerError)
    assert list(errors) == [0]
    assert bodies(cluster, "some") == [1]


def test_a_broker_that_is_gone_fails_its_own_only(
    cluster: RunningCluster, producer: Producer, ends: TransactionEnds
) -> None:
    begun = halves(producer, "gone", 4)
    lost = [half._replace(broker="broker-x") for half in begun[:2]]
    errors = ends.commit([*lost, *begun[2:]], head())
    assert {index: type(error) for index, error in errors.items()} == {0: NoRoute, 1: NoRoute}
    assert sorted(bodies(cluster, "gone")) == [2, 3]


def test_failed_ends_are_repeated_for_a_while(
    cluster: RunningCluster, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, tries = halves(producer, "again", 1), []
    ask = TransactionEnds._end_at

    def end_at(self: TransactionEnds, broker: str, *more: object) -> object:
        tries.append(broker)
        if len(tries) < 3:
            raise NoRoute("not yet", topic="again", is_missing=False, answers={})
        return ask(self, broker, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionEnds, "_end_at", end_at)
    monkeypatch.setattr(ends_module, "pause", lambda _ms: None)
    with TransactionEnds(Access(nameserver=cluster.nameserver), try_ms=60_000) as patient:
        assert patient.commit(begun, head()) == {}
    assert len(tries) == 3
    assert bodies(cluster, "again") == [0]
