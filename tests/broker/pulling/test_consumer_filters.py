import json

import pytest

from orbitmq.broker.pulling.consumer_filters import ConsumerFilters, RetryFilter
from orbitmq.errors import InvalidBody
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from tests.broker.fake_clients import tags
from tests.broker.world import World
from tests.store.logs import NOW

DAY_MS = 86_400_000


def sql(expression: str, *, topic: str = "orders", version: int = 1) -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version
    )


def expression(filters: ConsumerFilters, topic: str = "orders") -> str | None:
    found = filters.get("billing", topic)
    return None if found is None else found.sql.expression


def is_dead(filters: ConsumerFilters, topic: str = "orders") -> bool:
    found = filters.get("billing", topic)
    assert found is not None
    return found.is_dead


def test_only_a_newer_subscription_changes_a_filter() -> None:
    filters = World().filters
    filters.register("billing", [sql("a > 1", version=5)])
    changes = filters.changes
    filters.register("billing", [sql("a > 2", version=5)])
    filters.register("billing", [sql("a > 3", version=4)])
    assert (expression(filters), filters.changes) == ("a > 1", changes)
    filters.register("billing", [sql("a > 2", version=6)])
    assert expression(filters) == "a > 2"


def test_tags_and_empty_expressions_are_no_filters() -> None:
    filters = World().filters
    filters.register("billing", [tags("orders"), sql("", topic="bills")])
    assert (filters.of_group("billing"), filters.changes) == ({}, 0)


def test_a_bad_expression_removes_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    filters = World().filters
    filters.register("billing", [sql("a > 1", version=1)])
    for _ in range(2):
        filters.register("billing", [sql("a > > 1", version=2)])
    assert expression(filters) is None
    assert caplog.text.count("character 5") == 1
    filters.register("billing", [sql("a > 2", version=3)])
    assert expression(filters) == "a > 2"


def test_a_heartbeat_with_many_long_expressions_is_taken_in_parts() -> None:
    filters = World().filters
    long = "a > 1 OR " * 3_000 + "a > 1"
    beat = [sql(long, topic=f"orders-{number}") for number in range(10)]
    assert filters.register("billing", beat) < 0
    first = len(filters.of_group("billing"))
    assert 1 < first < 10
    while filters.register("billing", beat) < 0:
        assert len(filters.of_group("billing")) > first
    assert len(filters.of_group("billing")) == 10


def test_long_expressions_that_were_refused_hold_up_no_others() -> None:
    filters = World().filters
    bad = [sql("a > > 1" + " " * 30_000, topic=f"bad-{number}") for number in range(3)]
    beat = [*bad, sql("a > 1")]
    assert filters.register("billing", beat) < 0
    filters.register("billing", beat)
    assert expression(filters) == "a > 1"


def test_text_behind_an_expression_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    World().filters.register("billing", [sql("a > 1 AMD b > 1")])
    assert "everything from character 7 on is ignored" in caplog.text


def test_a_filter_dies_with_its_subscription_and_its_group_and_comes_back() -> None:
    world = World()
    filters = world.filters
    filters.register("billing", [sql("a > 1"), sql("b > 1", topic="bills")])
    filters.register("billing", [sql("a > 1")])
    assert (is_dead(filters), is_dead(filters, "bills")) == (False, True)
    filters.unregister("billing")
    assert is_dead(filters)
    filters.register("billing", [sql("a > 1")])
    assert not is_dead(filters)


def test_a_filter_that_was_dead_for_a_day_is_removed() -> None:
    world = World()
    filters = world.filters
    filters.register("billing", [sql("a > 1")])
    world.clock.now += 2 * DAY_MS
    filters.clean()
    filters.unregister("billing")
    world.clock.now += DAY_MS - 1
    filters.clean()
    assert expression(filters) == "a > 1"
    world.clock.now += 1
    filters.clean()
    assert filters.of_group("billing") == {}


def test_the_file_has_java_s_layout() -> None:
    world = World()
    world.filters.register("billing", [sql("a > 1", version=7)])
    assert json.loads(world.filters.to_json()) == {
        "filterDataByTopic": {
            "orders": {
                "groupFilterData": {
                    "billing": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": [31, 20, 9]},
                        "bornTime": NOW,
                        "clientVersion": 7,
                        "consumerGroup": "billing",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "a > 1",
                        "expressionType": "SQL92",
                        "topic": "orders",
                    }
                },
                "topic": "orders",
            }
        }
    }


def test_filters_survive_a_restart_as_dead_ones() -> None:
    world = World()
    world.filters.register("billing", [sql("a > 1", version=7)])
    again = World()
    again.clock.now = NOW + DAY_MS
    again.filters.load_json(world.filters.to_json())
    found = again.filters.get("billing", "orders")
    assert found is not None
    assert (found.is_dead, found.version, found.born_ms) == (True, 7, NOW)
    assert found.dead_ms == NOW + DAY_MS - 30_000
    assert found.sql.matches("a\x012\x02")


def test_a_loaded_filter_that_can_not_be_parsed_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.filters.register("billing", [sql("a > 1"), sql("b > 1", topic="bills")])
    again = World().filters
    again.load_json(world.filters.to_json().replace("b > 1", "b > > 1"))
    assert set(again.of_group("billing")) == {"orders"}
    assert "filter of group billing dropped" in caplog.text


def test_another_text_is_no_table() -> None:
    with pytest.raises(InvalidBody):
        World().filters.load_json('{"filterDataByTopic": 5}')


def test_retries_are_filtered_by_the_topics_they_come_from() -> None:
    filters = World().filters
    filters.register("billing", [sql("a > 1 AND b > 1"), sql("a > 5", topic="bills")])
    retries = RetryFilter(filters, "%RETRY%billing")
    assert retries.terms == 4
    assert retries.matches("a\x012\x02RETRY_TOPIC\x01others\x02")
    assert not retries.matches("a\x012\x02RETRY_TOPIC\x01bills\x02")
    assert retries.matches("a\x016\x02RETRY_TOPIC\x01bills\x02")
    assert RetryFilter(filters, "%RETRY%billing+orders").terms == 4  # of pop consumers
