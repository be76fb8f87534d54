import pytest

from orbitmq.broker.tables.attributes import TOPIC_ATTRIBUTES, change_of, changed
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
        (None, {"+no.such": "x"}, "the known ones are cleanup.policy, message.type, queue.type"),
        (None, {"+message.type": "LOUD"}, "'LOUD' is not one of DELAY"),
        (None, {"+queue.type": "RocksDBCQ"}, "not one of BatchCQ, SimpleCQ"),
        (None, {"-message.type": ""}, "only an existing attribute"),
        (None, {"message.type": "FIFO"}, "write [+]name=value to set it"),
        ({}, {"+queue.type": "SimpleCQ"}, "can't be changed"),
        ({}, {"-message.type": ""}, "only an existing attribute"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, "twice"),
    ],
)
def test_an_invalid_change_is_refused_with_the_reason(
    current: dict[str, str] | None, change: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        changed(current, change, TOPIC_ATTRIBUTES)


@pytest.mark.parametrize(
    ("current", "change", "begins"),
    [
        (None, {"+no.such": "x"}, "unsupported key: no.such; "),
        (None, {"+message.type": "LOUD"}, "value is not in set: [DELAY, FIFO, "),
        (
            None,
            {"-no.such": ""},
            "only add attribute is supported while creating topic. key: no.such; ",
        ),
        ({}, {"-no.such": ""}, "attempt to delete a nonexistent key: no.such; "),
        ({}, {"?message.type": "FIFO"}, "wrong format key: message.type; "),
        ({}, {"+": "FIFO"}, "kv string format wrong.; "),
        ({}, {"+a-b": "FIFO"}, "kv string format wrong.; "),
        (
            {"message.type": "FIFO"},
            {"+message.type": "DELAY", "-message.type": ""},
            "alter duplication key. key: message.type; ",
        ),
        (
            {"queue.type": "SimpleCQ"},
            {"-queue.type": ""},
            "attempt to update an unchangeable attribute. key: queue.type; ",
        ),
    ],
)
def test_a_complaint_begins_with_java_s_words(
    current: dict[str, str] | None, change: dict[str, str], begins: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        changed(current, change, TOPIC_ATTRIBUTES)
    assert str(error.value).startswith(begins)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type; "),
        ("message.type", "delete attribute format is wrong: message.type; "),
        ("+message.type=FIFO,+message.type=FIFO", "key duplication: +message.type; "),
        ("n" * 10_000, f"delete attribute format is wrong: {'n' * 220}"),
    ],
)
def test_a_malformed_text_is_refused_in_java_s_words(text: str, begins: str) -> None:
    with pytest.raises(InvalidInput) as error:
        change_of(text)
    assert str(error.value).startswith(begins)
    assert len(str(error.value)) < 500
