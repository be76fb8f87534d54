import pytest

from orbitmq.errors import InvalidInput, InvalidSetting, NoNameserver


def test_a_length_is_added_unless_the_text_has_it() -> None:
    assert str(InvalidInput("topic is too long", field="topic", length=200)) == (
        "topic is too long (length 200)"
    )
    assert str(InvalidInput("topic has 200 characters", field="topic", length=200)) == (
        "topic has 200 characters"
    )
    assert "(length 20)" in str(InvalidInput("topic has 200", field="topic", length=20))


def test_bad_input_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no nameserver"):
        raise NoNameserver("no nameserver is set", field="nameserver")
    assert NoNameserver.code == 10004


def test_an_invalid_setting_has_its_file_and_line() -> None:
    error = InvalidSetting("x", file="broker.conf", line=7, field="listenPort")
    assert (error.file, error.line, error.field) == ("broker.conf", 7, "listenPort")
