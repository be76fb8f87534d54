"""Sends of a producer with an outbox: a message that no broker could take is kept on disk.

::

    send ── receipt ──────────────────────────────────────────────▶ the caller
      │
      ├─ a retry will never help (InvalidInput, refused, …) ──────▶ the error, as without an outbox
      ├─ no broker stored it, or none was reachable ──▶ kept ─────▶ SendKept
      └─ older ones of its sharding key are in the outbox ▶ kept ─▶ SendKept

A call keeps its turn for its sharding keys until its failed messages are in the outbox. If it times
out while older sends of a key are in flight, it waits for them: each is stored, fails, or is kept
first, within its own timeout.

A message that can never be sent is not kept: its sender gets the error at once.
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

__all__ = ["SendOrKeep"]

_REASON_MAX: Final = 300


class SendOrKeep:
    """Sends the messages of a running producer, and keeps those that fail; belongs to its loop."""

    def __init__(self, core: ClientCore, sender: Sender, settings: ProducerSettings) -> None:
        self._sender = sender
        self._path = settings.outbox_path
        self._in_line: dict[Key, int] = {}  # unfinished calls per key
        self._workers = core.machine.workers("orbitmq-outbox")
        self.outbox = Outbox(
            settings.outbox_path,
            self._send_again,
            workers=self._workers,
            clock=core.machine.clock,
            bytes_max=settings.outbox_bytes_max,
        )

    def __repr__(self) -> str:
        return f"<SendOrKeep {self.outbox!r}>"

    async def open(self) -> None:
        """Open the outbox, and start to send its messages; raises as ``Outbox.open`` does."""
        await self.outbox.open()
        self._sender.before_turn = self._check_turn

    async def stop(self) -> None:
        """Stop sending from the outbox; failed sends can still be kept."""
        await self.outbox.stop()

    async def close(self) -> None:
        """Close the outbox; messages left there wait for the next producer."""
        self._sender.before_turn = None
        await self.outbox.close()
        self._workers.close()

    def named(self, message: Message) -> Message:
        """Return the message with a unique id, which all sends of it must share."""
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
        """Send a message and return the receipt, or keep it if the send fails.

        The message has its unique id (see ``named``). ``send`` sends one without sharding key,
        perhaps in a batch with others. Raise SendKept if the message is kept; after any other error
        it is not.
        """
        error: OrbitError
        queue = _chosen(options)
        if self._is_held(message, queue):
            error = _held_back(message, queue)
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
        raised = await self._error_of(message, error, keeping)
        if raised is error or isinstance(error, SendHeldBack):
            raise raised
        raise raised from error

    async def send_many(
        self,
        messages: Iterable[Message],
        options: SendOptions,
        *,
        queues: Sequence[AssignedQueue] | None = None,
        frame_bytes: int | None = None,
    ) -> list[SendReceipt]:
        """Send messages together and return their receipts; those that fail are kept.

        A message whose sharding key, or chosen queue, has older ones in the outbox is kept at once;
        the others are sent. Raise PartlySent if some failed, with ``SendKept`` as the error of
        those that are kept; SendKept if the only message failed and is kept; other errors mean that
        nothing is kept.
        """
        given = [self.named(message) for message in listed(messages)]
        check_call(self._sender, given, options, queues=queues, frame_bytes=frame_bytes)
        each_options = [options] * len(given)
        if queues is not None:
            each_options = [options._replace(destination=queue) for queue in queues]
        errors: dict[int, OrbitError] = {}
        for index, message in enumerate(given):
            if self._is_held(message, queue := _chosen(each_options[index])):
                errors[index] = _held_back(message, queue)
        # Before the rest is sent: a later send of a key must find these in the outbox.
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
            found[index] = await self._error_of(given[index], error, keeping[index])
        return self._receipts(given, frame_count, [found[index] for index in range(len(given))])

    def _is_held(self, message: Message, queue: MessageQueue | None) -> bool:
        """Return whether to keep a message at once, since older ones of its group are kept.

        While earlier sends of its sharding key still wait for their turn, to be kept one by one,
        it queues behind them instead; see `_check_turn`.
        """
        key = message.sharding_key
        is_in_line = key is not None and (message.topic, key) in self._in_line
        return self.outbox.holds(message, queue) and not is_in_line

    @contextmanager
    def _under_way(self, messages: Sequence[Message]) -> Iterator[KeyPlace | None]:
        """Hold the turn of a call for its sharding keys; None if it has none."""
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
        """Return in how many frames messages were sent, and the outcome of each message."""
        try:
            return await send_each(
                self._sender, messages, options, queues=queues, frame_bytes=frame_bytes
            )
        except OrbitError as error:
            return 0, [error] * len(messages)
        except Exception as error:  # from a selector; the caller gets it unchanged
            if kept:
                error.add_note(
                    f"{kept} messages of the call were kept in {self._path} before the error and "
                    "will be sent in the background; don't send them again"
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
            f"{len(errors)} of {len(messages)} messages failed; {kept} of them are kept in "
            f"{self._path} and will be sent later; the first error is {type(first).__name__}: "
            f"{first}",
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
        """Keep failed messages; those of a sharding key after all earlier sends of it ended.

        An earlier send that is in flight may have to be kept too, and must come first. If the call
        is cancelled while it waits, its messages are not kept, like those of a cancelled send.
        """
        keyed = {i: one for i, one in errors.items() if messages[i].sharding_key is not None}
        others = {i: one for i, one in errors.items() if i not in keyed}
        keeping = self._keep_all(messages, each_options, others)
        if turn is not None and any(map(_is_keepable, keyed.values())):
            await turn.wait()
            if turn.has_left:
                return keeping | _too_late(keyed)
        return keeping | self._keep_all(messages, each_options, keyed)

    def _keep_all(
        self,
        messages: Sequence[Message],
        each_options: Sequence[SendOptions],
        errors: Mapping[int, OrbitError],
    ) -> dict[int, Awaitable[int] | OrbitError]:
        """Keep failed messages; return the results of ``_keep`` by index.

        Without awaiting in between: a later send of the same key could get between two of them.
        """
        return {
            index: self._keep(messages[index], each_options[index], error)
            for index, error in errors.items()
        }

    def _keep(
        self, message: Message, options: SendOptions, error: OrbitError
    ) -> Awaitable[int] | OrbitError:
        """Keep a message; return its number as an awaitable, or the error if it can't be kept.

        The message is checked here: one that was held back, or had no route, was not checked yet.
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

    async def _error_of(
        self, message: Message, error: OrbitError, keeping: Awaitable[int] | OrbitError
    ) -> OrbitError:
        """Return what the caller gets: ``SendKept``, or the error if the message isn't kept."""
        if isinstance(keeping, OrbitError):
            return keeping
        send_id = message.message_id or ""
        try:
            number = await keeping
        except (OutboxFull, StoreError, NotRunning) as refusal:
            if isinstance(error, SendHeldBack):
                return refusal
            error.add_note(f"the message could not be kept in the outbox either: {refusal}")
            return error
        return SendKept(
            f"message {send_id} to {message.topic} is kept in {self._path} as number {number} and "
            f"will be sent in the background; don't send it again: {str(error)[:_REASON_MAX]}",
            topic=message.topic,
            send_id=send_id,
            path=self._path,
            number=number,
            may_be_stored=getattr(error, "may_be_stored", False),
        )

    async def _send_again(self, message: Message, queue: MessageQueue | None) -> SendReceipt:
        return await self._sender.send(message, SendOptions(queue))

    def _check_turn(self, message: Message) -> None:
        """Hold a message back if older ones of its sharding key are in the outbox.

        Checked when its turn comes, not earlier: the one before it may just have been kept.
        """
        if self.outbox.holds(message):
            raise _held_back(message)


def _held_back(message: Message, queue: MessageQueue | None = None) -> SendHeldBack:
    group = f"sharding key {str(message.sharding_key)[:80]!r}"
    if message.sharding_key is None and queue is not None:
        group = f"queue {queue.queue_id} of {queue.broker_name}"
    return SendHeldBack(
        f"older messages of {group} are in the outbox and must be sent first",
        topic=message.topic,
        send_id=message.message_id or "",
    )


def _too_late(errors: Mapping[int, OrbitError]) -> dict[int, Awaitable[int] | OrbitError]:
    """Return the errors of messages that came too late to be kept, each with a note."""
    for error in {id(one): one for one in errors.values() if _is_keepable(one)}.values():
        error.add_note(
            "the message could not be kept in the outbox either: it was in flight when the "
            "producer was closed, and later ones of its sharding key may already be there"
        )
    return dict(errors)


def _chosen(options: SendOptions) -> MessageQueue | None:
    """Return the queue that the caller chose."""
    return options.destination if isinstance(options.destination, MessageQueue) else None


def _is_selected(options: SendOptions) -> bool:
    """Return whether a selector chooses the queue, which is known only after an attempt."""
    return options.destination is not None and not isinstance(options.destination, MessageQueue)


def _tried(error: OrbitError) -> MessageQueue | None:
    """Return the queue that a selector chose for a failed send, if it got that far."""
    return error.queue if isinstance(error, SendFailed) else None


def _is_keepable(error: OrbitError) -> bool:
    """Return whether the message could be sent later, once brokers are back.

    Back pressure does not count: brokers accept messages, but slower than they are produced.
    """
    if isinstance(error, BackPressure | StoreError):
        return False
    if type(error) is SendRefused:  # subclasses know; here the broker's answer decides
        return isinstance(error.__cause__, OrbitError) and error.__cause__.retriable
    return error.retriable or isinstance(error, ProducerClosed | SendHeldBack)
