from datetime import UTC, datetime

import pytest

from orbitmq.client.consumer.settings import (
    CONSUMER_NAMES,
    PULL_CONSUMER_NAMES,
    ConsumerSettings,
    PullConsumerSettings,
    consume_from_where,
    load,
    load_pull,
)
from orbitmq.errors import InvalidInput, InvalidSetting
from orbitmq.settings import from_arguments
from orbitmq.wire.bodies.heartbeat import ConsumeFromWhere

MIB = 1024 * 1024


def consumer(**values: object) -> ConsumerSettings:
    return ConsumerSettings("billing", **values)  # type: ignore[arg-type]


def pull(**values: object) -> PullConsumerSettings:
    return PullConsumerSettings("audit", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency", 0),
        ("concurrency", 1_001),
        ("batch_max", 1_025),
        ("pull_batch", 1_025),
        ("pull_interval_ms", 65_536),
        ("queue_messages_max", 65_536),
        ("queue_bytes_max", 1024 * MIB + 1),
        ("topic_messages_max", 0),
        ("topic_messages_max", 6_553_501),
        ("total_bytes_max", -2),
        ("span_max", 0),
        ("suspend_ms", 9),
        ("lock_interval_ms", 30_001),
        ("max_reconsume_times", -2),
        ("ordered", 1),
        ("consume_from", "middle"),
        ("consume_from", "20269999999999"),
        ("consume_from", -1),
        ("consume_from", None),
        ("strategy", "fair"),
        ("strategy", 3),
        ("trace_topic", "a.b"),
        ("pull_timeout_ms", 15_000),
    ],
)
def test_a_value_that_cannot_be_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        consumer(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("auto_commit_interval_ms", 999),
        ("poll_timeout_ms", -1),
        ("pull_timeout_ms", 20_000),
        ("all_messages_max", 0),
        ("broadcasting", "yes"),
    ],
)
def test_a_value_of_a_pull_consumer_that_cannot_be_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        pull(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("group", ["", "a b", "DEFAULT_CONSUMER", "g" * 121, 3])
def test_a_group_must_have_a_name_of_its_own(group: str) -> None:
    for kind in (ConsumerSettings, PullConsumerSettings):
        with pytest.raises(InvalidInput) as caught:
            kind(group)
        assert caught.value.field == "group"


def test_a_time_becomes_milliseconds_since_1970() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert consumer(consume_from=noon).consume_from == 1_769_860_800_000
    assert consumer(consume_from=7).consume_from == 7
    local = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - Java's text is in local time
    assert consumer(consume_from="20260131120000") == consumer(consume_from=local)


def test_heartbeats_say_where_a_group_begins() -> None:
    assert consume_from_where("last") is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert consume_from_where("first") is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert consume_from_where(0) is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


def test_a_strategy_may_be_an_object() -> None:
    class Mine:
        name = "mine"

        def assign(self, *_: object) -> list[object]:
            return []

    mine = Mine()
    assert consumer(strategy=mine).strategy is mine


def test_properties_of_java_load() -> None:
    client, settings = load(
        from_arguments(
            [
                "consumerGroup=billing",
                "namesrvAddr=names:9876",
                "messageModel=BROADCASTING",
                "consumeFromWhere=CONSUME_FROM_FIRST_OFFSET",
                "consumeThreadMax=64",
                "consumeTimeout=2",
                "pullThresholdSizeForQueue=8",
                "pullThresholdSizeForTopic=-1",
                "pullThresholdForTopic=500",
                "allocateMessageQueueStrategy=AVG_BY_CIRCLE",
                "unitMode=true",
            ]
        )
    )
    assert (client.nameserver, client.unit_mode) == ("names:9876", True)
    assert settings == consumer(
        broadcasting=True,
        consume_from="first",
        concurrency=64,
        consume_timeout_ms=120_000,
        queue_bytes_max=8 * MIB,
        topic_messages_max=500,
        strategy="average_by_circle",
    )


def test_properties_of_a_java_lite_pull_consumer_load() -> None:
    _, settings = load_pull(
        from_arguments(
            [
                "consumerGroup=audit",
                "autoCommit=false",
                "pollTimeoutMillis=10",
                "consumeTimestamp=20260131120000",
                "consumeFromWhere=CONSUME_FROM_TIMESTAMP",
            ]
        )
    )
    assert settings == pull(auto_commit=False, poll_timeout_ms=10, consume_from="20260131120000")


@pytest.mark.parametrize(
    "line",
    [
        "messageModel=BOTH",
        "consumeFromWhere=CONSUME_FROM_TIMESTAMP",
        "consumeFromWhere=HERE",
        "consumeTimeout=soon",
        "pullThresholdSizeForQueue=1025",
        "pullBatchSize=0",
        "strategy=fair",
    ],
)
def test_an_invalid_property_is_named(line: str) -> None:
    for loaded in (load, load_pull):
        properties = from_arguments(["consumerGroup=billing", line])
        if loaded is load_pull and "consumeTimeout" in line:
            continue  # not a property of a pull consumer
        with pytest.raises(InvalidSetting) as caught:
            loaded(properties)
        assert caught.value.field


def test_every_property_sets_a_field() -> None:
    assert set(CONSUMER_NAMES.values()) < set(ConsumerSettings.__struct_fields__)
    assert set(PULL_CONSUMER_NAMES.values()) == set(PullConsumerSettings.__struct_fields__)
