import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    InvalidInput,
    MissingExtra,
    NetworkError,
    OrbitError,
    TopicNotFound,
)

ROOT = Path(__file__).parents[1]
ALL = {name: getattr(errors, name) for name in errors.__all__}


def test_every_error_is_in_the_tree_and_the_tree_names_every_error() -> None:
    drawn = set(re.findall(r"\b[A-Z][a-z]+[A-Z]?\w+", str(errors.__doc__).partition("::")[2]))
    assert drawn >= set(ALL)
    assert drawn - set(ALL) <= {"OrbitError"} | set(ALL)


def test_every_error_is_listed_and_descends_from_the_root() -> None:
    defined = {
        name
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if member.__module__.startswith(errors.__name__)
    }
    assert defined == set(ALL)
    assert all(issubclass(error, OrbitError) for error in ALL.values())


def test_every_error_has_an_entry_in_the_documentation() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    entries = {
        f"docs/errors.md#{name.lower()}" for name in re.findall(r"^#+ (\w+)$", page, re.MULTILINE)
    }
    for error in ALL.values():
        assert error.__new__(error).docs in entries


def test_network_errors_may_be_tried_again_and_our_own_mistakes_may_not() -> None:
    assert NetworkError.retriable
    assert ConnectFailed.refresh_route
    assert not InvalidInput.retriable
    assert not errors.RemoteProtocolError.retriable
    assert errors.TooManyRequests.retriable


def test_an_answer_becomes_the_error_of_its_code() -> None:
    error = BrokerError.of(17, "No topic route info", address="127.0.0.1:9876")
    assert type(error) is TopicNotFound
    assert (error.code, error.remark, error.address) == (
        17,
        "No topic route info",
        "127.0.0.1:9876",
    )
    assert (error.retriable, error.refresh_route) == (True, True)


def test_the_access_control_of_4_x_is_told_by_its_remark() -> None:
    remark = "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"
    error = BrokerError.of(1, remark)
    assert type(error) is errors.NoPermission
    assert (error.code, error.remark) == (1, remark)
    assert type(BrokerError.of(1, "disk full")) is errors.BrokerFailed


def test_a_code_without_a_class_is_a_plain_broker_error() -> None:
    error = BrokerError.of(604, None)
    assert type(error) is BrokerError
    assert str(error) == "the server answered 604: (no remark)"


def test_two_errors_never_stand_for_one_code() -> None:
    codes = [e.default_code for e in ALL.values() if issubclass(e, BrokerError) and e.default_code]
    assert len(codes) == len(set(codes)) == len(BrokerError.by_code)


def test_bad_input_is_a_value_error_with_its_numbers() -> None:
    with pytest.raises(ValueError, match="too long") as caught:
        raise InvalidInput("topic is too long", field="topic", length=200, limit=127)
    assert isinstance(caught.value, InvalidInput)
    assert (caught.value.field, caught.value.length, caught.value.limit) == ("topic", 200, 127)


def test_a_missing_package_is_an_import_error_that_says_what_to_install() -> None:
    error = MissingExtra("reading LZ4 bodies", extra="lz4")
    assert isinstance(error, ImportError)
    assert str(error) == "reading LZ4 bodies needs an extra package: pip install 'orbitmq[lz4]'"


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("x", field="topic", length=3, limit=2),
        MissingExtra("a body", extra="lz4"),
        BrokerError.of(17, "no", address="h:1"),
        errors.RequestTimeout("x", address="a", timeout_ms=3),
        errors.CorruptRecord("x", position=9),
        errors.InvalidHeader("x", field="f"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_processes_whole(error: OrbitError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
