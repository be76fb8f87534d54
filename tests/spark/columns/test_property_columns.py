import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message import properties
from orbitmq.spark.columns import property_columns as property_pairs
from orbitmq.spark.columns.property_columns import PropertyPairs

# Few characters, the separators among them: faults of every kind come up.
SOME_TEXT = st.text(st.sampled_from("\x01\x02ABé"), max_size=12).map(str.encode)
ANY_TEXT = SOME_TEXT | st.binary(max_size=12)


def ended(texts: list[bytes]) -> pa.Array:
    return pa.array(
        [text if not text or text.endswith(b"\x02") else text + b"\x02" for text in texts],
        pa.binary(),
    )


@given(st.lists(ANY_TEXT, max_size=6))
def test_any_texts_are_read_as_one_by_one(texts: list[bytes]) -> None:
    pairs = PropertyPairs(ended(texts))
    expected = [properties.decode(text) for text in texts]
    assert [dict(row) for row in pairs.maps().to_pylist()] == expected
    assert [len(row) for row in pairs.maps().to_pylist()] == list(map(len, expected))
    for name in ("A", "AB", "é"):
        assert pairs.values_of(name).to_pylist() == [row.get(name) for row in expected]


def test_well_formed_texts_are_never_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_pairs, "_one_by_one", None)
    texts = ["TAGS\x01paid\x02KEYS\x01o-1\x02", "", "Größe\x01grün\x02"]
    pairs = PropertyPairs(ended([text.encode() for text in texts]))
    assert pairs.values_of("TAGS").to_pylist() == ["paid", None, None]
    assert pairs.maps().to_pylist()[2] == [("Größe", "grün")]


def test_no_rows_and_no_pairs() -> None:
    assert PropertyPairs(ended([])).maps().to_pylist() == []
    nothing = PropertyPairs(ended([b"", b""]))
    assert nothing.maps().to_pylist() == [[], []]
    assert nothing.values_of("TAGS").to_pylist() == [None, None]


def test_repeated_names_are_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_pairs, "_TABLE_MAX", 1)
    pairs = PropertyPairs(ended([b"A\x011\x02B\x012\x02", b"A\x013\x02A\x014\x02"]))
    assert pairs.maps().to_pylist() == [[("A", "1"), ("B", "2")], [("A", "4")]]


def test_the_types_are_those_of_spark() -> None:
    pairs = PropertyPairs(ended([b"A\x011\x02"]))
    assert pairs.maps().type == pa.map_(pa.string(), pa.string())
    assert pairs.values_of("A").type == pairs.values_of("B").type == pa.string()


NAMES = st.lists(st.sampled_from(["A", "AB", "é"]), min_size=1, max_size=3)


@given(NAMES, st.lists(st.lists(st.sampled_from(["1", "22", "grün"]), min_size=3, max_size=3)))
def test_rows_with_the_same_names_are_read_as_one_by_one(
    names: list[str], rows: list[list[str]]
) -> None:
    texts = [
        "".join(f"{name}\x01{value}\x02" for name, value in zip(names, row, strict=False)).encode()
        for row in rows
    ]
    pairs = PropertyPairs(ended(texts))
    expected = [properties.decode(text) for text in texts]
    assert pairs.maps().to_pylist() == [list(row.items()) for row in expected]
    for name in ("A", "AB", "é", "B"):
        assert pairs.values_of(name).to_pylist() == [row.get(name) for row in expected]
    pairs.maps().validate(full=True)
