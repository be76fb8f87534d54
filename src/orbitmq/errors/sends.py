"""Errors of sends; their attributes say what happened to the message, not only their texts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitmq.errors.base import OrbitError
from orbitmq.errors.network import NameserversFailed, NoRoute

if TYPE_CHECKING:  # what some errors carry
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
    "SendNameserversFailed",
    "SendNoRoute",
    "SendRefused",
    "SendRefusedBusy",
    "SendTimeout",
    "SendUnauthorised",
    "SendUnreachable",
    "TransactionNotBegun",
]


class SendFailed(OrbitError):
    """A send failed; the last attempt's error is its ``__cause__``.

    Attributes:
        topic: the topic of the message.
        send_id: the unique id of the message (or batch), in every log line about the send.
        attempts: all attempts, with broker, queue, time and cause.
        may_be_stored: whether a broker may have stored it anyway: sending it again may store it
            twice.
        code: the broker's response code, or one of Java's client (``ClientErrorCode``).
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
        self._describe(topic, send_id, attempts, may_be_stored=may_be_stored, code=code)

    def _describe(
        self,
        topic: str,
        send_id: str,
        attempts: "Sequence[Attempt]",
        *,
        may_be_stored: bool,
        code: int | None = None,
    ) -> None:
        self.topic = topic
        self.send_id = send_id
        self.attempts = tuple(attempts)
        self.may_be_stored = may_be_stored
        self.code = self.default_code if code is None else code

    @property
    def queue(self) -> "MessageQueue | None":
        """The queue of the last attempt, with its broker; None if there was no attempt."""
        return self.attempts[-1].queue if self.attempts else None


class SendTimeout(SendFailed, TimeoutError):
    """The time budget of a send ended.

    Attributes:
        timeout_ms: the budget, for all attempts together.
        spent: where the time went: permit, route, connection, pauses, broker, event loop.
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
    """The producer's limit on sends in flight did not admit a send within its time budget.

    It was not sent. Wait for receipts, or raise ``in_flight_max`` or ``in_flight_bytes_max``.
    """

    default_code = -1


class SendUnreachable(SendFailed):
    """No broker of the topic could be reached; nothing is stored unless ``may_be_stored``."""

    default_code = 10001
    retriable = True
    refresh_route = True


class SendNoRoute(SendFailed, NoRoute):
    """A send found no queue of its topic to write to; nothing is stored unless ``may_be_stored``.

    It has the attributes of ``NoRoute`` too: ``is_missing`` and ``answers``.
    """

    default_code = 10005

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        is_missing: bool,
        answers: Mapping[str, str],
        attempts: "Sequence[Attempt]" = (),
        may_be_stored: bool = False,
    ) -> None:
        NoRoute.__init__(self, message, topic=topic, is_missing=is_missing, answers=answers)
        self._describe(topic, send_id, attempts, may_be_stored=may_be_stored)


class SendNameserversFailed(SendFailed, NameserversFailed):
    """No nameserver answered a send; nothing is stored unless ``may_be_stored``.

    It has the attribute ``answers`` of ``NameserversFailed`` too.
    """

    default_code = 10005

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        send_id: str,
        answers: Mapping[str, str],
        attempts: "Sequence[Attempt]" = (),
        may_be_stored: bool = False,
    ) -> None:
        NameserversFailed.__init__(self, message, answers=answers)
        self._describe(topic, send_id, attempts, may_be_stored=may_be_stored)


class SendRefused(SendFailed):
    """The broker answered with an error code; ``code`` and ``remark`` are those of the last answer.

    Attributes:
        remark: the broker's explanation.
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
    """The brokers were too busy: a full queue, too long a wait, or a slow disk."""

    retriable = True


class SendUnauthorised(SendRefused):
    """The broker does not permit this for the topic, the group or the user."""


class SendIllegal(SendRefused):
    """The broker rejects the message as illegal: too large, or too many properties."""


class SendForbidden(SendFailed):
    """A hook of the application forbade the send; the hook's error is the ``__cause__``."""


class NotDurable(SendFailed):
    """The message is stored, but less safely than ``require`` asked for; don't send it again.

    Attributes:
        receipt: the broker's receipt.
        required: what was required: stored, flushed or replicated.
    """

    def __init__(self, receipt: "SendReceipt", *, required: str) -> None:
        queue = receipt.queue
        super().__init__(
            f"message {receipt.message_id} is stored in queue {queue.queue_id} of {queue.topic} "
            f"on {queue.broker_name} at {receipt.queue_offset} with {receipt.status.value}, not "
            f"{required}; don't send it again, wait or look at the broker's disk and replicas",
            topic=queue.topic,
            send_id=receipt.message_id,
            may_be_stored=True,
        )
        self.receipt = receipt
        self.required = required


class TransactionNotBegun(SendFailed):
    """The half message was stored less safely than the broker's settings ask, and rolled back.

    No work was done and nothing will be delivered; start the transaction again.
    """

    retriable = True


class NoReply(SendFailed, TimeoutError):
    """A request was sent, and no reply came in time; a later reply is dropped.

    Attributes:
        timeout_ms: the time budget of the request and its reply together.
    """

    default_code = 10006

    def __init__(self, message: str, *, topic: str, send_id: str, timeout_ms: int) -> None:
        super().__init__(message, topic=topic, send_id=send_id, may_be_stored=True)
        self.timeout_ms = timeout_ms


class SendKept(SendFailed):
    """A send failed, and the message is in the outbox: it will be sent in the background.

    Don't send it again. The ``__cause__`` says why it failed; None if it was kept because earlier
    messages of its sharding key are in the outbox.

    Attributes:
        path: the file of the outbox.
        number: the message's number in it.
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
    """Earlier messages of its sharding key are in the outbox, and this one can't be kept there.

    It is a half message or a request. It was not sent, since it would overtake them.
    """


class PartlySent(SendFailed):
    """Some messages of a call failed; they were sent in several frames.

    Attributes:
        receipts: one per message, in their order; None if its frame failed.
        errors: the errors, by the index of the message; ``SendKept`` if it is in the outbox.
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
