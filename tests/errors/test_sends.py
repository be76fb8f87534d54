import pickle

import pytest

from orbitmq.errors import (
    BackPressure,
    ConnectFailed,
    NotDurable,
    OrbitError,
    PartlySent,
    RequestTimeout,
    SendFailed,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnreachable,
)
from orbitmq.errors.attempts import Attempt, TimeSpent
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus

QUEUE = MessageQueue("orders", "broker-a", 2)
RECEIPT = SendReceipt(
    status=SendStatus.FLUSH_DISK_TIMEOUT,
    message_id="7F01",
    offset_message_id="0A01",
    queue=QUEUE,
    queue_offset=12,
)


def timeout() -> SendTimeout:
    return SendTimeout(
        "too late",
        topic="orders",
        send_id="7F01",
        timeout_ms=3_000,
        spent=TimeSpent(answer_ms=3_000),
        attempts=[Attempt(QUEUE, 0, 3_000, RequestTimeout("no answer"))],
        may_be_stored=True,
    )


def test_a_failed_send_tells_what_it_was_about() -> None:
    error = timeout()
    assert (error.topic, error.send_id, error.code) == ("orders", "7F01", 10_002)
    assert error.queue == QUEUE
    assert error.may_be_stored
    assert SendFailed("x", topic="orders", send_id="7F01").queue is None


def test_a_timeout_can_be_caught_as_python_s_own() -> None:
    with pytest.raises(TimeoutError):
        raise timeout()
    assert issubclass(BackPressure, TimeoutError)


def test_types_say_whether_another_send_may_help() -> None:
    assert SendTimeout.retriable
    assert SendRefusedBusy.retriable
    assert SendUnreachable.retriable
    assert SendUnreachable.refresh_route
    assert not SendRefused.retriable
    assert not NotDurable.retriable


def test_a_weak_receipt_is_inside_its_error() -> None:
    error = NotDurable(RECEIPT, required="flushed")
    assert (error.receipt, error.required, error.may_be_stored) == (RECEIPT, "flushed", True)
    assert "FLUSH_DISK_TIMEOUT" in str(error)


def test_of_many_messages_each_has_a_receipt_or_an_error() -> None:
    errors: dict[int, OrbitError] = {1: timeout()}
    error = PartlySent(
        "1 of 2", topic="orders", send_id="7F01", receipts=[RECEIPT, None], errors=errors
    )
    assert error.receipts == (RECEIPT, None)
    assert error.may_be_stored
    sure = PartlySent(
        "x", topic="orders", send_id="", receipts=[None], errors={0: ConnectFailed("nobody")}
    )
    assert not sure.may_be_stored


def test_attempts_and_receipts_cross_processes() -> None:
    again = pickle.loads(pickle.dumps(timeout()))
    assert (again.spent, again.queue, len(again.attempts)) == (TimeSpent(answer_ms=3_000), QUEUE, 1)
    assert pickle.loads(pickle.dumps(NotDurable(RECEIPT, required="flushed"))).receipt == RECEIPT
