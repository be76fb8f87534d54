"""The orders of a small shop, and what happens to each; the same in every run.

::

    placed ──▶ paid ──▶ shipped
       └─ not paid in time ──▶ reminder, a delayed message
"""

from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec

from orbitmq.message.model import Message
from orbitmq.randomness import Randomness, SeededRandomness

__all__ = ["REMINDER", "TOPIC", "Event", "events"]

TOPIC: Final = "shop-orders"
REMINDER: Final = "reminder"

_SEED: Final = 7
_DELAY_LEVEL: Final = 1  # one second, as brokers are set by default
_PAID_OF_100: Final = 88
_ORDERS_PER_CUSTOMER: Final = 20
_STEP_MAX: Final = 40  # at most this many orders are placed before the next event of one
_FOLLOWS: Final = {"placed": "paid", "paid": "shipped"}
_PRICES: Final = {"tea": 490, "teapot": 3_900, "honey": 720, "cup": 1_150, "biscuits": 380}


class Event(msgspec.Struct, frozen=True):
    """An event in the life of an order; the body of a message."""

    order: str
    customer: str
    step: int
    """The number of the event among its customer's, from 1; 0 for reminders."""
    state: str
    item: str
    cents: int

    def message(self) -> Message:
        """Return the event as a message.

        >>> Event("o-1", "c-1", 1, "paid", "tea", 490).message().sharding_key
        'c-1'
        """
        return Message(
            TOPIC,
            msgspec.json.encode(self),
            tags=self.state,
            keys=[self.order],
            sharding_key=self.customer,
            delay_level=_DELAY_LEVEL if self.state == REMINDER else 0,
        )


class _Order(NamedTuple):
    name: str
    customer: str
    item: str
    is_paid: bool


def events(orders: int) -> list[Event]:
    """Return the events of a number of orders, in the order of time.

    >>> [event.state for event in events(1)]
    ['placed', 'paid', 'shipped']
    """
    chance = SeededRandomness(_SEED)
    placed = [_order(number, orders, chance) for number in range(orders)]
    due: list[tuple[int, int, str]] = []  # when, which order, what
    happened: list[Event] = []
    steps: dict[str, int] = {}
    turn = 0
    while turn < orders or due:
        if turn < orders:
            heappush(due, (turn, turn, "placed"))
        while due and due[0][0] <= turn:
            _, number, state = heappop(due)
            happened.append(_event(placed[number], state, steps))
            if following := _following(placed[number], state):
                heappush(due, (turn + 1 + chance.below(_STEP_MAX), number, following))
        turn += 1
    return happened


def _order(number: int, orders: int, chance: Randomness) -> _Order:
    customer = chance.below(1 + orders // _ORDERS_PER_CUSTOMER)
    return _Order(
        name=f"o-{number:05d}",
        customer=f"c-{customer:03d}",
        item=chance.choice(tuple(_PRICES)),
        is_paid=chance.below(100) < _PAID_OF_100,
    )


def _following(order: _Order, state: str) -> str | None:
    return REMINDER if state == "placed" and not order.is_paid else _FOLLOWS.get(state)


def _event(order: _Order, state: str, steps: dict[str, int]) -> Event:
    step = 0
    if state != REMINDER:
        step = steps[order.customer] = steps.get(order.customer, 0) + 1
    return Event(order.name, order.customer, step, state, order.item, _PRICES[order.item])
