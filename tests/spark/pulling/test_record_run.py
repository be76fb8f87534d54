from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message import flags, properties
from orbitmq.spark.pulling.record_run import Run, records_before, run_from
from tests.spark.records import compressed, record


def inner(queue_offset: int, messages: int) -> bytes:
    """Return an inner batch as a broker stores it: of its parts only the number counts here."""
    return record(
        queue_offset,
        texts={properties.INNER_COUNT: str(messages), properties.INNER_BASE: str(queue_offset)},
        sys_flag=flags.NEED_UNWRAP | flags.INNER_BATCH,
    )


@pytest.mark.parametrize(
    ("records", "reached", "taken"),
    [
        ([record(5), record(6), record(7)], 8, 3),
        ([record(5), compressed(6, b"1 pizza"), record(7)], 8, 3),
        ([record(5), record(6), record(8), record(9)], 7, 2),
        ([inner(5, 3), record(8)], 9, 2),
        ([inner(3, 4), record(7)], 8, 2),  # the pull began inside it
        ([inner(5, 3), record(9)], 8, 1),
        ([record(5, sys_flag=flags.INNER_BATCH), record(6)], 7, 2),  # counted as one, as in Java
        ([record(5), *(record(number) for number in range(6, 30))], 20, 15),
    ],
)
def test_a_run_ends_at_the_first_gap_or_where_no_more_is_wanted(
    records: list[bytes], reached: int, taken: int
) -> None:
    run = run_from(b"".join(records), 5, 20)
    assert (run.reached, run.size) == (reached, len(b"".join(records[:taken])))


def test_an_answer_that_begins_with_a_gap_has_no_run_and_tells_where_it_begins() -> None:
    assert run_from(record(9) + record(10), 5, 20) == Run(first=9, reached=5, size=0, starts=[])
    assert run_from(record(30), 5, 20) == Run(first=30, reached=5, size=0, starts=[])
    assert run_from(b"", 5, 20) == Run(first=None, reached=5, size=0, starts=[])


@given(
    bodies=st.lists(st.sampled_from([b"1 pizza", b"2 pizzas"]), max_size=40),
    most=st.integers(0, 50),
)
def test_where_plain_records_begin_is_told_be_they_of_one_size_or_not(
    bodies: list[bytes], most: int
) -> None:
    records = [record(5 + number, body) for number, body in enumerate(bodies)]
    starts = list(accumulate(map(len, records), initial=0))
    taken = min(len(records), most)
    run = run_from(b"".join(records), 5, 5 + most)
    assert run == Run(5 if taken or records else None, 5 + taken, starts[taken], starts[:taken])


@pytest.mark.parametrize(
    "answer",
    [
        record(5) + compressed(6, b"1 pizza") + record(7),
        record(5) + record(6) + record(7, sys_flag=flags.COMPRESSED),
        record(5) + inner(6, 3) + record(9),
        record(5) + record(6) + record(7)[:-1],
        record(5) + record(6) + b"\0" * 91,
    ],
    ids=["compressed", "compressed, of one size", "batch", "cut off", "no record"],
)
def test_where_others_begin_is_left_to_the_reader(answer: bytes) -> None:
    run = run_from(answer, 5, 20)
    assert (run.starts, run.size) == (None, len(answer))


def test_a_gap_between_records_of_one_size_ends_the_run() -> None:
    answer = record(5) + record(6) + record(8) + record(9)
    assert run_from(answer, 5, 20).starts == [0, len(record(5))]


@pytest.mark.parametrize(
    "fault",
    [b"\xff" * 100, record(6)[:-1], b"\0" * 91, record(6)[:30]],
    ids=["no record", "cut off", "no size", "cut off early"],
)
def test_what_is_no_record_is_left_to_the_reader(fault: bytes) -> None:
    answer = record(5) + fault
    assert run_from(answer, 5, 20).size == len(answer)
    assert len(records_before(answer, 20)) == len(answer)


def test_records_before_an_offset_are_kept_whatever_is_between() -> None:
    assert records_before(record(5) + record(9) + record(12), 12) == record(5) + record(9)
    assert records_before(b"", 12) == b""
