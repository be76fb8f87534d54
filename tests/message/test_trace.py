from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord, LocalProtocolError
from orbitmq.message.trace import (
    ConsumeOutcome,
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    TraceRecord,
    decode,
    encode,
    index_keys,
)
from tests.golden_files import golden


class Context(TypedDict):
    trace_type: str
    time_stamp: int
    region_id: str
    group_name: str
    cost_time: int
    success: bool
    request_id: str
    context_code: int
    access_channel: str


class Bean(TypedDict):
    topic: str
    msg_id: str
    offset_msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_length: int
    retry_times: int
    msg_type_ordinal: int
    transaction_id: str | None
    transaction_state: str
    from_transaction_check: bool


class GoldenTrace(TypedDict):
    case: str
    context: Context
    beans: list[Bean]
    trans_data_hex: str
    trans_keys: list[str]


CASES: list[GoldenTrace] = golden("trace")["cases"]

each_golden = pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden["case"])


def record_of(context: Context, bean: Bean) -> TraceRecord:
    """Return our record for one of Java's contexts and beans."""
    local = context["access_channel"] != "CLOUD"
    match context["trace_type"]:
        case "Pub":
            return Publish(
                timestamp_ms=context["time_stamp"],
                region=context["region_id"],
                group=context["group_name"],
                topic=bean["topic"],
                message_id=bean["msg_id"],
                tags=bean["tags"],
                keys=bean["keys"],
                store_host=bean["store_host"],
                body_length=bean["body_length"],
                cost_ms=context["cost_time"],
                kind=MessageKind(bean["msg_type_ordinal"]),
                offset_message_id=bean["offset_msg_id"],
                success=context["success"],
            )
        case "SubBefore":
            return SubscribeBefore(
                timestamp_ms=context["time_stamp"],
                region=context["region_id"],
                group=context["group_name"],
                request_id=context["request_id"],
                message_id=bean["msg_id"],
                retry_times=bean["retry_times"],
                keys=bean["keys"],
            )
        case "SubAfter":
            return SubscribeAfter(
                request_id=context["request_id"],
                message_id=bean["msg_id"],
                cost_ms=context["cost_time"],
                success=context["success"],
                keys=bean["keys"],
                outcome=ConsumeOutcome(context["context_code"]),
                timestamp_ms=context["time_stamp"] if local else None,
                group=context["group_name"] if local else None,
            )
        case "EndTransaction":
            return EndTransaction(
                timestamp_ms=context["time_stamp"],
                region=context["region_id"],
                group=context["group_name"],
                topic=bean["topic"],
                message_id=bean["msg_id"],
                tags=bean["tags"],
                keys=bean["keys"],
                store_host=bean["store_host"],
                kind=MessageKind(bean["msg_type_ordinal"]),
                transaction_id=bean["transaction_id"],
                transaction_state=bean["transaction_state"],
                from_check=bean["from_transaction_check"],
            )
        case "Recall":
            return Recall(
                timestamp_ms=context["time_stamp"],
                region=context["region_id"],
                group=context["group_name"],
                topic=bean["topic"],
                message_id=bean["msg_id"],
                success=context["success"],
            )
        case other:
            raise AssertionError(f"a trace type of which the tests know nothing: {other}")


@each_golden
def test_has_the_bytes_of_java(golden: GoldenTrace) -> None:
    records = [record_of(golden["context"], bean) for bean in golden["beans"]]
    body = bytes.fromhex(golden["trans_data_hex"])

    assert encode(records) == body
    assert decode(body) == records


@each_golden
def test_is_found_by_the_keys_of_java(golden: GoldenTrace) -> None:
    # Java's recall hook sets no keys; the record has no place for the ones of this case.
    expected = golden["trans_keys"][:1] if golden["case"] == "Recall" else golden["trans_keys"]
    records = decode(bytes.fromhex(golden["trans_data_hex"]))

    assert sorted(index_keys(records)) == sorted(expected)


def test_all_cases_make_one_body() -> None:
    bodies = [bytes.fromhex(golden["trans_data_hex"]) for golden in CASES]
    apart = [record for body in bodies for record in decode(body)]

    assert decode(b"".join(bodies)) == apart
    assert encode(apart) == b"".join(bodies)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=20)
optional = st.none() | texts.filter(lambda text: text != "null")
numbers = st.integers(-(2**63), 2**63 - 1)
common = {"group": texts, "topic": texts, "region": texts, "message_id": texts}
published = st.builds(
    Publish,
    **common,
    timestamp_ms=numbers,
    tags=optional,
    keys=optional,
    store_host=optional,
    body_length=numbers,
    cost_ms=numbers,
    offset_message_id=optional,
    client_host=optional,
)
recalled = st.builds(Recall, **common, timestamp_ms=numbers)


@given(st.lists(published | recalled, max_size=4))
def test_reads_what_it_wrote(records: list[TraceRecord]) -> None:
    assert decode(encode(records)) == records


@given(st.binary(max_size=100) | texts.map(lambda text: f"Recall\x01{text}\x02".encode()))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        records = decode(body)
    except CorruptRecord:
        return
    assert len(records) <= body.count(b"\x02") + 1


PUB_START = b"Pub\x015\x01eu\x01g\x01orders\x017F01\x01null\x01null\x01host\x012\x013\x014\x01"


@pytest.mark.parametrize(
    ("end", "offset_id", "client_host"),
    [
        (b"true", None, None),  # 13 fields
        (b"0A01\x01true", "0A01", None),
        (b"0A01\x01true\x01here", "0A01", "here"),
        (b"0A01\x01true\x01here\x01more", "0A01", "here"),
    ],
)
def test_reads_publish_records_of_all_ages(
    end: bytes, offset_id: str | None, client_host: str | None
) -> None:
    (record,) = decode(PUB_START + end + b"\x02")

    assert isinstance(record, Publish)
    assert (record.offset_message_id, record.client_host) == (offset_id, client_host)
    assert record.success
    assert record.kind is MessageKind.ORDERED


def test_an_old_record_without_outcome_is_read() -> None:
    (record,) = decode(b"SubAfter\x01r\x01m\x013\x01false\x01k\x02")

    assert isinstance(record, SubscribeAfter)
    assert (record.outcome, record.timestamp_ms) == (ConsumeOutcome.SUCCESS, None)


def test_null_is_a_name_where_something_must_stand() -> None:
    record = Recall(timestamp_ms=5, region="", group="", topic="null", message_id="", success=True)

    assert decode(encode([record])) == [record]


def test_bytes_that_are_not_utf8_are_read_as_java_reads_them() -> None:
    (record,) = decode(b"Recall\x015\x01eu\x01\xff\x01t\x01m\x01true\x02")

    assert record.group == "\ufffd"


def test_records_of_an_unknown_kind_are_left_out() -> None:
    known = Recall(timestamp_ms=5, region="", group="", topic="", message_id="", success=False)

    assert decode(b"Future\x01x\x02" + encode([known])) == [known]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"Recall\x015\x02", "2 fields"),
        (b"Recall\x01soon\x01eu\x01g\x01t\x01m\x01true\x02", r"Expected `int`.*\$\[1\]"),
        (b"Recall\x015\x01eu\x01g\x01t\x01m\x01perhaps\x02", r"Expected `bool`.*\$\[6\]"),
    ],
)
def test_an_unreadable_record_is_refused_with_its_place(body: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why) as caught:
        decode("Zürich\x02".encode() + body)
    assert caught.value.position == 8


@pytest.mark.parametrize("separator", ["\x01", "\x02"])
def test_a_separator_in_a_text_is_refused(separator: str) -> None:
    record = Recall(
        timestamp_ms=5, region="eu", group=f"g{separator}", topic="t", message_id="m", success=True
    )
    with pytest.raises(LocalProtocolError, match=r"group: a text of 2 characters"):
        encode([record])


def test_what_utf8_cannot_hold_becomes_a_question_mark_as_in_java() -> None:
    record = Recall(
        timestamp_ms=5, region="", group="\ud800", topic="", message_id="", success=True
    )

    assert encode([record]) == b"Recall\x015\x01\x01?\x01\x01\x01true\x02"
