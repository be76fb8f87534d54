"""Many messages at once: split into frames, sent side by side, receipts put back in order.

::

    messages ── in_batches ──▶ frames ── by queue ──▶ lines ──▶ 16 lines at once ──▶ receipts
                                                       └ the frames of a line one after the other

Frames that any queue will do for are lines of their own. What is left of a line whose frame failed
is not sent: else the messages of a queue, or of a sharding key, could be stored in another order.
A call holds its place in the lines of all its sharding keys from its beginning to its end, so that
no other send of such a key comes between its frames.
"""

import asyncio
import copy
import operator
from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard

from orbitmq.client.arguments import check_queue_topic, check_queues, listed
from orbitmq.client.field_types import shown, whole_or_none
from orbitmq.client.producer.sending.key_order import Key
from orbitmq.client.producer.sending.packing import Parcel, in_batches
from orbitmq.client.producer.sending.receipts import check_durable, check_requirable, split_receipt
from orbitmq.client.producer.sending.sender import Dispatch, Wish
from orbitmq.client.settings import Require
from orbitmq.errors import (
    InvalidInput,
    MessageTooLarge,
    NotDurable,
    OrbitError,
    PartlySent,
    SendFailed,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message

__all__ = [
    "Outcome",
    "Place",
    "check_call",
    "receipts_of",
    "send_each",
    "send_gathered",
    "send_many",
]

_LINES_AT_ONCE: Final = 16
"""Frames of one call on their way at once; each may have 4 MiB."""

Outcome = SendReceipt | OrbitError
"""What became of one message."""
Place = MessageQueue | None
"""The queue that a message has to go to; None if any will do."""


async def send_many(
    dispatch: Dispatch,
    messages: Iterable[Message],
    wish: Wish,
    *,
    queues: Sequence[Place] | None = None,
    frame_bytes: int | None = None,
) -> list[SendReceipt]:
    """Return a receipt for each message, in their order; see ``Producer.send_many``.

    Raises:
        PartlySent: of several frames some failed.
        InvalidInput: as ``check_call`` does.
        OrbitError: the only frame failed; or where messages of a chosen queue go is not known.

    """
    given = listed(messages)
    check_call(dispatch, given, wish, queues=queues, frame_bytes=frame_bytes)
    frame_count, outcomes = await send_each(
        dispatch, given, wish, queues=queues, frame_bytes=frame_bytes
    )
    return receipts_of(given, frame_count, outcomes)


def check_call(
    dispatch: Dispatch,
    messages: Sequence[Message],
    wish: Wish,
    *,
    queues: Sequence[Place] | None = None,
    frame_bytes: int | None = None,
) -> None:
    """Check what a call says of all its messages, before anything is done with any of them.

    Raises:
        InvalidInput: one is no message, or is required to be safer than it asks the broker for; a
            queue is none, or one of another topic; ``queues`` says nothing of some; or
            ``frame_bytes`` is not positive.

    """
    for message in messages:
        check_is_message(message)
    if frame_bytes is not None:
        _check_frame_bytes(frame_bytes)
    require = wish.require or dispatch.settings.require
    if require is not None:
        for message in messages:
            check_requirable(message, require)
    if queues is not None:
        check_queues(queues, len(messages))
        for message, queue in zip(messages, queues, strict=True):
            if queue is not None:
                check_queue_topic(queue, message.topic)
    elif isinstance(wish.target, MessageQueue):
        for message in messages:
            check_queue_topic(wish.target, message.topic)


async def send_each(
    dispatch: Dispatch,
    messages: Sequence[Message],
    wish: Wish,
    *,
    queues: Sequence[Place] | None = None,
    frame_bytes: int | None = None,
) -> tuple[int, list[Outcome]]:
    """Return in how many frames checked messages have travelled, and what became of each.

    Raises:
        OrbitError: where messages of a chosen queue or a sharding key go is not known.

    """
    most = dispatch.settings.max_message_bytes
    limit = most if frame_bytes is None else min(operator.index(frame_bytes), most)
    keys = [(one.topic, one.sharding_key) for one in messages if one.sharding_key is not None]
    call_turn = dispatch.join(keys) if keys and wish.call_turn is None else None
    if call_turn is not None:
        wish = wish._replace(call_turn=call_turn)
    try:
        places = await _places(dispatch, messages, wish, queues)
        frames = in_batches(messages, limit, places)
        return len(frames), await _send_frames(dispatch, messages, wish, places, frames)
    finally:
        if call_turn is not None:
            call_turn.leave()


async def send_gathered(
    dispatch: Dispatch, messages: Sequence[Message], queue: MessageQueue | None
) -> Sequence[Outcome]:
    """Return what became of each message of a batch, as the accumulator has put it together.

    They are alike and few enough for one frame, unless their properties are very long.

    Raises:
        InvalidInput: the settings require what these messages tell the broker not to wait for.

    """
    wish = Wish(queue)
    check_requirable(messages[0], dispatch.settings.require)
    try:
        parcel = _pack(dispatch, messages)
    except MessageTooLarge:
        parcel = None
    if parcel is not None and dispatch.packer.fits(parcel):
        return await _send_parcel(dispatch, parcel, wish, queue)
    places = [queue] * len(messages)
    frames = in_batches(messages, dispatch.settings.max_message_bytes, places)
    return await _send_frames(dispatch, messages, wish, places, frames)


def _check_frame_bytes(given: object) -> None:
    number = whole_or_none(given)
    if number is None or number < 1:
        raise InvalidInput(
            f"frame_bytes is {shown(given)}; it must be a whole number of 1 or more",
            field="frame_bytes",
        )


def _lines(frames: Sequence[list[int]], places: Sequence[Place]) -> list[list[list[int]]]:
    """Return the frames that have to follow each other, together.

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
    dispatch: Dispatch,
    messages: Sequence[Message],
    wish: Wish,
    place: Place,
    line: Sequence[list[int]],
    outcomes: dict[int, Outcome],
) -> None:
    """Send frames one after the other, up to the first that fails; tell what became of each."""
    failed: OrbitError | None = None
    for frame in line:
        if failed is not None:
            outcomes.update(dict.fromkeys(frame, failed))
            continue
        found = await _send_frame(dispatch, [messages[index] for index in frame], wish, place)
        outcomes.update(zip(frame, found, strict=True))
        fault = next((one for one in found if _is_missing(one)), None)
        failed = None if fault is None else _left_behind(fault)


def _is_missing(outcome: Outcome) -> TypeGuard[OrbitError]:
    return isinstance(outcome, OrbitError) and not isinstance(outcome, NotDurable)


def _left_behind(error: OrbitError) -> OrbitError:
    """Return the error of messages that were not sent, for the sake of order.

    It is of the same type, so that they are tried again, or kept, as those before them are.
    """
    own = copy.copy(error)
    own.args = (f"not sent, since messages before it in its queue failed: {error}",)
    own.__cause__ = error
    if isinstance(own, SendFailed):
        own.may_be_stored = False
    return own


async def _places(
    dispatch: Dispatch,
    messages: Sequence[Message],
    wish: Wish,
    queues: Sequence[Place] | None,
) -> list[Place]:
    """Return the queue that each message has to go to; None where any will do."""
    places: list[Place] = []
    for index, message in enumerate(messages):
        target = wish.target if queues is None else queues[index]
        if target is None:
            target = message.sharding_key
        if target is None:
            places.append(None)
        else:
            lane = dispatch.lanes.ready(message.topic)
            lane = lane or await dispatch.lane(message.topic, wish.timeout_ms)
            places.append(lane.aim(target, message))
    return places


async def _send_frames(
    dispatch: Dispatch,
    messages: Sequence[Message],
    wish: Wish,
    places: Sequence[Place],
    frames: Sequence[list[int]],
) -> list[Outcome]:
    """Return what became of each message; each frame has the indexes of some."""
    outcomes: dict[int, Outcome] = {}
    lines = _lines(frames, places)
    waiting = iter(lines)

    async def work() -> None:
        for line in waiting:
            await _send_line(dispatch, messages, wish, places[line[0][0]], line, outcomes)

    if len(lines) == 1:
        await work()  # here and now: a task would begin behind a later call to the same queue
    else:
        await asyncio.gather(*(work() for _ in range(min(len(lines), _LINES_AT_ONCE))))
    return [outcomes[index] for index in range(len(messages))]


async def _send_frame(
    dispatch: Dispatch, messages: Sequence[Message], wish: Wish, place: Place
) -> Sequence[Outcome]:
    """Return the receipt of each message of a frame, or what went wrong with it."""
    try:
        parcel = _pack(dispatch, messages)
    except OrbitError as error:
        return [error] * len(messages)
    return await _send_parcel(dispatch, parcel, wish, place)


def _pack(dispatch: Dispatch, messages: Sequence[Message]) -> Parcel:
    packer = dispatch.packer
    return packer.pack(messages[0]) if len(messages) == 1 else packer.pack_batch(messages)


async def _send_parcel(
    dispatch: Dispatch, parcel: Parcel, wish: Wish, place: MessageQueue | None
) -> Sequence[Outcome]:
    messages = parcel.messages
    try:
        lines = [] if place is None else [_line_of(place)]
        receipt = await dispatch.send_packed(parcel, wish._replace(target=place), lines)
    except OrbitError as error:
        return [error] * len(messages)
    receipts = split_receipt(receipt, parcel)
    require = wish.require or dispatch.settings.require
    return receipts if require is None else [_judged(one, require) for one in receipts]


def _line_of(place: MessageQueue) -> Key:
    """Return the line of a queue, which frames to it wait in for order's sake."""
    # No sharding key begins so: a separator of properties can't be in one.
    return place.topic, f"\x01{place.broker_name}:{place.queue_id}"


def _judged(receipt: SendReceipt, require: Require) -> Outcome:
    try:
        check_durable(receipt, require)
    except OrbitError as error:
        return error
    return receipt


def receipts_of(
    messages: Sequence[Message], frame_count: int, found: Sequence[Outcome]
) -> list[SendReceipt]:
    """Return the receipts of messages that travelled in so many frames, if all of them have one.

    Raises:
        PartlySent: some have not.
        OrbitError: none has, for one and the same reason.

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
        f"{len(errors)} of {len(messages)} messages, in {frame_count} frames, failed; the first "
        f"error is {type(first).__name__}: {first}",
        topic=", ".join(topics)[:200],
        send_id=getattr(first, "send_id", ""),
        receipts=[one if isinstance(one, SendReceipt) else None for one in found],
        errors=errors,
    ) from first
