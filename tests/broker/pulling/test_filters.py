import pytest

from orbitmq.broker.pulling import filters
from orbitmq.message.tags import tags_code
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("kind", "by_tags"), [(None, True), ("", True), ("TAG", True), ("SQL92", False), ("tag", False)]
)
def test_no_kind_of_expression_means_tags(kind: str | None, by_tags: bool) -> None:
    assert filters.is_by_tags(kind) is by_tags


def test_the_subscription_of_a_pull_has_tags_and_their_hashes() -> None:
    found = filters.subscription_of("orders", "late || paid", "TAG")
    assert (found.topic, found.sub_string) == ("orders", "late || paid")
    assert found.tags_set == ("late", "paid")
    assert set(found.code_set) == {tags_code("late"), tags_code("paid")}


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression: str | None) -> None:
    assert filters.wants(filters.subscription_of("orders", expression, None)) is None


def test_an_expression_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Refusal, match="parse the consumer's subscription failed") as refusal:
        filters.subscription_of("orders", "||", None)
    assert refusal.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_what_is_not_by_tags_is_refused_unless_that_is_enabled() -> None:
    with pytest.raises(
        Refusal, match="filter message by SQL92; set enablePropertyFilter"
    ) as refusal:
        filters.check_enabled("SQL92", is_enabled=False)
    assert refusal.value.code == ResponseCode.SYSTEM_ERROR
    filters.check_enabled("SQL92", is_enabled=True)
    filters.check_enabled("TAG", is_enabled=False)


def test_the_filter_of_a_pull_is_parsed_or_refused() -> None:
    sent = filters.subscription_of("orders", "a > 1", "SQL92")
    assert filters.sent_filter(sent).matches("a\x012\x02")
    assert filters.wants(sent) is None
    for expression, kind in (("a > > 1", "SQL92"), ("a > 1", "XPATH")):
        with pytest.raises(Refusal, match="parse the consumer's subscription failed") as refusal:
            filters.sent_filter(filters.subscription_of("orders", expression, kind))
        assert refusal.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    with pytest.raises(Refusal, match="is empty"):
        filters.subscription_of("orders", None, "SQL92")


def test_messages_are_filtered_by_the_hash_of_their_tags() -> None:
    wants = filters.wants(filters.subscription_of("orders", "paid||late", None))
    assert wants is not None
    assert [wants(tags_code(one)) for one in ("paid", "late", "new")] == [True, True, False]


def test_a_class_filter_lets_all_through_since_the_client_looks_again() -> None:
    assert filters.wants(SubscriptionData(sub_string="A.class", class_filter_mode=True)) is None
