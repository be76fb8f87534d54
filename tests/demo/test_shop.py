"""The shop's events: the same each time, sound for each order, and numbered for each customer."""

from collections import defaultdict

import msgspec
import pytest

from orbitmq.demo.shop import REMINDER, TOPIC, Event, events

LIVES = (["placed", "paid", "shipped"], ["placed", REMINDER])


def test_every_run_has_the_same_events() -> None:
    assert events(50) == events(50)


@pytest.mark.parametrize("orders", [1, 7, 200])
def test_each_order_has_all_its_events(orders: int) -> None:
    lives: dict[str, list[str]] = defaultdict(list)
    for event in events(orders):
        lives[event.order].append(event.state)
    assert len(lives) == orders
    assert all(life in LIVES for life in lives.values())


def test_some_orders_are_paid_and_some_get_a_reminder() -> None:
    assert {event.state for event in events(200)} == {state for life in LIVES for state in life}


def test_events_of_a_customer_are_numbered_without_gaps() -> None:
    steps: dict[str, list[int]] = defaultdict(list)
    for event in events(200):
        if event.state != REMINDER:
            steps[event.customer].append(event.step)
    assert len(steps) > 5
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in steps.values())


def test_the_message_of_an_event_has_all_its_fields() -> None:
    event = Event("o-1", "c-2", 3, "paid", "tea", 490)
    message = event.message()
    assert (message.topic, message.tags, message.keys) == (TOPIC, "paid", ("o-1",))
    assert (message.sharding_key, message.delay_level) == ("c-2", 0)
    assert msgspec.json.decode(message.body, type=Event) == event


def test_a_reminder_is_delayed() -> None:
    assert Event("o-1", "c-2", 0, REMINDER, "tea", 490).message().delay_level == 1
