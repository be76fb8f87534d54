import math
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.pulling.sql92.numbers import Incomparable, compare, to_double, to_int, to_long


@pytest.mark.parametrize("text", ["0", "007", "+5", "-5", "2147483647", "-2147483648", "٣"])
def test_integers(text: str) -> None:
    assert to_int(text) == to_long(text) == int(text)


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "1_000", "5.0", "0x5", "5L", "+", "-", "--5", "𝟓", "9" * 5_000]
)
def test_texts_that_java_reads_as_no_integer(text: str) -> None:
    for convert in (to_int, to_long):
        with pytest.raises(Incomparable):
            convert(text)


def test_an_integer_has_to_fit_its_type() -> None:
    assert to_long("2147483648") == 2**31
    assert to_long("-9223372036854775808") == -(2**63)
    for convert, text in ((to_int, "2147483648"), (to_long, "9223372036854775808")):
        with pytest.raises(Incomparable):
            convert(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        (" 5.5\t", 5.5),
        ("5.", 5.0),
        (".5e1", 5.0),
        ("5d", 5.0),
        ("5.5F", 5.5),
        ("-Infinity", -math.inf),
        ("1e999", math.inf),
        ("0x1.8p1", 3.0),
        ("-0x1p9999", -math.inf),
    ],
)
def test_doubles(text: str, value: float) -> None:
    assert to_double(text) == value


@pytest.mark.parametrize("text", ["", " ", "inf", "nan", "1_0", "5L", "0x1", "e5", ".", "٣", "5 d"])
def test_texts_that_java_reads_as_no_double(text: str) -> None:
    with pytest.raises(Incomparable):
        to_double(text)


@pytest.mark.parametrize("begin", ["", ".", "5.", "5e", "0x", "0x."])
def test_many_digits_and_a_letter_are_read_once(begin: str) -> None:
    with pytest.raises(Incomparable):  # reading them twice would take hours
        to_double(begin + "1" * 1_000_000 + "x")


def test_java_orders_all_doubles() -> None:
    values = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for index, left in enumerate(values):
        for other, right in enumerate(values):
            assert (compare(left, right) > 0) is (index > other)
            assert (compare(left, right) == 0) is (index == other)


@given(st.text(), st.sampled_from([to_int, to_long, to_double]))
def test_any_text_is_a_number_or_not(text: str, convert: Callable[[str], float]) -> None:
    with suppress(Incomparable):
        assert isinstance(convert(text), int | float)
