import random
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.spark.writing.stable_ids import EqualRows, StableIds

ORIGIN = ("query", "7")
rows = st.lists(st.sampled_from([(b"a",), (b"b",), (b"c",), ("a", None), (None, "a")]), max_size=30)


def ids_in_parts(parts: list[list[tuple[object, ...]]], partition: int = 3) -> list[str]:
    ids = StableIds(ORIGIN, partition)
    return [one for part in parts for one in ids.of(part)]


@given(rows, st.randoms(use_true_random=False), st.integers(0, 30))
def test_a_task_run_again_gives_the_same_ids_in_any_order_and_any_batches(
    given_rows: list[tuple[object, ...]], chance: random.Random, cut: int
) -> None:
    again = list(given_rows)
    chance.shuffle(again)
    before = ids_in_parts([given_rows])
    after = ids_in_parts([again[:cut], again[cut:]])
    assert len(set(before)) == len(before)
    own = set(zip(given_rows, before, strict=True))
    assert set(zip(again, after, strict=True)) == own


def test_ids_are_of_the_query_the_batch_and_the_partition() -> None:
    row = [(b"paid",)]
    scopes = [(ORIGIN, 0), (ORIGIN, 1), (("query", "8"), 0), (("other", "7"), 0)]
    found = {StableIds(origin, partition).of(row)[0] for origin, partition in scopes}
    assert len(found) == len(scopes)


def test_columns_can_not_be_mistaken_for_each_other() -> None:
    similar: list[tuple[object, ...]] = [
        ("ab", "c"),
        ("a", "bc"),
        ("a", "b", "c"),
        (None, "abc"),
        (b"ab", "c"),
        ("abc",),
    ]
    assert len(set(ids_in_parts([similar]))) == len(similar)


def test_an_id_is_pinned_for_replays_by_later_releases() -> None:
    row = ("orders", b"paid", "o-42", None, [("colour", "blue")], 3, None, 0, 1_700_000_000_000_000)
    assert ids_in_parts([[row, row]]) == [
        "c0660285bb5365b9292fcc9ab13d74f0",
        "85591f16676b523e72f93f73adb1a211",
    ]


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=12))
def test_equal_rows_are_numbered_as_a_counter_would(batches: list[list[int]]) -> None:
    equal, counter = EqualRows(), Counter[int]()
    for batch in batches:
        numbers = equal.count(np.array(batch, np.uint64))
        for index, prefix in enumerate(batch):
            assert numbers.get(index, 0) == counter[prefix]
            counter[prefix] += 1


def test_many_rows_take_few_arrays() -> None:
    equal = EqualRows()
    for start in range(0, 100_000, 100):
        assert equal.count(np.arange(start, start + 100, dtype=np.uint64)) == {}
    assert sum(len(run) for run in equal._seen) == 100_000
    assert len(equal._seen) <= 17
    assert equal.count(np.array([0, 99_999, 100_000], np.uint64)) == {0: 1, 1: 1}
