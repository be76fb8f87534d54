from datetime import UTC, datetime
from ipaddress import ip_address
from typing import NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.message.host import Host
from orbitmq.message.ids import (
    RecallHandle,
    UniqueId,
    UniqueIds,
    offset_id,
    parse_offset_id,
    parse_recall_handle,
    parse_unique_id,
    recall_handle,
)
from tests.golden_files import golden


class OffsetId(TypedDict):
    ip: str
    port: int
    offset: int
    msg_id: str


class TakenApart(TypedDict):
    uniq_id: str
    ip_hex: str
    pid_low16: int
    class_loader_hash_hex: NotRequired[str]
    ms_since_month_start_hex: NotRequired[str]
    counter_hex: NotRequired[str]
    nearly_time_ms: NotRequired[int]
    now_ms: NotRequired[int]


class Handle(TypedDict):
    topic: str
    broker_name: str
    timestamp: str
    message_id: str
    handle: str


GOLDEN = golden("ids")
OFFSET_IDS: list[OffsetId] = GOLDEN["offset_msg_ids"]
UNIQUE_IDS: list[TakenApart] = GOLDEN["uniq_ids"]
TIMED_IDS = [java for java in UNIQUE_IDS if "now_ms" in java]
HANDLES: list[Handle] = GOLDEN["recall_handles"]

LOCALHOST = b"\x7f\x00\x00\x01"
IP_BYTES = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)


class HandSetClock:
    """Tells the time it was set to."""

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms


def epoch_ms(year: int, month: int, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000


def utc_month(at_ms: int) -> tuple[int, int]:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    following = (at.year, at.month + 1) if at.month < 12 else (at.year + 1, 1)
    return epoch_ms(at.year, at.month), epoch_ms(*following)


def ids_at(clock: HandSetClock) -> UniqueIds:
    return UniqueIds(LOCALHOST, 1234, 0x18B4AAC2, clock, utc_month)


@pytest.mark.parametrize("java", OFFSET_IDS, ids=lambda java: java["msg_id"])
def test_offset_ids_both_ways(java: OffsetId) -> None:
    host = Host(ip_address(java["ip"]).packed, java["port"])
    assert offset_id(host, java["offset"]) == java["msg_id"]
    assert parse_offset_id(java["msg_id"]) == (host, java["offset"])
    assert parse_offset_id(java["msg_id"].lower()) == (host, java["offset"])


@given(IP_BYTES, st.integers(0, 65535), st.integers(-(2**63), 2**63 - 1))
def test_any_offset_id_reads_back(ip: bytes, port: int, offset: int) -> None:
    host = Host(ip, port)
    assert parse_offset_id(offset_id(host, offset)) == (host, offset)


def test_an_offset_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="commit log offset 9223372036854775808"):
        offset_id(Host(LOCALHOST, 10911), 2**63)


@pytest.mark.parametrize("parse", [parse_offset_id, parse_unique_id])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 characters, not 32 or 56"),
        ("A" * 34, "has 34 characters"),
        ("G" * 32, "hexadecimal digits only"),
        ("7F 00 01" * 4, "hexadecimal digits only"),
        ("é" * 32, "hexadecimal digits only"),
    ],
)
def test_bad_ids_say_what_is_wrong(parse: type, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        parse(text)
    assert (caught.value.field, caught.value.length) == ("message_id", len(text))


@pytest.mark.parametrize("java", UNIQUE_IDS, ids=lambda java: java["uniq_id"])
def test_unique_ids_taken_apart(java: TakenApart) -> None:
    parsed = parse_unique_id(java["uniq_id"])
    assert parsed.ip.hex() == java["ip_hex"]
    assert parsed.pid == java["pid_low16"]
    if "now_ms" in java:
        assert f"{parsed.discriminator:08X}" == java["class_loader_hash_hex"]
        assert f"{parsed.ms_of_month:08X}" == java["ms_since_month_start_hex"]
        assert f"{parsed.counter:04X}" == java["counter_hex"]


def test_unique_ids_made_as_java_made_them() -> None:
    first = parse_unique_id(TIMED_IDS[0]["uniq_id"])
    clock = HandSetClock(0)
    clock.at_ms = TIMED_IDS[0]["now_ms"]
    made_by = UniqueIds(first.ip, TIMED_IDS[0]["pid_low16"], first.discriminator, clock, utc_month)
    for java in TIMED_IDS:
        month_start_ms = utc_month(java["now_ms"])[0]
        clock.at_ms = month_start_ms + int(java["ms_since_month_start_hex"], 16)
        assert made_by.next() == java["uniq_id"]


@pytest.mark.parametrize("java", TIMED_IDS, ids=lambda java: java["counter_hex"])
def test_time_of_an_id(java: TakenApart) -> None:
    created_ms = parse_unique_id(java["uniq_id"]).created_ms(java["now_ms"], utc_month)
    assert 0 <= java["now_ms"] - created_ms <= 1
    # Java puts an id into the month before if its own clock still shows the id's millisecond.
    month_start_ms = utc_month(created_ms)[0]
    month_ms = month_start_ms - utc_month(month_start_ms - 1)[0]
    assert java["nearly_time_ms"] in (created_ms, created_ms - month_ms)


def test_an_id_from_later_in_the_month_is_of_the_month_before() -> None:
    on_the_20th = UniqueId(LOCALHOST, 1, 2, 19 * 86_400_000, 0)
    assert on_the_20th.created_ms(epoch_ms(2024, 1, 10), utc_month) == epoch_ms(2023, 12, 20)


@pytest.mark.parametrize("count", [1, 3, 256, 257, 700])
@pytest.mark.parametrize("used", [0, 1, 255, 65_535, 65_600])
def test_some_ids_are_those_that_one_by_one_would_be(used: int, count: int) -> None:
    clock = HandSetClock(epoch_ms(2024, 2))
    one_by_one, at_once = ids_at(clock), ids_at(clock)
    for _ in range(used):
        one_by_one.next()
        at_once.next()
    assert at_once.some(count) == [one_by_one.next() for _ in range(count)]
    assert at_once.next() == one_by_one.next()


def test_a_new_month_starts_over() -> None:
    clock = HandSetClock(epoch_ms(2024, 2) - 1)
    new_ids = ids_at(clock)
    assert parse_unique_id(new_ids.next()).ms_of_month == 31 * 86_400_000 - 1
    clock.at_ms += 1
    assert parse_unique_id(new_ids.next()).ms_of_month == 0


@pytest.mark.parametrize(
    ("step_back_ms", "ms_of_month"),
    [(1, 0), (999_999, 0), (1_000_000, 2**32 - 1_000_000)],
)
def test_a_clock_set_back_before_the_month(step_back_ms: int, ms_of_month: int) -> None:
    clock = HandSetClock(epoch_ms(2024, 2))
    new_ids = ids_at(clock)
    clock.at_ms -= step_back_ms
    assert parse_unique_id(new_ids.next()).ms_of_month == ms_of_month


def test_the_counter_wraps_at_16_bits() -> None:
    new_ids = ids_at(HandSetClock(epoch_ms(2024, 2)))
    counters = [parse_unique_id(new_ids.next()).counter for _ in range(65_537)]
    assert counters == [*range(65_536), 0]


def test_process_and_discriminator_are_cut_to_size() -> None:
    clock = HandSetClock(epoch_ms(2024, 2))
    parsed = parse_unique_id(UniqueIds(LOCALHOST, 0x7_1234, -1, clock, utc_month).next())
    assert (parsed.pid, parsed.discriminator) == (0x1234, 0xFFFF_FFFF)


def test_an_address_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ip has 5 bytes, not 4 or 16"):
        UniqueIds(b"12345", 1, 2, HandSetClock(0), utc_month)


@given(IP_BYTES, st.integers(0, 0xFFFF), st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_any_unique_id_reads_back(ip: bytes, pid: int, discriminator: int, now_ms: int) -> None:
    made = UniqueIds(ip, pid, discriminator, HandSetClock(now_ms), utc_month).next()
    parsed = parse_unique_id(made)
    assert parsed[:3] == (ip, pid, discriminator)
    assert parsed.created_ms(now_ms, utc_month) == now_ms


@pytest.mark.parametrize("java", HANDLES, ids=lambda java: java["topic"])
def test_recall_handles_both_ways(java: Handle) -> None:
    parts = (java["topic"], java["broker_name"], int(java["timestamp"]), java["message_id"])
    assert recall_handle(*parts) == java["handle"]
    assert parse_recall_handle(java["handle"]) == parts
    assert parse_recall_handle(java["handle"].rstrip("=")) == parts


@given(WORD, WORD, st.integers(0, 2**63 - 1), WORD)
def test_any_recall_handle_reads_back(topic: str, broker: str, at_ms: int, unique_id: str) -> None:
    text = recall_handle(topic, broker, at_ms, unique_id)
    assert parse_recall_handle(text) == RecallHandle(topic, broker, at_ms, unique_id)


def test_a_recall_handle_takes_no_blanks() -> None:
    with pytest.raises(InvalidInput, match="broker_name 'b c' of a recall handle") as caught:
        recall_handle("orders", "b c", 1, "A")
    assert caught.value.field == "broker_name"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "five words"),
        ("%%%%", "not base64"),
        ("é", "not base64"),
        ("_w==", "not base64 of UTF-8"),
        ("djIgdCBiIDEgQQ==", "the first v1"),  # v2 t b 1 A
        ("djEgdCBiIDE=", "five words"),  # v1 t b 1
        ("djEgdCBiIHggQQ==", "a time in milliseconds"),  # v1 t b x A
    ],
)
def test_bad_recall_handles_say_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        parse_recall_handle(text)
    assert (caught.value.field, caught.value.length) == ("recall_handle", len(text))
