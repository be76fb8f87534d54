import json
import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidOffsets
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    Lost,
    Offsets,
    Range,
    Slice,
    bound_offsets,
    clamped,
    data_lost,
    from_spark,
    lost,
    shared_out,
    slices,
    to_spark,
)

A0, A1, B0 = (
    MessageQueue("orders", "broker-a", 0),
    MessageQueue("orders", "broker-a", 1),
    MessageQueue("orders", "broker-b", 0),
)

queues = st.builds(
    MessageQueue, st.sampled_from("tu"), st.sampled_from(["a", "b", "a:b"]), st.integers(0, 20)
)
ranges = st.dictionaries(
    queues, st.tuples(st.integers(0, 10**6), st.integers(0, 1000)), max_size=8
).map(lambda found: {queue: Range(start, start + size) for queue, (start, size) in found.items()})


@given(st.dictionaries(queues, st.integers(0, 2**63 - 1)))
def test_offsets_survive_a_checkpoint(offsets: Offsets) -> None:
    assert from_spark(json.loads(json.dumps(to_spark(offsets)))) == offsets


@given(st.dictionaries(queues, st.integers(0, 9)), st.randoms())
def test_the_same_offsets_are_the_same_text(offsets: Offsets, chance: Random) -> None:
    again = list(offsets.items())
    chance.shuffle(again)
    assert json.dumps(to_spark(offsets)) == json.dumps(to_spark(dict(again)))


def test_queues_are_in_the_order_of_their_numbers() -> None:
    many = {MessageQueue("t", "a", number): 0 for number in (10, 9, 100)}
    assert list(to_spark(many)["t"]) == ["a:9", "a:10", "a:100"]


@pytest.mark.parametrize(
    "kept", [{"orders": {"0": 12}}, {"orders": 12}, 12, {"orders": {"broker-a:0": "12"}}], ids=repr
)
def test_a_checkpoint_of_another_source_is_refused(kept: object) -> None:
    with pytest.raises(InvalidOffsets, match="12.*checkpoint of another source") as caught:
        from_spark(kept)
    assert caught.value.field == "checkpointLocation"


# Bounds


def test_a_bound_has_an_offset_in_each_queue() -> None:
    has = {A0: Range(2, 9), A1: Range(0, 0)}
    assert bound_offsets(Bound("earliest"), has, field="startingOffsets") == {A0: 2, A1: 0}
    assert bound_offsets(Bound("latest"), has, field="startingOffsets") == {A0: 9, A1: 0}
    said = Bound("offsets", {A0: EARLIEST, A1: LATEST})
    assert bound_offsets(said, has, field="startingOffsets") == {A0: 2, A1: 0}
    said = Bound("offsets", {A0: 5, A1: 0})
    assert bound_offsets(said, has, field="startingOffsets") == {A0: 5, A1: 0}
    at_time = {A0: 7, A1: 0}
    assert bound_offsets(Bound("timestamp"), has, at_time, field="startingTimestamp") == at_time


def test_offsets_are_for_existing_queues() -> None:
    has = {A0: Range(0, 9), A1: Range(0, 9)}
    with pytest.raises(InvalidOffsets, match="queues that don't exist: orders broker-b:0;"):
        bound_offsets(Bound("offsets", {A0: 0, A1: 0, B0: 0}), has, field="startingOffsets")
    with pytest.raises(InvalidOffsets, match="no offset for orders broker-a:1; give one for each"):
        bound_offsets(Bound("offsets", {A0: 0}), has, field="startingOffsets")


def test_a_thousand_queues_are_not_all_listed() -> None:
    has = {MessageQueue("t", "a", number): Range(0, 1) for number in range(1000)}
    with pytest.raises(InvalidOffsets, match="t a:4 and 995 more") as caught:
        bound_offsets(Bound("offsets"), has, field="startingOffsets")
    assert len(str(caught.value)) < 200


# Slices


@given(ranges, st.none() | st.integers(1, 60), st.none() | st.integers(1, 300))
def test_slices_cover_all_of_it_once(
    whole: dict[MessageQueue, Range], least: int | None, most: int | None
) -> None:
    found = slices(whole, least, most)
    for queue, has in whole.items():
        pieces = [one for one in found if one.queue == queue]
        points = [has.min, *(point for one in pieces for point in (one.start, one.end)), has.max]
        assert points == sorted(points)
        assert points[0::2] == points[1::2]  # each begins where the one before ends
        assert all(one.start < one.end for one in pieces)
        assert most is None or all(one.end - one.start <= most for one in pieces)
    total = sum(has.max - has.min for has in whole.values())
    assert len(found) >= min(least or 0, total)
    assert [one.queue for one in found] == sorted(one.queue for one in found)


def test_a_large_queue_is_cut_into_more_slices() -> None:
    found = slices({A0: Range(0, 900), A1: Range(0, 100)}, min_partitions=10)
    assert [one.queue for one in found].count(A0) == 9
    assert len(found) == 10


def test_a_slice_pickles() -> None:
    one = Slice(A0, 3, 9)
    assert pickle.loads(pickle.dumps(one)) == one


# Shares


@given(ranges.filter(bool), st.integers(1, 5000))
def test_shares_are_within_the_limit_and_never_nothing(
    whole: dict[MessageQueue, Range], limit: int
) -> None:
    start = {queue: has.min for queue, has in whole.items()}
    latest = {queue: has.max for queue, has in whole.items()}
    end = shared_out(start, latest, limit)
    lag = sum(latest.values()) - sum(start.values())
    assert end.keys() == start.keys()
    assert all(start[queue] <= end[queue] <= latest[queue] for queue in start)
    assert sum(end.values()) - sum(start.values()) == min(lag, limit)
    if limit >= len(start):
        assert all(end[queue] > start[queue] or latest[queue] == start[queue] for queue in start)


def test_shares_are_in_proportion_to_lag() -> None:
    end = shared_out({A0: 0, A1: 0, B0: 5}, {A0: 9000, A1: 1000, B0: 5}, 100)
    assert end == {A0: 90, A1: 10, B0: 5}


def test_with_less_than_one_per_queue_they_are_served_round_robin() -> None:
    start, latest = {A0: 0, A1: 0, B0: 0}, {A0: 10**6, A1: 10**6, B0: 5}
    moved = set()
    for _ in range(6):
        end = shared_out(start, latest, 1)
        moved |= {queue for queue in start if end[queue] > start[queue]}
        start = end
    assert moved == {A0, A1, B0}


def test_a_queue_that_became_shorter_stays_where_it_was() -> None:
    assert shared_out({A0: 7, A1: 0}, {A0: 3, A1: 2}, 10) == {A0: 7, A1: 2}


# Losses


def test_removed_and_recreated_queues_have_losses() -> None:
    start = {A0: 5, A1: 5, B0: 5}
    has = {A0: Range(6, 9), A1: Range(0, 4), B0: Range(5, 5)}
    gone = lost(start, has)
    assert gone == [Lost(A0, 5, has[A0]), Lost(A1, 5, has[A1])]
    assert clamped(start, gone) == {A0: 6, A1: 4, B0: 5}


def test_a_queue_without_an_answer_has_lost_nothing() -> None:
    assert lost({A0: 5, A1: 5}, {A0: Range(0, 9)}) == []


def test_a_lagging_replica_has_lost_nothing() -> None:
    for least, most in ((0, 4), (6, 9)):
        assert lost({A0: 5}, {A0: Range(least, most, is_replica=True)}) == []
        assert lost({A0: 5}, {A0: Range(least, most)}) != []


def test_the_error_names_queue_and_offsets() -> None:
    error = data_lost(Lost(A0, 5, Range(6, 9)))
    assert str(error) == (
        "topic orders, queue broker-a:0: offset 5 is lost: the queue has 6 up to 9. "
        "Set failOnDataLoss to false to continue at the nearest offset that exists"
    )
    assert (error.queue, error.wanted, error.available) == (A0, 5, (6, 9))
