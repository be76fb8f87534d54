"""Many messages at once: split into frames, sent side by side, receipts put back in order."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from orbitmq.client.dispatch import Dispatch, Wish
from orbitmq.client.key_turns import Key
from orbitmq.client.outgoing import in_batches
from orbitmq.client.receipts import check_durable, check_requirable, split_receipt
from orbitmq.client.settings import Require
from orbitmq.errors import OrbitError, PartlySent
from orbitmq.message.model import Message, MessageQueue, SendReceipt

__all__ = ["send_many"]

_FRAMES_AT_ONCE: Final = 16
"""Frames of one call on their way at once; each may have 4 MiB."""


async def send_many(
    dispatch: Dispatch, messages: Iterable[Message], wish: Wish
) -> list[SendReceipt]:
    """Return a receipt for each message, in their order; see ``Producer.send_many``.

    Raises:
        PartlySent: of several frames some failed.
        OrbitError: the only frame failed; or where messages of a chosen queue go is not known.

    """
    given = list(messages)
    for message in given:
        check_requirable(message, wish.require or dispatch.settings.require)
    places = await _places(dispatch, given, wish)
    frames = in_batches(given, dispatch.settings.max_message_bytes, places)
    outcomes: dict[int, SendReceipt | OrbitError] = {}
    waiting = iter(frames)

    async def work() -> None:
        for frame in waiting:
            place = places[frame[0]]
            found = await _send_frame(dispatch, [given[index] for index in frame], wish, place)
            outcomes.update(zip(frame, found, strict=True))

    if len(frames) == 1:
        await work()  # here and now: a task would begin behind a later send of the same key
    else:
        await asyncio.gather(*(work() for _ in range(min(len(frames), _FRAMES_AT_ONCE))))
    return _receipts(given, len(frames), outcomes)


async def _places(
    dispatch: Dispatch, messages: Sequence[Message], wish: Wish
) -> list[MessageQueue | None]:
    """Return the queue that each message has to go to; None where any will do."""
    places: list[MessageQueue | None] = []
    for message in messages:
        target = message.sharding_key if wish.target is None else wish.target
        if target is None:
            places.append(None)
        else:
            lane = dispatch.lanes.ready(message.topic)
            lane = lane or await dispatch.lane(message.topic, wish.timeout_ms)
            places.append(lane.aim(target, message))
    return places


async def _send_frame(
    dispatch: Dispatch, messages: Sequence[Message], wish: Wish, place: MessageQueue | None
) -> Sequence[SendReceipt | OrbitError]:
    """Return the receipt of each message of a frame, or what went wrong with it."""
    packer = dispatch.packer
    try:
        parcel = packer.pack(messages[0]) if len(messages) == 1 else packer.pack_batch(messages)
        receipt = await dispatch.carry(parcel, wish._replace(target=place), _keys(messages, place))
    except OrbitError as error:
        return [error] * len(messages)
    require = wish.require or dispatch.settings.require
    return [_judged(one, require) for one in split_receipt(receipt, parcel)]


def _keys(messages: Sequence[Message], place: MessageQueue | None) -> list[Key]:
    """Return the lines that a frame waits in: of its keys, and of its queue, for order's sake."""
    if place is None:
        return []
    # No key begins so: a separator of properties can't be in one.
    line = f"\x01{place.broker_name}:{place.queue_id}"
    keys = {message.sharding_key for message in messages if message.sharding_key is not None}
    return [(place.topic, key) for key in (*keys, line)]


def _judged(receipt: SendReceipt, require: Require | None) -> SendReceipt | OrbitError:
    try:
        check_durable(receipt, require)
    except OrbitError as error:
        return error
    return receipt


def _receipts(
    messages: Sequence[Message], frame_count: int, outcomes: dict[int, SendReceipt | OrbitError]
) -> list[SendReceipt]:
    found = [outcomes[index] for index in range(len(messages))]
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
