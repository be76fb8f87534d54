from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.spark.offsets import Range
from orbitmq.spark.reading.offsets_by_time import first_since, offsets_since
from tests.spark.fake_cluster import FakeCluster, queue

A, B = queue(0), queue(0, "broker-b")


@given(st.data(), st.lists(st.integers(0, 20), max_size=60).map(sorted), st.integers(0, 22))
def test_the_first_message_is_found_from_any_hint(
    data: st.DataObject, times: list[int], moment: int
) -> None:
    least = data.draw(st.integers(0, len(times)))
    hint = data.draw(st.integers(-3, len(times) + 3))

    found = first_since(moment, Range(least, len(times)), hint, times.__getitem__)

    assert found == max(least, bisect_left(times, moment))


def test_a_hint_that_is_right_takes_two_looks_and_a_wrong_one_few() -> None:
    looks: list[int] = []

    def stored_ms(offset: int) -> int:
        looks.append(offset)
        return offset

    assert first_since(500_000, Range(0, 1_000_000), 500_000, stored_ms) == 500_000
    assert looks == [499_999, 500_000]
    looks.clear()
    assert first_since(500_000, Range(0, 1_000_000), 0, stored_ms) == 500_000
    assert len(looks) < 50


def test_messages_that_are_gone_count_as_older() -> None:
    assert first_since(5, Range(0, 10), 3, lambda offset: None if offset < 7 else 9) == 7


def test_the_messages_around_a_hint_come_in_one_pull() -> None:
    cluster = FakeCluster({A: (0, 10), B: (0, 0)})
    cluster.stored = {A: range(100, 110)}

    found = offsets_since(cluster, 105, cluster.ranges, {A: 5, B: 0}, group="billing")

    assert found == {A: 5, B: 0}
    assert cluster.looked_at == [4, 5]
