"""``orbitmq message``: find and show stored messages."""

import argparse
import base64
import codecs
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from orbitmq.cli.asking import described
from orbitmq.cli.cluster import (
    add_client_options,
    add_json_option,
    client_settings,
    on_a_loop,
    print_found,
)
from orbitmq.cli.problems import tell_missing
from orbitmq.cli.render import elided, human_size, local_time, table, width
from orbitmq.cli.times import time_ms
from orbitmq.client.admin.admin import Admin
from orbitmq.errors import InvalidInput, NotFound
from orbitmq.message.model import StoredMessage

__all__ = ["add_arguments", "message_lines", "query_lines"]

_WIDTH: Final = 80
_QUERY_MAX: Final = 64
_BODY_SHOWN_BYTES: Final = 1024
_HEX_COLUMNS: Final = 16
_FOREVER_MS: Final = 2**63 - 1


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq message``."""
    commands = command.add_subparsers(metavar="COMMAND")
    ends = "0 found, 1 not found, 2 the cluster can't be asked"
    view = commands.add_parser(
        "view",
        help="show one message",
    )
    described(
        view,
        "Show the message with an id, that of its producer or that of its broker.",
        examples=[
            "message view orders C00002023822071BA3685FDE822E0000",
            "message view orders 7F00000100004DC6000000000000054C --body > body",
        ],
        status=ends,
    )
    view.add_argument("topic", metavar="TOPIC")
    view.add_argument("id", metavar="ID")
    add_client_options(view)
    form = view.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--body", action="store_true", help="print only the body, byte for byte")
    view.set_defaults(run=_view)
    query = commands.add_parser(
        "query",
        help="list the messages with a key",
    )
    described(
        query,
        "List the messages of a topic with a key, oldest first; of many, the newest.",
        examples=[
            "message query orders o-42",
            "message query orders o-42 --begin 2026-11-15T09:30 --max 64 --json",
        ],
        status=ends,
    )
    query.add_argument("topic", metavar="TOPIC")
    query.add_argument("key", metavar="KEY")
    query.add_argument(
        "--max",
        type=int,
        default=32,
        metavar="N",
        help="at most the newest N of each broker, up to 64 (%(default)s)",
    )
    query.add_argument(
        "--begin", metavar="TIME", help="stored at or after this local time, as 2026-11-15T09:30"
    )
    query.add_argument("--end", metavar="TIME", help="stored at or before this time")
    add_client_options(query)
    add_json_option(query)
    query.set_defaults(run=_query)


def _view(arguments: argparse.Namespace) -> int:
    async def ask() -> StoredMessage:
        async with Admin(client=client_settings(arguments)) as admin:
            return await admin.view_message(arguments.topic, arguments.id)

    try:
        message = on_a_loop(ask())
    except NotFound:
        what = f"topic {arguments.topic} has no message {arguments.id[:64]}"
        return tell_missing(what, as_json=arguments.json)
    if arguments.body:
        sys.stdout.buffer.write(message.body)
    else:
        print_found(as_json(message), message_lines(message), as_json=arguments.json)
    return 0


def _query(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.max <= _QUERY_MAX:
        raise InvalidInput(
            f"--max is {arguments.max}; it must be from 1 to {_QUERY_MAX}", field="max"
        )
    begin_ms = 0 if arguments.begin is None else time_ms(arguments.begin, "begin")
    end_ms = _FOREVER_MS if arguments.end is None else time_ms(arguments.end, "end")

    async def ask() -> list[StoredMessage]:
        async with Admin(client=client_settings(arguments)) as admin:
            return await admin.query_message(
                arguments.topic,
                arguments.key,
                max_count=arguments.max,
                begin_ms=begin_ms,
                end_ms=end_ms,
            )

    found = on_a_loop(ask())
    if found or arguments.json:
        print_found([as_json(one) for one in found], query_lines(found), as_json=arguments.json)
    if found:
        return 0
    what = f"topic {arguments.topic} has no message with key {arguments.key[:64]}"
    return tell_missing(what, as_json=arguments.json)


def as_json(message: StoredMessage) -> dict[str, object]:
    """Return what ``--json`` prints; a body that is not UTF-8 is base64-encoded."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": str(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": str(message.store_host),
        "reconsume_times": message.reconsume_times,
        **body,
    }


def message_lines(message: StoredMessage) -> Iterator[str]:
    """Yield what ``view`` prints, at most 80 columns wide except for the body."""
    yield f"Message    {message.message_id}"
    yield f"Topic      {elided(message.topic, _WIDTH - 11)}"
    broker = f"{message.broker_name}/" if message.broker_name else ""
    yield f"Queue      {broker}{message.queue_id}, offset {message.queue_offset:,}"
    yield f"Stored     {local_time(message.store_timestamp_ms)} on {message.store_host}"
    yield f"Born       {local_time(message.born_timestamp_ms)} on {message.born_host}"
    if message.reconsume_times:
        yield f"Retries    {message.reconsume_times:,}"
    for head, text in (("Tags", message.tags), ("Keys", " ".join(message.keys))):
        if text:
            yield from _wrapped(head, text)
    for name, value in sorted(message.user_properties.items()):
        yield from _wrapped("Property", f"{name}={value}")
    yield f"Body       {human_size(len(message.body))}"
    yield ""
    yield from body_lines(message.body)


def _wrapped(head: str, text: str) -> list[str]:
    clean = text if text.isprintable() else ascii(text)
    return textwrap.wrap(f"{head:<11}{clean}", _WIDTH, subsequent_indent=" " * 11)


def body_lines(body: bytes) -> Iterator[str]:
    r"""Yield the beginning of a body: as text, or in hexadecimal if it is not text.

    Text with control characters counts as not text: it could do anything to a terminal.

    >>> list(body_lines(b"paid")), list(body_lines(b"\x00\x1b[2J"))
    (['  paid'], ['  00 1b 5b 32 4a'])
    """
    shown = body[:_BODY_SHOWN_BYTES]
    text = _text(shown, is_whole=len(shown) == len(body))
    if text is not None:
        yield from (f"  {line}" for line in text)
    else:
        for start in range(0, len(shown), _HEX_COLUMNS):
            yield f"  {shown[start : start + _HEX_COLUMNS].hex(' ')}"
    if len(shown) < len(body):
        yield f"  … {len(body) - len(shown):,} more bytes; --body prints the whole body"


def _text(raw: bytes, *, is_whole: bool) -> list[str] | None:
    """Return the lines of a text, or None if it is not text. Its last character may be cut."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(raw, final=is_whole)
    except UnicodeDecodeError:
        return None
    lines = text.expandtabs().splitlines()
    return lines if all(line.isprintable() for line in lines) else None


_HEADS: Final = ("ID", "STORED", "QUEUE", "OFFSET", "SIZE")
_QUEUE_LEAST: Final = 5


def query_lines(messages: Sequence[StoredMessage]) -> list[str]:
    """Return the lines that ``query`` prints; broker names are shortened to fit 80 columns."""
    cells = [
        (
            one.message_id,
            local_time(one.store_timestamp_ms)[len("2026-") :],
            f"{one.broker_name}/{one.queue_id}",
            str(one.queue_offset),
            human_size(len(one.body)),
        )
        for one in messages
    ]
    bare = [(*cell[:2], "", *cell[3:]) for cell in cells]
    taken = max(map(len, table(_HEADS, bare, left=3))) - len(_HEADS[2])
    room = max(width() - taken, _QUEUE_LEAST)
    rows = [(*cell[:2], elided(cell[2], room), *cell[3:]) for cell in cells]
    return table(_HEADS, rows, left=3)
