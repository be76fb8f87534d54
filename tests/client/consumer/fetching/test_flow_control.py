import pytest

from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.message.model import MessageQueue
from tests.client.stored import a_stored_message


def inbox_of(*offsets: int, size: int = 10) -> Inbox:
    inbox = Inbox(MessageQueue("orders", "broker-a", 3))
    inbox.put([a_stored_message(body=b"x" * size, at=offset) for offset in offsets])
    return inbox


def limits(**given: int) -> FlowLimits:
    return FlowLimits(**{"queue_messages_max": 100, "queue_bytes_max": 1_000, **given})


@pytest.mark.parametrize(
    ("given", "owned", "limit"),
    [
        ({"queue_messages_max": 3}, 1, None),
        ({"queue_messages_max": 2}, 1, "queue_messages_max"),
        ({"queue_bytes_max": 30}, 1, None),
        ({"queue_bytes_max": 29}, 1, "queue_bytes_max"),
        ({"span_max": 6}, 1, None),
        ({"span_max": 5}, 1, "span_max"),
        ({"topic_messages_max": 11}, 4, "topic_messages_max"),
        ({"topic_messages_max": 12}, 4, None),
        ({"topic_messages_max": 1}, 4, "topic_messages_max"),
        ({"topic_messages_max": 100, "queue_messages_max": 1}, 4, None),  # it replaces it
        ({"topic_bytes_max": 100}, 4, "topic_bytes_max"),
        ({"topic_bytes_max": 100}, 2, None),
    ],
)
def test_a_queue_is_full_beyond_its_limits(
    given: dict[str, int], owned: int, limit: str | None
) -> None:
    assert limits(**given).full_queue(inbox_of(1, 2, 7), owned) == limit


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, None),
        ({"total_messages_max": 5}, None),
        ({"total_messages_max": 4}, "total_messages_max"),
        ({"total_bytes_max": 50}, None),
        ({"total_bytes_max": 49}, "total_bytes_max"),
    ],
)
def test_all_queues_together_have_limits(given: dict[str, int], limit: str | None) -> None:
    assert limits(**given).full_in_total([inbox_of(1, 2, 3), inbox_of(1, 2)]) == limit


def test_the_limits_of_a_consumer_are_in_its_settings() -> None:
    found = FlowLimits.of(ConsumerSettings("billing", queue_messages_max=7, total_bytes_max=9))
    assert (found.queue_messages_max, found.total_bytes_max, found.span_max) == (7, 9, 2_000)
    assert FlowLimits.of(ConsumerSettings("billing", ordered=True)).span_max == -1
