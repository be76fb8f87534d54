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
from datetime import UTC, datetime, timedelta
from typing import Final, TextIO

import msgspec

from orbitmq.cli.asking import described, queue_of, queue_text
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
from orbitmq.cli.render import elided, hint
from orbitmq.cli.times import duration_ms, time_ms
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import InvalidInput, OrbitError
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus

__all__ = ["LinesFailed", "add_arguments", "message_of", "total_line"]

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
    described(
        command,
        "Send a message, or each line of standard input as a message. Empty lines are skipped.",
        examples=[
            "send orders paid --tags paid --keys 'o-42 c-7' -H colour=blue",
            "send orders --file order.json --delay 30m",
            "send orders paid --deliver-at 2026-11-15T09:30",
            "send orders paid --queue broker-a/3",
            "send orders - --json < lines",
        ],
        status="0 all stored, 1 all stored, but some not yet flushed or replicated as their "
        "broker requires, 2 not all sent",
    )
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument(
        "body",
        metavar="BODY",
        nargs="?",
        help="the text; if missing or -, the lines of standard input",
    )
    command.add_argument(
        "-f",
        "--file",
        dest="body_file",
        metavar="FILE",
        help="the body is what this file has; - is standard input",
    )
    command.add_argument("--tags", metavar="TAG", help="the tag that subscriptions filter by")
    command.add_argument(
        "--keys", metavar="KEYS", default="", help="keys for queries, separated by spaces"
    )
    command.add_argument(
        "-H",
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
    command.add_argument("--queue", metavar="BROKER/ID", help="the queue to send to")
    later = command.add_mutually_exclusive_group()
    later.add_argument(
        "--delay", metavar="DURATION", help="deliver it this much later: 30s, 10m, 2h, 1d"
    )
    later.add_argument(
        "--deliver-at", metavar="TIME", help="deliver it at this time, as 2026-11-15T09:30"
    )
    later.add_argument(
        "--delay-level",
        type=int,
        default=0,
        metavar="N",
        help="deliver it after the Nth of the broker's delays, 1 to 18: 1s, 5s, 10s and so on",
    )
    add_group_option(command, _GROUP)
    add_client_options(command)
    add_json_option(command, "a receipt per message as a line of JSON")
    command.set_defaults(run=_run, late="body", about_rest=_about_rest)


def _about_rest(arguments: argparse.Namespace, rest: Sequence[str]) -> str:
    if arguments.keys:
        return f"several keys are one argument: --keys '{arguments.keys} {rest[0]}'"
    return "a body of several words is one argument, in quotes"


def _run(arguments: argparse.Namespace) -> int:
    if arguments.body is not None and arguments.body_file is not None:
        raise InvalidInput("BODY and --file are both given; leave one out", field="body")
    client, settings = producer_settings(arguments)
    is_lines = arguments.body_file is None and arguments.body in (None, _STDIN)
    # The lines replace the body of the sample, which may not be empty.
    body = b"-" if is_lines else _body(arguments, settings.max_message_bytes)
    sample = message_of(arguments, body)
    producer = _To(Producer(settings=settings, client=client), _queue(arguments))
    if is_lines:
        if sys.stdin is None:  # Python's way to say that the descriptor is closed
            raise InvalidInput("no BODY is given, and standard input is closed", field="body")
        fd = sys.stdin.fileno()
        if os.isatty(fd):
            hint("each line is a message; ^D ends")
        return on_a_loop(_send_lines(producer, sample, fd, as_json=arguments.json))
    return on_a_loop(_send_one(producer, sample, as_json=arguments.json))


def message_of(arguments: argparse.Namespace, body: bytes) -> Message:
    """Return the message that the arguments describe."""
    delay, deliver_at = None, None
    if arguments.delay is not None:
        delay = timedelta(milliseconds=duration_ms(arguments.delay, "delay"))
    if arguments.deliver_at is not None:
        at_ms = time_ms(arguments.deliver_at, "deliver_at")
        deliver_at = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return Message(
        arguments.topic,
        body,
        tags=arguments.tags,
        keys=arguments.keys.split(),
        properties=pairs(arguments.property, "--property"),
        sharding_key=arguments.sharding_key,
        delay_level=arguments.delay_level,
        delay=delay,
        deliver_at=deliver_at,
    )


def _body(arguments: argparse.Namespace, bytes_max: int) -> bytes:
    if arguments.body_file is None:
        return os.fsencode(arguments.body)
    is_input = arguments.body_file == _STDIN
    try:
        with open(0 if is_input else arguments.body_file, "rb", closefd=not is_input) as file:
            return file.read(bytes_max + 1)  # one more than allowed: the producer says what is
    except OSError as error:
        raise InvalidInput(
            f"--file {arguments.body_file} can't be read: {error.strerror}", field="file"
        ) from error


def _queue(arguments: argparse.Namespace) -> MessageQueue | None:
    if arguments.queue is None:
        return None
    if arguments.sharding_key is not None:
        raise InvalidInput(
            "--queue and --sharding-key both choose the queue; leave one out", field="queue"
        )
    return queue_of(arguments.queue, arguments.topic)


class _To:
    """A producer, and the queue that all messages go to; None for all queues in turn."""

    def __init__(self, producer: Producer, queue: MessageQueue | None) -> None:
        self.producer = producer
        self._queue = queue

    async def check(self) -> None:
        """Refuse a queue that the topic lacks; the producer would wait for its broker to appear."""
        if self._queue is None:
            return
        queues = await self.producer.queues(self._queue.topic, must_exist=False)
        # Not the topics: with a namespace they differ.
        if not any(queue_text(one) == queue_text(self._queue) for one in queues):
            raise InvalidInput(
                f"topic {self._queue.topic} has no queue {queue_text(self._queue)} to write to; "
                f"name one as {queue_text(queues[0])}",
                field="queue",
            )

    async def send(self, message: Message) -> SendReceipt:
        """Send a message."""
        return await self.producer.send(message, queue=self._queue)


async def _send_one(to: _To, message: Message, *, as_json: bool) -> int:
    async with to.producer:
        await to.check()
        receipt = await to.send(message)
    has_place = not (message.delay_level or message.delay or message.deliver_at)
    for line in [_json(receipt)] if as_json else receipt_lines(receipt, has_place=has_place):
        print(line)
    return _status([receipt])


async def _send_lines(to: _To, sample: Message, fd: int, *, as_json: bool) -> int:
    status = 0
    tried = 0
    rate = Rate(SystemClock(), sys.stderr)
    bytes_max = to.producer.settings.max_message_bytes
    # With a key each send waits for the one before it, and would time out meanwhile.
    at_once = _AT_ONCE if sample.sharding_key is None else 1
    parts = lines(fd, count_max=at_once, line_bytes_max=bytes_max)
    try:
        async with to.producer, aclosing(parts):
            await to.check()
            async for part in parts:
                receipts, failures = await _send_part(to, sample, part)
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
    to: _To, sample: Message, bodies: Sequence[bytes]
) -> tuple[list[SendReceipt], dict[int, OrbitError]]:
    """Send lines concurrently; return the receipts, and the errors by position."""
    sends = {
        place: asyncio.ensure_future(to.send(sample.replace(body=body)))
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


def receipt_lines(receipt: SendReceipt, *, has_place: bool = True) -> Iterator[str]:
    """Yield what is printed after one message was sent.

    Without ``has_place`` the message waits, and the offset is that of where it waits.
    """
    queue = receipt.queue
    place = f", offset {receipt.queue_offset:,}" if has_place else ""
    yield f"Message    {receipt.message_id}"
    yield f"Status     {receipt.status.value}"
    yield f"Queue      {queue_text(queue)}{place}"


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
