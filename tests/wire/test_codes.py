from enum import IntEnum

import pytest

from orbitmq.errors import BrokerError
from orbitmq.wire.codes import (
    VERSION_5_4_0,
    Language,
    RequestCode,
    ResponseCode,
    name_of_request,
    name_of_response,
    version_name,
)
from tests.golden_files import golden


@pytest.mark.parametrize(
    ("ours", "java"),
    [
        (RequestCode, "request_codes"),
        (ResponseCode, "response_codes"),
        (Language, "language_codes"),
    ],
)
def test_names_and_numbers_are_those_of_java(ours: type[IntEnum], java: str) -> None:
    assert {member.name: member.value for member in ours} == golden("constants")[java]


def test_the_version_we_announce_is_that_of_the_java_release() -> None:
    assert golden("constants")["current_version"] == VERSION_5_4_0


def test_versions_are_named_as_in_java() -> None:
    expected = {
        number: name.removeprefix("V").replace("_SNAPSHOT", "-SNAPSHOT").replace("_", ".")
        for name, number in golden("constants")["version_ordinals"].items()
        if name.startswith(("V4_", "V5_"))
    }
    assert {number: version_name(number) for number in expected} == expected


def test_a_version_outside_the_regular_range_is_its_number() -> None:
    assert [version_name(number) for number in (-1, 0, 211, 612)] == ["-1", "0", "211", "612"]


def test_an_unknown_code_is_shown_as_its_number() -> None:
    assert (name_of_request(-7), name_of_response(-7)) == ("-7", "-7")


def test_each_error_with_a_code_is_of_a_response_code() -> None:
    assert set(BrokerError.by_code) <= {int(code) for code in ResponseCode}
    assert all(cls.default_code == code for code, cls in BrokerError.by_code.items())
