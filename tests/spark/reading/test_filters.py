from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from orbitmq.spark.reading.filters import Interval, PushedFilters, pushed_filters
from tests.spark.fake_cluster import queue

TOPIC, QUEUE_ID, OFFSET, TIME = ("topic",), ("queue_id",), ("queue_offset",), ("timestamp",)
TAGS, KEY = ("tags",), ("key",)


@pytest.mark.parametrize(
    ("given_filter", "kept"),
    [
        (EqualTo(TOPIC, "orders"), True),
        (EqualTo(TOPIC, "refunds"), False),
        (EqualNullSafe(TOPIC, "orders"), True),
        (In(TOPIC, ("refunds", "orders")), True),
        (Not(In(TOPIC, ("refunds", "orders"))), False),
        (StringStartsWith(TOPIC, "ord"), True),
        (StringEndsWith(TOPIC, "ord"), False),
        (StringContains(TOPIC, "rder"), True),
        (GreaterThan(TOPIC, "orders"), False),
        (IsNull(TOPIC), False),
        (Not(IsNull(TOPIC)), True),
        (IsNotNull(TOPIC), True),
        (EqualTo(("broker",), "broker-a"), True),
        (LessThan(QUEUE_ID, 3), False),
        (LessThanOrEqual(QUEUE_ID, 3), True),
        (GreaterThanOrEqual(QUEUE_ID, 4), False),
    ],
)
def test_a_filter_on_queue_columns_keeps_or_drops_queues(given_filter: Filter, kept: bool) -> None:
    assert pushed_filters([given_filter]).keeps(queue(3)) is kept


@pytest.mark.parametrize(
    "unsure",
    [
        In(TOPIC, ("orders", None)),
        Not(In(TOPIC, (None,))),
        EqualTo(TOPIC, None),
        EqualTo(QUEUE_ID, 1.5),
        EqualTo(QUEUE_ID, True),
        EqualTo(("value",), b"paid"),
        EqualTo(("properties", "topic"), "orders"),
        Not(EqualTo(OFFSET, 3)),
        IsNotNull(OFFSET),
        IsNotNull(TAGS),
        Not(EqualTo(TAGS, "paid")),
        EqualTo(TAGS, "*"),
        EqualTo(TAGS, "paid || late"),
        EqualTo(TAGS, " paid"),
        EqualTo(TAGS, ""),
        In(TAGS, ("paid", None)),
        In(TAGS, ()),
        In(OFFSET, ()),
        In(OFFSET, (1, None)),
        EqualTo(TIME, datetime(2026, 1, 1)),  # noqa: DTZ001  # one without a time zone
        EqualTo(KEY, " "),
        StringStartsWith(KEY, "o-"),
    ],
    ids=repr,
)
def test_undecidable_filters_are_left_to_spark(unsure: Filter) -> None:
    assert pushed_filters([unsure]) == PushedFilters()


@pytest.mark.parametrize(
    ("filters", "span"),
    [
        ([EqualTo(OFFSET, 5)], Interval(5, 6)),
        ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 9)], Interval(6, 9)),
        ([GreaterThanOrEqual(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], Interval(5, 10)),
        ([GreaterThan(OFFSET, 5), EqualTo(OFFSET, 3)], Interval(6, 4)),
    ],
)
def test_comparisons_of_offsets_cut_the_ends(filters: list[Filter], span: Interval) -> None:
    assert pushed_filters(filters).offsets == span


def test_a_list_of_offsets_cuts_the_ends_and_spark_does_the_rest() -> None:
    assert pushed_filters([In(OFFSET, (9, 2, 4))]).offsets == Interval(2, 10)


def test_times_are_rounded_outwards_to_milliseconds() -> None:
    half_past = datetime(1970, 1, 1, 0, 0, 1, 500_500, tzinfo=UTC)
    filters: list[Filter] = [GreaterThan(TIME, half_past), LessThan(TIME, half_past)]

    found = pushed_filters(filters)

    assert found.times_us == Interval(1_500_501, 1_500_500)
    assert found.times_ms == Interval(1_500, 1_501)


def test_tags_become_a_subscription() -> None:
    found = pushed_filters([In(TAGS, ("paid", "late")), In(TAGS, ("late", "new", "old"))])

    assert found.subscription("*") == "late"
    assert found.subscription("late || paid") == "late"
    assert found.subscription("paid") is None


def test_without_tags_the_option_holds() -> None:
    assert PushedFilters().subscription("paid || late") == "paid || late"


def test_the_first_word_of_a_key_is_looked_up_and_spark_compares_the_whole() -> None:
    asked: list[Filter] = [EqualTo(KEY, " o-42 o-43"), EqualTo(KEY, "o-44")]

    assert pushed_filters(asked).key == "o-42"


@pytest.mark.parametrize("key", ["order\t42", "注文\u300042", "42\n", "\xa042"])
def test_blanks_alone_separate_keys_as_in_the_index(key: str) -> None:
    assert pushed_filters([EqualTo(KEY, f"  {key} o-43")]).key == key


def comparisons() -> st.SearchStrategy[Filter]:
    numbers = st.integers(-3, 12)
    kinds = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    return st.builds(lambda kind, value: kind(OFFSET, value), st.sampled_from(kinds), numbers)


@given(st.lists(comparisons(), max_size=4), st.integers(0, 10))
def test_an_offset_is_in_the_interval_if_and_only_if_it_meets_all_filters(
    filters: list[Filter], offset: int
) -> None:
    start, end = pushed_filters(filters).offsets
    as_if_of_queues = [type(one)(QUEUE_ID, one.value) for one in filters]  # type: ignore[call-arg, attr-defined]

    within = (start is None or start <= offset) and (end is None or offset < end)

    assert within == pushed_filters(as_if_of_queues).keeps(queue(offset))
