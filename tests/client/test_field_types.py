from enum import IntEnum
from pathlib import Path

import msgspec
import pytest

from orbitmq.client.field_types import (
    check_address_map,
    check_is,
    check_ranges,
    check_types,
    shown,
    take_enum,
    take_path,
    take_tuple,
    whole_or_none,
)
from orbitmq.client.settings import Require
from orbitmq.errors import InvalidInput
from orbitmq.message.compression import CompressionType


class Some(msgspec.Struct, frozen=True):
    nameserver: str = ""
    trace: bool = False
    retries: int = 0
    most: int | None = None
    require: object = None
    kind: object = None
    topics: object = ()


def refusal(settings: Some, check: object, *more: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as raised:
        check(settings, *more)  # type: ignore[operator]
    return raised.value


def some(**values: object) -> Some:
    return Some(**values)  # type: ignore[arg-type]


def test_values_are_shown_short_and_others_by_their_type() -> None:
    assert shown("x" * 99) == repr("x" * 40)
    assert shown(10**5_000) == "a number of 16610 bits"
    assert shown(b"secret") == "of type bytes"


def test_texts_are_texts() -> None:
    check_types(some(nameserver="a:1"))
    told = refusal(some(nameserver=["a:1"]), check_types)
    assert told.field == "nameserver"
    assert (
        str(told) == "nameserver must be a str, not list; several are separated by ';' in one text"
    )
    told = refusal(some(nameserver=Path("x")), check_types)
    assert "; write str(…) around a path" in str(told)


def test_switches_are_switches() -> None:
    told = refusal(some(trace="false"), check_types)
    assert (told.field, str(told)) == ("trace", "trace is 'false'; it must be True or False")


def test_numbers_are_whole_and_in_their_ranges() -> None:
    ranges = {"retries": (0, 9), "most": (1, 9)}
    check_ranges(some(), ranges, frozenset({"most"}))
    for value in (10, -1, 1.0, True, "1", None, 10**5_000):
        told = refusal(some(retries=value), check_ranges, ranges, frozenset({"most"}))
        assert told.field == "retries"
        assert "it must be a whole number from 0 to 9" in str(told)


class Number:
    """A whole number of another package; None is an array of several."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def __index__(self) -> int:
        if self._number is None:
            raise TypeError("only single values are numbers")
        return self._number


class Level(IntEnum):
    HIGH = 7


def test_whole_numbers_of_other_types_are_taken_as_plain_ones() -> None:
    assert whole_or_none(Number(None)) is None
    for value in (Number(7), Level.HIGH):
        settings = some(retries=value, topics=[value])
        check_ranges(settings, {"retries": (0, 9)})
        take_tuple(settings, "topics", int)
        assert (type(settings.retries), settings.retries) == (int, 7)
        assert settings.topics == (7,)
        told = refusal(some(retries=value), check_ranges, {"retries": (0, 6)})
        assert "it must be a whole number from 0 to 6" in str(told)


def test_a_path_is_taken_as_its_text() -> None:
    settings = some(nameserver=Path("a/b"), kind=3)
    take_path(settings, "nameserver")
    take_path(settings, "kind")
    assert (settings.nameserver, settings.kind) == (str(Path("a/b")), 3)


def test_a_text_is_converted_to_an_enum_member() -> None:
    settings = some(require="flushed", kind="LZ4")
    take_enum(settings, "require", Require)
    take_enum(settings, "kind", CompressionType)
    assert (settings.require, settings.kind) == (Require.FLUSHED, CompressionType.LZ4)
    for value in ("lz4", 1, None, "gzip"):
        told = refusal(some(kind=value), take_enum, "kind", CompressionType)
        assert str(told) == f"kind is {value!r}; it must be one of LZ4, ZSTD, ZLIB"


def test_a_list_is_taken_as_a_tuple_and_a_text_is_none() -> None:
    settings = some(topics=["a", "b"])
    take_tuple(settings, "topics", str)
    assert settings.topics == ("a", "b")
    told = refusal(some(topics="orders"), take_tuple, "topics", str)
    assert str(told) == "topics is 'orders'; it must be a list of str, as in topics=['orders']"
    for value in (3, b"ab", None, ["a", 3]):
        told = refusal(some(topics=value), take_tuple, "topics", str)
        assert "it must be a list of str" in str(told)
    assert "True; it must be a list of int" in str(
        refusal(some(topics=[True]), take_tuple, "topics", int)
    )


def test_a_value_of_another_type_is_refused() -> None:
    check_is(some(kind=None), "kind", Some)
    check_is(some(kind=some()), "kind", Some)
    told = refusal(some(kind=3), check_is, "kind", Some)
    assert str(told) == "kind is 3; it must be of type Some, or left out"


def test_an_address_map_is_a_mapping_or_a_function() -> None:
    check_address_map(None)
    check_address_map({"10.0.0.1": "127.0.0.1"})
    check_address_map(str.lower)
    for value in ([1], "a:b", 3, {"10.0.0.1": 3}, {1: "x"}):
        with pytest.raises(InvalidInput) as raised:
            check_address_map(value)  # type: ignore[arg-type]
        assert raised.value.field == "address_map"
