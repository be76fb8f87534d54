import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.errors import (
    BrokerError,
    InvalidInput,
    MissingExtra,
    OrbitError,
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
    entries = {name.lower() for name in re.findall(r"^#+ (\w+)$", page, re.MULTILINE)}
    for error in ALL.values():
        assert error.__new__(error).docs.partition("#")[2] in entries


def test_bad_input_is_a_value_error_with_its_numbers() -> None:
    with pytest.raises(ValueError, match="too long") as caught:
        raise InvalidInput("topic is too long", field="topic", length=200, limit=127)
    assert isinstance(caught.value, InvalidInput)
    assert (caught.value.field, caught.value.length, caught.value.limit) == ("topic", 200, 127)


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
