from datetime import UTC, datetime, timedelta

import pytest

from orbitmq.client.producer.sending.packing import Parcel
from orbitmq.client.producer.sending.receipts import (
    DeliveredAtOnce,
    check_durable,
    check_requirable,
    read_receipt,
    split_receipt,
)
from orbitmq.client.settings import Require
from orbitmq.errors import BrokerBusy, InvalidHeader, InvalidInput, NotDurable
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.send import SendMessageAnswer

QUEUE = MessageQueue("orders", "broker-a", 3)


def answer(code: int, header: Header | None = None, remark: str | None = None) -> Frame:
    return Frame(
        code=code,
        opaque=1,
        flag=1,
        version=0,
        spoken="JAVA",
        remark=remark,
        raw_fields=dict(header.to_texts()) if header is not None else {},
        body=b"",
        encoding=HeaderEncoding.JSON,
    )


def stored(**others: object) -> SendMessageAnswer:
    return SendMessageAnswer(**{"msg_id": "OID", "queue_id": 3, "queue_offset": 12, **others})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_four_codes_are_receipts(code: int, status: SendStatus) -> None:
    receipt = read_receipt(answer(code, stored()), "ID", QUEUE)
    assert (receipt.status, receipt.message_id, receipt.offset_message_id) == (status, "ID", "OID")
    assert (receipt.queue, receipt.queue_offset) == (QUEUE, 12)
    assert (receipt.region, receipt.trace_on) == ("DefaultRegion", True)


def test_what_the_broker_adds_is_kept() -> None:
    told = stored(queue_id=5, transaction_id="T", recall_handle="H", region="eu", trace_on=False)
    receipt = read_receipt(answer(0, told), "ID", QUEUE)
    assert receipt.queue == MessageQueue("orders", "broker-a", 5)
    assert (receipt.transaction_id, receipt.recall_handle) == ("T", "H")
    assert (receipt.region, receipt.trace_on) == ("eu", False)


def test_any_other_code_is_an_error_of_its_class() -> None:
    with pytest.raises(BrokerBusy) as caught:
        read_receipt(answer(2, remark="[OVERLOAD]"), "ID", QUEUE, "10.0.0.1:10911")
    assert (caught.value.remark, caught.value.address) == ("[OVERLOAD]", "10.0.0.1:10911")


def test_a_receipt_that_says_not_where_is_none() -> None:
    with pytest.raises(InvalidHeader):
        read_receipt(answer(0), "ID", QUEUE)


def parcel(*ids: str) -> Parcel:
    return Parcel(
        send_id="BATCH",
        topic="orders",
        body=b"",
        properties="",
        messages=(Message("orders", b"x"),) * len(ids),
        message_ids=ids,
        code=RequestCode.SEND_BATCH_MESSAGE,
    )


def test_the_receipt_of_a_batch_is_one_for_each_message() -> None:
    whole = read_receipt(answer(0, stored(msg_id="X,Y")), "BATCH", QUEUE)
    first, second = split_receipt(whole, parcel("A", "B"))
    assert (first.message_id, first.offset_message_id, first.queue_offset) == ("A", "X", 12)
    assert (second.message_id, second.offset_message_id, second.queue_offset) == ("B", "Y", 13)


def test_an_inner_batch_has_one_id_for_all() -> None:
    whole = read_receipt(answer(0, stored(msg_id="X")), "BATCH", QUEUE)
    assert [one.offset_message_id for one in split_receipt(whole, parcel("A", "B"))] == ["X", "X"]


@pytest.mark.parametrize(
    ("require", "weaker"),
    [
        (None, set()),
        (Require.STORED, set()),
        (Require.FLUSHED, {SendStatus.FLUSH_DISK_TIMEOUT}),
        (Require.REPLICATED, set(SendStatus) - {SendStatus.SEND_OK}),
    ],
)
def test_what_is_required_is_checked(require: Require | None, weaker: set[SendStatus]) -> None:
    for status in SendStatus:
        receipt = SendReceipt(
            status=status, message_id="ID", offset_message_id="", queue=QUEUE, queue_offset=1
        )
        if status in weaker:
            with pytest.raises(NotDurable) as caught:
                check_durable(receipt, require)
            assert caught.value.receipt is receipt
            assert caught.value.may_be_stored
            assert status.value in str(caught.value)
        else:
            check_durable(receipt, require)


def test_a_message_that_does_not_wait_can_t_require_anything() -> None:
    hasty = Message("orders", b"x", wait_stored=False)
    check_requirable(hasty, Require.STORED)
    check_requirable(hasty, None)
    with pytest.raises(InvalidInput, match="wait_stored"):
        check_requirable(hasty, Require.FLUSHED)


def test_a_broker_without_timers_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    told, later = DeliveredAtOnce(), datetime(2026, 11, 17, tzinfo=UTC)
    told.look(Message("orders", b"1 pizza", delay_level=3), "10.0.0.7:10911", 407)
    assert caplog.messages == []
    told.look(Message("orders", b"1 pizza", delay=timedelta(hours=1)), "10.0.0.7:10911", 407)
    told.look(Message("orders", b"1 pizza", deliver_at=later), "10.0.0.7:10911", 407)
    told.look(Message("orders", b"1 pizza", deliver_at=later), "10.0.0.8:10911", 407)
    assert [text.partition(",")[0] for text in caplog.messages] == [
        "10.0.0.7:10911 is of release 4.9.7",
        "10.0.0.8:10911 is of release 4.9.7",
    ]
