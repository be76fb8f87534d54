"""The dialect of fastjson, and the way out of it and into it."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidBody
from orbitmq.wire.json.fastjson import (
    DEPTH_LIMIT,
    ascii_json,
    has_reference,
    java_json,
    standard_json,
    without_nulls,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
# Text in which a scanner that loses track of strings would see structure.
TRAPS = st.text(alphabet='{}[],:"\\0 a\n', max_size=12)


@pytest.mark.parametrize(
    ("fastjson", "standard"),
    [
        ('{0:"a",1:"b"}', '{"0":"a","1":"b"}'),
        ('{"t@g":{0:10,-1:20}}', '{"t@g":{"0":10,"-1":20}}'),
        ('{ 0 : "a" , 1 : [ 2 , {3:4} ] }', '{ "0" : "a" , "1" : [ 2 , {"3":4} ] }'),
        ("{code:1}", '{"code":1}'),
        ('{{"q":0}:100}', '{"{\\"q\\":0}":100}'),
        ('{{"q":0}:1,{"q":1}:{0:2}}', '{"{\\"q\\":0}":1,"{\\"q\\":1}":{"0":2}}'),
        ('[{{"q":"}"}:1}]', '[{"{\\"q\\":\\"}\\"}":1}]'),
        ("{{ }:{}}", '{"{ }":{}}'),
        # The text of an inner object key stays as it is, for the reader of the key.
        ("{{{0:1}:2}:3}", '{"{{0:1}:2}":3}'),
    ],
)
def test_keys_are_quoted(fastjson: str, standard: str) -> None:
    assert standard_json(fastjson.encode()).text.decode() == standard
    json.loads(standard)


@pytest.mark.parametrize(
    "text",
    [
        r'{"a":"{0:1}","b":"\"{1:2}","c":"\\"}',
        '{"topic":"a,1:b","list":[1,2,{"k":3}]}',
        '{"properties":{"sql":"a in (1,2) and b = {3:4}"}}',
    ],
)
def test_strings_are_never_touched(text: str) -> None:
    assert standard_json(text.encode()).text.decode() == text


@given(JSON_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_standard_json_comes_back_as_it_is(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    assert standard_json(text).text == text


@given(st.dictionaries(st.integers(), TRAPS), TRAPS)
def test_numeric_keys_beside_any_string(table: dict[int, str], name: str) -> None:
    text = java_json({name: table})
    expected = {name: {str(key): value for key, value in table.items()}}
    assert json.loads(standard_json(text).text) == expected


@given(st.lists(st.tuples(st.dictionaries(TRAPS, TRAPS | st.integers()), TRAPS)))
def test_object_keys_hold_their_own_text(members: list[tuple[dict[str, object], str]]) -> None:
    pairs = [(json.dumps(key), value) for key, value in members]
    text = ",".join(f"{key} : {json.dumps(value)}" for key, value in pairs)
    standard = standard_json(f"{{{text}}}".encode()).text
    assert json.loads(standard, object_pairs_hook=list) == pairs


@given(st.text(alphabet='{}[],:"\\ 0a', max_size=60))
def test_any_text_is_scanned_to_its_end(text: str) -> None:
    rewritten = standard_json(text.encode())
    kept = rewritten.text.decode().replace("\\", "").replace('"', "")
    assert kept == text.replace("\\", "").replace('"', "")


@given(st.binary())
def test_any_bytes_are_scanned_or_refused(data: bytes) -> None:
    with suppress(InvalidBody):
        assert len(standard_json(b"{" + data).text) > len(data)


def test_depth_has_a_bound() -> None:
    allowed = b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT
    assert standard_json(allowed).text == allowed
    for bracket in (b"[", b"{", b'{"a":', b"{0:"):
        with pytest.raises(InvalidBody, match=f"more than {DEPTH_LIMIT} brackets") as refusal:
            standard_json(bracket * 100_000)
        assert refusal.value.position == DEPTH_LIMIT * len(bracket)


def test_a_place_is_found_again_in_the_original() -> None:
    original = b'{10:1,{"q":0}:2,x:3}'
    rewritten = standard_json(original)
    for value in (b"1,", b"2,", b"3}"):
        place = rewritten.text.index(b":" + value)
        assert original[rewritten.original_position(place) + 1 :].startswith(value)
    assert standard_json(b"{}").original_position(1) == 1


def test_a_reference_is_seen_and_its_text_in_a_string_is_not() -> None:
    assert has_reference(b'{"a": {"$ref" : "$.b"}}')
    assert not has_reference(json.dumps({"a": '{"$ref":"$.b"}'}).encode())
    assert not has_reference(b'{"$ref":"a name"}')


FIELD_NAMES = st.text(alphabet="abC_9", min_size=1)


@given(st.lists(st.dictionaries(FIELD_NAMES, st.none() | TRAPS | st.integers())))
def test_members_that_are_null_are_dropped_and_no_others(objects: list[dict[str, object]]) -> None:
    left = json.loads(without_nulls(msgspec.json.encode(objects)))
    assert left == [{k: v for k, v in item.items() if v is not None} for item in objects]


@given(st.text())
def test_ascii_text_means_the_same(text: str) -> None:
    escaped = ascii_json(msgspec.json.encode(text))
    assert escaped.isascii()
    assert json.loads(escaped) == text
