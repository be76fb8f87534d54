"""Sends that can't fail for want of a broker: what could not be sent is kept in the outbox.

::

    send ── receipt ──────────────────────────────────────────────▶ the caller
      │
      ├─ another try will never help (InvalidInput, refused, …) ──▶ the error, as without an outbox
      ├─ no broker took it, or none could be asked ──▶ kept ──────▶ SendKept
      └─ others of its sharding key wait in the outbox ─▶ kept ───▶ SendKept

A call holds its place in the lines of its sharding keys until what failed of it is in the outbox.
One whose time is over while earlier ones of its key are still on their way waits for them: each is
stored, fails, or is kept before it, within its own time.

What can never be sent is not kept, whichever way it came: its sender is told at once.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from orbitmq.client.arguments import listed
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.outbox.outbox import Outbox
from orbitmq.client.producer.sending.key_order import Key, KeyPlace
from orbitmq.client.producer.sending.send_many import (
    AssignedQueue,
    SendResult,
    check_call,
    receipts_of,
    send_each,
)
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import (
    BackPressure,
    InvalidInput,
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

    def __init__(self, core: ClientCore, sender: Sender, settings: ProducerSettings) -> None:
        self._sender = sender
        self._path = settings.outbox_path
        self._in_line: dict[Key, int] = {}  # calls that have not settled
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
        self._sender.before_turn = self._check_turn

    async def stop(self) -> None:
        """Send nothing from the outbox any more; sends on their way may still be kept."""
        await self.outbox.stop()

    async def close(self) -> None:
        """Close the outbox; what is left there waits for the next producer."""
        self._sender.before_turn = None
        await self.outbox.close()
        self._workers.close()

    def named(self, message: Message) -> Message:
        """Return a message with a unique id: it must have the same one however it is sent."""
        check_is_message(message)
        if message.message_id is not None:
            return message
        return message.replace(message_id=self._sender.packer.new_id(message))

    async def send(
        self,
        message: Message,
        send: Callable[[Message], Awaitable[SendReceipt]],
        options: SendOptions,
    ) -> SendReceipt:
        """Return the receipt of a send; one that fails is kept.

        Args:
            message: what to send, with its unique id; see ``named``.
            send: sends one that has no sharding key, perhaps gathered with others.
            options: what its caller asked for.

        Raises:
            SendKept: it could not be sent yet, and is kept.
            InvalidInput: it can never be sent, and is not kept.
            OrbitError: as ``send`` raises; it is not kept.

        """
        error: OrbitError
        queue = _chosen(options)
        if self._is_held(message, queue):
            error = _behind(message, queue)
            keeping = self._keep(message, options, error)
        else:
            with self._under_way([message]) as turn:
                try:
                    if turn is None:
                        return await send(message)
                    return await self._sender.send(message, options._replace(call_place=turn))
                except OrbitError as failure:
                    error = failure
                keeping = (await self._keep_in_turn(turn, [message], [options], {0: error}))[0]
        told = await self._told(message, error, keeping)
        if told is error or isinstance(error, SendHeldBack):
            raise told
        raise told from error

    async def send_many(
        self,
        messages: Iterable[Message],
        options: SendOptions,
        *,
        queues: Sequence[AssignedQueue] | None = None,
        frame_bytes: int | None = None,
    ) -> list[SendReceipt]:
        """Return the receipts of messages sent together; those that fail are kept.

        Those whose sharding key, or chosen queue, has others in the outbox are kept at once, and
        the others are sent.

        Args:
            messages: what to send.
            options: what the caller asked for.
            queues: the queue that it chose for each, None where it chose none.
            frame_bytes: about the largest frame.

        Raises:
            PartlySent: some failed; the errors of those that are kept are ``SendKept``.
            SendKept: the only message failed, and is kept.
            OrbitError: as without an outbox; nothing is kept.

        """
        given = [self.named(message) for message in listed(messages)]
        check_call(self._sender, given, options, queues=queues, frame_bytes=frame_bytes)
        each_options = [options] * len(given)
        if queues is not None:
            each_options = [options._replace(destination=queue) for queue in queues]
        errors: dict[int, OrbitError] = {}
        for index, message in enumerate(given):
            if self._is_held(message, queue := _chosen(each_options[index])):
                errors[index] = _behind(message, queue)
        # Before others are sent: a later send of a key must find those of this call in the outbox.
        keeping = self._keep_all(given, each_options, errors)
        free = [index for index in range(len(given)) if index not in errors]
        frame_count, results = 0, list[SendResult]()
        with self._under_way([given[index] for index in free]) as turn:
            if free:
                frame_count, results = await self._send_free(
                    [given[index] for index in free],
                    options._replace(call_place=turn),
                    queues=None if queues is None else [queues[index] for index in free],
                    frame_bytes=frame_bytes,
                    kept=sum(not isinstance(one, OrbitError) for one in keeping.values()),
                )
            found = dict(zip(free, results, strict=True))
            failed = {index: one for index, one in found.items() if isinstance(one, OrbitError)}
            keeping |= await self._keep_in_turn(turn, given, each_options, failed)
        for index, error in (errors | failed).items():
            found[index] = await self._told(given[index], error, keeping[index])
        return self._receipts(given, frame_count, [found[index] for index in range(len(given))])

    def _is_held(self, message: Message, queue: MessageQueue | None) -> bool:
        """Return whether a message is to be kept at once: others of its lane are in the outbox.

        But while earlier sends of its sharding key are still in line, to be kept one by one when
        their turns wait, it goes behind them: see `_check_turn`.
        """
        key = message.sharding_key
        is_in_line = key is not None and (message.topic, key) in self._in_line
        return self.outbox.holds(message, queue) and not is_in_line

    @contextmanager
    def _under_way(self, messages: Sequence[Message]) -> Iterator[KeyPlace | None]:
        """Hold the place of a call in the lines of its keys; None if it has none."""
        keys = dict.fromkeys(
            (one.topic, one.sharding_key) for one in messages if one.sharding_key is not None
        )
        if not keys:
            yield None
            return
        turn = self._sender.join(keys)
        for key in keys:
            self._in_line[key] = self._in_line.get(key, 0) + 1
        try:
            yield turn
        finally:
            turn.leave()
            for key in keys:
                self._in_line[key] -= 1
                if not self._in_line[key]:
                    del self._in_line[key]

    async def _send_free(
        self,
        messages: Sequence[Message],
        options: SendOptions,
        *,
        queues: Sequence[AssignedQueue] | None,
        frame_bytes: int | None,
        kept: int,
    ) -> tuple[int, list[SendResult]]:
        """Return in how many frames messages have travelled, and what became of each."""
        try:
            return await send_each(
                self._sender, messages, options, queues=queues, frame_bytes=frame_bytes
            )
        except OrbitError as error:
            return 0, [error] * len(messages)
        except Exception as error:  # a selector's own, which the caller gets as it is
            if kept:
                error.add_note(
                    f"{kept} messages of the call are kept in {self._path} all the same, "
                    "and will be sent in the background; don't send them again"
                )
            raise

    def _receipts(
        self, messages: Sequence[Message], frame_count: int, found: Sequence[SendResult]
    ) -> list[SendReceipt]:
        kept = sum(isinstance(one, SendKept) for one in found)
        if not kept:
            return receipts_of(messages, frame_count, found)
        errors = {index: one for index, one in enumerate(found) if isinstance(one, OrbitError)}
        first = next(iter(errors.values()))
        if len(messages) == 1:
            raise first
        raise PartlySent(
            f"{len(errors)} of {len(messages)} messages failed, of which {kept} are kept in "
            f"{self._path} and sent later; the first error is {type(first).__name__}: {first}",
            topic=messages[0].topic,
            send_id=messages[0].message_id or "",
            receipts=[one if isinstance(one, SendReceipt) else None for one in found],
            errors=errors,
        ) from first

    # Into the outbox

    async def _keep_in_turn(
        self,
        turn: KeyPlace | None,
        messages: Sequence[Message],
        each_options: Sequence[SendOptions],
        errors: Mapping[int, OrbitError],
    ) -> dict[int, Awaitable[int] | OrbitError]:
        """Have those kept that failed; those of a key once all before them have settled.

        An earlier one that is still on its way may have to be kept too, and must come first. A
        caller that goes away meanwhile leaves nothing here, as one whose send is on its way.
        """
        keyed = {i: one for i, one in errors.items() if messages[i].sharding_key is not None}
        others = {i: one for i, one in errors.items() if i not in keyed}
        keeping = self._keep_all(messages, each_options, others)
        if turn is not None and any(map(_is_keepable, keyed.values())):
            await turn.wait()
            if turn.has_left:
                return keeping | _passed(keyed)
        return keeping | self._keep_all(messages, each_options, keyed)

    def _keep_all(
        self,
        messages: Sequence[Message],
        each_options: Sequence[SendOptions],
        errors: Mapping[int, OrbitError],
    ) -> dict[int, Awaitable[int] | OrbitError]:
        """Have those kept that failed; return, by index, what ``_keep`` does.

        All of them at once: a later send of a key would wait between two that are awaited.
        """
        return {
            index: self._keep(messages[index], each_options[index], error)
            for index, error in errors.items()
        }

    def _keep(
        self, message: Message, options: SendOptions, error: OrbitError
    ) -> Awaitable[int] | OrbitError:
        """Have a message kept, in its place at once; return its number to wait, or why it is not.

        It is checked here, since one that was held back, or had no route, nobody has looked at.
        """
        if not _is_keepable(error):
            return error
        try:
            self._sender.check(message, options)
        except InvalidInput as refusal:
            return refusal
        return self.outbox.keep(
            message,
            send_id=message.message_id or "",
            queue=_tried(error) if _is_selected(options) else _chosen(options),
            reason=str(error),
        )

    async def _told(
        self, message: Message, error: OrbitError, keeping: Awaitable[int] | OrbitError
    ) -> OrbitError:
        """Return what the sender of a message is told; the error itself if it can't be kept."""
        if isinstance(keeping, OrbitError):
            return keeping
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
        return await self._sender.send(message, SendOptions(queue))

    def _check_turn(self, message: Message) -> None:
        """Hold a message back whose sharding key has others in the outbox.

        When its turn comes, and not before: the one before it in line may just have been kept.
        """
        if self.outbox.holds(message):
            raise _behind(message)


def _behind(message: Message, queue: MessageQueue | None = None) -> SendHeldBack:
    line = f"sharding key {str(message.sharding_key)[:80]!r}"
    if message.sharding_key is None and queue is not None:
        line = f"queue {queue.queue_id} of {queue.broker_name}"
    return SendHeldBack(
        f"others of {line} wait in the outbox, and go first",
        topic=message.topic,
        send_id=message.message_id or "",
    )


def _passed(errors: Mapping[int, OrbitError]) -> dict[int, Awaitable[int] | OrbitError]:
    """Return errors of messages that came too late to be kept, and say so in each."""
    for error in {id(one): one for one in errors.values() if _is_keepable(one)}.values():
        error.add_note(
            "It could not be kept in the outbox either: it was on its way when the producer was "
            "closed, and later ones of its sharding key may be there already"
        )
    return dict(errors)


def _chosen(options: SendOptions) -> MessageQueue | None:
    """Return the queue that the caller chose."""
    return options.destination if isinstance(options.destination, MessageQueue) else None


def _is_selected(options: SendOptions) -> bool:
    """Return whether a selector chooses the queue, so that it is known after a try."""
    return options.destination is not None and not isinstance(options.destination, MessageQueue)


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
