"""Messages that consumers get later or never: payments in transactions, and reminders by the clock.

::

    payment ── half message ──▶ card accepted ── commit ───▶ in the topic
                                card declined ── rollback ─▶ never seen
    reminder ── timer ──▶ due ──▶ in the topic
                 └── recalled ──▶ never seen
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Final, NamedTuple

from orbitmq.blocking import Admin, Producer
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


def run_payments(producer: Producer, admin: Admin, clock: Clock) -> Later:
    """Send payments and reminders, and return what consumers can see of them."""
    for topic in (PAYMENTS, REMINDERS):
        admin.create_topic(topic, queues=1)
    producer.send(_reminder(0))
    recalled = producer.send(_reminder(1))
    if recalled.recall_handle is None:
        raise OrbitError("the broker returned no recall handle for a timer")
    producer.recall(REMINDERS, recalled.recall_handle)
    for number in range(_PAYMENTS):
        _pay(producer, number)
    accepted = _PAYMENTS - _PAYMENTS // _DECLINED_EVERY
    _await(lambda: _count(admin, PAYMENTS) >= accepted, clock)
    _await(lambda: _count(admin, REMINDERS) > 0, clock)
    (stored,) = admin.query_message(REMINDERS, "r-0")
    due_ms = stored.born_timestamp_ms + int(_DELAY / timedelta(milliseconds=1))
    return Later(
        sent=_PAYMENTS,
        declined=_PAYMENTS - accepted,
        delay_s=_DELAY.total_seconds(),
        committed=_count(admin, PAYMENTS),
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


def _count(admin: Admin, topic: str) -> int:
    return sum(admin.max_offset(queue) for queue in admin.queues(topic))


def _await(is_there: Callable[[], bool], clock: Clock) -> None:
    deadline_ms, pause = clock.monotonic_ms() + _WAIT_MS_MAX, Event()
    while not is_there():
        if clock.monotonic_ms() > deadline_ms:
            raise OrbitError(f"messages were not delivered within {_WAIT_MS_MAX // 1000} s")
        pause.wait(_LOOK_S)
