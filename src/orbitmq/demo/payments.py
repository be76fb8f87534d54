"""Messages that consumers get later or never: payments in transactions, and reminders by the clock.

::

    payment ── half message ──▶ card accepted ── commit ───▶ in the topic
                                card declined ── rollback ─▶ never seen
    reminder ── timer ──▶ due ──▶ in the topic
                 └── recalled ──▶ never seen
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from orbitmq.blocking import Admin, Producer
from orbitmq.clock import Clock
from orbitmq.demo.figures import Later
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message

__all__ = ["seen_later", "send_payments"]

PAYMENTS: Final = "shop-payments"
REMINDERS: Final = "shop-reminders"

_PAYMENTS: Final = 50
_DECLINED_EVERY: Final = 5
_DELAY: Final = timedelta(seconds=1.5)
_WAIT_MS_MAX: Final = 30_000


class CardDeclined(Exception):
    """The work that belongs to a payment failed, so the payment must not be seen."""


def send_payments(producer: Producer, admin: Admin) -> None:
    """Send two reminders, of which one is recalled, and payments, of which some are declined."""
    for topic in (PAYMENTS, REMINDERS):
        admin.create_topic(topic, queues=1)
    producer.send(_reminder(0))
    receipt = producer.send(_reminder(1))
    if receipt.recall_handle is None:
        raise OrbitError("the broker returned no recall handle for a message with a delivery time")
    producer.recall(REMINDERS, receipt.recall_handle)
    for number in range(_PAYMENTS):
        _pay(producer, number)


def seen_later(admin: Admin, clock: Clock) -> Later:
    """Return what consumers can see of them; wait for what is not delivered yet."""
    accepted = _PAYMENTS - _PAYMENTS // _DECLINED_EVERY
    _await_messages(admin, PAYMENTS, accepted, clock)
    _await_messages(admin, REMINDERS, 1, clock)
    (stored,) = admin.query_message(REMINDERS, "r-0")
    due_ms = stored.born_timestamp_ms + int(_DELAY / timedelta(milliseconds=1))
    return Later(
        sent=_PAYMENTS,
        declined=_PAYMENTS - accepted,
        committed=_count(admin, PAYMENTS),
        delay_s=_DELAY.total_seconds(),
        late_ms=stored.store_timestamp_ms - due_ms,
        reminders=_count(admin, REMINDERS),
    )


def _reminder(number: int) -> Message:
    return Message(REMINDERS, b"is it paid?", keys=[f"r-{number}"], delay=_DELAY)


def _pay(producer: Producer, number: int) -> None:
    message = Message(PAYMENTS, b"paid", keys=[f"p-{number}"])
    with suppress(CardDeclined), producer.transaction(message):
        # Here a shop would change its database: both happen, or none of them.
        if number % _DECLINED_EVERY == 0:
            raise CardDeclined(message.keys)


def _await_messages(admin: Admin, topic: str, count: int, clock: Clock) -> None:
    deadline_ms = clock.monotonic_ms() + _WAIT_MS_MAX
    while _count(admin, topic) < count:
        if clock.monotonic_ms() > deadline_ms:
            raise OrbitError(f"{topic} had no {count} messages within {_WAIT_MS_MAX // 1000} s")


def _count(admin: Admin, topic: str) -> int:
    return sum(admin.max_offset(queue) for queue in admin.queues(topic))
