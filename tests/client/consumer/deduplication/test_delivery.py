"""What becomes of each message of a delivery."""

import pytest

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.client.consumer.deduplication.delivery import OneDelivery
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.message.model import StoredMessage
from tests.client.consumer.deduplication.messages import message

A, B, C = (message(unique) for unique in "abc")
A_AGAIN = message("a", offset=7)


def delivery(*messages: StoredMessage, found: list[Found]) -> OneDelivery:
    made = OneDelivery(list(messages), lambda one: one.message_id)
    made.found(found)
    return made


def test_the_handler_gets_what_is_new_and_of_equal_ones_the_first() -> None:
    made = delivery(A, B, C, A_AGAIN, found=[Found.NEW, Found.DONE, Found.NEW])
    assert made.keys == ["a", "b", "c"]
    assert (made.given, made.claimed) == ([A, C], ["a", "c"])
    made.check_none_is_busy()


def test_a_single_message_stays_single() -> None:
    made = OneDelivery(A, lambda one: one.message_id)
    made.found([Found.NEW])
    assert made.given is A


def test_what_another_handler_works_on_is_for_later() -> None:
    made = delivery(A, B, found=[Found.NEW, Found.CLAIMED])
    assert made.given == [A]
    with pytest.raises(RetryLater, match="another handler is working on it") as raised:
        made.check_none_is_busy()
    assert raised.value.messages == [B]
    alone = OneDelivery(A, lambda one: one.message_id)
    alone.found([Found.CLAIMED])
    with pytest.raises(RetryLater) as raised:
        alone.check_none_is_busy()
    assert raised.value.messages is None


def test_an_error_is_of_all_messages() -> None:
    made = delivery(A, B, found=[Found.NEW, Found.NEW])
    for error in (ValueError("x"), RetryLater("x")):
        assert made.failed(error) == ([], ["a", "b"])
        assert made.later(error) is None


def test_retry_later_may_name_some_messages_and_gets_the_busy_and_equal_ones() -> None:
    made = delivery(A, B, A_AGAIN, C, found=[Found.NEW, Found.NEW, Found.CLAIMED])
    error = RetryLater("no stock", delay_level=3, messages=[A])
    assert made.failed(error) == (["b"], ["a"])
    later = made.later(error)
    assert later is not None
    assert (later.messages, later.delay_level) == ([A, A_AGAIN, C], 3)
