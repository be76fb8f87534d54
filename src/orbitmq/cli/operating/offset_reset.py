"""``orbitmq offset reset``: a group goes back, or skips; ``--dry-run`` shows what would happen."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from orbitmq.cli.asking import add_command, ask, counted, fitted, queue_of, queue_text
from orbitmq.cli.cluster import print_found
from orbitmq.cli.times import past_ms
from orbitmq.client.admin.admin import Admin
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family
    from orbitmq.client.admin.results import QueueStats

__all__ = ["Move", "add_reset", "move_lines"]

_EARLIEST, _LATEST = "earliest", "latest"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A group's offset in one queue; ``before`` is None if it has committed none."""

    queue: MessageQueue
    before: int | None
    after: int

    @property
    def change(self) -> int | None:
        """How many messages are consumed again (negative) or skipped."""
        return None if self.before is None else self.after - self.before


def add_reset(commands: "Family", of: str) -> None:
    """Add the command to the family ``offset`` or ``group``."""
    reset = add_command(
        commands,
        "reset",
        _reset,
        "move a group to other messages of a topic",
        about="Connected consumers continue from there.",
        examples=[
            f"{of} reset billing orders --to {place}"
            for place in ("earliest", "2026-11-15T09:30", "2h --dry-run", "42 --queue broker-a/3")
        ],
        status="0 moved (or shown, with --dry-run), 2 a server refused or can't be reached",
    )
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("topic", metavar="TOPIC")
    reset.add_argument(
        "--to",
        metavar="PLACE",
        required=True,
        help="earliest, latest, a time such as 2026-11-15T09:30, how long ago (30s, 10m, 2h, 1d), "
        "or an offset",
    )
    reset.add_argument(
        "--queue",
        metavar="BROKER/ID",
        action="append",
        help="only this queue; may be repeated",
    )
    reset.add_argument(
        "--dry-run", action="store_true", help="only show the offsets that would be set"
    )


def _reset(arguments: argparse.Namespace) -> int:
    place = _place(arguments.to)
    queues = [queue_of(text, arguments.topic) for text in arguments.queue or ()]
    moves = ask(arguments, lambda admin: _move(admin, arguments, place, queues))
    found = {
        "group": arguments.group,
        "topic": arguments.topic,
        "dry_run": arguments.dry_run,
        "queues": [
            {
                "broker_name": one.queue.broker_name,
                "queue_id": one.queue.queue_id,
                "before": one.before,
                "after": one.after,
            }
            for one in moves
        ],
    }
    lines = move_lines(arguments.group, moves, is_dry=arguments.dry_run)
    print_found(found, lines, as_json=arguments.json)
    return 0


_Place = str | int
"""``earliest``, ``latest`` or an offset as text; or a time in milliseconds."""


def _place(text: str) -> _Place:
    if text in (_EARLIEST, _LATEST) or re.fullmatch(r"\d{1,18}", text):
        return text
    try:
        return past_ms(text, "to")
    except InvalidInput as error:
        raise InvalidInput(
            f"--to {text[:40]!r} is not earliest, latest, a time such as 2026-11-15T09:30, a "
            "duration such as 2h, or an offset",
            field="to",
        ) from error


async def _move(
    admin: Admin, arguments: argparse.Namespace, place: _Place, chosen: Sequence[MessageQueue]
) -> list[Move]:
    group, topic = arguments.group, arguments.topic
    await admin.group_config(group)  # raises for a misspelled group
    extents = {one.queue: one for one in (await admin.topic_stats(topic)).queues}
    queues = _known(chosen, extents, topic)
    moves = [
        Move(
            queue=queue,
            before=await admin.consumer_offset(group, queue),
            after=await _offset(admin, extents[queue], place),
        )
        for queue in queues
    ]
    if arguments.dry_run:
        return moves
    is_time = isinstance(place, int) or place in (_EARLIEST, _LATEST)
    if chosen or not is_time:
        for one in moves:
            await admin.set_offset(group, one.queue, one.after)
        return moves
    if place == _LATEST:
        done = await admin.skip_to_end(group, topic)
    else:
        timestamp_ms = 0 if place == _EARLIEST else int(place)
        done = await admin.reset_offsets(group, topic, timestamp_ms=timestamp_ms)
    # What brokers say they did: messages may have come or gone since the plan.
    return [msgspec.structs.replace(one, after=done.get(one.queue, one.after)) for one in moves]


def _known(
    chosen: Sequence[MessageQueue], extents: Mapping[MessageQueue, object], topic: str
) -> list[MessageQueue]:
    for queue in chosen:
        if queue not in extents:
            names = ", ".join(queue_text(one) for one in sorted(extents)[:8])
            raise InvalidInput(
                f"topic {topic} has no queue {queue_text(queue)}; it has {names}", field="queue"
            )
    return sorted(chosen or extents)


async def _offset(admin: Admin, extent: "QueueStats", place: _Place) -> int:
    if place == _EARLIEST:
        return extent.min_offset
    if place == _LATEST:
        return extent.max_offset
    if isinstance(place, int):
        return await admin.search_offset(extent.queue, place)
    offset = int(place)
    if not extent.min_offset <= offset <= extent.max_offset:
        raise InvalidInput(
            f"queue {queue_text(extent.queue)} of {extent.queue.topic} has offsets "
            f"{extent.min_offset} to {extent.max_offset}, not {offset}; name the queues that have "
            "it with --queue",
            field="to",
        )
    return offset


_HEADS: Final = ("QUEUE", "COMMITTED", "NEW", "CHANGE")


def move_lines(group: str, moves: Sequence[Move], *, is_dry: bool) -> list[str]:
    """Return what ``reset`` prints.

    >>> moves = [Move(queue=MessageQueue("orders", "broker-a", 0), before=7, after=4)]
    >>> for line in move_lines("billing", moves, is_dry=True):
    ...     print(line)
    QUEUE       COMMITTED  NEW  CHANGE
    broker-a/0          7    4      -3
    <BLANKLINE>
    billing would consume 3 messages again; without --dry-run it is done
    """
    rows = [
        (
            queue_text(one.queue),
            "-" if one.before is None else str(one.before),
            str(one.after),
            "new" if one.change is None else f"{one.change:+,}",
        )
        for one in moves
    ]
    again = -sum(min(0, one.change or 0) for one in moves)
    skipped = sum(max(0, one.change or 0) for one in moves)
    parts = [f"consume {counted(again, 'message')} again"] if again else []
    parts += [f"skip {counted(skipped, 'message')}"] if skipped else []
    what = " and ".join(parts)
    if not parts:
        line = f"{group} would stay where it is" if is_dry else f"{group} stays where it is"
        if any(one.change is None for one in moves):
            line = f"{group} {'would begin' if is_dry else 'begins'} there"
    elif is_dry:
        line = f"{group} would {what}"
    else:
        line = f"{group} will {what}"
    return [*fitted(_HEADS, rows), "", line + ("; without --dry-run it is done" * is_dry)]
