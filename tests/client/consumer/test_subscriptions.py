import pytest

from orbitmq.client.consumer.subscriptions import (
    SQL92,
    Sql,
    check_subscriptions,
    subscription_data,
)
from orbitmq.errors import InvalidInput, InvalidTags, InvalidTopic
from orbitmq.wire.bodies.heartbeat import SubscriptionData


def test_all_messages_have_no_tags() -> None:
    assert subscription_data("orders", "*", version=3) == SubscriptionData(
        topic="orders", sub_string="*", sub_version=3
    )


def test_tags_are_sorted_with_their_hashes_and_the_text_stays_as_written() -> None:
    data = subscription_data("orders", " TagB||TagA ")
    assert data.sub_string == " TagB||TagA "
    assert (data.tags_set, data.code_set) == (("TagA", "TagB"), (2598919, 2598920))


def test_sql_goes_to_the_broker_as_it_is() -> None:
    data = subscription_data("orders", Sql("amount > 10"))
    assert (data.expression_type, data.sub_string) == (SQL92, "amount > 10")
    assert (data.tags_set, data.code_set) == ((), ())


@pytest.mark.parametrize("given", ["", "  ", None, 3])
def test_an_empty_sql_expression_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        Sql(given)  # type: ignore[arg-type]
    assert caught.value.field == "expression"


def test_a_subscription_without_a_tag_is_refused() -> None:
    with pytest.raises(InvalidTags):
        subscription_data("orders", " || ")
    with pytest.raises(InvalidInput, match="subscription of orders is 3"):
        subscription_data("orders", 3)  # type: ignore[arg-type]


def test_topics_alone_select_all_messages() -> None:
    assert check_subscriptions(["orders", "bills"]) == {"orders": "*", "bills": "*"}
    sql = Sql("a IS NULL")
    assert check_subscriptions({"orders": sql}) == {"orders": sql}


def test_invalid_subscriptions_are_refused_before_the_start() -> None:
    with pytest.raises(InvalidTopic, match="subscribe: topic"):
        check_subscriptions({"a.b": "*"})
    with pytest.raises(InvalidTags):
        check_subscriptions({"orders": "||"})
    with pytest.raises(InvalidInput, match="subscribe is 3"):
        check_subscriptions(3)
