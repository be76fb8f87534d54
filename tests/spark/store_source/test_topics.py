import pytest

from orbitmq.message import names
from orbitmq.spark.store_source.options import Include
from orbitmq.spark.store_source.topics import TopicRule, kind_of, rule_of
from tests.spark.store_source.reads import options_of


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", None),
        ("%RETRY%billing", None),
        ("%DLQ%billing", None),
        (names.HALF_TOPIC, Include.HALVES),
        (names.OP_HALF_TOPIC, Include.HALVES),
        (names.SCHEDULE_TOPIC, Include.DELAYED),
        (names.TIMER_TOPIC, Include.DELAYED),
        (names.TRACE_TOPIC, Include.SYSTEM),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", Include.SYSTEM),
        ("DefaultCluster_REPLY_TOPIC", Include.SYSTEM),
    ],
)
def test_the_kinds_of_topics(topic: str, kind: Include | None) -> None:
    assert kind_of(topic) is kind
    assert TopicRule().wants(topic) is (kind is None)
    assert TopicRule(include=frozenset(Include)).wants(topic)
    assert TopicRule({"other"}, include=frozenset(Include)).wants(topic) is (kind is not None)


def test_a_topic_that_is_named_is_wanted_of_whatever_kind() -> None:
    rule = TopicRule({names.TRACE_TOPIC, "%DLQ%billing"})
    wanted = [names.TRACE_TOPIC, "%DLQ%billing", "orders", names.HALF_TOPIC]
    assert [rule.wants(topic) for topic in wanted] == [True, True, False, False]
    assert rule.is_narrow


def test_a_pattern_is_for_whole_names_of_users_topics() -> None:
    rule = TopicRule(pattern=".*")
    assert rule.wants("orders")
    assert not rule.wants("%RETRY%billing")
    assert not rule.wants(names.TRACE_TOPIC)
    assert TopicRule(pattern="%RETRY%.*").wants("%RETRY%billing")
    assert not TopicRule(pattern="order").wants("orders")


def test_the_rule_of_options() -> None:
    rule = rule_of(options_of("/s", subscribe="a,b", include="halves"))
    assert rule.wants_halves
    assert rule == TopicRule(frozenset({"a", "b"}), None, frozenset({Include.HALVES}))
    assert not rule_of(options_of("/s")).is_narrow
