import pytest

from orbitmq.broker.attributes import TOPIC_ATTRIBUTES, change_of, changed
from orbitmq.errors import InvalidInput


def test_a_change_is_read_with_its_signs() -> None:
    assert change_of("+message.type=FIFO,-cleanup.policy") == {
        "+message.type": "FIFO",
        "-cleanup.policy": "",
    }


@pytest.mark.parametrize("nothing", [None, "", ","])
def test_no_text_is_no_change(nothing: str | None) -> None:
    assert change_of(nothing) == {}


@pytest.mark.parametrize(
    "text", ["message.type=FIFO", "+message.type", "message.type", "=", "-a=b", "+a=1,+a=2"]
)
def test_a_text_without_sign_or_said_twice_is_no_change(text: str) -> None:
    with pytest.raises(InvalidInput, match="attribute"):
        change_of(text)


def test_attributes_are_set_changed_and_taken_away() -> None:
    created = changed(None, {"+message.type": "FIFO", "+queue.type": "SimpleCQ"}, TOPIC_ATTRIBUTES)
    assert created == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert changed(created, {"+message.type": "DELAY"}, TOPIC_ATTRIBUTES) == {
        "message.type": "DELAY",
        "queue.type": "SimpleCQ",
    }
    assert changed(created, {"-message.type": ""}, TOPIC_ATTRIBUTES) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize(
    ("current", "change", "complaint"),
    [
        (None, {"+no.such": "x"}, "known are cleanup.policy, message.type, queue.type"),
        (None, {"+message.type": "LOUD"}, "'LOUD' is not one of DELAY"),
        (None, {"+queue.type": "BatchCQ"}, "not one of SimpleCQ"),
        (None, {"-message.type": ""}, "only what is there"),
        (None, {"message.type": "FIFO"}, "known are"),
        ({}, {"+queue.type": "SimpleCQ"}, "can't be changed"),
        ({}, {"-message.type": ""}, "only what is there"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, "twice"),
    ],
)
def test_a_change_that_cannot_be_is_told(
    current: dict[str, str] | None, change: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        changed(current, change, TOPIC_ATTRIBUTES)
