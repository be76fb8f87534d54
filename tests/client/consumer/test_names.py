import pytest

from orbitmq.client.consumer.names import Names
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from tests.client.stored import a_stored_message

SEEN, WIRE = (MessageQueue(topic, "broker-a", 3) for topic in ("orders", "shop%orders"))


def test_queues_and_messages_have_the_namespace_on_the_wire_only() -> None:
    names = Names("shop")
    assert names.wire_queue(SEEN) == WIRE
    assert names.seen_queue(WIRE) == SEEN
    assert names.seen_queues([WIRE]) == {SEEN}
    (message,) = names.seen_messages([a_stored_message(topic="shop%orders")])
    assert message.topic == "orders"


def test_without_a_namespace_nothing_is_copied() -> None:
    names, messages = Names(), [a_stored_message()]
    assert names.wire_queue(SEEN) is SEEN
    assert names.seen_queue(SEEN) is SEEN
    assert names.seen_messages(messages) is messages
    assert names.wire("orders") == names.seen("orders") == "orders"


def test_what_is_no_queue_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be a MessageQueue"):
        Names().wire_queue("orders")  # type: ignore[arg-type]
