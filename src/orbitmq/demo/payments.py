"""Messages that consumers get later or never: payments in transactions, and reminders by the clock.

::

    payment ── half message ──▶ card accepted ── commit ───▶ in the topic
                                card declined ── rollback ─▶ never seen
    reminder ── timer ──▶ due ──▶ in the topic
                 └── recalled ──▶ never seen
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message

__all__ = ["Later", "run_payments"]

PAYMENTS: Final = "shop-payments"
REMINDERS: Final = "shop-reminders"

_PAYMENTS: Final = 50
_DECLINED_EVERY: Final = 5
_DELAY: Final = timedelta(seconds=1.5)
_WAIT_MS_MAX: Final = 30_000
_LOOK_S: Final = 0.05


class CardDeclined(Exception):
    """The work that belongs to a payment failed, so the payment must not be seen."""


class Later(NamedTuple):
    """What became of the payments and reminders."""

    sent: int
    declined: int
    committed: int
    """Payments in the topic."""
    delay_s: float
    late_ms: int
    """How much later than due the reminder was stored."""
    reminders: int
    """Reminders in the topic; one of two was recalled."""


async def run_payments(client: ClientSettings, clock: Clock) -> Later:
    """Send payments and reminders, and return what consumers can see of them."""
    async with Admin(client) as admin, Producer("shop-payments", client=client) as producer:
        for topic in (PAYMENTS, REMINDERS):
            await admin.create_topic(topic, queues=1)
        await _remind(producer)
        for number in range(_PAYMENTS):
            await _pay(producer, number)
        accepted = _PAYMENTS - _PAYMENTS // _DECLINED_EVERY
        await _await_messages(admin, PAYMENTS, accepted, clock)
        await _await_messages(admin, REMINDERS, 1, clock)
        (stored,) = await admin.query_message(REMINDERS, "r-0")
        due_ms = stored.born_timestamp_ms + int(_DELAY / timedelta(milliseconds=1))
        return Later(
            sent=_PAYMENTS,
            declined=_PAYMENTS - accepted,
            committed=await _count(admin, PAYMENTS),
            delay_s=_DELAY.total_seconds(),
            late_ms=stored.store_timestamp_ms - due_ms,
            reminders=await _count(admin, REMINDERS),
        )


async def _remind(producer: Producer) -> None:
    """Send two reminders with a delivery time, and recall the second."""
    first, second = (
        Message(REMINDERS, b"is it paid?", keys=[f"r-{number}"], delay=_DELAY)
        for number in range(2)
    )
    await producer.send(first)
    receipt = await producer.send(second)
    if receipt.recall_handle is None:
        raise OrbitError("the broker returned no recall handle for a message with a delivery time")
    await producer.recall(REMINDERS, receipt.recall_handle)


async def _pay(producer: Producer, number: int) -> None:
    message = Message(PAYMENTS, b"paid", keys=[f"p-{number}"])
    with suppress(CardDeclined):
        async with producer.transaction(message):
            # Here a shop would change its database: both happen, or none of them.
            if number % _DECLINED_EVERY == 0:
                raise CardDeclined(message.keys)


async def _await_messages(admin: Admin, topic: str, count: int, clock: Clock) -> None:
    deadline_ms = clock.monotonic_ms() + _WAIT_MS_MAX
    while await _count(admin, topic) < count:
        if clock.monotonic_ms() > deadline_ms:
            raise OrbitError(f"{topic} had no {count} messages within {_WAIT_MS_MAX // 1000} s")
        await asyncio.sleep(_LOOK_S)


async def _count(admin: Admin, topic: str) -> int:
    return sum([await admin.max_offset(queue) for queue in await admin.queues(topic)])
