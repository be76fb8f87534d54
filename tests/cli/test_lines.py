"""Lines as they arrive, from slow pipes and from files."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.cli.cluster import on_a_loop
from orbitmq.cli.lines import lines
from orbitmq.errors import InvalidInput


async def collected(fd: int) -> list[bytes]:
    return [line async for some in lines(fd, count_max=3, line_bytes_max=100) for line in some]


def read_file(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return on_a_loop(collected(file.fileno()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\xff\x00", [b"\xff\x00"]),
    ],
)
def test_a_file(text: bytes, expected: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(text)
    assert read_file(path) == expected


def test_no_more_at_once_than_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"1\n2\n3\n4\n5")

    async def counts(fd: int) -> list[int]:
        return [len(some) async for some in lines(fd, count_max=3, line_bytes_max=100)]

    with path.open("rb") as file:
        assert on_a_loop(counts(file.fileno())) == [3, 1, 1]


def test_nothing_at_all() -> None:
    assert read_file(Path(os.devnull)) == []


def test_a_line_is_yielded_before_the_next_is_written() -> None:
    async def talk() -> list[list[bytes]]:
        reading, writing = os.pipe()
        heard = []
        try:
            os.write(writing, b"one\ntw")
            source = lines(reading, count_max=3, line_bytes_max=100)
            heard.append(await anext(source))
            waiting = asyncio.ensure_future(anext(source))
            os.write(writing, b"o\n")
            heard.append(await waiting)
            os.close(writing)
            assert await anext(source, None) is None
        finally:
            os.close(reading)
        return heard

    assert on_a_loop(talk()) == [[b"one"], [b"two"]]


def test_a_line_without_end_is_an_error() -> None:
    async def talk() -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, b"one\n" + b"x" * 101)
            source = lines(reading, count_max=3, line_bytes_max=100)
            assert await anext(source) == [b"one"]
            with pytest.raises(InvalidInput, match="line 2 is longer than 100 bytes"):
                await anext(source)
        finally:
            os.close(reading)
            os.close(writing)

    on_a_loop(talk())


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=20).filter(lambda one: not {10, 13} & {*one})))
def test_lines_come_back_however_they_are_cut(sent: list[bytes]) -> None:
    async def talk() -> list[bytes]:
        reading, writing = os.pipe()
        collecting = asyncio.ensure_future(collected(reading))
        try:
            for line in sent:
                for part in (line[:7], line[7:], b"\n"):
                    os.write(writing, part)
                    await asyncio.sleep(0)
        finally:
            os.close(writing)
        try:
            return await collecting
        finally:
            os.close(reading)

    assert on_a_loop(talk()) == sent
