"""Sends that can't fail for want of a broker: what could not be sent is kept in the outbox.

::

    send ── receipt ──────────────────────────────────────────────▶ the caller
      │
      ├─ another try will never help (InvalidInput, refused, …) ──▶ the error, as without an outbox
      ├─ no broker took it, or none could be asked ──▶ kept ──────▶ SendKept
      └─ others of its sharding key wait in the outbox ─▶ kept ───▶ SendKept
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from orbitmq.client.core import ClientCore
from orbitmq.client.dispatch import Dispatch, Wish
from orbitmq.client.outbox import Outbox
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import (
    BackPressure,
    NotRunning,
    OrbitError,
    OutboxFull,
    PartlySent,
    ProducerClosed,
    SendFailed,
    SendHeldBack,
    SendKept,
    SendRefused,
    StoreError,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message

__all__ = ["Keeping"]

_WORDS_MAX: Final = 300


class Keeping:
    """The outbox of a running producer, and what goes into it; belongs to its loop.

    Attributes:
        outbox: the messages that are kept.

    """

    def __init__(self, core: ClientCore, dispatch: Dispatch, settings: ProducerSettings) -> None:
        self._dispatch = dispatch
        self._path = settings.outbox_path
        self._workers = core.machine.workers("orbitmq-outbox")
        self.outbox = Outbox(
            settings.outbox_path,
            self._send_again,
            workers=self._workers,
            clock=core.machine.clock,
            bytes_max=settings.outbox_bytes_max,
        )

    def __repr__(self) -> str:
        return f"<Keeping {self.outbox!r}>"

    async def open(self) -> None:
        """Read the outbox, and begin to send what it holds.

        Raises:
            StoreError: as ``Outbox.open`` does.

        """
        await self.outbox.open()
        self._dispatch.before_turn = self._check_turn

    async def stop(self) -> None:
        """Send nothing from the outbox any more; sends on their way may still be kept."""
        await self.outbox.stop()

    async def close(self) -> None:
        """Close the outbox; what is left there waits for the next producer."""
        self._dispatch.before_turn = None
        await self.outbox.close()
        self._workers.close()

    def named(self, message: Message) -> Message:
        """Return a message with a unique id: it must have the same one however it is sent."""
        check_is_message(message)
        if message.message_id is not None:
            return message
        return message.replace(message_id=self._dispatch.packer.new_id(message))

    async def send(
        self,
        message: Message,
        send: Callable[[Message], Awaitable[SendReceipt]],
        *,
        queue: MessageQueue | None = None,
        fixed: bool = False,
    ) -> SendReceipt:
        """Return the receipt of a send; one that fails is kept.

        Args:
            message: what to send, with its unique id; see ``named``.
            send: sends it.
            queue: the queue that the caller chose.
            fixed: whether a selector chose it, so that it is known after a try.

        Raises:
            SendKept: it could not be sent yet, and is kept.
            OrbitError: as ``send`` raises; it is not kept.

        """
        try:
            if self.outbox.holds(message, queue):
                raise _behind(message)
            return await send(message)
        except OrbitError as error:
            if not _is_keepable(error):
                raise
            if fixed:
                queue = _tried(error)
            kept = await self._kept(message, error, self._keep(message, queue, error))
            raise kept from (None if isinstance(error, SendHeldBack) else error)

    async def send_many(
        self,
        messages: Sequence[Message],
        send: Callable[[Sequence[Message]], Awaitable[list[SendReceipt]]],
        *,
        queues: Sequence[MessageQueue | None],
        fixed: bool = False,
    ) -> list[SendReceipt]:
        """Return the receipts of messages sent together; those that fail are kept.

        Args:
            messages: what to send, with their unique ids.
            send: sends them.
            queues: the queue that the caller chose for each, None where it chose none.
            fixed: whether a selector chose them, so that they are known after a try.

        Raises:
            PartlySent: some failed; the errors of those that are kept are ``SendKept``.
            SendKept: the only message failed, and is kept.
            OrbitError: as ``send`` raises; nothing is kept.

        """
        try:
            for message, queue in zip(messages, queues, strict=True):
                if self.outbox.holds(message, queue):
                    raise _behind(message)
            return await send(messages)
        except PartlySent as error:
            receipts, errors = error.receipts, error.errors
        except OrbitError as error:
            if not _is_keepable(error):
                raise
            receipts, errors = (None,) * len(messages), dict.fromkeys(range(len(messages)), error)
        # All of them at once: a later send of a key would come between two that are awaited.
        keeping = {
            index: self._keep(messages[index], _tried(fault) if fixed else queues[index], fault)
            for index, fault in errors.items()
            if _is_keepable(fault)
        }
        for index, number in keeping.items():
            errors[index] = await self._kept(messages[index], errors[index], number)
        first = next(iter(errors.values()))
        if len(messages) == 1:
            raise first
        kept = sum(isinstance(fault, SendKept) for fault in errors.values())
        raise PartlySent(
            f"{len(errors)} of {len(messages)} messages failed, of which {kept} are kept in "
            f"{self._path} and sent later; the first error is {type(first).__name__}: {first}",
            topic=messages[0].topic,
            send_id=messages[0].message_id or "",
            receipts=receipts,
            errors=errors,
        ) from first

    def _keep(
        self, message: Message, queue: MessageQueue | None, error: OrbitError
    ) -> Awaitable[int]:
        send_id = message.message_id or ""
        return self.outbox.keep(message, send_id=send_id, queue=queue, reason=str(error))

    async def _kept(
        self, message: Message, error: OrbitError, keeping: Awaitable[int]
    ) -> OrbitError:
        """Return what the sender of a message is told; the error itself if it can't be kept."""
        send_id = message.message_id or ""
        try:
            number = await keeping
        except (OutboxFull, StoreError, NotRunning) as refusal:
            if isinstance(error, SendHeldBack):
                return refusal
            error.add_note(f"It could not be kept in the outbox either: {refusal}")
            return error
        return SendKept(
            f"message {send_id} to {message.topic} is kept in {self._path} as number {number}, and "
            f"will be sent in the background; don't send it again: {str(error)[:_WORDS_MAX]}",
            topic=message.topic,
            send_id=send_id,
            path=self._path,
            number=number,
            may_be_stored=getattr(error, "may_be_stored", False),
        )

    async def _send_again(self, message: Message, queue: MessageQueue | None) -> SendReceipt:
        return await self._dispatch.send(message, Wish(queue))

    def _check_turn(self, message: Message) -> None:
        """Hold a message back whose sharding key has others in the outbox.

        When its turn comes, and not before: the one before it in line may just have been kept.
        """
        if self.outbox.holds(message):
            raise _behind(message)


def _behind(message: Message) -> SendHeldBack:
    key = str(message.sharding_key)[:80]
    return SendHeldBack(
        f"others of sharding key {key!r} wait in the outbox, and go first",
        topic=message.topic,
        send_id=message.message_id or "",
    )


def _tried(error: OrbitError) -> MessageQueue | None:
    """Return the queue that a selector had chosen for what failed, as far as it came to that."""
    return error.queue if isinstance(error, SendFailed) else None


def _is_keepable(error: OrbitError) -> bool:
    """Return whether brokers that return, or another producer, would change anything.

    Not for back-pressure: there a broker takes messages, only not as fast as they are made.
    """
    if isinstance(error, BackPressure | StoreError):
        return False
    if type(error) is SendRefused:  # its kinds know for themselves, of others the answer tells
        return isinstance(error.__cause__, OrbitError) and error.__cause__.retriable
    return error.retriable or isinstance(error, ProducerClosed | SendHeldBack)
