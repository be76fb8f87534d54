"""Records become rows as the decoder of single messages reads them, and nothing is fatal."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.message import trace
from orbitmq.message.trace import (
    ConsumeOutcome,
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    TraceRecord,
)
from orbitmq.spark.jobs.tracing.records import RECORD_COLUMNS, records_of
from tests.golden_files import golden
from tests.spark.jobs.trace_story import told

KINDS = {
    Publish: "send",
    SubscribeBefore: "delivery",
    SubscribeAfter: "result",
    EndTransaction: "transaction_end",
    Recall: "recall",
}
GOLDEN = [bytes.fromhex(one["trans_data_hex"]) for one in golden("trace")["cases"]]

Row = dict[str, object]


def rows(bodies: Sequence[bytes | None], message_id: str | None = None) -> list[Row]:
    """Return the rows of trace messages, without what is null."""
    ids = pa.array([message_id] * len(bodies), pa.string())
    lists = records_of(pa.array(bodies, pa.binary()), ids)
    assert len(lists) == len(bodies)
    assert [field.name for field in lists.type.value_type] == [name for name, _ in RECORD_COLUMNS]
    return [
        {"message": number} | {name: value for name, value in row.items() if value is not None}
        for number, records in enumerate(lists.to_pylist())
        for row in records
    ]


def expected(record: TraceRecord, message: int = 0) -> Row:
    """Return the row of a record, field by field."""
    row: Row = {"kind": KINDS[type(record)]}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, MessageKind | ConsumeOutcome):
            value = value.name.lower().replace("_", " ")
        renamed = {"timestamp_ms": "at_ms", "kind": "message_kind"}.get(name, name)
        if value is not None:
            row[renamed] = value
    return {**row, "message": message}


def sorted_rows(found: Sequence[Row]) -> list[list[tuple[str, str]]]:
    return sorted(sorted((name, repr(value)) for name, value in row.items()) for row in found)


def test_thousands_of_records_are_those_of_the_decoder() -> None:
    records = [one.record for one in told(seed=3, messages=800)]
    bodies = [trace.encode(records[start : start + 7]) for start in range(0, len(records), 7)]
    wanted = [
        expected(record, number)
        for number, body in enumerate(bodies)
        for record in trace.decode(body)
    ]
    assert len(wanted) > 2_000
    assert sorted_rows(rows(bodies)) == sorted_rows(wanted)


@pytest.mark.parametrize("body", GOLDEN)
def test_what_java_wrote(body: bytes) -> None:
    assert sorted_rows(rows([body])) == sorted_rows([expected(one) for one in trace.decode(body)])


@given(
    st.sampled_from(GOLDEN),
    st.lists(st.tuples(st.integers(0, 16), st.sampled_from(["", "x", None])), max_size=3),
)
def test_a_record_is_malformed_if_the_decoder_refuses_it(
    body: bytes, changes: list[tuple[int, str | None]]
) -> None:
    texts = body.split(b"\x02")[0].decode().split("\x01")
    for place, text in changes:
        if text is None:
            del texts[place:]
        elif place < len(texts):
            texts[place] = text
    line = "\x01".join(texts).encode()
    kinds = [row["kind"] for row in rows([line])]
    try:
        read = [KINDS[type(one)] for one in trace.decode(line)]
    except CorruptRecord:
        assert kinds == ["malformed"]
    else:
        assert kinds == (read or ["unknown"] * bool(line))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=5))
def test_any_bytes_are_read(bodies: list[bytes | None]) -> None:
    lines = [one for body in bodies for one in (body or b"").split(b"\x02") if one]
    assert len(rows(bodies)) == len(lines)


def test_a_sample_shows_its_separators() -> None:
    (row,) = rows([b"Pub\x015\x01eu\x02"])
    assert row == {"message": 0, "kind": "malformed", "sample": "Pub|5|eu"}


@pytest.mark.parametrize(
    ("message_id", "host"),
    [
        ("7F00000104D218B4AAC21F8B8F9A0002", "127.0.0.1"),
        ("20010DB8000000000000000000000001" + "0" * 24, "2001:db8::1"),
        ("not an id, though it is long enough", None),
        ("", None),
        (None, None),
    ],
)
def test_the_client_is_in_the_id_of_its_trace_message(
    message_id: str | None, host: str | None
) -> None:
    assert rows([GOLDEN[0]], message_id)[0].get("client_host") == host


def test_a_client_that_names_its_host_is_believed() -> None:
    named = GOLDEN[0].rstrip(b"\x02") + b"\x01192.168.0.9\x02"
    assert rows([named], "7F00000104D218B4AAC21F8B8F9A0002")[0]["client_host"] == "192.168.0.9"


def test_ordinals_of_newer_clients_and_old_records_without_an_offset_id() -> None:
    texts = GOLDEN[0].decode().rstrip("\x02").split("\x01")
    newer = "\x01".join([*texts[:11], "9", *texts[12:]])
    older = "\x01".join([*texts[:12], *texts[13:]])
    assert rows([newer.encode()])[0]["message_kind"] == "9"
    (row,) = rows([older.encode()])
    assert "offset_message_id" not in row
    assert row["success"] is True


def test_times_beyond_the_calendar_are_malformed() -> None:
    late = GOLDEN[0].replace(b"1700000000000", b"900000000000000000")
    assert [row["kind"] for row in rows([late])] == ["malformed"]
