"""Waiting with a deadline."""

import asyncio

import pytest

from tests.interop.waiting import until, until_async


def test_what_is_there_is_returned_at_once() -> None:
    assert until(lambda: "here", what="a text", seconds=0) == "here"


def test_it_is_looked_for_until_it_is_there() -> None:
    looks = iter([None, False, "", "there"])
    assert until(lambda: next(looks), what="a text") == "there"


def test_an_end_in_vain_tells_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match="waited 0 s in vain: a text"):
        until(lambda: None, what="a text", seconds=0)


def test_the_loop_runs_between_two_looks() -> None:
    async def main() -> str:
        seen: list[str] = []
        asyncio.get_running_loop().call_soon(seen.append, "there")
        return (await until_async(lambda: seen, what="a text"))[0]

    assert asyncio.run(main()) == "there"


def test_a_loop_s_end_in_vain_tells_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match="waited 0 s in vain: a text"):
        asyncio.run(until_async(lambda: None, what="a text", seconds=0))
