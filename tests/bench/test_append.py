import pytest

from bench.append import Case, best, split


def test_the_cost_of_an_append_is_measured_with_its_writes_apart() -> None:
    plain = best(Case(messages=64), [8])[8]
    metered = best(Case(messages=64, metered=True), [8])[8]
    assert plain.whole > 0
    assert plain.log_write == 0  # it was not measured
    assert 0 < metered.log_write < metered.whole
    assert 0 < metered.queue_write < metered.whole


def test_the_parts_are_the_whole() -> None:
    parts = split([8], count=64)[8]
    whole = parts.pop("total, with disk measured")
    assert sum(parts.values()) == pytest.approx(whole)
