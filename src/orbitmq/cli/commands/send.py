"""``orbitmq send``: send one message, or one per line of standard input.

Lines are sent as they arrive, many concurrently, to the queues round-robin; with a sharding key,
one after the other. The command ends at the first line that can't be sent, and reports which lines
were sent.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, TextIO

import msgspec

from orbitmq.cli.cluster import (
    add_client_options,
    add_group_option,
    add_json_option,
    json_line,
    on_a_loop,
    pairs,
    producer_settings,
)
from orbitmq.cli.lines import lines
from orbitmq.cli.render import elided
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.message.model import Message, SendReceipt, SendStatus

__all__ = ["LinesFailed", "add_arguments", "total_line"]

_GROUP: Final = "orbitmq-send"
_STDIN: Final = "-"
_AT_ONCE: Final = 512
"""Lines in flight: half of a producer's limit, so that none has to wait."""
_LESS_SAFE: Final = 1
_TOPIC_WIDTH: Final = 18
_DRAW_MS: Final = 200


class LinesFailed(OrbitError):
    """Some lines of standard input could not be sent."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq send``."""
    command.description = (
        "Send a message, or each line of standard input as a message. Empty lines are skipped."
    )
    command.epilog = (
        "Exit status: 0 all stored, 1 all stored, but some not yet flushed or replicated "
        "as their broker requires, 2 not all sent."
    )
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument(
        "body",
        metavar="BODY",
        nargs="?",
        help="the text; if missing or -, the lines of standard input",
    )
    command.add_argument("--tags", metavar="TAG", help="the tag that subscriptions filter by")
    command.add_argument(
        "--keys", metavar="KEYS", default="", help="keys for queries, separated by spaces"
    )
    command.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a property for consumers; may be repeated",
    )
    command.add_argument(
        "--sharding-key",
        metavar="KEY",
        help="messages with the same key stay in order, in one queue",
    )
    add_group_option(command, _GROUP)
    add_client_options(command)
    add_json_option(command, "a receipt per message as a line of JSON")
    command.set_defaults(run=_run, late="body")


def _run(arguments: argparse.Namespace) -> int:
    body = _STDIN if arguments.body is None else arguments.body
    sample = Message(
        arguments.topic,
        os.fsencode(body),
        tags=arguments.tags,
        keys=arguments.keys.split(),
        properties=pairs(arguments.property, "--property"),
        sharding_key=arguments.sharding_key,
    )
    client, settings = producer_settings(arguments)
    producer = Producer(settings=settings, client=client)
    if body == _STDIN:
        if sys.stdin is None:  # Python's way to say that the descriptor is closed
            raise InvalidInput("no BODY is given, and standard input is closed", field="body")
        fd = sys.stdin.fileno()
        return on_a_loop(_send_lines(producer, sample, fd, as_json=arguments.json))
    return on_a_loop(_send_one(producer, sample, as_json=arguments.json))


async def _send_one(producer: Producer, message: Message, *, as_json: bool) -> int:
    async with producer:
        receipt = await producer.send(message)
    for line in [_json(receipt)] if as_json else receipt_lines(receipt):
        print(line)
    return _status([receipt])


async def _send_lines(producer: Producer, sample: Message, fd: int, *, as_json: bool) -> int:
    status = 0
    tried = 0
    rate = Rate(SystemClock(), sys.stderr)
    bytes_max = producer.settings.max_message_bytes
    # With a key each send waits for the one before it, and would time out meanwhile.
    at_once = _AT_ONCE if sample.sharding_key is None else 1
    parts = lines(fd, count_max=at_once, line_bytes_max=bytes_max)
    try:
        async with producer, aclosing(parts):
            async for part in parts:
                receipts, failures = await _send_part(producer, sample, part)
                rate.add(len(receipts))
                if as_json and receipts:
                    print(*map(_json, receipts), sep="\n", flush=True)
                if failures:
                    raise _failure(failures, tried, len(part))
                status = max(status, _status(receipts))
                tried += len(part)
    finally:
        rate.clear()
        if not as_json:
            print(total_line(rate.count, sample.topic, rate.took_ms))
    return status


async def _send_part(
    producer: Producer, sample: Message, bodies: Sequence[bytes]
) -> tuple[list[SendReceipt], dict[int, OrbitError]]:
    """Send lines concurrently; return the receipts, and the errors by position."""
    sends = {
        place: asyncio.ensure_future(producer.send(sample.replace(body=body)))
        for place, body in enumerate(bodies)
        if body
    }
    await asyncio.gather(*sends.values(), return_exceptions=True)
    receipts, failures = [], {}
    for place, send in sends.items():
        try:
            receipts.append(send.result())
        except OrbitError as error:
            failures[place] = error
    return receipts, failures


def _failure(failures: dict[int, OrbitError], before: int, tried: int) -> LinesFailed:
    place, error = next(iter(failures.items()))
    others = f" and {len(failures) - 1:,} more" if len(failures) > 1 else ""
    failed = LinesFailed(
        f"line {before + place + 1:,}{others} could not be sent, and lines after "
        f"{before + tried:,} were not tried: {error}"
    )
    failed.__cause__ = error
    return failed


def _status(receipts: Iterable[SendReceipt]) -> int:
    return 0 if all(one.status is SendStatus.SEND_OK for one in receipts) else _LESS_SAFE


def _json(receipt: SendReceipt) -> str:
    queue = receipt.queue
    place = {"topic": queue.topic, "broker_name": queue.broker_name, "queue_id": queue.queue_id}
    rest = msgspec.structs.asdict(receipt)
    del rest["queue"]
    return json_line({"status": rest.pop("status").value, **place, **rest})


def receipt_lines(receipt: SendReceipt) -> Iterator[str]:
    """Yield what is printed after one message was sent."""
    queue = receipt.queue
    yield f"Message    {receipt.message_id}"
    yield f"Status     {receipt.status.value}"
    yield f"Queue      {queue.broker_name} {queue.queue_id}, offset {receipt.queue_offset:,}"


def total_line(count: int, topic: str, took_ms: int) -> str:
    """Return what is printed after the last line was sent.

    >>> total_line(12_000, "orders", 1_500)
    '12,000 messages sent to orders in 1.5 s, 8,000 per second'
    >>> total_line(1, "orders", 4)
    '1 message sent to orders'
    """
    messages = "1 message" if count == 1 else f"{count:,} messages"
    line = f"{messages} sent to {elided(topic, _TOPIC_WIDTH)}"
    if count > 1 and took_ms > 0:
        line += f" in {took_ms / 1000:,.1f} s, {count * 1000 // took_ms:,} per second"
    return line


class Rate:
    """The number of messages sent, and the rate: a line on a terminal, redrawn while they flow."""

    def __init__(self, clock: Clock, stream: TextIO) -> None:
        self._clock = clock
        self._stream = stream
        self._shown = stream.isatty()
        self._began_ms = self._drawn_ms = clock.monotonic_ms()
        self._drawn_count = 0
        self._is_drawn = False
        self.count = 0
        self.took_ms = 0  # from the start to the last message

    def add(self, sent: int) -> None:
        """Add to the count."""
        now_ms = self._clock.monotonic_ms()
        self.count += sent
        self.took_ms = now_ms - self._began_ms
        since_ms = now_ms - self._drawn_ms
        if not self._shown or since_ms < _DRAW_MS:
            return
        per_second = (self.count - self._drawn_count) * 1000 // since_ms
        self._stream.write(f"\r{self.count:,} sent, {per_second:,} per second\x1b[K")
        self._stream.flush()
        self._drawn_ms, self._drawn_count, self._is_drawn = now_ms, self.count, True

    def clear(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
