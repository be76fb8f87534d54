import pytest

from orbitmq.message.shown import shown_int


@pytest.mark.parametrize("value", [0, -1, 2**128 - 1, -(2**128) + 1])
def test_a_number_of_a_sensible_size_is_shown_as_it_is(value: int) -> None:
    assert shown_int(value) == str(value)


def test_a_number_that_python_would_not_write_is_shown_by_its_size() -> None:
    assert shown_int(2**128) == "a number of 129 bits"
    assert shown_int(-(10**5000)) == "a number of 16610 bits"
