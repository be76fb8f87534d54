"""Batches, as the inbox and as users see them."""

from orbitmq.client.consumer.delivery.delivery import Batch, as_seen, counted, named_by
from orbitmq.message.model import MessageQueue
from tests.client.consumer.delivery.world import an_inbox
from tests.client.stored import a_stored_message


def test_messages_of_a_plain_topic_are_not_copied() -> None:
    messages = [a_stored_message()]
    assert as_seen(messages, MessageQueue("orders", "broker-a", 0), "") is messages


def test_a_retry_has_its_first_topic_and_no_namespace() -> None:
    retry = a_stored_message("%RETRY%ns%billing", RETRY_TOPIC="ns%orders")
    lost = a_stored_message("%RETRY%ns%billing")  # sent to the retry topic by hand
    seen = as_seen([retry, lost], MessageQueue("%RETRY%ns%billing", "broker-a", 0), "ns")
    assert [one.topic for one in seen] == ["orders", "%RETRY%billing"]


def test_named_messages_are_found_by_their_offsets() -> None:
    messages = [a_stored_message(at=at) for at in (1, 2, 3)]
    copy = a_stored_message(body=b"changed", at=2)
    assert named_by([copy], messages) == [messages[1]]
    assert named_by([], messages) == []
    assert named_by([a_stored_message(at=9)], messages) is None


def test_a_counted_message_was_delivered_once_more() -> None:
    assert counted(a_stored_message(retries=2)).reconsume_times == 3


def test_a_batch_says_where_it_is_from() -> None:
    message = a_stored_message(at=7)
    assert repr(Batch(an_inbox(7), [message], [message])) == (
        "<Batch of 1 from orders broker-a:0 at 7>"
    )
