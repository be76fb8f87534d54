"""Frames, headers and signatures, ours and Java's, over random cases in both directions."""

from enum import IntEnum

import msgspec
import pytest

from orbitmq.wire import auth
from orbitmq.wire.codes import Language, RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, FrameReader, HeaderEncoding, Outgoing, encode_head
from tests.interop.cases import Chance
from tests.interop.java import Java
from tests.interop.operations import (
    CONSTANTS,
    DECODE_COMMAND,
    ENCODE_COMMAND,
    SIGN,
    Command,
    Signing,
)

INT16 = (-(2**15), 2**15 - 1)
INT32 = (-(2**31), 2**31 - 1)

OLD_LANGUAGES = [language.name for language in Language if language <= Language.OMS]
"""What Java 4.9 has names for; it reads a name it doesn't know as none."""


def random_command(chance: Chance) -> Command:
    """A frame that either encoding can hold: an empty text is null in the binary one."""
    binary = chance.random() < 0.5
    numbers = INT16 if binary else INT32
    return Command(
        code=chance.integer(*numbers),
        opaque=chance.int32(),
        language=chance.choice(OLD_LANGUAGES),
        version=chance.integer(*numbers),
        flag=chance.int32(),
        remark=chance.maybe(chance.text) or None,
        fields=chance.maybe(lambda: random_fields(chance)),
        body=chance.maybe(chance.body) or None,
        binary=binary,
    )


def random_fields(chance: Chance) -> dict[str, str | None]:
    """Fields with any text as value; fastjson 2 can't read astral characters in a name."""
    pairs = [(chance.text(10), chance.text()) for _ in range(chance.randint(0, 8))]
    return {name: value for name, value in pairs if name and value and max(name) <= "\uffff"}


def read_one(frame: bytes) -> Frame:
    (read,) = FrameReader().feed(frame)
    return read


def as_command(frame: Frame) -> Command:
    """What a frame of ours says, in the words Java's side uses."""
    return Command(
        code=frame.code,
        opaque=frame.opaque,
        language=None if frame.language is None else frame.language.name,
        version=frame.version,
        flag=frame.flag,
        remark=frame.remark,
        fields=frame.texts() or None,
        body=bytes(frame.body) or None,
        binary=frame.encoding is HeaderEncoding.ROCKETMQ,
    )


def without_empty_fields(command: Command) -> Command:
    """No extension fields, and none set, mean the same; the encodings tell them differently."""
    return command if command.fields else msgspec.structs.replace(command, fields=None)


def write(command: Command) -> bytes:
    """Write a frame with our codec."""
    assert command.language is not None
    fields = {name: value or "" for name, value in (command.fields or {}).items()}
    body = command.body or b""
    outgoing = Outgoing(
        code=command.code,
        opaque=command.opaque,
        flag=command.flag,
        version=command.version,
        language=command.language,
        remark=command.remark,
        ext_fields=None if command.fields is None else fields,
    )
    encoding = HeaderEncoding(command.binary)
    return encode_head(outgoing, body_size=len(body), encoding=encoding) + body


@pytest.mark.parametrize("ours", [RequestCode, ResponseCode])
def test_codes_have_the_numbers_they_have_in_java(java: Java, ours: type[IntEnum]) -> None:
    (theirs,) = java.ask(CONSTANTS, [ours.__name__])
    numbers = {name: member.value for name, member in ours.__members__.items()}
    common = numbers.keys() & theirs.keys()
    assert len(common) > 30
    assert {name: numbers[name] for name in common} == {name: theirs[name] for name in common}


def test_java_reads_our_frames(java: Java, chance: Chance) -> None:
    for commands in chance.several(lambda: random_command(chance)):
        answers = java.ask(DECODE_COMMAND, map(write, commands))
        for command, answer in zip(commands, answers, strict=True):
            assert without_empty_fields(answer) == without_empty_fields(command)


def test_we_read_frames_of_java(java: Java, chance: Chance) -> None:
    for commands in chance.several(lambda: random_command(chance)):
        frames = java.ask(ENCODE_COMMAND, commands)
        for command, frame in zip(commands, frames, strict=True):
            assert as_command(read_one(frame)) == without_empty_fields(command)


def test_signatures_agree(java: Java, chance: Chance) -> None:
    def random_signing() -> Signing:
        return Signing(
            random_command(chance),
            chance.text() or "access",
            chance.text() or "secret",
            chance.maybe(lambda: chance.text() or "token"),
        )

    for signings in chance.several(random_signing):
        for one, signed in zip(signings, java.ask(SIGN, signings), strict=True):
            fields = one.command.fields or {}
            who = auth.Credentials(one.access_key, one.secret_key, one.security_token)
            assert fields | auth.sign(fields, one.command.body, who) == signed
            assert auth.verify(signed, one.command.body, one.secret_key)
