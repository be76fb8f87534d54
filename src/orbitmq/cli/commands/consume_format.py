r"""How ``orbitmq consume`` writes a message: in a named format, or by a template as kcat's ``-f``.

======  ==========================  ======  =====================
``%s``  the body, byte for byte     ``%t``  the topic
``%S``  its size in bytes           ``%b``  the broker's name
``%k``  the keys                    ``%p``  the id of the queue
``%g``  the tag                     ``%o``  the offset in the queue
``%h``  the user's properties       ``%T``  the store time in ms
``%i``  the unique id               ``%%``  a percent sign
======  ==========================  ======  =====================

``\n``, ``\r``, ``\t``, ``\0`` and ``\\`` are as in C.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from orbitmq.cli.commands.message import as_json
from orbitmq.errors import InvalidInput
from orbitmq.message.model import StoredMessage
from orbitmq.message.shown import shown_body

__all__ = ["FORMATS", "Write", "writer"]

Write = Callable[[StoredMessage], bytes]

FORMATS: Final[Mapping[str, Write]] = {
    "text": lambda message: f"{shown_body(message.body, 'text')}\n".encode(),
    "json": lambda message: msgspec.json.encode(as_json(message)) + b"\n",
    "hex": lambda message: f"{shown_body(message.body, 'hex')}\n".encode(),
    "raw": lambda message: message.body,
}

_FIELDS: Final[Mapping[str, Write]] = {
    "s": lambda message: message.body,
    "S": lambda message: b"%d" % len(message.body),
    "k": lambda message: " ".join(message.keys).encode(),
    "g": lambda message: (message.tags or "").encode(),
    "h": lambda message: ",".join(
        f"{name}={value}" for name, value in sorted(message.user_properties.items())
    ).encode(),
    "i": lambda message: message.message_id.encode(),
    "t": lambda message: message.topic.encode(),
    "b": lambda message: message.broker_name.encode(),
    "p": lambda message: b"%d" % message.queue_id,
    "o": lambda message: b"%d" % message.queue_offset,
    "T": lambda message: b"%d" % message.store_timestamp_ms,
}
_ESCAPES: Final = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\0": "\0", "\\\\": "\\", "%%": "%"}
_TOKEN: Final = re.compile(r"%.|\\.|[^%\\]+|.", re.DOTALL)


def writer(given: str) -> Write:
    """Return what writes a message in a format; raise InvalidInput if there is no such format.

    >>> writer("csv")
    Traceback (most recent call last):
    orbitmq.errors.InvalidInput: format 'csv' is not text, json, hex, raw, nor a template with %
    """
    if given in FORMATS:
        return FORMATS[given]
    if "%" not in given:
        raise InvalidInput(
            f"format {given[:40]!r} is not text, json, hex, raw, nor a template with %",
            field="format",
        )
    parts = [_part(token) for token in _TOKEN.findall(given)]
    return lambda message: b"".join(
        part if isinstance(part, bytes) else part(message) for part in parts
    )


def _part(token: str) -> bytes | Write:
    if token in _ESCAPES:
        return _ESCAPES[token].encode()
    if token[0] == "%":
        field = _FIELDS.get(token[1:])
        if field is None:
            known = " ".join(f"%{one}" for one in _FIELDS)
            raise InvalidInput(
                f"the template has {token[:2]!r}; its fields are {known} %%", field="format"
            )
        return field
    return token.encode(errors="surrogateescape")
