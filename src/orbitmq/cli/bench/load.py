"""Load: messages sent at a rate or as fast as answers come, and messages read."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from orbitmq.cli.bench.figures import Figures
from orbitmq.client.consumer.tail import Tail
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message, StoredMessage

__all__ = ["Amount", "receive", "send"]

_ERRORS_MAX: Final = 100
"""In a row; then what is measured is not the broker."""


class Amount(NamedTuple):
    """How much is sent: a number of messages, or as many as go in some seconds, or both.

    ``rate`` is the most per second; 0 for no limit.
    """

    messages: int | None
    seconds: float | None
    rate: float = 0.0


class _Turns:
    """Gives each message its turn; None when it was the last."""

    def __init__(self, amount: Amount, now: Callable[[], float]) -> None:
        self._amount = amount
        self._now = now
        self._began = now()
        self._given = 0

    def next_in(self) -> float | None:
        """Return in how many seconds the next message is to be sent."""
        amount, number, now = self._amount, self._given, self._now()
        turn = self._began + number / amount.rate if amount.rate else now
        is_over = amount.seconds is not None and max(turn, now) - self._began >= amount.seconds
        if is_over or (amount.messages is not None and number >= amount.messages):
            return None
        self._given += 1
        return turn - now


async def send(
    producer: Producer, message: Message, amount: Amount, in_flight: int, figures: Figures
) -> None:
    """Send copies of a message, some at the same time; errors are counted.

    Raises:
        ExceptionGroup: of OrbitError: a hundred sends failed one after the other, or one with an
            error that a repetition does not mend.
    """
    loop = asyncio.get_running_loop()
    turns = _Turns(amount, loop.time)
    size = len(message.body)
    in_a_row = 0

    async def work() -> None:
        nonlocal in_a_row
        while (wait := turns.next_in()) is not None:
            if wait > 0:
                await asyncio.sleep(wait)
            began = loop.time()
            try:
                await producer.send(message)
            except OrbitError as error:
                figures.fail(error)
                in_a_row += 1
                if in_a_row >= _ERRORS_MAX or not error.retriable:
                    raise
            else:
                in_a_row = 0
                figures.latencies.add(loop.time() - began)
                figures.add(1, size)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(work())


async def receive(
    tail: Tail,
    figures: Figures,
    *,
    count: int | None = None,
    clock: Clock | None = None,
) -> None:
    """Read messages until the tail ends, or ``count`` are read.

    With ``clock``, the time since each message was made counts as its latency.
    """
    batches = tail.batches()
    try:
        async for messages in batches:
            _take(figures, messages, clock)
            if count is not None and figures.messages >= count:
                return
    finally:
        await batches.aclose()


def _take(figures: Figures, messages: Sequence[StoredMessage], clock: Clock | None) -> None:
    figures.add(len(messages), sum(len(one.body) for one in messages))
    if clock is not None:
        now_ms = clock.now_ms()
        for one in messages:
            figures.latencies.add((now_ms - one.born_timestamp_ms) / 1000)
