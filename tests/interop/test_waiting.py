"""Waiting with a deadline."""

import pytest

from tests.interop.waiting import until


def test_what_is_there_is_returned_at_once() -> None:
    assert until(lambda: "here", what="a text", seconds=0) == "here"


def test_it_is_looked_for_until_it_is_there() -> None:
    looks = iter([None, False, "", "there"])
    assert until(lambda: next(looks), what="a text") == "there"


def test_an_end_in_vain_tells_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match="waited 0 s in vain: a text"):
        until(lambda: None, what="a text", seconds=0)
