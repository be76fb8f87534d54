"""From a broker's answer to receipts, and whether they meet the required safety. Pure."""

import logging
from itertools import count
from typing import Final

from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.client.settings import Require
from orbitmq.errors import BrokerError, InvalidInput, NotDurable
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.wire.codes import ResponseCode, version_name
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageAnswer

__all__ = [
    "OldBrokerWarning",
    "check_durable",
    "check_requirable",
    "read_receipt",
    "receipt_of",
    "split_receipt",
]

log = logging.getLogger("orbitmq.client")

_STATUS_OF: Final = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
_ENOUGH: Final = {
    Require.STORED: frozenset(SendStatus),
    Require.FLUSHED: frozenset(SendStatus) - {SendStatus.FLUSH_DISK_TIMEOUT},
    Require.REPLICATED: frozenset({SendStatus.SEND_OK}),
}
_DEFAULT_REGION: Final = "DefaultRegion"


def read_receipt(
    answer: Frame, send_id: str, queue: MessageQueue, address: str = ""
) -> SendReceipt:
    """Return the receipt in a broker's answer; for a batch see ``split_receipt``.

    Raise BrokerError, of the class of the response code, if the broker did not store it, and
    InvalidHeader if the answer does not say where.
    """
    status = _STATUS_OF.get(answer.code)
    if status is None:
        raise BrokerError.of(answer.code, answer.remark, address=address)
    return receipt_of(answer.read(SendMessageAnswer), send_id, queue, status)


def receipt_of(
    header: SendMessageAnswer,
    send_id: str,
    queue: MessageQueue,
    status: SendStatus = SendStatus.SEND_OK,
) -> SendReceipt:
    """Return the receipt of a message that a broker has stored."""
    if header.queue_id != queue.queue_id:  # the broker chose another queue
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendReceipt(
        status=status,
        message_id=send_id,
        offset_message_id=header.msg_id,
        queue=queue,
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region=header.region or _DEFAULT_REGION,
        trace_on=header.trace_on is not False,
        recall_handle=header.recall_handle,
    )


def split_receipt(receipt: SendReceipt, prepared: PreparedSend) -> list[SendReceipt]:
    """Return a receipt for each message of a send, in their order.

    A broker answers a batch with the ids of all records, separated by commas, and the offset of the
    first record. If it stores the batch as a single record (an inner batch), it returns one id for
    all. The message ids are those that consumers see; Java returns the id of the batch instead.
    """
    if not prepared.is_batch:
        return [receipt]
    offset_ids = receipt.offset_message_id.split(",")
    if len(offset_ids) != len(prepared.messages):
        offset_ids = offset_ids[:1] * len(prepared.messages)
    status, queue, region, trace_on = (
        receipt.status,
        receipt.queue,
        receipt.region,
        receipt.trace_on,
    )
    return [
        SendReceipt(
            status=status,
            message_id=message_id,
            offset_message_id=offset_id,
            queue=queue,
            queue_offset=queue_offset,
            region=region,
            trace_on=trace_on,
        )
        for queue_offset, message_id, offset_id in zip(
            count(receipt.queue_offset), prepared.message_ids, offset_ids, strict=False
        )
    ]


def check_requirable(message: Message, require: Require | None) -> None:
    """Refuse a message that asks the broker not to wait for what is required."""
    if require not in (None, Require.STORED) and not message.wait_stored:
        raise InvalidInput(
            f"require={require.value!r} and wait_stored=False contradict each other: the broker "
            "would answer before it has flushed or replicated the message",
            field="require",
        )


def check_durable(receipt: SendReceipt, require: Require | None) -> None:
    """Check that a message is stored as safely as required; raise NotDurable if it is not.

    A broker that flushes or replicates in the background answers SEND_OK without waiting: the
    broker's settings decide what SEND_OK means.
    """
    if require is not None and receipt.status not in _ENOUGH[require]:
        raise NotDurable(receipt, required=require.value)


class OldBrokerWarning:
    """Warns once per broker that is too old for timed messages and delivers them immediately.

    Such a broker (Java's before 5.0) answers SEND_OK.
    """

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check(self, message: Message, peer: str, version: int) -> None:
        """Warn if a message is timed, and the broker that stored it has no timers."""
        if peer in self._warned or (message.delay is None and message.deliver_at is None):
            return
        self._warned.add(peer)
        log.warning(
            "%s is of release %s, which has no timers: it delivers messages with delay or "
            "deliver_at immediately, such as one to %s; use delay_level with it",
            *(peer, version_name(version), message.topic),
        )
