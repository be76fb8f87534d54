"""``orbitmq outbox``: show the messages in a producer's outbox, and send them."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from orbitmq.cli.asking import described
from orbitmq.cli.cluster import (
    add_client_options,
    add_group_option,
    add_json_option,
    on_a_loop,
    print_found,
    producer_settings,
)
from orbitmq.cli.render import elided, human_size, local_time, table
from orbitmq.client.producer.outbox.file import Contents, read_contents
from orbitmq.client.producer.outbox.ledger import Entry
from orbitmq.client.producer.outbox.outbox import Outbox
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import InvalidInput

__all__ = ["Drained", "add_arguments", "contents_lines", "drained_lines"]

_WIDTH: Final = 80
_LEFT: Final = 1
_ROWS_MAX: Final = 50
_GROUP: Final = "orbitmq-outbox"
_WAIT_S_MAX: Final = 24 * 3600
_DRAW_S: Final = 0.2


class Drained(NamedTuple):
    """The result of ``drain``: how many were sent, and what is left to send or was refused."""

    sent: int
    left: Sequence[Entry] = ()
    refused: Sequence[Entry] = ()


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq outbox``."""
    commands = command.add_subparsers(metavar="COMMAND")
    show = commands.add_parser(
        "show",
        help="show the messages in an outbox",
    )
    described(
        show,
        "Show the messages in an outbox. Only reads; its producer may be running.",
        examples=["outbox show billing.outbox"],
        status="0 empty, 1 messages are in it, 2 it can't be read",
    )
    show.add_argument("path", metavar="FILE", help="the producer's outbox_path")
    add_json_option(show)
    show.set_defaults(run=_show)
    drain = commands.add_parser(
        "drain",
        help="send the messages in an outbox",
    )
    described(
        drain,
        "Send the messages in an outbox whose producer is not running.",
        examples=[
            "outbox drain billing.outbox",
            "outbox drain billing.outbox --refused --wait 9",
        ],
        status="0 now empty, 1 messages are left, 2 it can't be used",
    )
    drain.add_argument("path", metavar="FILE", help="the producer's outbox_path")
    drain.add_argument(
        "--wait", type=int, default=60, metavar="S", help="give up after S seconds (%(default)s)"
    )
    drain.add_argument(
        "--refused", action="store_true", help="also retry messages that a broker refused"
    )
    add_group_option(drain, _GROUP)
    add_client_options(drain)
    add_json_option(drain)
    drain.set_defaults(run=_drain)


def _show(arguments: argparse.Namespace) -> int:
    contents = read_contents(arguments.path)
    found = {
        "path": arguments.path,
        "bytes": contents.file_bytes,
        "torn_bytes": contents.torn_bytes,
        "broken": contents.broken,
        "waiting": [entry._asdict() for entry in contents.waiting],
        "refused": [entry._asdict() for entry in contents.refused],
    }
    print_found(found, contents_lines(arguments.path, contents), as_json=arguments.json)
    return _LEFT if contents.waiting or contents.refused else 0


def contents_lines(path: str, contents: Contents) -> Iterator[str]:
    """Yield what ``show`` prints, at most 80 columns wide except for the path."""
    yield f"Outbox     {path}"
    yield f"Messages   {len(contents.waiting):,} waiting, {len(contents.refused):,} refused"
    yield f"File       {human_size(contents.file_bytes)}"
    if contents.torn_bytes:
        yield f"Torn       {human_size(contents.torn_bytes)} at the end, left by a crash"
    if contents.broken:
        yield f"DAMAGED    can't be read in {contents.broken:,} places"
    yield from _reasons(("Waiting", contents.waiting), ("Refused", contents.refused))


_HEADS: Final = ("NUMBER", "KEPT", "TOPIC", "SIZE", "REASON")
_TOPIC_WIDTH: Final = 16


def _entry_lines(entries: Sequence[Entry]) -> Iterator[str]:
    cells = [
        (
            str(entry.sequence),
            local_time(entry.kept_ms)[len("2026-") :],
            elided(entry.topic, _TOPIC_WIDTH),
            human_size(entry.body_bytes),
        )
        for entry in entries[:_ROWS_MAX]
    ]
    room = _WIDTH - max(map(len, table(_HEADS[:4], cells))) - 2
    rows = [(*cell, _cut(entry.reason, room)) for cell, entry in zip(cells, entries, strict=False)]
    yield from table(_HEADS, rows, left=len(_HEADS))
    if len(entries) > _ROWS_MAX:
        yield f"… and {len(entries) - _ROWS_MAX:,} more; --json shows all"


def _cut(reason: str, width: int) -> str:
    """Return the beginning of a reason, its most important part."""
    clean = " ".join(reason.split())
    return clean if len(clean) <= width else f"{clean[: width - 1]}…"


def _drain(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.wait <= _WAIT_S_MAX:
        raise InvalidInput(
            f"--wait is {arguments.wait}; it must be from 1 to {_WAIT_S_MAX} seconds", field="wait"
        )
    read_contents(arguments.path)  # a mistyped path is an error, not a new outbox
    client, settings = producer_settings(arguments)
    producer = Producer(settings=settings, client=client, outbox_path=arguments.path)
    drained = on_a_loop(_send_all(producer, arguments.wait, refused=arguments.refused))
    found = {
        "sent": drained.sent,
        "left": len(drained.left),
        "refused": len(drained.refused),
        "left_messages": [entry._asdict() for entry in drained.left],
        "refused_messages": [entry._asdict() for entry in drained.refused],
    }
    print_found(found, drained_lines(drained), as_json=arguments.json)
    return _LEFT if drained.left or drained.refused else 0


async def _send_all(producer: Producer, wait_s: int, *, refused: bool) -> Drained:
    async with producer:
        outbox = producer.outbox
        assert outbox is not None  # its path was given
        if refused:
            for entry in outbox.refused:
                outbox.retry(entry.sequence)
        try:
            async with asyncio.timeout(wait_s):
                await _drained(outbox)
        except TimeoutError:
            pass  # what is left is counted below
        return Drained(outbox.sent, outbox.entries, outbox.refused)


async def _drained(outbox: Outbox) -> None:
    """Wait until nothing is left to send; on a terminal, show the progress."""
    waiting = asyncio.ensure_future(outbox.drained())
    is_shown = sys.stderr.isatty()
    try:
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=_DRAW_S)
            if is_shown:
                print(
                    f"\r{outbox.sent:,} sent, {len(outbox):,} left\x1b[K", end="", file=sys.stderr
                )
    finally:
        waiting.cancel()
        if is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def drained_lines(drained: Drained) -> Iterator[str]:
    """Yield what ``drain`` prints.

    >>> list(drained_lines(Drained(sent=3)))
    ['3 sent, 0 left, 0 refused']
    """
    yield f"{drained.sent:,} sent, {len(drained.left):,} left, {len(drained.refused):,} refused"
    yield from _reasons(("Left", drained.left), ("Refused", drained.refused))


def _reasons(*parts: tuple[str, Sequence[Entry]]) -> Iterator[str]:
    for heading, entries in parts:
        if entries:
            yield ""
            yield f"{heading}:"
            yield from _entry_lines(entries)
