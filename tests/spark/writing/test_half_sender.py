"""Half messages of a task: repeated sends, refusals, and what is listed."""

import io
from collections.abc import Callable, Sequence

import pytest

from orbitmq.errors import OrbitError, PartlySent, SendFailed, SendIllegal
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.spark.options.options import WriteOptions, write_options
from orbitmq.spark.writing import half_sender
from orbitmq.spark.writing.check_answers import ORBIT_WRITE
from orbitmq.spark.writing.half_list import HalfListWriter, read_halves
from orbitmq.spark.writing.half_sender import HalfSender
from tests.spark.writing.crashes import HEAD, Broker

Judge = Callable[[int, int], OrbitError | None]
"""Returns the error of a row in the n-th call, None if it is stored."""


class Producer:
    """Stores half messages, unless a function says otherwise."""

    def __init__(self, judge: Judge) -> None:
        self.broker = Broker()
        self.calls: list[list[int]] = []
        self.given: list[tuple[Sequence[MessageQueue | None] | None, int | None]] = []
        self._judge = judge

    def prepare_many(
        self,
        messages: Sequence[Message],
        *,
        queues: Sequence[MessageQueue | None] | None = None,
        immunity_s: int | None = None,
    ) -> list[SendReceipt | OrbitError]:
        rows = [int(one.body) for one in messages]
        self.calls.append(rows)
        self.given.append((queues, immunity_s))
        found: list[SendReceipt | OrbitError] = []
        for message, row in zip(messages, rows, strict=True):
            error = self._judge(len(self.calls), row)
            place = message.properties[ORBIT_WRITE]
            found.append(self.broker.prepare(row, place) if error is None else error)
        return found


def timeout() -> SendFailed:
    return SendFailed("no answer", topic="orders", send_id="s")


def illegal() -> SendIllegal:
    return SendIllegal("refused", topic="orders", send_id="s", code=13, remark="too large")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_sender, "pause", lambda _ms: None)


def options(**more: str) -> WriteOptions:
    given = {"nameserver": "ns:9876", "delivery": "transactional", "ledgerLocation": "/ledger"}
    return write_options({**given, **more})


def sent(judge: Judge, count: int, **more: str) -> tuple[Producer, list[int], OrbitError | None]:
    """Send some rows; return the producer, the rows that are listed, and the error."""
    producer, target = Producer(judge), io.BytesIO()
    listed = HalfListWriter(target, HEAD)
    sender = HalfSender(producer, options(**more), "w/f", listed)  # type: ignore[arg-type]
    failure = None
    try:
        sender.send_many([Message("orders", b"%d" % row) for row in range(count)])
    except OrbitError as error:
        failure = error
    halves = read_halves(target.getvalue().split(b"\n")[:-1], "w/f", partly=True)
    return producer, [producer.broker.row_of[one.message_id] for one in halves], failure


def test_rows_are_marked_and_listed_in_their_order() -> None:
    producer, listed, failure = sent(lambda _call, _row: None, 5, transactionTimeout="90500ms")
    assert (listed, failure) == ([0, 1, 2, 3, 4], None)
    assert producer.given == [([None] * 5, 91)]


def test_what_timed_out_is_sent_again_as_another_half() -> None:
    producer, listed, failure = sent(
        lambda call, row: timeout() if call <= 2 and row in (1, 3) else None, 5
    )
    assert (listed, failure) == ([0, 1, 2, 3, 4], None)
    assert producer.calls == [[0, 1, 2, 3, 4], [1, 3], [1, 3]]


def test_it_gives_up_after_its_retries() -> None:
    producer, listed, failure = sent(
        lambda _call, row: timeout() if row == 1 else None, 3, retries="2"
    )
    assert producer.calls == [[0, 1, 2], [1], [1]]
    assert isinstance(failure, PartlySent)
    assert (list(failure.errors), listed) == ([1], [0, 2])
    assert [receipt is None for receipt in failure.receipts] == [False, True, False]


def test_a_refused_row_is_not_sent_again() -> None:
    producer, listed, failure = sent(lambda _call, row: illegal() if row == 1 else None, 3)
    assert len(producer.calls) == 1
    assert isinstance(failure, PartlySent)
    assert isinstance(failure.errors[1], SendIllegal)
    assert listed == [0, 2]


def test_a_single_row_has_its_own_error() -> None:
    _, listed, failure = sent(lambda _call, _row: illegal(), 1)
    assert isinstance(failure, SendIllegal)
    assert listed == []
