from collections.abc import Callable
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.message import pop
from orbitmq.message.pop import PopHandle, PopMessage, PopQueue
from tests.golden_files import golden


class ExtraInfo(TypedDict):
    ck_queue_offset: int
    pop_time: int
    invisible_time: int
    revive_qid: int
    topic: str
    broker: str
    queue_id: int
    msg_queue_offset: int
    extra_info: str


GOLDEN = golden("ids")
HANDLES: list[ExtraInfo] = GOLDEN["pop_extra_info"]
HEADERS = GOLDEN["pop_header_strings"]

INT64 = st.integers(-(2**63), 2**63 - 1)
QUEUES = st.builds(PopQueue, st.integers(0, 2), st.integers(0, 1000))
MESSAGES = st.builds(PopMessage, st.integers(0, 2), st.integers(0, 1000), INT64)


def java_key(key: PopQueue | PopMessage) -> str:
    if isinstance(key, PopQueue):
        return f"{key.retry_kind}@{key.queue_id}"
    return f"{key.retry_kind}@qo{key.queue_id}%{key.queue_offset}"


@pytest.mark.parametrize("java", HANDLES, ids=lambda java: java["topic"])
def test_handles_both_ways(java: ExtraInfo) -> None:
    handle = PopHandle(
        checkpoint_offset=java["ck_queue_offset"],
        pop_time_ms=java["pop_time"],
        invisible_ms=java["invisible_time"],
        revive_queue_id=java["revive_qid"],
        retry_kind=pop.retry_kind(java["topic"]),
        broker_name=java["broker"],
        queue_id=java["queue_id"],
        queue_offset=java["msg_queue_offset"],
    )
    assert str(handle) == java["extra_info"]
    assert PopHandle.parse(java["extra_info"]) == handle
    assert handle.is_ordered == (java["revive_qid"] == 999)
    assert pop.real_topic(handle.retry_kind, "GoldTopic", "CG_gold") == java["topic"]


def test_a_handle_without_the_offset_of_a_message() -> None:
    text = "10 1700000000000 60000 3 0 broker-a 0"
    handle = PopHandle.parse(text)
    assert handle.queue_offset is None
    assert str(handle) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has 1 words, not 7 or 8"),
        ("1 2 3 4 5 b", "it has 6 words"),
        ("1 2 3 4 5 b 7 8 9", "it has 9 words"),
        ("1 2 3 4 x b 7", "'x' is not a number"),
        ("1 2 3 4 1_0 b 7", "'1_0' is not a number"),
        ("1  3 4 5 b 7", "'' is not a number"),
    ],
)
def test_bad_handles_say_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        PopHandle.parse(text)
    assert caught.value.length == len(text)


def test_header_texts_of_java_both_ways() -> None:
    starts = pop.parse_start_offset_info(HEADERS["start_offset_info"])
    assert {java_key(key): at for key, at in starts.items()} == HEADERS["start_offset_parsed"]
    assert pop.start_offset_info(starts) == HEADERS["start_offset_info"]

    offsets = pop.parse_message_offset_info(HEADERS["msg_offset_info"])
    listed = {java_key(key): list(many) for key, many in offsets.items()}
    assert listed == HEADERS["msg_offset_parsed"]
    assert pop.message_offset_info(offsets) == HEADERS["msg_offset_info"]

    counts = pop.parse_order_count_info(HEADERS["order_count_info"])
    assert {java_key(key): n for key, n in counts.items()} == HEADERS["order_count_parsed"]
    assert pop.order_count_info(counts) == HEADERS["order_count_info"]


@given(st.dictionaries(QUEUES, st.lists(INT64, min_size=1)))
def test_any_message_offsets_read_back(offsets: dict[PopQueue, list[int]]) -> None:
    read = pop.parse_message_offset_info(pop.message_offset_info(offsets))
    assert read == {queue: tuple(many) for queue, many in offsets.items()}


@given(st.dictionaries(QUEUES | MESSAGES, st.integers(0, 2**31 - 1)))
def test_any_order_counts_read_back(counts: dict[PopQueue | PopMessage, int]) -> None:
    assert pop.parse_order_count_info(pop.order_count_info(counts)) == counts


@pytest.mark.parametrize(
    "parse",
    [pop.parse_start_offset_info, pop.parse_message_offset_info, pop.parse_order_count_info],
)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0", "it has 2 words, not 3"),
        ("0 0 1;", "it has 1 words, not 3"),
        ("0 0 1;0 0 2", "repeated"),
        ("0 0 x", "'x' is not a number"),
        ("0 ٣ 1", "is not a number"),
    ],
)
def test_bad_headers_say_what_is_wrong(parse: Callable[[str], object], text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse(text)


def test_a_message_needs_its_offset() -> None:
    with pytest.raises(InvalidInput, match="orderCountInfo '0 qo5 1' can't be read"):
        pop.parse_order_count_info("0 qo5 1")


def test_empty_headers_hold_nothing() -> None:
    assert pop.parse_start_offset_info("") == {}
    assert pop.start_offset_info({}) == ""
