from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidHeader
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers import answer_type, request_type
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.offset import SearchOffset, SearchOffsetAnswer
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.headers.transaction import EndTransaction

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


def test_only_what_is_set_is_written_and_booleans_are_small() -> None:
    header = EndTransaction(
        producer_group="p", tran_state_table_offset=-1, commit_log_offset=2**40,
        commit_or_rollback=8, msg_id="", from_transaction_check=True,
    )  # fmt: skip
    assert header.to_texts() == {
        "producerGroup": "p", "tranStateTableOffset": "-1", "commitLogOffset": str(2**40),
        "commitOrRollback": "8", "fromTransactionCheck": "true", "msgId": "",
    }  # fmt: skip


@given(topic=st.text(), queue=INT32, time=INT64, boundary=st.none() | st.text())
def test_texts_come_back_as_the_same_header(
    topic: str, queue: int, time: int, boundary: str | None
) -> None:
    header = SearchOffset(topic=topic, queue_id=queue, timestamp=time, boundary_type=boundary)
    assert SearchOffset.from_texts(header.to_texts()) == header


@pytest.mark.parametrize("text", ["TRUE", "true", "True"])
def test_true_is_true_in_any_case(text: str) -> None:
    raw = b'{"topic":"t","queueId":"1","timestamp":"2","lo":"%s"}' % text.encode()
    assert SearchOffset.from_json(raw).logical is True


def test_values_that_are_json_numbers_and_booleans_are_read_too() -> None:
    assert (
        SearchOffset.from_json(b'{"topic":"t","queueId":1,"timestamp":2,"lo":true}').queue_id == 1
    )


def test_unknown_fields_are_skipped() -> None:
    assert SearchOffsetAnswer.from_json(b'{"offset":"7","later":"x"}').offset == 7


def test_null_counts_as_absent() -> None:
    raw = b'{"topic":"t","queueId":"1","timestamp":"2","lo":null,"boundaryType":null}'
    assert SearchOffset.from_json(raw).boundary_type is None


@pytest.mark.parametrize(
    ("raw", "field", "words"),
    [
        (b"{}", "topic", "topic: is missing"),
        (b'{"topic":"t","queueId":"1"}', "timestamp", "timestamp: is missing"),
        (b'{"topic":"t","queueId":"x","timestamp":"2"}', "queueId", r"queueId \(queue_id\): "),
        (b'{"topic":"t","queueId":"2147483648","timestamp":"2"}', "queueId", "2147483647"),
        (b'{"topic":"t","queueId":"1","timestamp":"9223372036854775808"}', "timestamp", "time"),
        (b'{"topic":"t","queueId":"1","timestamp":"1e300"}', "timestamp", "timestamp"),
        (b'{"topic":null,"queueId":"1","timestamp":"2"}', "topic", "topic"),
        (b'{"topic":"t","queueId":"' + b"9" * 5000 + b'","timestamp":"2"}', None, "SearchOffset"),
        (b'{"topic":"\xff","queueId":"1","timestamp":"2"}', None, "can't be read"),
        (b"[]", None, "can't be read"),
        (b"", None, "can't be read"),
        (b'{"x":' + b"[" * 100_000, None, "can't be read"),
    ],
)  # fmt: skip
def test_a_fault_names_the_field(raw: bytes, field: str | None, words: str) -> None:
    with pytest.raises(InvalidHeader, match=words) as caught:
        SearchOffset.from_json(raw)
    if field:
        assert caught.value.field == field
    assert len(str(caught.value)) < 500


def test_a_fault_in_the_short_header_is_named_by_letter_and_meaning() -> None:
    with pytest.raises(InvalidHeader, match=r"field b \(topic\): is missing") as caught:
        SendMessageV2.from_texts({"a": "p"})
    assert caught.value.field == "b"


@given(st.dictionaries(st.sampled_from(SearchOffset.__struct_encode_fields__), st.text()))
def test_any_texts_give_a_header_or_an_invalid_header(texts: dict[str, str]) -> None:
    with suppress(InvalidHeader):
        SearchOffset.from_texts(texts)


@given(st.binary())
def test_any_bytes_give_a_header_or_an_invalid_header(raw: bytes) -> None:
    with suppress(InvalidHeader):
        CreateTopic.from_json(raw)


def test_a_request_code_leads_to_both_types() -> None:
    assert (request_type(29), answer_type(29)) == (SearchOffset, SearchOffsetAnswer)
    assert (request_type(28), answer_type(28)) == (NoFields, NoFields)
    assert (request_type(-1), answer_type(-1)) == (None, None)
