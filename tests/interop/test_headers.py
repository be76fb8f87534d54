"""Every declared header, filled at random, through Java's classes in both directions.

Our classes are named after Java's: ``PullMessage`` for PullMessageRequestHeader, its answer
``PullMessageAnswer`` for PullMessageResponseHeader.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pytest

from orbitmq.message.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import FrameReader
from orbitmq.wire.headers import answer_type, request_type
from tests.interop.cases import CASES, Chance
from tests.interop.filling import Filling
from tests.interop.java import Java
from tests.interop.operations import (
    CONSTANTS,
    DESCRIBE_HEADER,
    ENCODE_COMMAND,
    READ_HEADER,
    Command,
    Refusal,
    TypedFields,
)

CODE_MAX_IN_BINARY = 2**15 - 1
"""A binary header cuts codes to 16 bits, so requests with greater ones travel as JSON."""

# Fields that travel beside what a header class of Java declares.
UNDECLARED = {"MSG_REGION", "TRACE_ON", "_UNIQUE_KEY_QUERY", "__ZONE_NAME", "__ZONE_MODE"}

# Fields that take a few values only.
CHOICES: dict[str, tuple[object, ...]] = {
    "boundaryType": ("LOWER", "UPPER"),
    "topicFilterType": ("SINGLE_TAG", "MULTI_TAG"),
    "commitOrRollback": (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK),
}

# Classes of Java whose names don't follow from ours.
JAVA_NAMES = {
    "ConsumeMessageDirectly": "ConsumeMessageDirectlyResultRequestHeader",
    "SendMessageV2": "SendMessageRequestHeaderV2",
    "UnregisterBroker": "UnRegisterBrokerRequestHeader",
}

# Java's own codec of this class (SendMessageRequestHeaderV2.decode) passes inherited fields over.
PASSED_OVER = {"SendMessageRequestHeaderV2": {"lo", "ns", "nsd", "bname", "oway"}}

# Java puts these fields into an answer by hand, without a class for them.
OURS_ALONE = {"HeartbeatAnswer"}


def declared() -> list[type[Header]]:
    """Return every header class that some request code or its answer has."""
    found = {
        header
        for code in RequestCode
        for header in (request_type(code), answer_type(code))
        if header is not None and header is not NoFields and header.__name__ not in OURS_ALONE
    }
    return sorted(found, key=lambda header: header.__name__)


def java_names(header: type[Header]) -> list[str]:
    """Return the names that Java may know a header of ours by."""
    name = header.__name__
    if name.endswith("Answer"):
        return [f"{name.removesuffix('Answer')}ResponseHeader"]
    if name in JAVA_NAMES:
        return [JAVA_NAMES[name]]
    return [f"{name}RequestHeader", f"{name}Header"]


def random_header(chance: Chance, header: type[Header]) -> Header:
    """Fill a header; no text is empty, since that means null in a binary header."""
    return Filling(chance, CHOICES, empty=False).struct(header)


def required_fields(header: type[Header]) -> list[str]:
    """Return the wire names of the fields that a header can't do without."""
    return [field.encode_name for field in msgspec.structs.fields(header) if field.required]


class Shared(NamedTuple):
    """A header that both sides know: our class, Java's name for it, the fields Java carries."""

    ours: type[Header]
    name: str
    fields: set[str]

    def common(self, texts: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return those of the fields that both sides know."""
        return {name: value for name, value in texts.items() if name in self.fields}


@pytest.fixture
def shared(java: Java) -> list[Shared]:
    """Every header of ours that this version of Java has too."""
    found = []
    for header in declared():
        names = java_names(header)
        for name, fields in zip(names, java.attempt(DESCRIBE_HEADER, names), strict=True):
            if not isinstance(fields, Refusal):
                found.append(Shared(header, name, set(fields) - PASSED_OVER.get(name, set())))
    return found


def test_5_4_0_has_every_header_we_declare(java_540: Java) -> None:
    for header in declared():
        found = java_540.attempt(DESCRIBE_HEADER, java_names(header))
        fields = next((one for one in found if not isinstance(one, Refusal)), None)
        assert fields is not None, f"Java has no class for {header.__name__}"
        assert set(header.__struct_encode_fields__) - UNDECLARED <= set(fields), header.__name__


def test_4_9_7_has_every_field_we_require(java_497: Java) -> None:
    (known_codes,) = java_497.ask(CONSTANTS, ["RequestCode"])
    lacking = {}
    for code in set(RequestCode) & set(known_codes.values()):
        for header in filter(None, (request_type(code), answer_type(code))):
            found = java_497.attempt(DESCRIBE_HEADER, java_names(header))
            fields = {name for one in found if not isinstance(one, Refusal) for name in one}
            if missing := set(required_fields(header)) - fields:
                lacking[header.__name__] = missing
    assert lacking == {}


def test_java_reads_our_fields(java: Java, shared: list[Shared], chance: Chance) -> None:
    for one in shared:
        sent = [random_header(chance, one.ours).to_texts() for _ in range(CASES // len(shared))]
        answers = java.ask(READ_HEADER, [TypedFields(one.name, {**texts}) for texts in sent])
        for texts, answer in zip(sent, answers, strict=True):
            expected = one.common(texts)
            assert {name: answer[name] for name in expected} == expected, one.name


def test_we_read_fields_of_java(java: Java, shared: list[Shared], chance: Chance) -> None:
    for one in shared:
        commands = [
            Command(
                code=one.ours.code,
                opaque=1,
                header=one.name,
                fields=one.common(random_header(chance, one.ours).to_texts()),
                binary=one.ours.code <= CODE_MAX_IN_BINARY and chance.random() < 0.5,
            )
            for _ in range(CASES // len(shared))
        ]
        for command, frame in zip(commands, java.ask(ENCODE_COMMAND, commands), strict=True):
            (read,) = FrameReader().feed(frame)
            texts = read.read(one.ours).to_texts()
            assert command.fields is not None
            assert {name: texts[name] for name in command.fields} == command.fields, one.name
