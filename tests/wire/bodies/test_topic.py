"""The text form of a topic."""

import json
from pathlib import Path

import pytest

from orbitmq.errors import InvalidBody, LocalProtocolError
from orbitmq.wire.bodies.topic import TopicConfig, TopicFilterType

BODIES = json.loads((Path(__file__).parents[2] / "golden" / "bodies.json").read_text())["bodies"]


def test_java_s_text_is_read_and_written() -> None:
    (text,) = (body["text"] for body in BODIES if "text" in body)
    topic = TopicConfig.from_text(text)
    assert topic == TopicConfig(
        attributes={"+message.type": "NORMAL"},
        read_queue_nums=4,
        topic_name="GoldTopic",
        write_queue_nums=4,
    )
    assert topic.to_text() == text


def test_attributes_may_be_missing_or_have_blanks() -> None:
    assert TopicConfig.from_text("T 1 2 4 MULTI_TAG") == TopicConfig(
        topic_name="T",
        read_queue_nums=1,
        write_queue_nums=2,
        perm=4,
        topic_filter_type=TopicFilterType.MULTI_TAG,
    )
    spaced = TopicConfig(topic_name="T", attributes={"a b": "c d"})
    assert TopicConfig.from_text(spaced.to_text()) == spaced
    assert TopicConfig.from_text("T 1 2 4 SINGLE_TAG ").attributes == {}


def test_an_unknown_filter_type_is_none_and_written_as_the_default() -> None:
    topic = TopicConfig.from_text("T 1 2 4 NEW_TAG {}")
    assert topic.topic_filter_type is None
    assert topic.to_text() == "T 1 2 4 SINGLE_TAG {}"


@pytest.mark.parametrize(
    "text", ["", "T", "T 1 2 4", "T a 2 4 SINGLE_TAG", "T 1 2 4 SINGLE_TAG {", f"T {2**31} 2 4 X"]
)
def test_a_broken_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidBody, match="TopicConfig"):
        TopicConfig.from_text(text)


@pytest.mark.parametrize("name", ["", "a b"])
def test_a_name_that_the_text_can_not_hold_is_refused(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="topic_name"):
        TopicConfig(topic_name=name).to_text()
