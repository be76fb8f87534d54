"""Many messages at once: split into frames, sent concurrently, receipts put back in order.

::

    messages ── fit one frame: packed in one pass ──────────────────────────────────▶ receipts
        └ in_batches ──▶ frames ── by queue ──▶ lines ──▶ 16 lines at once ─────────────┘
                                                  └ the frames of a line one after the other

A frame without an assigned queue is a line of its own. If a frame fails, the rest of its line is
not sent: otherwise the messages of a queue, or of a sharding key, could be stored in another order.
A call holds its place in the order of all its sharding keys until it ends, so that no other send of
such a key comes between its frames.
"""

import asyncio
import copy
import operator
from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard

from orbitmq.client.arguments import check_queue_topic, check_queues, listed
from orbitmq.client.field_types import shown, whole_or_none
from orbitmq.client.producer.sending.key_order import Key
from orbitmq.client.producer.sending.packing import Packer, PreparedSend, in_batches
from orbitmq.client.producer.sending.receipts import check_durable, check_requirable, split_receipt
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.settings import Require
from orbitmq.errors import (
    InvalidInput,
    NotDurable,
    OrbitError,
    PartlySent,
    SendFailed,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message

__all__ = [
    "AssignedQueue",
    "SendResult",
    "check_call",
    "places_of",
    "receipts_of",
    "send_each",
    "send_gathered",
    "send_many",
]

_LINES_AT_ONCE: Final = 16
"""Frames of one call in flight at once; each may have 4 MiB."""

SendResult = SendReceipt | OrbitError
"""The receipt or the error of one message."""
AssignedQueue = MessageQueue | None
"""The queue that a message must go to; None if any queue will do."""
_NO_OPTIONS: Final = SendOptions()


async def send_many(
    sender: Sender,
    messages: Iterable[Message],
    options: SendOptions,
    *,
    queues: Sequence[AssignedQueue] | None = None,
    frame_bytes: int | None = None,
) -> list[SendReceipt]:
    """Return a receipt for each message, in their order; see ``Producer.send_many``."""
    given = listed(messages)
    check_call(sender, given, options, queues=queues, frame_bytes=frame_bytes)
    frame_count, results = await send_each(
        sender, given, options, queues=queues, frame_bytes=frame_bytes
    )
    return receipts_of(given, frame_count, results)


def check_call(
    sender: Sender,
    messages: Sequence[Message],
    options: SendOptions,
    *,
    queues: Sequence[AssignedQueue] | None = None,
    frame_bytes: int | None = None,
) -> None:
    """Check the arguments of a call, before any message is sent."""
    for message in messages:
        if type(message) is not Message:
            check_is_message(message)
    if frame_bytes is not None:
        _check_frame_bytes(frame_bytes)
    require = options.require or sender.settings.require
    if require is not None:
        for message in messages:
            check_requirable(message, require)
    if queues is not None:
        check_queues(queues, len(messages))
        for message, queue in zip(messages, queues, strict=True):
            if queue is not None:
                check_queue_topic(queue, message.topic)
    elif isinstance(options.destination, MessageQueue):
        for message in messages:
            check_queue_topic(options.destination, message.topic)


async def send_each(
    sender: Sender,
    messages: Sequence[Message],
    options: SendOptions,
    *,
    queues: Sequence[AssignedQueue] | None = None,
    frame_bytes: int | None = None,
) -> tuple[int, list[SendResult]]:
    """Send messages that are checked; return the number of frames, and a result per message."""
    most = sender.settings.max_message_bytes
    limit = most if frame_bytes is None else min(operator.index(frame_bytes), most)
    keys = [(one.topic, one.sharding_key) for one in messages if one.sharding_key is not None]
    call_place = sender.join(keys) if keys and options.call_place is None else None
    if call_place is not None:
        options = options._replace(call_place=call_place)
    try:
        places = await places_of(sender, messages, options, queues, are_keyed=bool(keys))
        prepared = _in_one_frame(sender.packer, messages, limit, places)
        if prepared is not None:
            return 1, list(await _send_prepared(sender, prepared, options, places[0]))
        frames = in_batches(messages, limit, places)
        return len(frames), await _send_frames(sender, messages, options, places, frames)
    finally:
        if call_place is not None:
            call_place.leave()


async def send_gathered(
    sender: Sender, messages: Sequence[Message], queue: MessageQueue | None
) -> Sequence[SendResult]:
    """Send a batch of the accumulator; return a result per message.

    They fit into one frame, unless their properties are very long.
    """
    check_requirable(messages[0], sender.settings.require)
    limit, places = sender.settings.max_message_bytes, [queue] * len(messages)
    prepared = _in_one_frame(sender.packer, messages, limit, places)
    if prepared is not None:
        return await _send_prepared(sender, prepared, _NO_OPTIONS, queue)
    frames = in_batches(messages, limit, places)
    return await _send_frames(sender, messages, _NO_OPTIONS, places, frames)


def _in_one_frame(
    packer: Packer, messages: Sequence[Message], limit: int, places: Sequence[AssignedQueue]
) -> PreparedSend | None:
    """Return all messages of a call packed in one pass, None if they need several frames.

    Most calls need one. ``in_batches`` would look at each message once more, to find out.
    """
    bodies = 0
    for message in messages:
        bodies += len(message.body)
    if not messages or bodies > limit or places.count(places[0]) < len(places):
        return None
    try:
        prepared = _packed(packer, messages)
    except InvalidInput:
        return None  # messages that can't be in a batch, or too large; the others are sent
    return prepared if packer.fits(prepared, limit) else None


def _check_frame_bytes(given: object) -> None:
    number = whole_or_none(given)
    if number is None or number < 1:
        raise InvalidInput(
            f"frame_bytes is {shown(given)}; it must be a whole number of 1 or more",
            field="frame_bytes",
        )


def _lines(frames: Sequence[list[int]], places: Sequence[AssignedQueue]) -> list[list[list[int]]]:
    """Return the frames grouped into lines: those of a line are sent one after the other.

    >>> a = MessageQueue("orders", "broker-a", 0)
    >>> _lines([[0, 2], [1], [3]], [a, None, a, a])
    [[[0, 2], [3]], [[1]]]
    """
    lines: list[list[list[int]]] = []
    of_place: dict[MessageQueue, list[list[int]]] = {}
    for frame in frames:
        place = places[frame[0]]
        line = None if place is None else of_place.get(place)
        if line is None:
            line = []
            lines.append(line)
            if place is not None:
                of_place[place] = line
        line.append(frame)
    return lines


async def _send_line(
    sender: Sender,
    messages: Sequence[Message],
    options: SendOptions,
    place: AssignedQueue,
    line: Sequence[list[int]],
    results: dict[int, SendResult],
) -> None:
    """Send frames one after the other, up to the first that fails; add all results."""
    failed: OrbitError | None = None
    for frame in line:
        if failed is not None:
            results.update(dict.fromkeys(frame, failed))
            continue
        found = await _send_frame(sender, [messages[index] for index in frame], options, place)
        results.update(zip(frame, found, strict=True))
        fault = next((one for one in found if _is_missing(one)), None)
        failed = None if fault is None else _left_behind(fault)


def _is_missing(result: SendResult) -> TypeGuard[OrbitError]:
    return isinstance(result, OrbitError) and not isinstance(result, NotDurable)


def _left_behind(error: OrbitError) -> OrbitError:
    """Return the error of messages that were not sent, to keep the order.

    It has the same type, so that they are retried, or kept, like those before them.
    """
    own = copy.copy(error)
    own.args = (f"not sent, since messages before it in its queue failed: {error}",)
    own.__cause__ = error
    if isinstance(own, SendFailed):
        own.may_be_stored = False
    return own


async def places_of(
    sender: Sender,
    messages: Sequence[Message],
    options: SendOptions,
    queues: Sequence[AssignedQueue] | None,
    *,
    are_keyed: bool,
) -> list[AssignedQueue]:
    """Return the queue that each message must go to; None if any will do."""
    if queues is None and options.destination is None and not are_keyed:
        return [None] * len(messages)
    places: list[AssignedQueue] = []
    for index, message in enumerate(messages):
        destination = options.destination if queues is None else queues[index]
        if destination is None:
            destination = message.sharding_key
        if destination is None:
            places.append(None)
        else:
            topic_target = sender.targets.ready(message.topic)
            topic_target = topic_target or await sender.find(message.topic, options.timeout_ms)
            places.append(topic_target.chosen(destination, message))
    return places


async def _send_frames(
    sender: Sender,
    messages: Sequence[Message],
    options: SendOptions,
    places: Sequence[AssignedQueue],
    frames: Sequence[list[int]],
) -> list[SendResult]:
    """Send frames, each a list of indexes of messages; return a result per message."""
    results: dict[int, SendResult] = {}
    lines = _lines(frames, places)
    waiting = iter(lines)

    async def work() -> None:
        for line in waiting:
            await _send_line(sender, messages, options, places[line[0][0]], line, results)

    if len(lines) == 1:
        await work()  # not as a task, which could begin after a later call to the same queue
    else:
        await asyncio.gather(*(work() for _ in range(min(len(lines), _LINES_AT_ONCE))))
    return [results[index] for index in range(len(messages))]


async def _send_frame(
    sender: Sender, messages: Sequence[Message], options: SendOptions, place: AssignedQueue
) -> Sequence[SendResult]:
    """Send one frame; return a result per message."""
    try:
        prepared = _packed(sender.packer, messages)
    except OrbitError as error:
        return [error] * len(messages)
    return await _send_prepared(sender, prepared, options, place)


def _packed(packer: Packer, messages: Sequence[Message]) -> PreparedSend:
    return packer.pack(messages[0]) if len(messages) == 1 else packer.pack_batch(messages)


async def _send_prepared(
    sender: Sender, prepared: PreparedSend, options: SendOptions, place: MessageQueue | None
) -> Sequence[SendResult]:
    messages = prepared.messages
    try:
        if place is None:
            receipt = await sender.send_prepared(prepared, options)
        else:
            options = options._replace(destination=place)
            receipt = await sender.send_prepared(prepared, options, [_line_of(place)])
    except OrbitError as error:
        return [error] * len(messages)
    receipts = split_receipt(receipt, prepared)
    require = options.require or sender.settings.require
    return receipts if require is None else [_judged(one, require) for one in receipts]


def _line_of(place: MessageQueue) -> Key:
    """Return the key by which frames to one queue keep their order."""
    # No sharding key begins with this: separators of properties are not allowed in one.
    return place.topic, f"\x01{place.broker_name}:{place.queue_id}"


def _judged(receipt: SendReceipt, require: Require) -> SendResult:
    try:
        check_durable(receipt, require)
    except OrbitError as error:
        return error
    return receipt


def receipts_of(
    messages: Sequence[Message], frame_count: int, found: Sequence[SendResult]
) -> list[SendReceipt]:
    """Return the receipts of all messages.

    Raise PartlySent if some messages have none, or the error if all failed with the same one.
    """
    receipts = [one for one in found if isinstance(one, SendReceipt)]
    if len(receipts) == len(messages):
        return receipts
    errors = {index: one for index, one in enumerate(found) if isinstance(one, OrbitError)}
    kinds = {id(error): error for error in errors.values()}
    first = next(iter(kinds.values()))
    if not receipts and len(kinds) == 1:
        raise first
    topics = dict.fromkeys(messages[index].topic for index in errors)
    raise PartlySent(
        f"{len(errors)} of {len(messages)} messages, sent in {frame_count} frames, failed; the "
        f"first error is {type(first).__name__}: {first}",
        topic=", ".join(topics)[:200],
        send_id=getattr(first, "send_id", ""),
        receipts=[one if isinstance(one, SendReceipt) else None for one in found],
        errors=errors,
    ) from first
