import json

import pytest

from orbitmq.errors import InvalidOffsets, InvalidOption
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Bound
from orbitmq.spark.options.values import Values


def test_a_missing_option_has_its_default() -> None:
    values = Values({})
    assert values.text("tags", "*") == "*"
    assert values.flag("tls", default=False) is False
    assert values.number("retries", 2, high=9) == 2
    assert values.optional_number("minPartitions", high=9) is None
    assert values.duration_ms("maxTriggerDelay", 900_000) == 900_000
    assert values.address_map("addressMap") == ()
    assert values.bound("starting", default="earliest") == Bound("earliest")


def test_flags_are_true_or_false() -> None:
    assert Values({"tls": "TRUE"}).flag("tls", default=False) is True
    with pytest.raises(InvalidOption, match="tls is 'yes', not true or false") as caught:
        Values({"tls": "yes"}).flag("tls", default=False)
    assert caught.value.field == "tls"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "10", "99999999999999999999", "٣"])
def test_numbers_are_whole_and_in_range(text: str) -> None:
    with pytest.raises(InvalidOption, match="must be a whole number from 1 to 9"):
        Values({"retries": text}).number("retries", 2, high=9)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("30 seconds", 30_000), ("500ms", 500), ("250", 250), ("1H", 3_600_000)],
)
def test_durations_are_read_as_spark_reads_them(text: str, milliseconds: int) -> None:
    assert Values({"maxTriggerDelay": text}).duration_ms("maxTriggerDelay", 0) == milliseconds


@pytest.mark.parametrize("text", ["", "m", "1 fortnight", "-5s", "400d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="write a duration of at most a year"):
        Values({"maxTriggerDelay": text}).duration_ms("maxTriggerDelay", 0)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("0", 0),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.250+01:00", 1_700_000_000_250),
    ],
)
def test_times_are_numbers_or_have_a_zone(text: str, milliseconds: int) -> None:
    values = Values({"startingTimestamp": text})
    assert values.bound("starting", default="latest").timestamp_ms == milliseconds


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20", "yesterday", "-5", "1969-01-01T00:00:00Z"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="write milliseconds since 1970, or a time with its"):
        Values({"startingTimestamp": text}).bound("starting", default="latest")


def test_a_bound_is_a_word_or_json() -> None:
    assert Values({"endingOffsets": "Latest"}).bound("ending", default="latest").kind == "latest"
    said = Values({"startingOffsets": '{"orders": {"broker-a:0": 12}}'})
    assert said.bound("starting", default="latest") == Bound(
        "offsets", {MessageQueue("orders", "broker-a", 0): 12}
    )
    with pytest.raises(InvalidOption, match="did you mean earliest"):
        Values({"startingOffsets": "earlyest"}).bound("starting", default="latest")
    with pytest.raises(InvalidOption, match="write earliest, latest or JSON"):
        Values({"startingOffsets": "12"}).bound("starting", default="latest")
    with pytest.raises(InvalidOffsets, match="at character 1"):
        Values({"startingOffsets": "{12}"}).bound("starting", default="latest")


def test_a_bound_is_given_once() -> None:
    both = Values({"startingOffsets": "earliest", "startingTimestamp": "1"})
    with pytest.raises(InvalidOption, match="are both given; give only one"):
        both.bound("starting", default="latest")


def test_addresses_are_mapped_by_json() -> None:
    values = Values({"addressMap": '{"b": "127.0.0.1", "a:1": "127.0.0.1:2"}'})
    assert values.address_map("addressMap") == (("a:1", "127.0.0.1:2"), ("b", "127.0.0.1"))
    for text in ("a=b", "[]", '{"a": 1}'):
        with pytest.raises(InvalidOption, match="write JSON such as"):
            Values({"addressMap": text}).address_map("addressMap")


@pytest.mark.parametrize(
    ("advertised", "reached"),
    [
        ("a:1", "127.0.0.1:99999"),
        ("a:1", "127.0.0.1:0"),
        ("a:1", "127.0.0.1"),
        ("a", "127.0.0.1:2"),
        ("a", ""),
        ("", "127.0.0.1"),
        ("[::1]:1", "[::1]"),
        ("fe80::1", "::1"),
    ],
)
def test_an_address_is_mapped_to_one_of_its_kind(advertised: str, reached: str) -> None:
    values = Values({"addressMap": json.dumps({advertised: reached})})
    told = f"addressMap can't map {advertised!r} to {reached!r}; map a host to a host"
    with pytest.raises(InvalidOption) as caught:
        values.address_map("addressMap")
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("advertised", "reached"),
    [
        ("[::1]:1", "[::2]:2"),
        ("[::1]", "[::2]"),
        ("fe80::1", "127.0.0.1"),
        ("fe80::1:10911", "127.0.0.1:10911"),
        ("broker.example", "localhost"),
    ],
)
def test_addresses_of_any_kind_may_be_mapped(advertised: str, reached: str) -> None:
    values = Values({"addressMap": json.dumps({advertised: reached})})
    assert values.address_map("addressMap") == ((advertised, reached),)


def test_lists_have_no_empty_parts() -> None:
    assert Values({"subscribe": "a, b"}).words("subscribe") == ("a", "b")
    with pytest.raises(InvalidOption, match="separate names by commas"):
        Values({"subscribe": "a,,b"}).words("subscribe")


def test_options_that_need_others_are_refused_alone() -> None:
    with pytest.raises(InvalidOption, match="a is given without b, which it needs"):
        Values({"a": "1"}).need_each_other("a", "b")
    with pytest.raises(InvalidOption, match="b is given without a"):
        Values({"b": "1"}).need_each_other("a", "b")
    with pytest.raises(InvalidOption, match="nothing to read is given: give one of a, b"):
        Values({}).exactly_one("a", "b")
    with pytest.raises(InvalidOption, match="a and b are both given"):
        Values({"a": "1", "b": "2"}).exactly_one("a", "b")


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(InvalidOption) as caught:
        Values({"retries": "x" * 10_000}).number("retries", 2, high=9)
    assert len(str(caught.value)) < 200
