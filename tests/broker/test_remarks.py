import time
from collections.abc import Iterator

import pytest

from orbitmq.broker import remarks
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import INHERIT, READ, WRITE, ResponseCode

ILLEGAL = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$; "


@pytest.mark.parametrize(
    ("topic", "begins", "advice"),
    [
        ("", "The specified topic is blank. ", "Give it a name"),
        (" \t", "The specified topic is blank. ", "Give it a name"),
        ("bad.topic", f"The specified topic: bad.topic, {ILLEGAL}", "holds '.' at position 3"),
        ("." * 128, f"The specified topic: {'.' * 128}, {ILLEGAL}", "has 128 characters"),
        (
            "t" * 128,
            f"The specified topic: {'t' * 128}, is longer than topic max length: 127; ",
            "has 128 characters",
        ),
        (
            "%DLQ%" + "g" * 251,
            f"The specified topic is DLQ or Retry topic: %DLQ%{'g' * 251}, and it's longer than ",
            "topic max length: 255; ",
        ),
    ],
)
def test_a_topic_s_name_is_refused_in_java_s_words(topic: str, begins: str, advice: str) -> None:
    with pytest.raises(Refusal) as refusal:
        remarks.check_topic_name(topic)
    assert refusal.value.code == ResponseCode.INVALID_PARAMETER
    assert refusal.value.remark.startswith(begins)
    assert advice in refusal.value.remark.removeprefix(begins)


@pytest.mark.parametrize(
    ("group", "begins", "advice"),
    [
        ("", "The specified group is blank. ", "Give it a name"),
        ("a b", f"The specified group: a b, {ILLEGAL}", "holds ' ' at position 1"),
        (
            "g" * 121,
            f"The specified group: {'g' * 121}, is longer than group max length: 120; ",
            "has 121 characters",
        ),
    ],
)
def test_a_group_s_name_is_refused_in_java_s_words(group: str, begins: str, advice: str) -> None:
    with pytest.raises(Refusal) as refusal:
        remarks.check_group_name(group)
    assert refusal.value.code == ResponseCode.INVALID_PARAMETER
    assert refusal.value.remark.startswith(begins)
    assert advice in refusal.value.remark.removeprefix(begins)


def test_names_that_may_be_pass() -> None:
    remarks.check_topic_name("%RETRY%" + "g" * 120)
    remarks.check_group_name("g" * 120)


@pytest.mark.parametrize("name", ["t" * 1_000_000, "." * 1_000_000])
def test_a_remark_shows_no_more_of_a_name_than_can_be_read(name: str) -> None:
    for check in (remarks.check_topic_name, remarks.check_group_name):
        with pytest.raises(Refusal) as refusal:
            check(name)
        assert len(refusal.value.remark) < 1_000


@pytest.mark.parametrize(
    ("perm", "letters"),
    [(READ | WRITE, "RW-"), (READ, "R--"), (WRITE | INHERIT, "-WX"), (INHERIT, "--X"), (0, "---")],
)
def test_a_topic_is_shown_with_its_permissions(perm: int, letters: str) -> None:
    shown = remarks.settings_of(
        TopicConfig(topic_name="orders", perm=perm, order=True, attributes={"a": "b", "c": "d"})
    )
    assert f", perm={letters}, " in shown
    assert shown.endswith("order=true, attributes={a=b, c=d}]")


def test_a_topic_without_a_filter_type_is_shown_as_java_shows_it() -> None:
    assert "topicFilterType=null" in remarks.settings_of(TopicConfig(topic_filter_type=None))


def test_the_reason_of_the_store_follows_java_s_list() -> None:
    assert remarks.service_not_available("the disk is full", 0.934) == (
        "service not available now. It may be caused by one of the following reasons: the broker's "
        "disk is full [CL:  0.93 CQ:  0.93 INDEX:  0.93], messages are put to the slave, message "
        "store has been shut down, etc. The reason: the disk is full"
    )


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_shanghai")
def test_a_moment_is_shown_in_local_time() -> None:
    assert remarks.local_time(1_700_000_000_123) == "2023-11-15 06:13:20,123"
    assert remarks.local_time((1 << 63) - 1).startswith("9999-12-3")
