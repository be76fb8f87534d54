"""Each check of a topic and of a group finds its cause, and nothing else does."""

from dataclasses import replace
from typing import Any

import pytest

from orbitmq.cli.doctor.command import diagnosed
from orbitmq.cli.doctor.facts import Facts
from orbitmq.cli.doctor.findings import Level
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.bodies.topic import TopicConfig
from tests.cli.doctor.facts_of import (
    broker,
    facts,
    group,
    members,
    progress,
    route,
    settings,
    topic,
)


def routes(*each: TopicRouteData | None) -> Facts:
    """Return a cluster whose nameservers have these routes of the topic."""
    return facts(
        nameservers=tuple(
            replace(one, route=of) for one, of in zip(facts().nameservers, each, strict=True)
        )
    )


def configured(**config: Any) -> Facts:
    values: dict[str, Any] = {"read_queue_nums": 2, "write_queue_nums": 2} | config
    return facts(topic=topic(configs={"broker-a": TopicConfig(topic_name="orders", **values)}))


def grouped(**config: Any) -> Facts:
    return facts(group=group(configs={"broker-a": SubscriptionGroupConfig(**config)}))


def subscribed(**subscriptions: dict[str, str]) -> Facts:
    return facts(group=group(subscriptions=subscriptions))


CAUSES = [
    (
        replace(routes(None, None), topic=topic(configs={})),
        "route",
        "topic orders does not exist.",
    ),
    (routes(route(), None), "route", "nameserver 10.0.0.2:9876 has no route of topic orders"),
    (
        routes(route(), route(queues_on="broker-z")),
        "route",
        "has queues of topic orders on broker-z, whose address it does not know",
    ),
    (configured(perm=4), "topic permissions", "topic orders may not be written to on broker-a"),
    (configured(perm=2), "topic permissions", "topic orders may not be read from on broker-a"),
    (
        routes(route(), route(perm=4)),
        "topic permissions",
        "nameserver 10.0.0.2:9876 tells producers not to write to topic orders on broker-a",
    ),
    (
        configured(write_queue_nums=5),
        "queues",
        "3 queues of topic orders on broker-a are written to and never read: 5 to write, 2 to read",
    ),
    (
        facts(group=group(configs={}, members=None, subscriptions={}, progress=None)),
        "group",
        "no broker has group billing, and none creates it.",
    ),
    (
        facts(
            group=group(configs={"broker-z": SubscriptionGroupConfig()}),
        ),
        "group",
        "broker-a has no group billing, and does not create groups",
    ),
    (grouped(consume_enable=False), "group", "group billing may not consume on broker-a"),
    (
        facts(group=group(members=None, subscriptions={})),
        "members",
        "no consumer of group billing is connected",
    ),
    (
        subscribed(one={"orders": "*"}, two={"orders": "paid"}, three={"orders": "*"}),
        "subscriptions",
        "subscribe to different things: one to orders: *; two to orders: paid. Brokers keep one",
    ),
    (
        facts(group=group(members=members("one", bills="*"), subscriptions={})),
        "subscriptions",
        "group billing does not subscribe to topic orders, but to bills.",
    ),
    (
        facts(group=group(progress=progress((10, 12)))),
        "lag",
        "has committed offset 12 in queue broker-a/0 of orders, which ends at 10",
    ),
]
RISKS = [
    (
        facts(group=group(members=members("one", "two", "three", orders="*"))),
        "members",
        "group billing has 3 consumers for 2 queues of topic orders: 1 consumer without",
    ),
    (
        facts(group=group(progress=progress((10, 10), (2_000, 500)))),
        "lag",
        (
            "group billing is 1,500 messages behind, most in queue broker-a/1 of orders (1,500); "
            "it consumes 12.5 per second."
        ),
    ),
    (
        facts(group=group(dead_letters=3)),
        "dead letters",
        "3 messages of group billing are dead letters",
    ),
]


@pytest.mark.parametrize(
    ("planted", "check", "words", "level"),
    [(*one, Level.PROBLEM) for one in CAUSES] + [(*one, Level.RISK) for one in RISKS],
)
def test_a_cause_is_found_by_its_check_alone(
    planted: Facts, check: str, words: str, level: Level
) -> None:
    findings, fine = diagnosed(planted)
    assert {(one.check, one.level) for one in findings} == {(check, level)}
    assert words in findings[0].says
    assert findings[0].do
    assert check not in fine


def test_a_misspelled_topic_may_be_about_to_be_created() -> None:
    missing = replace(
        routes(None, None),
        topic=topic(configs={}),
        brokers=(broker(config=settings(autoCreateTopicEnable="true")),),
    )
    finding = next(one for one in diagnosed(missing)[0] if one.check == "route")
    assert "The first send creates it" in finding.says


def test_lag_in_one_queue_has_other_advice_than_lag_in_all() -> None:
    def advice(*offsets: tuple[int, int]) -> str:
        (finding,) = diagnosed(facts(group=group(progress=progress(*offsets))))[0]
        return finding.do

    assert advice((5_000, 0), (10, 10)).startswith("It is one queue")
    assert advice((5_000, 0), (5_000, 0)).startswith("Make the handler faster")
    assert advice((5_000, 0)).startswith("Make the handler faster")


def test_lag_in_other_topics_does_not_count() -> None:
    behind = group(progress=progress((5_000, 0)))
    other = topic(name="bills")
    found = diagnosed(facts(group=behind, topic=other))[0]
    assert "lag" not in {one.check for one in found}
    assert {one.check for one in diagnosed(facts(group=behind, topic=None))[0]} == {"lag"}


def test_members_that_share_a_subscription_are_not_compared_by_order() -> None:
    both = subscribed(
        one={"orders": "*", "bills": "a"}, two={"bills": "a", "orders": "*", "%RETRY%billing": "*"}
    )
    assert diagnosed(both)[0] == []


def test_what_could_not_be_asked_is_told() -> None:
    findings, _ = diagnosed(facts(group=group(configs={}, problem="no answer in 6 s")))
    assert findings[-1].says == "billing could not be looked at: no answer in 6 s"
