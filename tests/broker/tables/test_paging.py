import pytest

from orbitmq.broker.tables.paging import page
from orbitmq.wire.bodies.topic import DataVersion

TABLE = {name: ord(name) for name in "dbaec"}
VERSION = DataVersion(counter=3, timestamp=7)


def test_pages_together_are_the_table_in_the_order_of_names() -> None:
    known = VERSION.to_json().decode()
    pages = [page(TABLE, VERSION, first=at, count=2, known=known) for at in (0, 2, 4, 6)]
    assert [list(one) for one in pages] == [["a", "b"], ["c", "d"], ["e"], []]
    assert {name: value for one in pages for name, value in one.items()} == TABLE


@pytest.mark.parametrize("known", [None, "", "null", "no json", '{"counter":2,"timestamp":7}'])
def test_after_a_change_the_first_page_is_returned_again(known: str | None) -> None:
    assert list(page(TABLE, VERSION, first=2, count=2, known=known)) == ["a", "b"]


def test_numbers_below_zero_are_zero() -> None:
    known = VERSION.to_json().decode()
    assert list(page(TABLE, VERSION, first=-5, count=1, known=known)) == ["a"]
    assert page(TABLE, VERSION, first=0, count=-1, known=known) == {}
