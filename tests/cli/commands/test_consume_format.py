"""How a message is written."""

import json

import pytest

from orbitmq.cli.commands.consume_format import writer
from orbitmq.errors import InvalidInput
from tests.cli.commands.test_message import STORED_MS, stored

BINARY = b"\x00\x1b[2J\xff"


def test_named_formats() -> None:
    assert writer("text")(stored(b"paid")) == b"paid\n"
    assert writer("text")(stored(BINARY)) == b"\\x00\\x1b[2J\\xff\n"
    assert writer("hex")(stored(BINARY)) == b"00 1b 5b 32 4a ff\n"
    assert writer("raw")(stored(BINARY)) == BINARY
    line = writer("json")(stored(b"paid"))
    assert line.count(b"\n") == 1
    assert json.loads(line)["body"] == "paid"


def test_a_template_has_fields_and_escapes() -> None:
    write = writer(r"%t/%p@%b %o %S [%k] %g %i %T %% \\ \t%s\0\n")
    assert write(stored(BINARY)) == (
        b"orders/3@broker-a 1234567 6 [o-42 o-43] paid 0A0000072A9F5F4A0E124CBB7EE10000 "
        b"%d %% \\ \t%b\0\n" % (STORED_MS, BINARY)
    )
    assert b"colour=blue,note=a long one" in writer("%h")(stored())


@pytest.mark.parametrize("given", ["%z", "100%", "csv", ""])
def test_unknown_fields_and_formats_are_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"its fields are %s|is not text, json, hex, raw"):
        writer(given)
