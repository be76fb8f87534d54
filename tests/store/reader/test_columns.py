from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.ids import offset_id
from orbitmq.store.log.record_rows import Block, sound_rows
from orbitmq.store.reader.columns import COLUMNS, VariableColumn, build, check_columns, numbers
from orbitmq.store.reader.reader import StoreReader
from tests.store.small_logs import NOW, record
from tests.store.unpacked import NAMES, unpacked

NUMBERS = [
    ("size", "i"), ("body_crc", "i"), ("queue_id", "i"), ("flag", "i"), ("sys_flag", "i"),
    ("reconsume_times", "i"), ("queue_offset", "q"), ("commit_log_offset", "q"),
    ("born_timestamp_ms", "q"), ("store_timestamp_ms", "q"), ("prepared_transaction_offset", "q"),
]  # fmt: skip


def block_of(*texts: bytes, ipv6: bool = False) -> Block:
    data = b""
    for number, text in enumerate(texts):
        data += record(len(data), number, properties=text, ipv6=ipv6)
    rows, _ = sound_rows(memoryview(data), 0, 0, len(data), len(texts))
    assert len(rows) == len(texts)
    return Block(memoryview(data), rows)


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_numbers_hold_what_views_read(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    views = list(reader.records(on_damage=lambda damage: None))
    batches = list(reader.batches(COLUMNS, on_damage=lambda damage: None))
    for column, code in NUMBERS:
        expected = array(code, [getattr(view, column) for view in views])
        found = array(code)
        for batch in batches:
            part = batch[column]
            assert isinstance(part, array)
            found.extend(part)
        assert found == expected, column


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_bytes_hold_what_views_read(name: str, tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    views = list(reader.records(on_damage=lambda damage: None))
    texts = [properties.decode(view.properties) for view in views]
    expected: dict[str, Sequence[bytes | str | None]] = {
        "topic": [view.topic for view in views],
        "body": [bytes(view.body) for view in views],
        "properties": [view.properties for view in views],
        "tags": [text.get("TAGS") for text in texts],
        "keys": [text.get("KEYS") for text in texts],
        "unique_key": [text.get("UNIQ_KEY") for text in texts],
        "offset_message_id": [offset_id(v.store_host, v.commit_log_offset) for v in views],
    }
    batches = list(reader.batches(COLUMNS, on_damage=lambda damage: None))
    for column, values in expected.items():
        found = [value for batch in batches for value in values_of(batch[column])]
        assert found == [value.encode() if isinstance(value, str) else value for value in values]


def values_of(column: object) -> list[bytes | None]:
    assert isinstance(column, VariableColumn)
    return [column[row] for row in range(len(column))]


def test_all_columns_are_tested() -> None:
    variable = {"topic", "body", "properties", "tags", "keys", "unique_key", "offset_message_id"}
    assert set(COLUMNS) == variable | {name for name, _ in NUMBERS}


def test_only_what_is_picked_is_built() -> None:
    batch = build(block_of(b"", b""), ["queue_offset"])
    assert dict(batch.columns) == {"queue_offset": array("q", [0, 1])}
    assert len(batch) == 2


def test_heads_with_long_addresses_are_read_at_their_own_places() -> None:
    assert numbers(block_of(b"", b"", ipv6=True), "store_timestamp_ms") == array("q", [NOW] * 2)
    assert numbers(block_of(b"", b"", ipv6=True), "queue_offset") == array("q", [0, 1])


@pytest.mark.parametrize("ipv6", [False, True])
def test_an_offset_message_id_says_where_a_message_is_stored(ipv6: bool) -> None:
    block = block_of(b"", b"", ipv6=ipv6)
    first, second = values_of(build(block, ["offset_message_id"])["offset_message_id"])
    assert first == b"7F00000100002A9F" + b"0" * 16
    assert second == b"7F00000100002A9F%016X" % block.rows[1][0]


@given(st.lists(st.sampled_from([b"", b"TAGS\x01paid\x02", b"KEYS\x01a b\x02"]), min_size=1))
def test_the_bitmap_tells_who_has_a_value(texts: list[bytes]) -> None:
    tags = build(block_of(*texts), ["tags"])["tags"]
    assert isinstance(tags, VariableColumn)
    assert values_of(tags) == [b"paid" if b"TAGS" in text else None for text in texts]
    assert (tags.validity is None) == all(b"TAGS" in text for text in texts)


@given(st.lists(st.sampled_from([b"TAGS", b"xTAGS", b"\x01", b"\x02", b"a"]), max_size=12))
def test_tags_are_found_as_elsewhere(parts: list[bytes]) -> None:
    text = b"".join(parts)
    [value] = values_of(build(block_of(text), ["tags"])["tags"])
    assert value == properties.finder(b"TAGS")(text)


def test_a_column_is_laid_out_as_arrow_does_it() -> None:
    tags = build(block_of(b"TAGS\x01a\x02", b"", b"TAGS\x01bc\x02"), ["tags"])["tags"]
    assert isinstance(tags, VariableColumn)
    assert (tags.data, list(tags.offsets), tags.validity) == (b"abc", [0, 1, 1, 3], b"\x05")
    assert memoryview(tags.offsets).format == "i"


def test_arrow_and_numpy_take_the_buffers_as_they_are(tmp_path: Path) -> None:
    reason = "needs pyarrow and numpy, which orbitmq itself does without"
    arrow = pytest.importorskip("pyarrow", reason=reason)
    numpy = pytest.importorskip("numpy", reason=reason)

    def taken(kind: object, rows: int, *buffers: object) -> object:
        parts = [None if buffer is None else arrow.py_buffer(buffer) for buffer in buffers]
        made = arrow.Array.from_buffers(kind, rows, parts)
        made.validate(full=True)
        return made.to_pylist()

    for batch in StoreReader(unpacked("normal", tmp_path)).batches(COLUMNS):
        for name, column in batch.columns.items():
            if isinstance(column, array):
                kind = arrow.int32() if column.typecode == "i" else arrow.int64()
                assert taken(kind, len(batch), None, column) == column.tolist(), name
                assert numpy.frombuffer(column, column.typecode).tolist() == column.tolist()
                continue
            buffers = column.validity, column.offsets, column.data
            assert taken(arrow.binary(), len(batch), *buffers) == values_of(column), name
            if name != "body":  # the others are text
                texts = [value and value.decode() for value in values_of(column)]
                assert taken(arrow.string(), len(batch), *buffers) == texts, name


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="there is no column 'colour'; there are size") as caught:
        check_columns(["topic", "colour"])
    assert caught.value.field == "columns"


def test_batches_are_narrowed_to_topics_and_times(tmp_path: Path) -> None:
    reader = StoreReader(unpacked("normal", tmp_path))
    wanted = [view for view in reader.records() if view.topic == b"GoldenB"]
    begin = wanted[30].store_timestamp_ms
    batches = reader.batches(["commit_log_offset"], topics=["GoldenB"], begin_ms=begin)
    found = [offset for batch in batches for offset in numbers_of(batch["commit_log_offset"])]
    assert found == [v.commit_log_offset for v in wanted if v.store_timestamp_ms >= begin]


def test_a_batch_has_no_more_bytes_than_its_offsets_can_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.reader.reader._BATCH_BYTES", 20_000)
    reader = StoreReader(unpacked("normal", tmp_path))
    batches = list(reader.batches(["size"]))
    assert max(sum(numbers_of(batch["size"])) for batch in batches) <= 20_000
    assert sum(map(len, batches)) == 200


def numbers_of(column: object) -> "array[int]":
    assert isinstance(column, array)
    return column
