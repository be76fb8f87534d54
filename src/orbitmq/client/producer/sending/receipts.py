"""From a broker's answer to receipts, and whether they say enough. Pure."""

import logging
from typing import Final

from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.client.settings import Require
from orbitmq.errors import BrokerError, InvalidInput, NotDurable
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.wire.codes import ResponseCode, version_name
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageAnswer

__all__ = ["OldBrokerWarning", "check_durable", "check_requirable", "read_receipt", "split_receipt"]

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
    """Return what a broker says of a send; of a batch, see ``split_receipt``.

    Raises:
        BrokerError: it did not store it; the error is of the class of its code.
        InvalidHeader: it says not where.

    """
    status = _STATUS_OF.get(answer.code)
    if status is None:
        raise BrokerError.of(answer.code, answer.remark, address=address)
    told = answer.read(SendMessageAnswer)
    if told.queue_id != queue.queue_id:  # a broker that lays queues elsewhere says so
        queue = MessageQueue(queue.topic, queue.broker_name, told.queue_id)
    return SendReceipt(
        status=status,
        message_id=send_id,
        offset_message_id=told.msg_id,
        queue=queue,
        queue_offset=told.queue_offset,
        transaction_id=told.transaction_id,
        region=told.region or _DEFAULT_REGION,
        trace_on=told.trace_on is not False,
        recall_handle=told.recall_handle,
    )


def split_receipt(receipt: SendReceipt, prepared: PreparedSend) -> list[SendReceipt]:
    """Return a receipt for each message of a prepared, in their order.

    A broker answers a batch with the ids of all records, separated by commas, and the offset of the
    first. One that keeps the batch as a single record (an inner batch) gives one id for all. The
    unique ids are then, too, those that consumers see; Java tells the id of the batch instead.
    """
    if not prepared.is_batch:
        return [receipt]
    offset_ids = receipt.offset_message_id.split(",")
    if len(offset_ids) != len(prepared.messages):
        offset_ids = offset_ids[:1] * len(prepared.messages)
    return [
        SendReceipt(
            status=receipt.status,
            message_id=message_id,
            offset_message_id=offset_id,
            queue=receipt.queue,
            queue_offset=receipt.queue_offset + number,
            region=receipt.region,
            trace_on=receipt.trace_on,
        )
        for number, (message_id, offset_id) in enumerate(
            zip(prepared.message_ids, offset_ids, strict=True)
        )
    ]


def check_requirable(message: Message, require: Require | None) -> None:
    """Check that a broker will wait for what is required.

    Raises:
        InvalidInput: the message tells it not to.

    """
    if require not in (None, Require.STORED) and not message.wait_stored:
        raise InvalidInput(
            f"require={require.value!r} and wait_stored=False contradict each other: the broker "
            "would answer before it knows",
            field="require",
        )


def check_durable(receipt: SendReceipt, require: Require | None) -> None:
    """Check that a message is as safe as was required.

    A broker that flushes or copies in the background answers SEND_OK without waiting for it: what
    SEND_OK stands for is a setting of the broker.

    Raises:
        NotDurable: it is not; the error holds the receipt.

    """
    if require is not None and receipt.status not in _ENOUGH[require]:
        raise NotDurable(receipt, required=require.value)


class OldBrokerWarning:
    """Tells of brokers that know no timers, and so deliver at once what was to wait; of each once.

    They answer as if all were well (Java's before 5.0).
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look(self, message: Message, peer: str, version: int) -> None:
        """Look at a message that such a broker has taken."""
        if peer in self._told or (message.delay is None and message.deliver_at is None):
            return
        self._told.add(peer)
        log.warning(
            "%s is of release %s, which knows no timers: it delivers messages with delay or "
            "deliver_at at once, one to %s for the first; use delay_level there",
            *(peer, version_name(version), message.topic),
        )
