"""A receipt log has a line for each message that was sent, or tried."""

import json
from pathlib import Path

import pytest

from orbitmq import Message, ReceiptLog, embedded
from orbitmq.blocking import Producer
from orbitmq.client.observe.hooks import SendContext, SendMode
from orbitmq.errors import DiskFailed, SendFailed
from orbitmq.message.trace import MessageKind


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_a_producer_sends(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    with (
        embedded.start() as cluster,
        ReceiptLog(path) as receipts,
        Producer("shop", nameserver=cluster.nameserver) as producer,
    ):
        producer.add_hook(receipts)
        one = producer.send(Message("orders", b"paid"))
        many = producer.send_many([Message("orders", b"%d" % number) for number in range(3)])
        later = producer.send(Message("orders", b"later", delay_level=18))
    found = lines(path)
    given = [one, *many, later]
    assert [line["message_id"] for line in found] == [each.message_id for each in given]
    for line, receipt in zip(found[:4], given, strict=False):
        assert (line["broker"], line["queue_id"], line["queue_offset"], line["status"]) == (
            receipt.queue.broker_name,
            receipt.queue.queue_id,
            receipt.queue_offset,
            "SEND_OK",
        )
        assert line["offset_message_id"] == receipt.offset_message_id
    assert (found[-1]["kind"], "queue_offset" in found[-1]) == ("delayed", False)
    assert [line["sequence"] for line in found] == [1, 2, 3, 4, 5]
    assert len({line["producer"] for line in found}) == 1


def test_a_failed_send_has_the_name_of_its_error(tmp_path: Path) -> None:
    receipts = ReceiptLog(tmp_path / "receipts.jsonl")
    message = Message("orders", b"paid")
    context = SendContext(
        group="shop",
        mode=SendMode.ANSWERED,
        namespace="",
        message=message,
        messages=(message,),
        message_ids=("0A",),
        kind=MessageKind.NORMAL,
        send_id="0A",
        began_ms=5,
    )
    receipts.before(context)
    context.error = SendFailed("no broker", topic="orders", send_id="0A")
    receipts.after(context)
    context.error = None
    receipts.after(context)
    receipts.close()
    assert [line["status"] for line in lines(tmp_path / "receipts.jsonl")] == [
        "SendFailed",
        "ONEWAY",
    ]
    assert repr(receipts).endswith("receipts.jsonl>")


def test_numbers_of_two_logs_of_one_producer_are_not_compared(tmp_path: Path) -> None:
    """As with a log for each day, or with ids that processes share the beginning of."""
    message = Message("orders", b"paid", message_id="2026-11-18-orders-0001")
    logs = [ReceiptLog(tmp_path / name) for name in ("monday.jsonl", "tuesday.jsonl")]
    for log in logs:
        context = SendContext(
            group="shop",
            mode=SendMode.ANSWERED,
            namespace="",
            message=message,
            messages=(message,),
            message_ids=("2026-11-18-orders-0001",),
            kind=MessageKind.NORMAL,
            send_id="2026-11-18-orders-0001",
            began_ms=5,
        )
        if log is logs[0]:  # the other one was added during the send
            log.before(context)
        log.after(context)
        log.close()
    one, other = (lines(tmp_path / name)[0] for name in ("monday.jsonl", "tuesday.jsonl"))
    assert one["producer"] != other["producer"]
    assert one["sequence"] == other["sequence"] == 1


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match="can't open"):
        ReceiptLog(tmp_path / "missing" / "receipts.jsonl")
