"""Errors of sends: what became of the message is told by attributes, never by the text alone."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitmq.errors.base import OrbitError

if TYPE_CHECKING:  # what some errors carry; at run time this module stands on nothing
    from orbitmq.errors.attempts import Attempt, TimeSpent
    from orbitmq.message.model import MessageQueue, SendReceipt

__all__ = [
    "BackPressure",
    "NoReply",
    "NotDurable",
    "PartlySent",
    "SendFailed",
    "SendForbidden",
    "SendHeldBack",
    "SendIllegal",
    "SendKept",
    "SendRefused",
    "SendRefusedBusy",
    "SendTimeout",
    "SendUnauthorised",
    "SendUnreachable",
    "TransactionNotBegun",
]


class SendFailed(OrbitError):
    """A send gave up; the last attempt's error is its ``__cause__``.

    Attributes:
        topic: where the message was to go.
        send_id: the unique id of the message (or batch), in every log line about the send.
        attempts: each try, with its broker, queue, time and cause; none if it came to none.
        may_be_stored: whether a broker may have stored it all the same: sending it again may
            store it twice.
        code: Java's response code: the broker's own, or one of its client (``ClientErrorCode``).

    """

    default_code: ClassVar[int] = -1

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        attempts: "Sequence[Attempt]" = (),
        may_be_stored: bool = False,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.send_id = send_id
        self.attempts = tuple(attempts)
        self.may_be_stored = may_be_stored
        self.code = self.default_code if code is None else code

    @property
    def queue(self) -> "MessageQueue | None":
        """The queue that was tried last, its broker within; None if it came to no attempt."""
        return self.attempts[-1].queue if self.attempts else None


class SendTimeout(SendFailed, TimeoutError):
    """The time of a send was over.

    Attributes:
        timeout_ms: the time that it had, for all attempts together.
        spent: where it went: permit, route, connection, our own loop, wire and broker.

    """

    default_code = 10002
    retriable = True

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        timeout_ms: int,
        spent: "TimeSpent",
        attempts: "Sequence[Attempt]" = (),
        may_be_stored: bool = False,
    ) -> None:
        super().__init__(
            message, topic=topic, send_id=send_id, attempts=attempts, may_be_stored=may_be_stored
        )
        self.timeout_ms = timeout_ms
        self.spent = spent


class BackPressure(SendTimeout):
    """The time of a send was over before our own bound on sends in flight let it go.

    It was not sent. Wait for receipts, or raise ``in_flight_max`` or ``in_flight_bytes_max``.
    """

    default_code = -1


class SendUnreachable(SendFailed):
    """No broker of the topic could be reached; nothing is stored unless ``may_be_stored``."""

    default_code = 10001
    retriable = True
    refresh_route = True


class SendRefused(SendFailed):
    """The broker answered with an error code; ``code`` and ``remark`` are its last answer's.

    Attributes:
        remark: the broker's own words.

    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        code: int,
        remark: str | None,
        attempts: "Sequence[Attempt]" = (),
        may_be_stored: bool = False,
    ) -> None:
        super().__init__(
            message,
            topic=topic,
            send_id=send_id,
            attempts=attempts,
            may_be_stored=may_be_stored,
            code=code,
        )
        self.remark = remark


class SendRefusedBusy(SendRefused):
    """The brokers were too busy to take it: a queue full, waited too long, or a disk behind."""

    retriable = True


class SendUnauthorised(SendRefused):
    """The topic, the group or the user may not do this on that broker."""


class SendIllegal(SendRefused):
    """The broker holds the message to be illegal: too large, or too many properties."""


class SendForbidden(SendFailed):
    """A hook of the application forbade the send; the hook's error is the cause."""


class NotDurable(SendFailed):
    """The message is stored, but less safely than ``require`` asked for; don't send it again.

    Attributes:
        receipt: what the broker said of it.
        required: what was asked for: stored, flushed or replicated.

    """

    def __init__(self, receipt: "SendReceipt", *, required: str) -> None:
        queue = receipt.queue
        super().__init__(
            f"message {receipt.message_id} is stored in queue {queue.queue_id} of {queue.topic} "
            f"on {queue.broker_name} at {receipt.queue_offset}, yet with {receipt.status.value} "
            f"and not {required}; don't send it again, wait or look at the broker's replicas",
            topic=queue.topic,
            send_id=receipt.message_id,
            may_be_stored=True,
        )
        self.receipt = receipt
        self.required = required


class TransactionNotBegun(SendFailed):
    """The half message was stored less safely than the broker is set to, so it was rolled back.

    No work was done and nothing will be delivered; begin the transaction anew.
    """

    retriable = True


class NoReply(SendFailed, TimeoutError):
    """A request was sent, and no reply came in time; it may still be served, and its reply dropped.

    Attributes:
        timeout_ms: how long the request and its reply had together.

    """

    default_code = 10006

    def __init__(self, message: str, *, topic: str, send_id: str, timeout_ms: int) -> None:
        super().__init__(message, topic=topic, send_id=send_id, may_be_stored=True)
        self.timeout_ms = timeout_ms


class SendKept(SendFailed):
    """A send failed, and the message is safe in the outbox: it will be sent in the background.

    Don't send it again. Why it failed is the ``__cause__``; None if it was kept because others of
    its sharding key wait there before it.

    Attributes:
        path: the file of the outbox.
        number: the message's number there.

    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        path: str,
        number: int,
        may_be_stored: bool = False,
    ) -> None:
        super().__init__(message, topic=topic, send_id=send_id, may_be_stored=may_be_stored)
        self.path = path
        self.number = number


class SendHeldBack(SendFailed):
    """Others of its sharding key wait in the outbox before it, and it can't be kept there itself.

    It was not sent, since it would overtake them: a half message, or a request.
    """


class PartlySent(SendFailed):
    """Of messages that were sent together, in several frames, some failed.

    Attributes:
        receipts: one for each message, in their order; None where its frame failed.
        errors: what went wrong, by the index of the message; ``SendKept`` if it is in the outbox.

    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        receipts: "Sequence[SendReceipt | None]",
        errors: "Mapping[int, OrbitError]",
    ) -> None:
        may_be_stored = any(getattr(error, "may_be_stored", False) for error in errors.values())
        super().__init__(message, topic=topic, send_id=send_id, may_be_stored=may_be_stored)
        self.receipts = tuple(receipts)
        self.errors = dict(errors)
