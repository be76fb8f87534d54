import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord, DataLost
from orbitmq.message import batch, flags
from orbitmq.spark.columns import row_builder as arrow_rows
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.columns.row_builder import RowBuilder, read_slice
from orbitmq.spark.offsets import Slice
from orbitmq.spark.pulling.record_run import Records
from orbitmq.spark.schema import READ_COLUMNS
from tests.spark.fake_cluster import options
from tests.spark.fake_queue import QUEUE, FakeQueue, FakeReplicas
from tests.spark.records import HERE_IPV6, compressed, record

ALL = Slice(QUEUE, 0, 1_000_000)


def rows_of(
    answers: Sequence[bytes],
    columns: tuple[str, ...] = ("queue_offset", "value"),
    *,
    piece: Slice = ALL,
    tags: str = "*",
) -> list[dict[str, object]]:
    return [
        row
        for one in batches_of(answers, columns, piece=piece, tags=tags)
        for row in one.to_pylist()
    ]


def batches_of(
    answers: Sequence[bytes],
    columns: tuple[str, ...] = ("queue_offset", "value"),
    *,
    piece: Slice = ALL,
    tags: str = "*",
) -> list[pa.RecordBatch]:
    builder = RowBuilder(piece, columns, tags=tags)
    found = [one for answer in answers for one in builder.feed(Records(answer))]
    found += builder.finish()
    for one in found:
        one.validate(full=True)
    return found


# Columns


def test_every_column_of_a_record() -> None:
    texts = {"KEYS": "o-1 o-2", "TAGS": "paid", "UNIQ_KEY": "7F0001", "colour": "blue"}
    (row,) = rows_of([record(4, b"1 pizza", texts)], READ_COLUMNS)
    assert row == {
        "key": "o-1 o-2",
        "value": b"1 pizza",
        "topic": "orders",
        "broker": "broker-a",
        "queue_id": 3,
        "queue_offset": 4,
        "timestamp": datetime(2023, 11, 14, 22, 15, 0, 4_000, tzinfo=UTC),
        "born_timestamp": datetime(2023, 11, 14, 22, 13, 20, 4_000, tzinfo=UTC),
        "tags": "paid",
        "message_id": "7F0001",
        "offset_message_id": "0A00000700002A9F0000000000000FA0",
        "properties": list(texts.items()),
        "flag": 11,
        "reconsume_times": 4,
        "body_crc": zlib.crc32(b"1 pizza") & 0x7FFFFFFF,
    }


def test_a_message_without_properties_has_the_id_of_its_place() -> None:
    first, second = rows_of([record(1) + record(2, store_host=HERE_IPV6)], READ_COLUMNS)
    assert (first["key"], first["tags"], first["properties"]) == (None, None, [])
    for row in (first, second):
        assert row["message_id"] == row["offset_message_id"]
    assert len(str(second["message_id"])) == 56


@pytest.mark.parametrize(
    ("born_ms", "date"),
    [(2**63 - 1, (9999, 12, 31)), (253_402_300_800_000, (9999, 12, 31)), (-(2**63), (1, 1, 3))],
)
def test_a_time_beyond_all_calendars_is_the_last_within(
    born_ms: int, date: tuple[int, int, int]
) -> None:
    wild = bytearray(record(1))
    wild[40:48] = born_ms.to_bytes(8, signed=True)
    (one,) = batches_of([bytes(wild)], ("born_timestamp",))
    found = one["born_timestamp"].to_pylist()
    assert found == [datetime(*date, tzinfo=UTC)]
    local = datetime.fromtimestamp(found[0].timestamp())  # noqa: DTZ006  # as Spark's collect does
    assert local.astimezone(UTC) == found[0]


@given(st.lists(st.sampled_from(READ_COLUMNS), unique=True))
def test_columns_are_those_picked_in_their_order(columns: list[str]) -> None:
    (one,) = batches_of([record(1) + record(2)], tuple(columns))
    assert one.schema.equals(arrow_schema(columns))
    assert one.num_rows == 2 or not columns


def test_what_is_not_picked_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_rows, "PropertyPairs", None)
    assert rows_of([record(1, texts=b"\x01\x02")]) == [{"queue_offset": 1, "value": b"1 pizza"}]


# Records that are not plain


def test_opened_bodies_and_plain_ones_stay_in_order() -> None:
    answer = b"".join(
        compressed(offset, b"%d" % offset * 99) if offset % 3 else record(offset, b"%d" % offset)
        for offset in range(10)
    )
    assert rows_of([answer]) == [
        {"queue_offset": offset, "value": b"%d" % offset * (99 if offset % 3 else 1)}
        for offset in range(10)
    ]


def inner(queue_offset: int, *bodies: bytes) -> bytes:
    body = batch.encode([(0, one, b"TAGS\x01" + one + b"\x02") for one in bodies])
    return record(queue_offset, body, sys_flag=flags.NEED_UNWRAP | flags.INNER_BATCH)


def test_an_inner_batch_gives_its_parts_inside_the_slice_once() -> None:
    whole = inner(10, b"a", b"b", b"c", b"d")
    answers = [record(9) + whole, whole + record(14)]  # the second pull began inside it
    rows = rows_of(answers, ("queue_offset", "tags"), piece=Slice(QUEUE, 9, 15))
    assert [row["queue_offset"] for row in rows] == [9, 10, 11, 12, 13, 14]
    rows = rows_of([whole], ("queue_offset", "tags"), piece=Slice(QUEUE, 11, 13))
    assert rows == [{"queue_offset": 11, "tags": "b"}, {"queue_offset": 12, "tags": "c"}]


# Tags


def test_other_tags_of_the_same_hash_are_left_out() -> None:
    answer = b"".join(
        record(number, texts={"TAGS": tag} if tag else {})
        for number, tag in enumerate(["Aa", "BB", "", "Aa", "C"])
    )
    rows = rows_of([answer], ("queue_offset",), tags="Aa || C")
    assert [row["queue_offset"] for row in rows] == [0, 3, 4]


# Sizes


def test_a_batch_ends_by_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_rows, "BATCH_ROWS", 10)
    answers = [record(offset) + record(offset + 1) for offset in range(0, 34, 2)]
    assert [one.num_rows for one in batches_of(answers)] == [10, 10, 10, 4]


def test_a_batch_ends_by_its_bytes() -> None:
    large = bytes(1024 * 1024)
    sizes = [one.num_rows for one in batches_of([record(n, large) for n in range(40)])]
    assert sizes == [16, 16, 8]


def test_bodies_that_open_to_much_end_batches_inside_an_answer() -> None:
    small_here_large_there = zlib.compress(bytes(6 * 1024 * 1024))
    sys_flag = flags.COMPRESSED | flags.COMPRESSION_ZLIB
    answer = b"".join(
        record(offset, small_here_large_there, sys_flag=sys_flag) for offset in range(8)
    )
    assert len(answer) < 100_000
    assert [one.num_rows for one in batches_of([answer])] == [3, 3, 2]


def test_a_batch_does_not_change_when_the_next_one_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrow_rows, "BATCH_ROWS", 1)
    first, second = batches_of([record(1, b"first"), record(2, b"other")])
    assert (first["value"][0].as_py(), second["value"][0].as_py()) == (b"first", b"other")


# Faults


def test_a_body_that_cannot_be_opened_is_named() -> None:
    broken = record(7, b"no zlib", sys_flag=flags.COMPRESSED)
    with pytest.raises(
        CorruptRecord, match="topic orders, queue broker-a:3, offset 7 can't be read: .* ZLIB"
    ):
        rows_of([record(6) + broken])


def test_a_record_whose_lengths_do_not_add_up_is_named() -> None:
    broken = bytearray(record(8))
    broken[84] = 1
    with pytest.raises(CorruptRecord, match="offset 8 can't be read: the lengths"):
        rows_of([record(6), bytes(broken)])


@pytest.mark.parametrize("cut", [1, 50, 100])
def test_an_answer_that_is_cut_off_is_a_fault(cut: int) -> None:
    with pytest.raises(CorruptRecord, match="ends in the middle of a record"):
        rows_of([(record(6) + record(7))[:-cut]])


@pytest.mark.parametrize("size", [0, 90, 1 << 20])
def test_a_size_that_cannot_be_is_a_fault(size: int) -> None:
    broken = bytearray(compressed(6, b"1 pizza"))
    broken[:4] = size.to_bytes(4)
    with pytest.raises(CorruptRecord, match=f"has size {size},"):
        rows_of([bytes(broken)])


# A slice


def test_a_slice_is_pulled_and_built() -> None:
    brokers = FakeReplicas(FakeQueue(0, 5_000))
    told = options(columns=("queue_offset", "value"))
    rows = [
        row
        for one in read_slice(brokers, Slice(QUEUE, 100, 1_100), told)
        for row in one.to_pylist()
    ]
    assert rows == [{"queue_offset": n, "value": b"%d" % n} for n in range(100, 1_100)]


def test_the_options_set_the_group_and_data_loss() -> None:
    brokers = FakeReplicas(FakeQueue(50, 100))
    told = options(group="billing", tags="paid", pull_count=9)
    with pytest.raises(DataLost):
        list(read_slice(brokers, Slice(QUEUE, 0, 100), told))
    asked = brokers.primary.asked[0]
    assert (asked["consumerGroup"], asked["subscription"]) == ("ns%billing", "paid")
    assert asked["maxMsgNums"] == "9"
    told = options(columns=("queue_offset",), fail_on_data_loss=False)
    (one,) = read_slice(FakeReplicas(FakeQueue(50, 100)), Slice(QUEUE, 0, 100), told)
    assert one.num_rows == 50
